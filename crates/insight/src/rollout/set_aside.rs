//! Which nodes the end of a rollout does not wait for, and why. The same words as those of guarded
//! rollouts, for every DaemonSet.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{Absent, NodeName, ReasonClass, RecordState, Timestamp};
use everynode_core::daemon_set::SetAside;

use super::Rollout;
use super::cause::{Cause, CauseKind};
use super::evidence::{Evidence, is_stated_guarded};
use crate::names;
use crate::snapshot::{NodeDetail, PodDetail};

/// The maximum width of the names of the nodes that are set aside for one reason, in characters.
const NAMES_WIDTH_MAX: usize = 40;

/// The words after the cause of a node that is set aside.
pub(crate) const SET_ASIDE: &str = ", set aside";

/// The nodes that a rollout waits for until it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Awaited {
    /// Those that had an older revision, or existed when the template came, as far as they are
    /// neither down since before, nor leaving, nor held.
    #[default]
    OfRollout,
    /// All nodes that should run a pod.
    AllNodes,
}

impl Evidence<'_> {
    /// Why the end of the rollout does not wait for a node with this cause; `None` if it does.
    pub(crate) fn set_aside(
        &self,
        node: Option<&NodeName>,
        pod: Option<&PodDetail>,
        cause: &Cause,
    ) -> Option<SetAside> {
        let node = self.snapshot().nodes.get(node?)?;
        let outdated = pod.is_some_and(|detail| self.is_outdated(&detail.pod));
        match cause.kind {
            CauseKind::Held => Some(SetAside::Held),
            CauseKind::Asked if self.stated_class() == Some(ReasonClass::Complete) => {
                Some(SetAside::NotAgreed)
            }
            _ if self.sign_of_leaving(node).is_some() => Some(SetAside::Leaving),
            // A policy leaves it alone, although its pod may work.
            _ if outdated
                && is_stated_guarded(self.daemon_set())
                && node.node.not_ready_since().is_some() =>
            {
                Some(SetAside::Down)
            }
            CauseKind::NodeNotReady | CauseKind::CannotStop | CauseKind::NotCreated
                if is_down_since_before(node, pod.filter(|_| !outdated)) =>
            {
                Some(SetAside::Down)
            }
            // Of a node that joined long ago, nothing is said once its pod is stuck.
            _ if !outdated && !cause.is_stuck() && self.joined_later(node) => {
                Some(SetAside::Joined)
            }
            _ => None,
        }
    }

    /// The sign by which the node leaves the cluster or refuses pods, of those of the policy.
    pub(super) fn sign_of_leaving(&self, node: &NodeDetail) -> Option<String> {
        let sign = |absent: &Absent| absent.sign(&node.node).map(str::to_owned);
        match self.daemon_set().policy.valid() {
            Some(policy) => sign(&policy.absent),
            None => sign(&Absent::by_default()),
        }
    }

    /// True if the node was created after the current template came.
    fn joined_later(&self, node: &NodeDetail) -> bool {
        self.template_came_at().is_some_and(|at| node.node.created > at)
    }

    /// When the rollout of the current template began; `None` if no revision stores it.
    fn template_came_at(&self) -> Option<Timestamp> {
        let daemon_set = self.daemon_set();
        let mut revisions = self.snapshot().revisions_of(&daemon_set.key).into_iter();
        let current = revisions.rfind(|revision| revision.stores(&daemon_set.template))?;
        match &current.record {
            RecordState::Stored(record) if is_stated_guarded(daemon_set) => Some(record.began),
            _ => {
                let key = (daemon_set.key.namespace.clone(), current.name.clone());
                // A template that comes back has a revision that is older than its rollout.
                self.snapshot().revision_changes.get(&key)?.spec_at
            }
        }
    }
}

/// True if the node is not ready, and its pod of the current revision, if any, was created only
/// then: the revision has nothing to do with it.
fn is_down_since_before(node: &NodeDetail, new_pod: Option<&PodDetail>) -> bool {
    let is_later = |since| new_pod.is_none_or(|it| it.pod.creation_timestamp >= since);
    node.node.not_ready_since().is_some_and(is_later)
}

impl Rollout {
    /// The nodes that the end of the rollout does not wait for, such as `set aside: 1 down
    /// (node-3), 1 leaving (node-4: DiskPressure)`; empty if there are none.
    pub fn set_aside_text(&self) -> String {
        let mut nodes: BTreeMap<(SetAside, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
        for held_up in self.held_up.iter().filter(|held_up| held_up.desired) {
            if let (Some(why), Some(node)) = (held_up.set_aside, &held_up.node) {
                let why = (why, held_up.leaving_by.as_deref());
                nodes.entry(why).or_default().insert(node.as_str());
            }
        }
        let mut parts = Vec::new();
        for ((why, sign), nodes) in nodes {
            let names = names::shortened(nodes.iter().copied(), NAMES_WIDTH_MAX);
            let sign = sign.map(|sign| format!(": {sign}")).unwrap_or_default();
            parts.push(format!("{} {} ({names}{sign})", nodes.len(), why.as_str()));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("set aside: {}", parts.join(", ")),
        }
    }
}
