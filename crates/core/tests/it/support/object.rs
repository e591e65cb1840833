//! Objects to start a test with.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{
    ChangeState, ConfigCopies, DaemonSet, DaemonSetKey, HASH_LABEL, IntOrPercent, LabelOperator,
    LabelRequirement, LabelSelector, Labels, Node, NodeReadiness, OVERRIDE_LABEL, Overrides,
    Placement, Pod, PodChange, PodName, PodPhase, PolicySource, Readiness, RecordState,
    Replacement, ResourceVersion, Revision, Status, TEMPLATE_GENERATION_LABEL, Template, Timestamp,
    UpdateStrategy,
};

use everynode_core::plan::{NewPod, NewRevision, Outcome, Write};

use super::{DS_UID, World};

/// UID of a controller of another kind.
pub(crate) const ANOTHER_KIND: &str = "another-kind";

/// The outcome of the next write whose text starts with `write`.
#[derive(Clone)]
pub(crate) struct Fault {
    pub write: String,
    pub outcome: Outcome,
    /// True if the write takes effect nevertheless.
    pub takes_effect: bool,
}

pub(crate) fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        labels: Labels::default(),
        taints: Vec::new(),
        created: Timestamp(0),
        readiness: NodeReadiness::Ready,
        conditions: Box::default(),
        boot_id: "".into(),
        kubelet_version: None,
    }
}

/// A pod of the DaemonSet, pinned to a node.
pub(crate) fn pod(name: &str, node: &str) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}").as_str().into(),
        labels: Labels::from_iter([("app", "ds")]),
        controller: Some(DS_UID.into()),
        controller_name: None,
        creation_timestamp: Timestamp::from_seconds(1000),
        changed_after: None,
        terminating: false,
        deleted_at: None,
        node_name: None,
        affinity_node_name: Some(node.into()),
        phase: PodPhase::Pending,
        readiness: Readiness::NotReady,
        restarts: 0,
        trouble: None,
        unschedulable: false,
        replacement: None,
        change: None,
    }
}

pub(crate) fn revision(name: &str, template: &str, number: i64) -> Revision {
    Revision {
        name: name.into(),
        uid: format!("uid-{name}").as_str().into(),
        resource_version: ResourceVersion(1),
        labels: Labels::from_iter([("app", "ds"), (HASH_LABEL, name)]),
        controller: Some(DS_UID.into()),
        terminating: false,
        number,
        template_generation: None,
        template: Ok(Template::new(template, Placement::default())),
        overrides: None,
        record: RecordState::None,
    }
}

pub(crate) fn daemon_set() -> DaemonSet {
    DaemonSet {
        copies: None,
        key: DaemonSetKey::new("default", "ds"),
        uid: DS_UID.into(),
        resource_version: ResourceVersion(1),
        generation: 1,
        terminating: false,
        selector: Some(selector("ds")),
        template: Template::new("A", Placement::default()),
        template_generation: None,
        paused: false,
        policy: PolicySource::None,
        order: None,
        retry: None,
        rolled_back: None,
        update_strategy: UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Int(1),
            max_surge: IntOrPercent::Int(0),
        },
        min_ready_seconds: 0,
        revision_history_limit: 10,
        status: Status::default(),
        problems: Vec::new(),
    }
}

/// The labels of a created pod.
pub(super) fn labels_of(new: &NewPod) -> Labels {
    let hash = (HASH_LABEL, new.hash.to_string());
    let generation = new.template_generation.map(|it| (TEMPLATE_GENERATION_LABEL, it.to_string()));
    let of_node = new.r#override.iter().flat_map(|it| it.labels());
    let of_node = of_node.map(|(key, value)| (key, value.to_owned()));
    let labels = [("app", "ds".to_owned()), hash].into_iter().chain(generation).chain(of_node);
    labels.map(|(key, value)| (key.to_owned(), value)).collect()
}

pub(super) fn selector(app: &str) -> LabelSelector {
    let operator = LabelOperator::In(vec![app.into()]);
    LabelSelector { requirements: vec![LabelRequirement { key: "app".into(), operator }] }
}

pub(crate) fn with_label(labels: &Labels, key: &str, value: &str) -> Labels {
    let labels = labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    labels.chain([(key.into(), value.into())]).collect()
}

/// The copies that a revision states.
fn copies_of(text: &str) -> ConfigCopies {
    let members = text.trim_matches(['{', '}']).split(',').filter(|member| !member.is_empty());
    let hashes = members.map(|member| {
        let (name, hash) = member.split_once(':').expect("a name and a hash");
        (name.trim_matches('"').into(), hash.trim_matches('"').into())
    });
    ConfigCopies::new(hashes.collect(), text)
}

/// A pod of an older revision is made from the template of the revision whose hash it gets.
pub(super) fn assert_made_from_its_revision<'a>(
    new: &NewPod,
    mut stored: impl Iterator<Item = &'a Revision>,
) {
    let Some(template) = &new.template else { return };
    assert_eq!(new.template_generation, None, "it would count as updated (G16)");
    // The watch may show too late that somebody has deleted the revision.
    let stored = stored.find(|revision| revision.hash().as_ref() == Some(&new.hash));
    let stored = stored.map(|revision| revision.template.as_ref().map(|t| &t.canonical));
    assert!(stored.is_none_or(|stored| stored == Ok(template)), "{new:?}");
}

/// The outcome of a write that is about another version of its pod.
pub(crate) fn conflict(pods: &BTreeMap<PodName, Pod>, write: &Write) -> Option<Outcome> {
    let Write::FinishChange { pod, resource_version, .. } = write else { return None };
    let change = pods.get(&pod.name)?.change.as_ref()?;
    let is_other = change.version != *resource_version;
    is_other.then(|| Outcome::Failed { message: "conflict".to_owned() })
}

/// Sets `metadata.resourceVersion`, as far as the pod states it.
pub(crate) fn set_version(pod: &mut Pod, version: u64) {
    pod.change.iter_mut().for_each(|change| change.version = ResourceVersion(version));
}

/// Changes a pod as this write does.
pub(crate) fn patch(pod: &mut Pod, write: &Write) {
    match write {
        Write::AdoptPod(_) => pod.controller = Some(DS_UID.into()),
        Write::ReleasePod(_) => pod.controller = None,
        Write::RelabelPod { hash, .. } => {
            pod.labels = with_label(&pod.labels, HASH_LABEL, hash.as_str());
        }
        Write::AskForReplacement { hash, since, withdraws, .. } => {
            let annotations = pod.replacement.get_or_insert_default();
            annotations.replacing = Some(hash.clone());
            annotations.since = Some(*since);
            annotations.is_agreed &= !withdraws;
            annotations.replaced = None;
        }
        Write::MarkReplaced { hash, .. } => {
            let replaced = Some(hash.clone());
            pod.replacement = Some(Replacement { replaced, ..Replacement::default() }.into());
        }
        Write::ChangePod(new) => {
            let known = pod.change.take().filter(|known| known.to == new.goal());
            // An override alone makes no pod younger.
            let since = if new.keeps_revision() { pod.creation_timestamp } else { new.since };
            let changed_at = pod.creation_timestamp.max(since);
            pod.changed_after = Some(changed_at.since(pod.created()));
            pod.creation_timestamp = changed_at;
            pod.change = Some(known.unwrap_or_else(|| {
                let (state, version) = (ChangeState::UnderWay, ResourceVersion(0));
                Box::new(PodChange { to: new.goal(), since: new.since, state, version })
            }));
        }
        Write::FinishChange { hash, template_generation, tag, .. } => {
            pod.change = None;
            pod.labels = with_label(&pod.labels, HASH_LABEL, hash.as_str());
            pod.labels = match tag {
                Some(tag) => with_label(&pod.labels, OVERRIDE_LABEL, tag),
                None => pod.labels.without(OVERRIDE_LABEL),
            };
            if let Some(generation) = template_generation {
                let generation = generation.to_string();
                pod.labels = with_label(&pod.labels, TEMPLATE_GENERATION_LABEL, &generation);
            }
        }
        other => panic!("{other}"),
    }
}

impl World {
    /// A revision as the API server creates it.
    pub(super) fn new_revision(&mut self, new: &NewRevision, uid: &str) -> Revision {
        let policy = self.state.daemon_set().policy.valid();
        self.server.overrides.extend(policy.map(|policy| policy.overrides.clone()));
        Revision {
            labels: Labels::from_iter([("app", "ds"), (HASH_LABEL, new.hash.as_str())]),
            uid: uid.into(),
            // The plan's: the controller may not have seen a newer one.
            template: Ok(self.state.daemon_set().template.clone()),
            template_generation: self.state.daemon_set().template_generation,
            overrides: self.overrides_of(new),
            ..revision(new.name.as_str(), "", new.number)
        }
    }

    /// The overrides and copies of a new revision: those of the policy, or of another revision.
    fn overrides_of(&self, new: &NewRevision) -> Option<Arc<Overrides>> {
        let copies = new.copies.as_ref().map(|text| Arc::new(copies_of(text)));
        let stated = new.overrides.as_ref().map(|text| {
            let of_policy = self.state.daemon_set().policy.valid().map(|policy| &policy.overrides);
            let of_revisions = self.server.overrides.iter();
            let mut all = of_policy.into_iter().chain(of_revisions);
            all.find(|it| it.text == *text && it.copies.is_none()).expect("known overrides")
        });
        Overrides::with_copies(stated, copies.as_ref())
    }
}
