//! The decisions of a DaemonSet controller for one DaemonSet, by the text of docs/rules.md.
//!
//! [`decide`] reads whole objects and returns all effects that the rules demand. It keeps nothing
//! between two calls, and computes everything anew wherever it is needed: slow, and obvious. The
//! core's tests compare the core with it, and the simulation asks it which nodes a template allows.
//! So it calls no function of the core that decides anything; it uses only the core's values
//! ([`everynode_core::api`]).
//!
//! One file for each group of rules: `placement` (C10–C15), `ownership` (C21), `pods` (C20–C27),
//! `revisions` (C40–C45), `rolling_update` (C50–C55), `status` (C70). Guarded and paused rollouts
//! are left out: the DaemonSet has neither a policy nor a pause, and no revision has a record (G2).
#![forbid(unsafe_code)]

mod ownership;
mod placement;
mod pods;
mod revisions;
mod rolling_update;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{
    DaemonSet, Labels, Node, NodeName, Pod, PodName, Problem, Revision, RevisionHash, Timestamp,
    Uid,
};

use rolling_update::Step;

pub use placement::{Answer, answer, tolerated_by_default};
pub use pods::has_recovered;
pub use revisions::{has_duplicates, hash_of_new_pods};
pub use status::Counts;

/// Everything that a decision depends on, besides the time.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The DaemonSet.
    pub daemon_set: DaemonSet,
    /// The nodes of the cluster.
    pub nodes: Vec<Node>,
    /// Pods of its namespace; those of other owners have no effect, unless these were DaemonSets of
    /// its name.
    pub pods: Vec<Pod>,
    /// ControllerRevisions of its namespace; those of other owners have no effect.
    pub revisions: Vec<Revision>,
    /// The node selector of its namespace, if such selectors count (C15).
    pub namespace_node_selector: Labels,
    /// Maximum number of pods that are created, that are deleted, and of objects that are patched
    /// at once (C28).
    pub burst_replicas: usize,
    /// True if created pods are bound to their node, because there is no scheduler (C31).
    pub binds_pods: bool,
    /// The state of the controller that no object has.
    pub memory: Memory,
}

/// The knowledge of a controller from before, which no object states. A controller that has just
/// started has the default.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// True if a write has not been seen yet (C56, C60).
    pub awaits_writes: bool,
    /// True if a selector that selects everything was reported for this generation (C33).
    pub is_selecting_all_reported: bool,
    /// No pod is created before this time, because admission changed one, or because the namespace
    /// is terminating (C28).
    pub creations_from: Option<Timestamp>,
    /// On these nodes no pod is created before this time, because others deleted the pods there
    /// (C23).
    pub lost_pods: BTreeMap<NodeName, Timestamp>,
    /// On these nodes no pod that has ended is deleted before this time (C24).
    pub ended_pods: BTreeMap<NodeName, Timestamp>,
    /// When each pod was first seen ready; others are seen now (C54).
    pub seen_ready: BTreeMap<Uid, Timestamp>,
    /// The template is not stored before this time, because its last revision was deleted soon
    /// after its creation (C40).
    pub revision_from: Option<Timestamp>,
    /// Since when the template [has duplicates](has_duplicates); since now if that is new (C42).
    pub duplicates_since: Option<Timestamp>,
}

/// One thing that the rules demand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The DaemonSet becomes the controller of a pod (C21).
    AdoptPod(PodName),
    /// The DaemonSet is no owner of a pod any more (C21).
    ReleasePod(PodName),
    /// A pod gets the hash of the current revision (C42).
    RelabelPod(PodName, RevisionHash),
    /// A pod of the current revision is created on a node (C23, C30, C53).
    CreatePod(NodeName, NewPod),
    /// A pod is deleted (C23–C27, C52, C53).
    DeletePod(PodName),
    /// The event for a failed pod that is deleted (C24).
    ReportFailed(PodName),
    /// The event for a succeeded pod that is deleted (C24).
    ReportSucceeded(PodName),
    /// The event for a selector that selects everything (C33).
    ReportSelectingAll,
    /// The DaemonSet becomes the controller of a revision, by UID (C21).
    AdoptRevision(Uid),
    /// The DaemonSet is no owner of a revision any more (C21).
    ReleaseRevision(Uid),
    /// The template is stored as a revision with this number (C40).
    CreateRevision(i64),
    /// A revision gets the label that it lacks (C42).
    LabelRevision(Uid, RevisionHash),
    /// The current revision gets this number (C42).
    RaiseRevision(Uid, i64),
    /// A revision is deleted (C42, C44).
    DeleteRevision(Uid),
    /// The status is written (C70).
    UpdateStatus(Counts),
}

/// A pod that is created: the labels by which it is current, and who binds it (C30, C31, C45).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewPod {
    /// The hash of its revision.
    pub hash: RevisionHash,
    /// The template generation of the DaemonSet.
    pub template_generation: Option<i64>,
    /// True if it has a `spec.nodeName`.
    pub is_bound: bool,
}

/// All that has to be done at this time (C4, C32, C33, C40, C56).
pub fn decide(objects: &Objects, now: Timestamp) -> BTreeSet<Effect> {
    let daemon_set = &objects.daemon_set;
    let Some(selector) = &daemon_set.selector else { return BTreeSet::new() };
    let is_template = |problem: &Problem| matches!(problem, Problem::Template { .. });
    if daemon_set.terminating || daemon_set.problems.iter().any(is_template) {
        return BTreeSet::new();
    }
    if selector.requirements.is_empty() {
        let is_new = !objects.memory.is_selecting_all_reported;
        return is_new.then_some(Effect::ReportSelectingAll).into_iter().collect();
    }
    let status = status::update(objects, now);
    if objects.memory.awaits_writes {
        return status.into_iter().collect();
    }
    let owners = ownership::effects(objects);
    let history = revisions::repairs(objects, now);
    let mut effects: BTreeSet<Effect> = owners.into_iter().chain(history).collect();
    let Some(hash) = revisions::hash_of_new_pods(objects) else { return effects };
    effects.extend(pod_effects(objects, &hash, now));
    effects.extend(revisions::beyond_limit(objects));
    effects.extend(status);
    effects
}

/// Creations and deletions of pods, as many as one sync may do, in the order of
/// docs/rollout-order.md: pods that have ended go, then those that have to go whatever their
/// revision; missing ones are created; then come the steps of the rolling update (C28, C55).
fn pod_effects(objects: &Objects, hash: &RevisionHash, now: Timestamp) -> Vec<Effect> {
    let limit = objects.burst_replicas;
    let (mut created, mut deleted) = (pods::missing(objects, now), pods::ended(objects, now));
    let ended = deleted.len().min(limit);
    deleted.extend(pods::misplaced(objects, now));
    deleted.truncate(limit);
    let nodes = deleted.iter().filter_map(|pod| pods::node_of(pod)).collect();
    for step in rolling_update::steps(objects, &nodes, now) {
        match step {
            Step::Create(node) => created.push(node),
            Step::Delete(pod) => deleted.push(pod),
        }
    }
    let template_generation = objects.daemon_set.template_generation;
    let new = NewPod { hash: hash.clone(), template_generation, is_bound: objects.binds_pods };
    let reports = deleted.iter().take(ended).map(|pod| pods::report(pod));
    let deletions = deleted.iter().take(limit).map(|pod| Effect::DeletePod(pod.name.clone()));
    let creations =
        created.iter().take(limit).map(|&node| Effect::CreatePod(node.clone(), new.clone()));
    reports.chain(deletions).chain(creations).collect()
}
