//! The facts from which the cause of a held-up node follows: the states of pods and nodes, events,
//! deletions, conditions and the time.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everynode_core::api::{
    CANNOT_CHANGE, CANNOT_PULL, DaemonSet, HOLD_LABEL, ImagePuller, Labels, Node, NodeName, Pod,
    Readiness, ReasonClass, RolloutPhase, Timestamp, Uid, UpdateStrategy, is_pulling_stated,
    stated_after,
};
use everynode_core::placement::{self, Eligibility};
use everynode_core::plan::Write;

use super::PROGRESS_DEADLINE;
use super::next_attempt::{self, Backoffs, NextAttempt};
use super::pause::Pause;
use super::revision::CurrentContent;
use crate::controller_view::ControllerView;
use crate::snapshot::{
    EventDetail, NodeDetail, NodeHealth, ObjectKind, PodDetail, PodState, Snapshot,
    WaitingContainer,
};

/// The time for which creations must have failed: a ServiceAccount, for example, appears shortly
/// after its namespace.
const CREATION_FAILURE_SECONDS_MIN: u64 = 10;

/// True if the write creates, deletes or changes a pod.
const fn acts_on_pod(write: &Write) -> bool {
    matches!(write, Write::CreatePod(_) | Write::DeletePod(_) | Write::ChangePod(_))
}

/// The reasons of warnings about a DaemonSet that no pod can be created, or none stays.
const CREATION_FAILURES: [&str; 3] = ["FailedCreate", "PodChangedByAdmission", "PodsLost"];

/// The reasons of warnings about a pod that its state and that of its node tell better.
const KNOWN_OTHERWISE: [&str; 2] = ["FailedScheduling", "NodeNotReady"];

/// How long before a pod ceases to be ready the kubelet may have warned of the reason.
const WARNING_LEAD: Duration = Duration::from_secs(10);

/// The reason of warnings that a probe has failed.
const UNHEALTHY: &str = "Unhealthy";

/// A failure for which pods can't be created.
pub(super) struct Refusal {
    /// The words of the API server.
    pub message: String,
    /// Pods have been refused for some seconds.
    pub lasts: bool,
    /// When the next one is created, if that is known.
    pub next_attempt: Option<NextAttempt>,
}

/// The facts about one DaemonSet at one time.
pub(crate) struct Evidence<'a> {
    snapshot: &'a Snapshot,
    daemon_set: &'a DaemonSet,
    now: Timestamp,
    current: CurrentContent<'a>,
    /// The last warning about each pod.
    warnings: BTreeMap<&'a Uid, &'a EventDetail>,
    /// The last warning about each pod that says why the kubelet ended a container.
    kills: BTreeMap<&'a Uid, &'a EventDetail>,
    /// The failure for which pods can't be created.
    refusal: Option<Refusal>,
    backoffs: Backoffs,
    /// The controller has long had something to do.
    is_controller_idle: OnceCell<bool>,
    /// The nodes whose wave of a guarded rollout is not open.
    behind: OnceCell<BTreeSet<NodeName>>,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, daemon_set: &'a DaemonSet, now: Timestamp) -> Self {
        let events = || snapshot.pod_warnings.values();
        let is_news = |event: &&EventDetail| !KNOWN_OTHERWISE.contains(&event.reason.as_str());
        Self {
            snapshot,
            daemon_set,
            now,
            current: CurrentContent::new(snapshot, daemon_set),
            warnings: last_of_pods(events().filter(is_news)),
            kills: last_of_pods(events().filter(|event| ends_container(event))),
            refusal: refusal(snapshot, daemon_set, now),
            backoffs: next_attempt::backoffs(snapshot, daemon_set),
            is_controller_idle: OnceCell::new(),
            behind: OnceCell::new(),
        }
    }

    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) const fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    pub(super) const fn daemon_set(&self) -> &'a DaemonSet {
        self.daemon_set
    }

    /// True if the pod is of an older revision.
    pub(crate) fn is_outdated(&self, pod: &Pod) -> bool {
        self.current.is_outdated(pod)
    }

    /// True if the controller replaces pods of older revisions.
    pub(super) fn replaces_old_pods(&self) -> bool {
        let is_rolling = match self.daemon_set.strategy() {
            UpdateStrategy::RollingUpdate { .. } => true,
            UpdateStrategy::OnDelete => is_stated_guarded(self.daemon_set),
            UpdateStrategy::Malformed => false,
        };
        is_rolling && Pause::of(self.daemon_set) != Pause::Yes && !self.keeps_old_pods()
    }

    /// True if a guarded rollout replaces no old pod at present.
    pub(crate) fn keeps_old_pods(&self) -> bool {
        self.stated_class().is_some_and(ReasonClass::keeps_old_pods)
    }

    /// True if a pause, and nothing graver, keeps pods of older revisions.
    pub(super) fn is_kept_by_pause(&self) -> bool {
        Pause::of(self.daemon_set) == Pause::Yes && !self.keeps_old_pods()
    }

    /// True if somebody is asked whether the old pod may go for the current revision, and nobody
    /// has agreed.
    pub(crate) fn is_asked_about(&self, detail: &PodDetail) -> bool {
        let asked = detail.pod.replacement.as_deref().filter(|asked| !asked.is_agreed);
        let replacing = asked.and_then(|asked| asked.replacing.as_ref());
        is_stated_guarded(self.daemon_set)
            && replacing.is_some_and(|hash| self.current.is_of_template(hash))
    }

    /// The pod that pulls the images of the current revision to this node, if there is one.
    pub(crate) fn puller(&self, node: Option<&NodeName>) -> Option<&'a ImagePuller> {
        let is_it = |puller: &&ImagePuller| {
            Some(&puller.node) == node
                && puller.daemon_set == self.daemon_set.uid
                && self.current.is_of_template(&puller.revision)
        };
        self.snapshot.pullers.values().find(is_it)
    }

    /// Why nodes cannot pull images ahead, or why pods cannot be changed in place, if the
    /// controller states that.
    pub(super) fn stated_refusal(&self) -> Option<String> {
        let message = self.stated_message()?;
        [CANNOT_PULL, CANNOT_CHANGE].into_iter().find_map(|what| {
            let why = stated_after(message, what)?;
            Some(format!("{what}{why}"))
        })
    }

    /// True if the controller states that nodes pull images. Only it knows which ones have them,
    /// and which wait for their turn.
    pub(crate) fn is_pulling_stated(&self) -> bool {
        self.stated_message().is_some_and(is_pulling_stated)
    }

    /// True if the rollout of the current template has yet to begin.
    pub(super) fn is_pending(&self) -> bool {
        let view = ControllerView::new(self.snapshot, self.daemon_set.clone(), self.now);
        let record = view.rollout_status().and_then(|status| status.record);
        record.is_some_and(|record| record.phase == RolloutPhase::Pending)
    }

    /// True if a node has an available pod of the current revision.
    pub(super) fn is_available_somewhere(&self) -> bool {
        let mut pods = self.pods().filter(|it| !it.pod.terminating && !self.is_outdated(&it.pod));
        pods.any(|detail| detail.is_available(self.daemon_set, self.now))
    }

    /// True if the node should run a pod, or if nodes were not read. One that is gone should not.
    pub(super) fn is_desired(&self, node: Option<&NodeName>) -> bool {
        let nodes = &self.snapshot.nodes;
        let Some(name) = node.filter(|_| !nodes.is_empty()) else { return true };
        let Some(node) = nodes.get(name) else { return false };
        let none = Labels::default();
        let selectors = &self.snapshot.namespace_node_selectors;
        let selector = selectors.get(&self.daemon_set.key.namespace);
        let selector = selector.filter(|_| self.snapshot.honors_namespace_node_selectors);
        let placement = &self.daemon_set.template.placement;
        match placement::eligibility(placement, selector.unwrap_or(&none), &node.node) {
            Eligibility::Run => true,
            Eligibility::NoNode | Eligibility::MustNotRun | Eligibility::ContinueRunning => false,
        }
    }

    /// The nodes that have a pod of the current revision, beside which an old one may be.
    pub(super) fn nodes_with_new_pod(&self) -> BTreeSet<&'a NodeName> {
        let new = self.pods().filter(|it| !it.pod.terminating && !self.is_outdated(&it.pod));
        new.filter_map(|detail| detail.pod.target_node_name()).collect()
    }

    /// The nodes that should run a pod and have none; `None` if nodes or pods were not read.
    pub(super) fn nodes_without_pod(&self) -> Option<Vec<&'a NodeName>> {
        let is_unread = |kind| self.snapshot.unread.contains(&kind);
        if self.snapshot.nodes.is_empty() || is_unread(ObjectKind::Pod) {
            return None;
        }
        // The controller does not wait for a pod that has ended.
        let has_ended = |pod: &Pod| pod.terminating && pod.phase.is_terminal();
        let pods = self.snapshot.pods_of(&self.daemon_set.key);
        let pods = pods.filter(|detail| !has_ended(&detail.pod));
        let occupied: BTreeSet<_> =
            pods.filter_map(|detail| detail.pod.target_node_name()).collect();
        let nodes = self.snapshot.nodes.keys().filter(|name| !occupied.contains(name));
        Some(nodes.filter(|name| self.is_desired(Some(name))).collect())
    }

    /// True if the status has long counted a node without a pod, and the node has not changed
    /// since. A status that was written before the last change of the DaemonSet tells nothing.
    pub(super) fn has_long_been_missing(&self, node: Option<&NodeName>) -> bool {
        let status = &self.daemon_set.status;
        let is_counted = status.current_number_scheduled < status.desired_number_scheduled
            && status.observed_generation >= self.daemon_set.generation;
        let node = node.and_then(|name| self.snapshot.nodes.get(name));
        let changed_at = node.and_then(NodeDetail::changed_at);
        let since = self.status_at().map(|at| changed_at.map_or(at, |changed| changed.max(at)));
        is_counted && since.is_some_and(|since| self.is_long_ago(since))
    }

    /// True if the controller has long had something to do for this DaemonSet: it would act, and
    /// nothing that it goes by has changed for a while. False where that can't be told, as while it
    /// may wait before it replaces a pod that has failed.
    pub(super) fn is_controller_idle(&self) -> bool {
        *self.is_controller_idle.get_or_init(|| {
            let status = &self.daemon_set.status;
            // A guarded rollout waits for bake times and approvals.
            let may_wait = status.rollout.is_some()
                || self.daemon_set.is_guarded()
                || self.refusal.is_some()
                || self.pods().any(|detail| detail.pod.phase.is_terminal());
            if may_wait || !self.last_change().is_some_and(|at| self.is_long_ago(at)) {
                return false;
            }
            let view = ControllerView::new(self.snapshot, self.daemon_set.clone(), self.now);
            // It may see another number of nodes, such as by a node selector of the namespace.
            view.knows_revisions_of_pods()
                && view.tally().desired == status.desired_number_scheduled as usize
                && view.plan.writes.iter().any(acts_on_pod)
        })
    }

    /// True if the controller keeps the node's old pod while others are replaced, because its wave
    /// of a guarded rollout is not open.
    pub(super) fn is_behind(&self, node: Option<&NodeName>) -> bool {
        let behind = self.behind.get_or_init(|| {
            let is_guarded = is_stated_guarded(self.daemon_set) && self.daemon_set.is_guarded();
            if !is_guarded || self.snapshot.nodes.is_empty() {
                return BTreeSet::new();
            }
            let view = ControllerView::new(self.snapshot, self.daemon_set.clone(), self.now);
            let nodes = self.snapshot.nodes.keys().filter(|node| view.inspect(node).is_kept);
            nodes.cloned().collect()
        });
        node.is_some_and(|node| behind.contains(node))
    }

    /// The last known change of anything that the controller goes by; `None` if the changes of the
    /// DaemonSet itself are unknown.
    fn last_change(&self) -> Option<Timestamp> {
        let changes = self.snapshot.changes.get(&self.daemon_set.key)?;
        let nodes = self.snapshot.nodes.iter().filter(|(name, _)| self.is_desired(Some(name)));
        let nodes = nodes.filter_map(|(_, node)| node.changed_at());
        let pods = self.pods().map(|detail| {
            let min_ready = Duration::from_secs(self.daemon_set.min_ready_seconds.into());
            let ready_at = match detail.pod.readiness {
                Readiness::ReadySince(at) => at + min_ready,
                Readiness::Ready | Readiness::NotReady => detail.not_ready_since,
            };
            let due_at = detail.deletion.as_ref().and_then(|deletion| deletion.due_at);
            ready_at.max(detail.pod.creation_timestamp).max(due_at.unwrap_or(ready_at))
        });
        nodes.chain(pods).chain([self.status_at()?]).chain(changes.spec_at).max()
    }

    /// The last known change of the DaemonSet's status.
    fn status_at(&self) -> Option<Timestamp> {
        let changes = self.snapshot.changes.get(&self.daemon_set.key)?;
        changes.status_at.map(|at| changes.created_at.map_or(at, |created| created.max(at)))
    }

    fn pods(&self) -> impl Iterator<Item = &'a PodDetail> {
        self.snapshot.pods_of(&self.daemon_set.key)
    }

    /// The pods that are preempted for this one on the nominated node: their names, and when all
    /// of them should have ended, or the attempt began; `None` if none is.
    pub(super) fn preemption(&self, detail: &PodDetail) -> Option<(Vec<String>, Timestamp)> {
        let node = detail.scheduling.nominated_node.as_ref()?;
        let pods = self.snapshot.node_pods.iter().filter(|(_, pod)| pod.node == *node);
        let is_read = pods.clone().next().is_some();
        let ending = pods.filter_map(|((namespace, name), pod)| {
            Some((format!("{namespace}/{name}"), pod.deletion.as_ref()?.due_at?))
        });
        let (names, due_at): (Vec<String>, Vec<Timestamp>) = ending.unzip();
        let since = detail.scheduling.refused_since?;
        (!is_read || !names.is_empty())
            .then(|| (names, due_at.into_iter().fold(since, Timestamp::max)))
    }

    pub(super) fn is_long_ago(&self, at: Timestamp) -> bool {
        self.now.since(at) > PROGRESS_DEADLINE
    }

    /// True if the policy excludes the node from rollouts (G5). Where the policy was not read, by
    /// the label that policies have by default.
    pub(super) fn is_held(&self, node: Option<&NodeName>) -> bool {
        let Some(node) = node.and_then(|name| self.snapshot.nodes.get(name)) else { return false };
        let labels = &node.node.labels;
        match self.daemon_set.policy.valid() {
            Some(policy) => !policy.hold.is_empty() && policy.hold.matches(labels),
            None => is_stated_guarded(self.daemon_set) && labels.get(HOLD_LABEL).is_some(),
        }
    }

    /// The class of the reason that the controller states of the rollout.
    pub(super) fn stated_class(&self) -> Option<ReasonClass> {
        stated_class(self.daemon_set)
    }

    /// The message that the controller states of the rollout.
    pub(super) fn stated_message(&self) -> Option<&'a str> {
        self.daemon_set.status.rollout.as_ref().map(|stated| &*stated.message)
    }

    /// The last warning about a pod, unless it is older than the state of the pod: of one that was
    /// ready before, or that ends. That a probe failed does not say why a pod does not end.
    pub(super) fn warning(&self, detail: &PodDetail) -> Option<&'a EventDetail> {
        let since = match &detail.deletion {
            Some(deletion) => deletion.since,
            None => Some(detail.not_ready_since - WARNING_LEAD),
        };
        let is_news = |at: Timestamp| since.is_none_or(|since| at >= since);
        let warning = self.warnings.get(&detail.pod.uid).copied();
        let warning = warning.filter(|warning| warning.at.is_none_or(is_news));
        warning.filter(|warning| !detail.pod.terminating || warning.reason != UNHEALTHY)
    }

    /// Why the kubelet ended the container that the pod waits for, if it did.
    pub(super) fn kill(&self, detail: &PodDetail) -> Option<&'a EventDetail> {
        let PodState::Waiting(WaitingContainer { last_exit: Some(exit), .. }) = &detail.state
        else {
            return None;
        };
        let kill = self.kills.get(&detail.pod.uid).copied()?;
        let is_of_last_run = kill.at >= exit.started_at;
        is_of_last_run.then_some(kill)
    }

    /// The failure for which pods can't be created.
    pub(super) const fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// When a pod that has ended is replaced; `None` if that is due.
    pub(super) fn next_replacement(&self, detail: &PodDetail) -> Option<NextAttempt> {
        next_attempt::of_ended_pod(&self.backoffs, detail, self.now)
    }

    /// The node, unless it is ready or was not read.
    pub(super) fn node_not_ready(&self, node: Option<&NodeName>) -> Option<(&'a Node, &'a str)> {
        let detail = self.snapshot.nodes.get(node?)?;
        match &detail.health {
            NodeHealth::NotReady { message } => Some((&detail.node, message)),
            NodeHealth::Ready | NodeHealth::Unreported => None,
        }
    }
}

/// The last of the events about each pod.
fn last_of_pods<'a>(
    events: impl Iterator<Item = &'a EventDetail>,
) -> BTreeMap<&'a Uid, &'a EventDetail> {
    let mut last_of: BTreeMap<&Uid, &EventDetail> = BTreeMap::new();
    for event in events {
        let last = last_of.entry(&event.about).or_insert(event);
        if last.at < event.at {
            *last = event;
        }
    }
    last_of
}

/// True if the kubelet ends a container for what the event says.
fn ends_container(event: &EventDetail) -> bool {
    let is_probe = || ["Liveness", "Startup"].iter().any(|probe| event.message.starts_with(probe));
    event.reason == "FailedPostStartHook" || event.reason == UNHEALTHY && is_probe()
}

/// The last failure to create a pod, unless a pod has been created since.
fn refusal(snapshot: &Snapshot, daemon_set: &DaemonSet, now: Timestamp) -> Option<Refusal> {
    let pods = snapshot.pods_of(&daemon_set.key);
    let created_at = pods.map(|detail| detail.pod.creation_timestamp).max();
    let failures: Vec<&EventDetail> = snapshot
        .events
        .values()
        .filter(|event| event.is_warning && event.about == daemon_set.uid)
        .filter(|event| CREATION_FAILURES.contains(&event.reason.as_str()))
        .filter(|event| event.at >= created_at)
        .collect();
    let last = failures.iter().max_by_key(|event| event.at)?;
    let first = failures.iter().filter_map(|event| event.since).min();
    let since = first.max(created_at)?;
    let lasts = now.since(since) >= Duration::from_secs(CREATION_FAILURE_SECONDS_MIN);
    let next_attempt = next_attempt::after_refusal(last, now);
    Some(Refusal { message: words_of_server(&last.message), lasts, next_attempt })
}

/// The API server's reason for refusing a pod, without the pod's name, which is another one each
/// time.
fn words_of_server(message: &str) -> String {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    let named = |start: &str, verdict: &str| {
        let (_, rest) = message.strip_prefix(start)?.split_once(verdict)?;
        Some(rest.to_owned())
    };
    named("pods \"", "\" is forbidden: ")
        .or_else(|| named("Pod \"", "\" is invalid: "))
        .unwrap_or_else(|| message.to_owned())
}

fn stated_class(daemon_set: &DaemonSet) -> Option<ReasonClass> {
    daemon_set.status.rollout.as_ref().map(|stated| stated.reason.class())
}

/// True if a controller states that a policy guards the rollouts. Pods are then replaced with
/// `OnDelete` as well, also where the policy was not read (G18).
pub(crate) fn is_stated_guarded(daemon_set: &DaemonSet) -> bool {
    stated_class(daemon_set).is_some_and(ReasonClass::is_guarded)
}
