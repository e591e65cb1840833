//! On how many nodes a guarded rollout begins within a minute (G5), by what took effect.

use everynode_core::api::Timestamp;

use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::{Eligibility, Pod};
use super::situation::Situation;
use super::{PendingWrite, Property, Violation, in_place, violation};
use crate::view::View;
use everynode_sandbox::kinds::POD;

const MINUTE_MS: i64 = 60_000;
/// Clocks that differ by less tell when a pod was created.
const CLOCK_TOLERANCE_MS: i64 = 1_000;

/// The beginnings that have taken effect.
#[derive(Debug, Default)]
pub(super) struct Beginnings(Vec<Beginning>);

/// The beginning of a rollout on a node: its old pod is deleted, or a new one is created beside it.
#[derive(Debug)]
struct Beginning {
    daemon_set: String,
    node: String,
    at: Timestamp,
    replica: u64,
    /// The version after which it shows.
    version: u64,
    /// The UID of the deleted pod, or the name of the created one.
    pod: Subject,
}

#[derive(Debug)]
enum Subject {
    Deleted(String),
    Created(String),
    /// Changed in place.
    Changed(String),
}

impl Beginnings {
    /// Judges a write of a pod before it takes effect.
    pub(super) fn check(
        &mut self,
        write: &PendingWrite,
        view: &View,
        plan: &JudgedPlan,
        history: &History,
    ) -> Option<Violation> {
        let (node, pod) = begun(write, plan)?;
        let situation = Situation::of(view, history)?;
        let limit = situation.ds.policy.valid()?.pods_per_minute?;
        let since = Timestamp(write.now.0 - MINUTE_MS);
        let daemon_set = &view.daemon_set;
        self.0.retain(|begun| begun.at > since);
        let has_counted = |begun: &&Beginning| {
            begun.daemon_set == *daemon_set
                && begun.node != node
                && begun.took_effect(history)
                && (begun.replica == view.replica || begun.is_seen(view, &situation))
        };
        let mut nodes: Vec<&str> =
            self.0.iter().filter(has_counted).map(|begun| begun.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let before = nodes.len();
        let message = format!(
            "{}: a rollout begins on {node}, although it has begun on {nodes:?} within a minute, \
             {limit} allowed",
            situation.ds.metadata.name
        );
        if !write.arrives_late {
            self.0.push(Beginning {
                daemon_set: daemon_set.clone(),
                node,
                at: write.now,
                replica: view.replica,
                version: write.store.resource_version(),
                pod,
            });
        }
        (before >= limit && !write.arrives_late).then(|| violation(Property::Pace, message))?
    }
}

impl Beginning {
    /// True if the server has not refused it.
    fn took_effect(&self, history: &History) -> bool {
        match &self.pod {
            Subject::Deleted(uid) => {
                history.pods.newest(uid).is_none_or(|pod| pod.metadata.is_terminating)
            }
            Subject::Changed(uid) => {
                history.pods.of(uid).any(|(at, pod)| at > self.version && pod.change.is_some())
            }
            Subject::Created(name) => {
                history.pods.states().any(|(_, pod)| pod.metadata.name == *name)
            }
        }
    }

    /// True if pods have shown another replica that the rollout began there: an old pod ends, none
    /// is left, or a new one is there. A replica whose clock is wrong does not know how new it is.
    fn is_seen(&self, view: &View, situation: &Situation) -> bool {
        let Some(on_node) = situation.nodes.get(self.node.as_str()) else { return false };
        let is_clock_right =
            (view.followed_clock.0 - view.planned_at.0).abs() <= CLOCK_TOLERANCE_MS;
        let is_new = |pod: &Pod| pod.created().is_some_and(|at| at.0 >= self.at.0 - 1_000);
        let is_ending = on_node.pods.iter().any(|our| our.pod.metadata.is_terminating);
        let has_none =
            on_node.eligibility == Eligibility::ShouldRun && on_node.occupants().next().is_none();
        let is_changing = on_node.pods.iter().any(|our| our.pod.change.is_some());
        self.version < view.feeds.pods
            && is_clock_right
            && (is_ending
                || is_changing
                || has_none
                || on_node.pods.iter().any(|our| is_new(our.pod)))
    }
}

/// On which node the rollout begins with a write, if it does.
fn begun(write: &PendingWrite, plan: &JudgedPlan) -> Option<(String, Subject)> {
    if write.creates(&POD) {
        let created = Pod::parse(write.body);
        let node = created.node()?.to_owned();
        let reason = plan.creations.get(&node)?;
        return reason.begins().then(|| (node, Subject::Created(created.metadata.name.clone())));
    }
    let changed = in_place::begun(write);
    let stored = write.object().filter(|_| write.deletes(&POD) || changed.is_some())?;
    let uid = stored.uid().to_owned();
    let pod = Pod::parse(&stored.read());
    if changed.is_some() {
        let begins = plan.changes.get(&uid).is_some_and(|reason| reason.begins());
        let is_first = pod.change.is_none() && write.uid_precondition() == Some(&uid);
        let node = pod.node().filter(|_| begins && is_first)?.to_owned();
        return Some((node, Subject::Changed(uid)));
    }
    let is_first = !pod.metadata.is_terminating && write.uid_precondition() == Some(&uid);
    let begins = plan.deletions.get(&uid).is_some_and(|reason| reason.begins());
    (begins && is_first).then(|| Some((pod.node()?.to_owned(), Subject::Deleted(uid))))?
}
