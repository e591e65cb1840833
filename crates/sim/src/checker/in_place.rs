//! The steps of changing a pod in place (G56).
//!
//! What counts is the effect: what the kubelet states of the pod when it gets the label of its
//! revision, and how many pods are being changed at the same time.

use everynode_core::api::{CHANGING_ANNOTATION, HASH_LABEL};
use everynode_sandbox::json::Value;
use everynode_sandbox::kinds::POD;
use http::Method;

use super::history::History;
use super::judged_plan::{Deletion, JudgedPlan};
use super::model::{Eligibility, Pod, Revision, Update, containers, has_amounts, is_same};
use super::situation::{NodeView, Situation};
use super::{PendingWrite, Property, Violation, budget, images, violation};

/// Shorter than any time after which a node is blamed or replaced.
const CHANGES_WITHIN_MS: i64 = 25_000;

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
    let change = Change { write, situation, history, pod: &pod };
    let found = match step {
        Step::Begin(hash) => {
            let reason = plan.changes.get(&pod.metadata.uid).copied();
            change.problem_of_beginning(hash).or_else(|| match &pod.change {
                Some(_) => None,
                None => change.problem_of_reason(hash, reason),
            })
        }
        Step::Resize => change.problem_of_resize(),
        Step::Finish(hash) => change.problem_of_end(hash),
        Step::Unmarked => {
            Some((Property::Template, "without the annotation that says so".to_owned()))
        }
    };
    let (property, problem) = found?;
    let name = &pod.metadata.name;
    violation(property, format!("pod {name} is changed in place ({step:?}), {problem}"))
}

type Problem = Option<(Property, String)>;

struct Change<'a> {
    write: &'a PendingWrite<'a>,
    situation: &'a Situation<'a>,
    history: &'a History,
    /// As it is stored.
    pod: &'a Pod,
}

impl Change<'_> {
    /// The revision of the DaemonSet with a hash.
    fn revision(&self, hash: &str) -> Option<&Revision> {
        revisions(self.history, &self.situation.ds.metadata.uid, hash).pop()
    }

    /// "Only what differs between the two templates is changed."
    fn problem_of_beginning(&self, hash: &str) -> Problem {
        let label = match &self.pod.change {
            Some(change) => change.label.as_deref(),
            None => self.pod.metadata.hash(),
        };
        let to = self.revision(hash)?;
        let from = self.revision(label?)?;
        let image = |of: &Revision, name: &str| {
            let mut all = containers(&of.template);
            let found = all.find(|(other, _)| *other == name);
            found.map(|(_, container)| container["image"].clone()).unwrap_or_default()
        };
        let fail = |problem: String| Some((Property::Template, problem));
        let body = self.write.body;
        for container in body["spec"]["containers"].as_array().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default();
            let (old, new) = (image(from, name), image(to, name));
            if old == new || !is_same(&container["image"], &new) {
                return fail(format!("container {name} to {container}, from {old} to {new}"));
            }
            let mut fields = container.as_object().into_iter().flatten();
            if fields.any(|(field, _)| field != "name" && field != "image") {
                return fail(format!("with other fields: {container}"));
            }
        }
        for of in ["labels", "annotations"] {
            let value = |it: &Revision, key: &str| it.template["metadata"][of][key].clone();
            let mut all = body["metadata"][of].as_object().into_iter().flatten();
            let is_wrong = |key: &str, value_in_body: &Value| {
                let new = value(to, key);
                !key.starts_with("everynode.dev/")
                    && (value(from, key) == new || !is_same(value_in_body, &new))
            };
            if let Some((key, value)) = all.find(|(key, value)| is_wrong(key, value)) {
                return fail(format!("which sets {key} to {value} in {of}"));
            }
        }
        let mut fields = body["spec"].as_object().into_iter().flatten();
        let is_known = |field: &str| field == "containers" || field.starts_with("$setElementOrder");
        let other = fields.find(|(field, _)| !is_known(field));
        other.and_then(|(field, _)| fail(format!("with spec.{field}")))
    }

    /// Nodes have the images before, and the budget is that of what is being changed. Going back,
    /// pods that are not available need none (G41).
    fn problem_of_reason(&self, hash: &str, reason: Option<Deletion>) -> Problem {
        let Some(reason) = reason else {
            return Some((Property::Gate, "which was not planned".to_owned()));
        };
        let needs_room = reason.is_within_budget() || !self.situation.goes_back();
        self.missing_image(reason).or_else(|| self.excess(hash).filter(|_| needs_room))
    }

    /// "With `prepare.images` nodes have the images before": no container is stopped for an image
    /// that its node lacks.
    fn missing_image(&self, reason: Deletion) -> Problem {
        let Self { write, situation, .. } = self;
        let missing = images::missing(write, reason, situation, write.body)?;
        Some((Property::Gate, format!("while {missing}")))
    }

    /// "From then on the pod counts as one of that revision which is not available: it uses the
    /// budget."
    fn excess(&self, hash: &str) -> Problem {
        let Self { situation, history, pod, .. } = self;
        let max = budget::limit(situation)?.max(1);
        let is_recent = |uid: &str| {
            let mut states = history.pods.of(uid);
            let first = states.find(|(_, pod)| pod.change.is_some()).map(|(at, _)| at);
            first.is_some_and(|at| self.write.now.0 - history.time_of(at).0 < CHANGES_WITHIN_MS)
        };
        let policy = situation.ds.policy.valid()?;
        // A machine that is younger than the pod has joined since: it uses none (G33).
        let is_on_its_node = |other: &Pod| {
            let mut nodes = history.nodes.all();
            let node = nodes.find(|node| other.node() == Some(&*node.metadata.name));
            node.is_some_and(|node| {
                !policy.is_absent(node) && node.metadata.created <= other.metadata.created
            })
        };
        let uses_budget = |other: &&Pod| {
            situation.ds.owns(&other.metadata)
                && other.metadata.uid != pod.metadata.uid
                && other.change.as_ref().is_some_and(|change| change.to == *hash)
                && other.pending_resize.is_none()
                && other.restarts < 2
                && !other.metadata.is_terminating
                && !other.has_ended()
                && is_recent(&other.metadata.uid)
                && is_on_its_node(other)
        };
        let others: Vec<&str> = history
            .pods
            .all()
            .filter(uses_budget)
            .map(|other| other.metadata.name.as_str())
            .collect();
        let message = format!("while {others:?} are being changed, {max} allowed");
        (others.len() >= max).then_some((Property::Budget, message))
    }

    /// Images, labels and annotations come first, "then the resources".
    fn problem_of_resize(&self) -> Problem {
        let fail = |problem: String| Some((Property::Template, problem));
        let Some(change) = &self.pod.change else {
            return fail("before it says so".to_owned());
        };
        let to = self.revision(&change.to)?;
        for container in self.write.body["spec"]["containers"].as_array().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default();
            let wanted = containers(&to.template).find(|(other, _)| *other == name);
            let is_wanted = |(_, it): (&str, &Value)| {
                ["requests", "limits"].iter().all(|list| {
                    let mut set = container["resources"][*list].as_object().into_iter().flatten();
                    set.all(|(amount, value)| it["resources"][*list].get(amount) == Some(value))
                })
            };
            if !wanted.is_some_and(is_wanted) {
                return fail(format!("to other resources than those of its template: {container}"));
            }
        }
        None
    }

    /// "Once the kubelet states that it has seen the change, that no resize is pending or in
    /// progress, and that these containers run anew, the pod gets the hash of the revision as its
    /// label, and the annotation goes."
    fn problem_of_end(&self, hash: &str) -> Problem {
        let pod = self.pod;
        let fail = |problem: String| Some((Property::Template, problem));
        if pod.has_ended() || pod.change.is_none() && pod.metadata.hash() == Some(hash) {
            return None;
        }
        if pod.change.as_ref().is_none_or(|change| change.to != hash) {
            return fail(format!("of which nothing says that it changes to {hash}"));
        }
        if pod.pending_resize.is_some() || pod.is_resizing {
            return fail("while it is being resized".to_owned());
        }
        let to = self.revision(hash)?;
        differing(pod, to, true).and_then(fail).or_else(|| self.restarted(to).and_then(fail))
    }

    /// A container that the change does not concern is not restarted.
    fn restarted(&self, to: &Revision) -> Option<String> {
        let label = self.pod.change.as_ref()?.label.as_deref()?;
        let from = self.revision(label)?;
        if self.may_restart_by_itself() {
            return None;
        }
        let uid = &self.pod.metadata.uid;
        let states = self.history.pods.of(uid).map(|(_, pod)| pod);
        let before = states.filter(|pod| pod.change.is_none()).last()?;
        let restarts = |pod: &Pod, name: &str| {
            pod.containers.get(name).and_then(|it| it.runs.as_ref()).map(|it| it.restarts)
        };
        let is_same = |name: &str, container: &Value| {
            containers(&from.template).any(|it| it == (name, container))
        };
        let (name, _) = containers(&to.template).find(|(name, container)| {
            is_same(name, container) && restarts(before, name) != restarts(self.pod, name)
        })?;
        Some(format!("and container {name} was restarted, which is to stay what it is"))
    }

    /// True if its lifecycle, or its machine, may have restarted a container.
    fn may_restart_by_itself(&self) -> bool {
        let was_absent = |name: &str| {
            let states = self.history.nodes.states().map(|(_, node)| node);
            let mut states = states.filter(|node| node.metadata.name == name);
            let created = &self.pod.metadata.created;
            states.any(|node| !node.is_ready() || node.metadata.created > *created)
        };
        let of_node = |name: &str| self.write.store.find(&everynode_sandbox::kinds::NODE, "", name);
        let has_lifecycle = |object: &Value| {
            let annotations = &object["metadata"]["annotations"];
            annotations["sandbox.everynode.dev/lifecycle"].is_string()
                || object["metadata"]["labels"]["life"].is_string()
        };
        let node = self.pod.node().unwrap_or_default();
        let mut maps = self.history.config_maps.states().map(|(_, map)| map);
        let is_named = |name: &String| self.pod.config_maps.contains(name);
        was_absent(node)
            || maps.any(|map| map.is_bad && is_named(&map.metadata.name))
            || of_node(node).is_none_or(|node| has_lifecycle(node.value()))
            || self.write.object().is_none_or(|pod| has_lifecycle(pod.value()))
    }
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
