//! Which override running pods are to have that another controller has made of the template (G57).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{ChangeGoal, Node, NodeOverride, Overrides, PodPhase, Timestamp, Uid};
use crate::node::{NodePods, PodFlags, PodView};
use crate::node_table::NodeId;

use super::OverrideInput;

/// For how long labels must say that another override counts, if that of a pod is not known any
/// more.
const SETTLE: Duration = Duration::from_secs(300);

/// The overrides that count on nodes, and the pods that cannot have them.
#[derive(Debug, Default)]
pub(in super::super) struct RunningOverrides {
    /// The text of the overrides for nodes that are not known yet: that of the plan before. `None`
    /// until there was one.
    before: Option<Arc<str>>,
    nodes: BTreeMap<NodeId, OverrideOfNode>,
    /// Why the pod of a node keeps other resources than those of its override.
    pub kept: BTreeMap<NodeId, Arc<str>>,
}

/// The override that counts on a node.
#[derive(Debug)]
struct OverrideOfNode {
    /// Its tag; `None` for the template.
    tag: Option<Arc<str>>,
    /// The text of the overrides that say so.
    text: Arc<str>,
    /// For how long labels must say that another one counts, if this one states it.
    settle: Duration,
    /// When a running pod gets it, by the steady clock.
    from: Timestamp,
    /// True if no pod has run there since it counts but the present one: that gets it at once while
    /// it starts.
    is_of_start: bool,
}

impl RunningOverrides {
    pub(super) fn forget(&mut self, id: NodeId) {
        self.nodes.remove(&id);
        self.kept.remove(&id);
    }

    /// Records the override that counts on a node, and when running pods get it. Other overrides of
    /// a policy count at once, and so do those of a pod that starts; labels of a node have to
    /// settle, anew for a new controller. Of two overrides the longer time counts; `runs` is
    /// that of the pod that runs, if one does.
    fn record(
        &mut self,
        id: NodeId,
        of_node: Option<&Arc<NodeOverride>>,
        text: Arc<str>,
        runs: Option<Duration>,
        now: Timestamp,
    ) -> &OverrideOfNode {
        let tag = of_node.map(|it| it.tag.clone());
        let own = of_node.map_or(Duration::ZERO, |it| it.settle);
        let known = self.nodes.get(&id);
        let before = known.map_or(self.before.as_ref(), |it| Some(&it.text));
        let is_of_policy = before.is_some_and(|before| *before != text);
        let from = match (runs, known) {
            (None, _) => now,
            (_, Some(known)) if known.tag == tag => known.from,
            _ if is_of_policy => now,
            (Some(of_pod), known) => {
                now + own.max(of_pod).max(known.map_or(Duration::ZERO, |it| it.settle))
            }
        };
        let is_of_start = runs.is_none() || known.is_some_and(|it| it.is_of_start && it.tag == tag);
        let wanted = OverrideOfNode { tag, text, settle: own, from, is_of_start };
        self.nodes.entry(id).insert_entry(wanted).into_mut()
    }

    /// Determines which running pods of a node are to get another override in place. Returns when
    /// that may change by itself.
    pub(super) fn refresh(
        &mut self,
        id: NodeId,
        node: &Node,
        pods: &mut NodePods,
        input: &OverrideInput<'_>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.kept.remove(&id);
        let (mut changing, mut flags, mut due_at) = (None, PodFlags::GETS_OVERRIDE, None);
        if input.daemon_set.may_change_overrides() {
            let overrides = input.daemon_set.overrides_of_running();
            let (of_node, text) =
                (overrides.and_then(|it| it.of_node(node)).cloned(), text_of(overrides));
            let running = pods.as_slice().iter().find(|pod| runs(pod));
            let runs = running.map(|pod| settle_of(pod, input));
            let wanted = self.record(id, of_node.as_ref(), text, runs, now);
            let from = wanted.from;
            flags.set(PodFlags::OVERRIDE_NOW, wanted.is_of_start);
            let tag = of_node.map(|it| it.tag.clone());
            let pod = running.and_then(|pod| self.changeable(id, pod, tag, input));
            if from > now {
                due_at = Some(from);
            } else {
                changing = pod;
            }
        }
        pods.record_overrides(|pod| {
            let gets_it = changing.as_ref() == Some(&pod.uid);
            if gets_it { flags } else { PodFlags::empty() }
        });
        due_at
    }

    /// The running pod of a node, if it has another override than this, and can be changed. If it
    /// cannot, it is recorded why.
    fn changeable(
        &mut self,
        id: NodeId,
        pod: &PodView,
        tag: Option<Arc<str>>,
        input: &OverrideInput<'_>,
    ) -> Option<Uid> {
        let hash = input.labels.hash(pod.labels)?.clone();
        let has = match input.changes.get(&pod.uid) {
            Some(known) if known.keeps_revision() => known.change.to.tag.as_ref(),
            // It becomes another revision first, or goes.
            Some(_) => return None,
            None if input.labels.tag(pod.labels) == tag.as_ref() => return None,
            None => input.labels.tag(pod.labels),
        };
        let is_other = has != tag.as_ref();
        let is_stored = input.history.template(&hash).is_some();
        let goal = ChangeGoal { hash, tag };
        let refusal = input.changes.refusal(&pod.uid, &goal).cloned();
        let why = refusal.or_else(|| (!is_stored).then(|| "its revision is not stored".into()));
        if let Some(why) = why {
            self.kept.insert(id, why);
            return None;
        }
        is_other.then(|| pod.uid.clone())
    }

    /// Records the overrides that count now: with these, labels of nodes that come have to settle.
    pub(in super::super) fn record_text(&mut self, overrides: Option<&Arc<Overrides>>) {
        self.before = Some(text_of(overrides));
    }
}

/// For how long labels must say that another override counts than that of this pod.
fn settle_of(pod: &PodView, input: &OverrideInput<'_>) -> Duration {
    let Some(tag) = input.labels.tag(pod.labels) else { return Duration::ZERO };
    let overrides = input.daemon_set.overrides_of_running();
    let own = overrides.and_then(|overrides| overrides.with_tag(tag));
    own.map_or(SETTLE, |own| own.settle)
}

/// The text of overrides; none have none.
fn text_of(overrides: Option<&Arc<Overrides>>) -> Arc<str> {
    overrides.map(|it| it.text.clone()).unwrap_or_default()
}

/// True if the pod is one that has started, and stays for now.
fn runs(pod: &PodView) -> bool {
    !pod.is_orphan()
        && !pod.is_terminating()
        && pod.phase == PodPhase::Running
        && pod.flags.contains(PodFlags::SCHEDULED)
}
