//! The objects of a story at one moment of its record, and questions about them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::fixture::{NODES, node};
use crate::world::guard::image_of;
use crate::world::pod::{is_terminal, is_terminating, label, node_of};

/// The label of the DaemonSet's pods, and its name.
pub(crate) const AGENT: &str = "agent";

#[derive(Default)]
pub(crate) struct State {
    pub at: Timestamp,
    /// The pods of the story's namespace by their UIDs.
    pub pods: BTreeMap<String, Pod>,
    pub nodes: BTreeMap<String, Node>,
    pub daemon_set: Option<DaemonSet>,
    /// The events of the story's namespace, as they came.
    pub events: Vec<Event>,
}

impl State {
    /// The DaemonSet's pods on a node, terminating ones too.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<&Pod> {
        self.agents().filter(|pod| node_of(pod) == node).collect()
    }

    /// The DaemonSet's pods.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| label(pod, "app") == Some(AGENT))
    }

    /// The DaemonSet's pod on a node that is not terminating.
    pub(crate) fn pod_on(&self, number: usize) -> Option<&Pod> {
        self.pods_on(&node(number)).into_iter().find(|pod| !is_terminating(pod))
    }

    /// True if the pod counts as available at this moment.
    pub(crate) fn is_available(&self, pod: &Pod) -> bool {
        let spec = self.daemon_set.as_ref().and_then(|ds| ds.spec.as_ref());
        let seconds = spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let since = ready_since(pod);
        let is_old = |since: Timestamp| self.at.duration_since(since).as_secs() >= seconds.into();
        !is_terminating(pod) && since.is_some_and(|since| seconds == 0 || is_old(since))
    }

    /// True if an available pod is on the node.
    pub(crate) fn has_available(&self, node: &str) -> bool {
        self.pods_on(node).into_iter().any(|pod| self.is_available(pod))
    }

    /// True if the kubelet of the node says that it is ready.
    pub(crate) fn is_up(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| ready_status(node) == "True")
    }

    /// True if the node may get a pod of the DaemonSet, as far as its labels and taints say.
    pub(crate) fn is_eligible(&self, name: &str) -> bool {
        let Some(node) = self.nodes.get(name) else { return false };
        let spec = node.spec.as_ref();
        let mut taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        let labels = node.metadata.labels.as_ref();
        let has = |(key, value): (&String, &String)| {
            labels.and_then(|labels| labels.get(key)) == Some(value)
        };
        taints.all(|taint| taint.key == "node.kubernetes.io/unschedulable")
            && self.node_selector().into_iter().flatten().all(has)
    }

    fn node_selector(&self) -> Option<&BTreeMap<String, String>> {
        let template = &self.daemon_set.as_ref()?.spec.as_ref()?.template;
        template.spec.as_ref()?.node_selector.as_ref()
    }

    /// The names of the nodes that are up and may get a pod.
    pub(crate) fn wanted(&self) -> BTreeSet<String> {
        let names = self.nodes.keys().filter(|name| self.is_up(name) && self.is_eligible(name));
        names.cloned().collect()
    }

    /// The limits of the update strategy: maxUnavailable, and whether it surges.
    pub(crate) fn strategy(&self) -> Option<(usize, bool)> {
        let strategy = self.daemon_set.as_ref()?.spec.as_ref()?.update_strategy.as_ref()?;
        let rolling = strategy.rolling_update.as_ref()?;
        let number = |value: &Option<IntOrString>| match value {
            Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(0),
            // A percentage of all nodes is as good as no limit here.
            Some(IntOrString::String(_)) => NODES,
            None => 0,
        };
        Some((number(&rolling.max_unavailable), number(&rolling.max_surge) > 0))
    }

    /// True if the DaemonSet's controller has seen its latest spec.
    fn is_observed(&self) -> bool {
        let Some(ds) = &self.daemon_set else { return false };
        let observed = ds.status.as_ref().and_then(|status| status.observed_generation);
        observed >= ds.metadata.generation
    }

    /// The image that the DaemonSet wants, without its repository.
    fn wanted_image(&self) -> Option<String> {
        let template = &self.daemon_set.as_ref()?.spec.as_ref()?.template;
        let image = template.spec.as_ref()?.containers.first()?.image.as_ref()?;
        Some(image.clone())
    }

    /// True if each of these nodes has one pod, which is available and has the image that the
    /// DaemonSet wants.
    fn are_updated<'a>(&self, nodes: impl IntoIterator<Item = &'a String>) -> bool {
        let image = self.wanted_image();
        nodes.into_iter().all(|node| {
            let pods = self.pods_on(node);
            let [pod] = pods[..] else { return false };
            self.is_available(pod) && Some(image_of(pod)) == image
        })
    }

    /// The number of restarts of the container of the pod on a node.
    pub(crate) fn restarts_on(&self, number: usize) -> i32 {
        let statuses = self.pod_on(number).into_iter().flat_map(container_statuses);
        statuses.map(|status| status.restart_count).sum()
    }
}

/// A pod of the DaemonSet states that it is being changed in place.
pub(crate) fn is_changing(state: &State) -> bool {
    state.agents().any(|pod| annotation(pod, "everynode.dev/changing").is_some())
}

/// The pod of this node has the condition `PodResizePending` with this reason.
pub(crate) fn resize_pending(number: usize, reason: &str) -> impl Fn(&State) -> bool {
    move |state| {
        let status = state.pod_on(number).and_then(|pod| pod.status.as_ref());
        let mut conditions = status.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
        conditions.any(|it| it.type_ == "PodResizePending" && it.reason.as_deref() == Some(reason))
    }
}

/// Every node that is up and may get a pod has one available pod of the latest template, and the
/// status says so.
pub(crate) fn all_updated(state: &State) -> bool {
    let wanted = state.wanted();
    let status = state.daemon_set.as_ref().and_then(|ds| ds.status.clone()).unwrap_or_default();
    let count = i32::try_from(wanted.len()).unwrap_or_default();
    !wanted.is_empty()
        && state.is_observed()
        && status.updated_number_scheduled.unwrap_or(0) >= count
        && status.number_available.unwrap_or(0) >= count
        && state.are_updated(&wanted)
}

/// All nodes are up, and [all are updated](all_updated).
pub(crate) fn all_nodes_updated(state: &State) -> bool {
    state.wanted().len() == NODES && all_updated(state)
}

/// Each of these nodes has one pod, which is available and has the image that the DaemonSet wants.
pub(crate) fn updated(numbers: &[usize]) -> impl Fn(&State) -> bool + use<> {
    let nodes: Vec<String> = numbers.iter().copied().map(node).collect();
    move |state| state.are_updated(&nodes)
}

/// The number of nodes that have one pod, which is available and has the image that the DaemonSet
/// wants.
pub(crate) fn updated_count(state: &State) -> usize {
    (1..=NODES).filter(|number| state.are_updated(&[node(*number)])).count()
}

/// This number of pods is ready.
pub(crate) fn ready(count: usize) -> impl Fn(&State) -> bool {
    move |state| state.agents().filter(|pod| state.is_available(pod)).count() == count
}

/// The node has no pod of the DaemonSet.
pub(crate) fn empty(number: usize) -> impl Fn(&State) -> bool {
    move |state| state.pods_on(&node(number)).is_empty()
}

/// A container of the DaemonSet waits with this reason.
pub(crate) fn waiting(reason: &str) -> impl Fn(&State) -> bool {
    move |state| {
        state.agents().flat_map(container_statuses).any(|status| {
            let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
            waiting.and_then(|waiting| waiting.reason.as_deref()) == Some(reason)
        })
    }
}

/// A container of the DaemonSet has ended with this code, now or before it was started again.
pub(crate) fn exited(code: i32) -> impl Fn(&State) -> bool {
    move |state| {
        state.agents().flat_map(container_statuses).any(|status| {
            let states = [status.state.as_ref(), status.last_state.as_ref()];
            let mut ends = states.into_iter().flatten().filter_map(|it| it.terminated.as_ref());
            ends.any(|end| end.exit_code == code)
        })
    }
}

/// A container of the DaemonSet that was started again has ended once more: the kubelet starts it
/// at once the first time only.
pub(crate) fn backs_off(state: &State) -> bool {
    state.agents().flat_map(container_statuses).any(|status| {
        let is_running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        status.restart_count > 0 && !is_running
    })
}

/// A pod of the DaemonSet is in this phase, with this reason unless it is empty.
pub(crate) fn phase(phase: &str, reason: &str) -> impl Fn(&State) -> bool {
    move |state| {
        state.agents().filter_map(|pod| pod.status.as_ref()).any(|status| {
            let found = status.reason.as_deref().unwrap_or_default();
            status.phase.as_deref() == Some(phase) && (reason.is_empty() || found == reason)
        })
    }
}

/// The condition `Ready` of the node has this status.
pub(crate) fn node_ready(number: usize, status: &str) -> impl Fn(&State) -> bool {
    move |state| state.nodes.get(&node(number)).is_some_and(|node| ready_status(node) == status)
}

/// A pod of the DaemonSet on this node is terminating.
pub(crate) fn terminating(number: usize) -> impl Fn(&State) -> bool {
    move |state| state.pods_on(&node(number)).into_iter().any(is_terminating)
}

/// The pod of the node has this tag, and its phase is Running.
pub(crate) fn runs(number: usize, tag: &str) -> impl Fn(&State) -> bool {
    move |state| state.pod_on(number).is_some_and(|pod| is_running(pod, tag))
}

/// The number of the first node whose pod has this tag, and is Running.
pub(crate) fn first_running(state: &State, tag: &str) -> Option<usize> {
    (1..=NODES).find(|number| runs(*number, tag)(state))
}

fn is_running(pod: &Pod, tag: &str) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && image_of(pod).ends_with(&format!(":{tag}"))
}

/// An event of this reason whose text has these words came.
pub(crate) fn event(reason: &str, words: &str) -> impl Fn(&State) -> bool {
    move |state| {
        state.events.iter().any(|event| {
            event.reason.as_deref() == Some(reason)
                && event.note.as_deref().unwrap_or_default().contains(words)
        })
    }
}

/// The condition `Progressing` has this reason.
pub(crate) fn progressing(reason: &str) -> impl Fn(&State) -> bool {
    move |state| {
        let status = state.daemon_set.as_ref().and_then(|ds| ds.status.as_ref());
        let mut conditions = status.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
        let is_it = conditions
            .any(|found| found.type_ == "Progressing" && found.reason.as_deref() == Some(reason));
        is_it && state.is_observed()
    }
}

/// Those of init containers first.
fn container_statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let of_init = status.and_then(|status| status.init_container_statuses.as_deref());
    let others = status.and_then(|status| status.container_statuses.as_deref());
    of_init.into_iter().chain(others).flatten()
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a String> {
    pod.metadata.annotations.as_ref()?.get(key)
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready" && it.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

fn ready_status(node: &Node) -> &str {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    ready.map_or("", |condition| condition.status.as_str())
}

/// True if the kubelet has refused or evicted the pod: it has ended, and nobody has deleted it.
pub(crate) fn is_refused(pod: &Pod) -> bool {
    is_terminal(pod) && !is_terminating(pod)
}

/// True if the pod is ready, for however short a time.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}
