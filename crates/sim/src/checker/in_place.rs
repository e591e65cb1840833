//! The steps of changing a pod in place (G56).
//!
//! What counts is the effect: what the pod is, and what its kubelet states, when it gets the label
//! of its revision. A request that changes too much or too little shows there.

use everynode_core::api::{CHANGING_ANNOTATION, HASH_LABEL};
use everynode_sandbox::json::Value;
use everynode_sandbox::kinds::POD;
use http::Method;

use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::{Eligibility, Pod, Revision, Update, containers, has_amounts, is_same};
use super::situation::{NodeView, Situation};
use super::{PendingWrite, Property, Violation, images, violation};

/// A request of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Images, labels and annotations are set, with the hash of the revision.
    Begin(String),
    /// Resources are set.
    Resize,
    /// The pod gets the label with this hash.
    Finish(String),
    /// The pod is changed without the annotation.
    Unmarked,
}

impl Step {
    /// The name of the step in coverage.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "Pod changed in place",
            Self::Resize => "Pod resized",
            Self::Finish(_) => "Pod given the label of its revision",
            Self::Unmarked => "Pod changed",
        }
    }
}

/// The step of a change that a request is, if it is one.
pub(super) fn step(write: &PendingWrite) -> Option<Step> {
    if write.target.kind.kind != POD.kind || write.request.method != Method::PATCH {
        return None;
    }
    let metadata = &write.body["metadata"];
    let stated = metadata["annotations"].get(CHANGING_ANNOTATION);
    let hash = metadata["labels"][HASH_LABEL].as_str();
    match (stated, hash) {
        _ if write.target.is_resize => Some(Step::Resize),
        (Some(Value::String(text)), _) => {
            let stated: Value = serde_json::from_str(text).unwrap_or_default();
            Some(Step::Begin(stated["to"].as_str().unwrap_or_default().to_owned()))
        }
        (Some(Value::Null), Some(hash)) => Some(Step::Finish(hash.to_owned())),
        _ => write.body["spec"].is_object().then_some(Step::Unmarked),
    }
}

/// The hash of the revision to which the request begins to change a pod.
pub(super) fn begun(write: &PendingWrite) -> Option<String> {
    match step(write)? {
        Step::Begin(hash) => Some(hash),
        Step::Resize | Step::Finish(_) | Step::Unmarked => None,
    }
}

/// Checks a request of a change before it takes effect.
pub(super) fn check(
    write: &PendingWrite,
    step: &Step,
    situation: &Situation,
    plan: &JudgedPlan,
    history: &History,
) -> Option<Violation> {
    let stored = write.object()?;
    let is_other = write.uid_precondition().is_some_and(|uid| uid != stored.uid());
    if is_other || write.arrives_late || write.is_of_former_leader {
        return None;
    }
    let pod = Pod::parse(&stored.read());
    let template = |problem: String| (Property::Template, problem);
    let found = match step {
        Step::Begin(_) if pod.change.is_some() => None,
        Step::Begin(_) => match plan.changes.get(&pod.metadata.uid) {
            Some(reason) => {
                // "With `prepare.images` nodes have the images before": no container is stopped for
                // an image that its node lacks.
                let missing = images::missing(write, *reason, situation, write.body);
                missing.map(|missing| (Property::Gate, format!("while {missing}")))
            }
            None => Some((Property::Gate, "which was not planned".to_owned())),
        },
        Step::Resize => pod.change.is_none().then(|| template("before it says so".to_owned())),
        Step::Finish(hash) => unfinished(&pod, hash, situation, history).map(template),
        Step::Unmarked => Some(template("without the annotation that says so".to_owned())),
    };
    let (property, problem) = found?;
    let name = &pod.metadata.name;
    violation(property, format!("pod {name} is changed in place ({step:?}), {problem}"))
}

/// Why a pod must not get the label of its revision yet. "Once the kubelet states that it has seen
/// the change, that no resize is pending or in progress, and that these containers run anew, the
/// pod gets the hash of the revision as its label, and the annotation goes."
fn unfinished(pod: &Pod, hash: &str, situation: &Situation, history: &History) -> Option<String> {
    if pod.has_ended() || pod.change.is_none() && pod.metadata.hash() == Some(hash) {
        return None;
    }
    if pod.change.as_ref().is_none_or(|change| change.to != hash) {
        return Some(format!("of which nothing says that it changes to {hash}"));
    }
    if pod.pending_resize.is_some() || pod.is_resizing {
        return Some("while it is being resized".to_owned());
    }
    let to = revisions(history, &situation.ds.metadata.uid, hash).pop()?;
    differing(pod, to, true)
}

/// The revisions of a DaemonSet that have had a hash.
fn revisions<'a>(history: &'a History, daemon_set: &str, hash: &str) -> Vec<&'a Revision> {
    let states = history.revisions.states().map(|(_, revision)| revision);
    let is_it = |revision: &&Revision| {
        revision.metadata.is_controlled_by(daemon_set)
            && revision.metadata.pod_hash() == hash
            && revision.template.is_object()
    };
    states.filter(is_it).collect()
}

/// How the containers of a pod differ from those of its revision; those that run if `all_run`, and
/// otherwise those of which the kubelet states something.
fn differing(pod: &Pod, revision: &Revision, all_run: bool) -> Option<String> {
    containers(&revision.template).find_map(|(name, wanted)| {
        let Some(container) = pod.containers.get(name) else {
            return Some(format!("without container {name}"));
        };
        let is_image = |image: &str| is_same(&image.into(), &wanted["image"]);
        let resources = &wanted["resources"];
        let problem = match &container.runs {
            _ if !is_image(&container.image) => format!("has the image {}", container.image),
            _ if !has_amounts(&container.resources, resources) => {
                format!("has the resources {}", container.resources)
            }
            None if all_run => "does not run".to_owned(),
            Some(run) if !is_image(&run.image) => format!("runs the image {}", run.image),
            // One that has yet to start on its machine states none, and gets what it is to have.
            Some(run) if run.resources.is_null() => return None,
            Some(run) if all_run && !has_amounts(&run.resources, resources) => {
                format!("runs with the resources {}", run.resources)
            }
            _ => return None,
        };
        Some(format!("although container {name} {problem}, and the template says {wanted}"))
    })
}

/// A pod that is not what its labels say, among those that have changed since a version: "only then
/// is it updated".
pub(super) fn mislabelled(history: &History, since: u64) -> Option<Violation> {
    let (pod, problem) = history.pods.changed_since(since).find_map(|pod| {
        let hash = pod.metadata.hash().filter(|_| pod.change.is_none() && !pod.has_ended())?;
        let owner = pod.metadata.controller.as_ref()?;
        // Other clients create pods with the labels of those that they replace.
        if !history.pods.of(&pod.metadata.uid).any(|(_, pod)| pod.change.is_some()) {
            return None;
        }
        let all = revisions(history, &owner.uid, hash);
        let problems: Option<Vec<String>> =
            all.into_iter().map(|revision| differing(pod, revision, false)).collect();
        Some((pod, problems?.pop()?))
    })?;
    let message = format!("pod {} has the hash of its revision, {problem}", pod.metadata.name);
    violation(Property::Template, message)
}

/// The remains of changes at rest: "the pod gets the hash of the revision as its label, and the
/// annotation goes". On a node that is down nobody carries out a change, and a pod that cannot be
/// changed stays with `InPlaceOnly`, where its node gets no other, and while no pod is replaced.
pub(super) fn left_over(situation: &Situation) -> Option<String> {
    let is_only = situation.update() == Update::InPlaceOnly && !situation.goes_back();
    let present = situation.nodes.values().filter(|on_node| !situation.is_away(on_node));
    let is_left = |on_node: &NodeView, pod: &Pod| {
        let stays =
            is_only || on_node.eligibility == Eligibility::MayKeep || situation.keeps_pods(on_node);
        let is_stuck = || {
            pod.pending_resize.is_some()
                || !pod.change.as_ref().is_some_and(|change| situation.knows(change))
        };
        pod.change.is_some() && !(stays && is_stuck())
    };
    let mut left =
        present.flat_map(|on_node| on_node.deletable().filter(move |pod| is_left(on_node, pod)));
    let left = left.next()?;
    Some(format!("the change of pod {} is not done", left.metadata.name))
}
