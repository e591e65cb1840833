//! The view of a replica: what it had seen when it made a plan. Every request of the plan is
//! stamped with it, so that the checkers can judge the request by what its sender knew.

use std::sync::Arc;

use everynode_controller::event::Event;
use everynode_controller::observation::Observation;
use everynode_controller::watch::Change;
use everynode_core::api::{CheckVerdict, Timestamp, Uid};
use everynode_core::plan::{CheckQuestion, Outcome, Plan, Write, WriteResult};

use crate::feeds::Feeds;
use crate::role::Role;
use crate::statement::Statement;

/// Longer than the controller waits until it sees a write (C60), and than it delays creations
/// (C28).
const OUTCOMES_KEPT_MS: i64 = 20 * 60_000;
/// Longer than clocks are wrong, and than rollouts wait for a person.
const ANSWERS_KEPT_MS: i64 = 24 * 60 * 60_000;

/// The knowledge of a replica when it made a plan, and the plan.
#[derive(Debug)]
pub struct View {
    /// The number of the replica.
    pub replica: u64,
    /// The role of the replica.
    pub role: Role,
    /// The number of the plan among those of the replica, from 1.
    pub plan: u64,
    /// The replica's last plan before this one that writes pods.
    pub previous: Option<Arc<View>>,
    /// The UID of the DaemonSet that the plan is for.
    pub daemon_set: String,
    /// When the plan was made.
    pub planned_at: Timestamp,
    /// The same by the replica's wall clock.
    pub wall_clock: Timestamp,
    /// The wall clock as the replica follows it: it ignores small adjustments.
    pub followed_clock: Timestamp,
    /// The statement of the replica about the DaemonSet.
    pub stated: Statement,
    /// The watches.
    pub feeds: Feeds,
    /// The outcomes of the replica's earlier writes of pods and records of this DaemonSet, in their
    /// order.
    pub outcomes: Vec<WriteOutcome>,
    /// The answers to checks that the replica has got, in their order (G5).
    pub answers: Arc<Vec<KnownAnswer>>,
    /// The writes of the plan.
    pub writes: Vec<Write>,
    /// True if the controller plans nothing new, because it has not seen an earlier write (C60).
    pub is_waiting: bool,
}

/// The knowledge of a replica that had nothing to do for a DaemonSet, as it believed.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Its knowledge, with no writes.
    pub view: View,
    /// For how long it had done nothing.
    pub waited_ms: i64,
}

/// The outcome of a write of a pod or of a record.
#[derive(Clone, Debug)]
pub struct WriteOutcome {
    /// The UID of the DaemonSet.
    pub daemon_set: String,
    /// The write, with its outcome.
    pub result: WriteResult,
    /// When the outcome arrived.
    pub arrived_at: Timestamp,
    /// The version that the watch of DaemonSets had reached then.
    pub daemon_sets: u64,
    /// The version that the watch of pods had reached then.
    pub pods: u64,
}

/// An answer to a check.
#[derive(Clone, Debug)]
pub struct KnownAnswer {
    /// The question.
    pub question: CheckQuestion,
    /// The verdict of the answer.
    pub verdict: CheckVerdict,
    /// When the replica got it: the simulated environment answers at once.
    pub answered_at: Timestamp,
    /// The version that the watch of DaemonSets had reached then.
    pub daemon_sets: u64,
}

impl KnownAnswer {
    /// True if it is one to this check.
    pub(crate) fn is_of(&self, check: &str) -> bool {
        *self.question.check.name == *check
    }
}

/// Who makes a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner {
    /// The number of the replica.
    pub replica: u64,
    /// The role of the replica.
    pub role: Role,
    /// The times of its clocks.
    pub times: Times,
}

/// The times that the clocks of a replica show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The time.
    pub planned_at: Timestamp,
    /// The same by the wall clock.
    pub wall_clock: Timestamp,
    /// The same by the wall clock as the replica follows it.
    pub followed_clock: Timestamp,
}

impl Times {
    pub(crate) fn earlier(self, by_ms: i64) -> Self {
        let earlier = |time: Timestamp| Timestamp(time.0 - by_ms);
        Self {
            planned_at: earlier(self.planned_at),
            wall_clock: earlier(self.wall_clock),
            followed_clock: earlier(self.followed_clock),
        }
    }
}

/// Records what a replica sees and plans.
#[derive(Debug, Default)]
pub(crate) struct ViewRecorder {
    feeds: Feeds,
    outcomes: Vec<WriteOutcome>,
    answers: Arc<Vec<KnownAnswer>>,
    plans: u64,
    last: Option<Arc<View>>,
}

impl ViewRecorder {
    /// Records an event before the event loop gets it.
    pub(crate) fn record(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::Observed(Observation::Node(change)) => {
                advance(&mut self.feeds.nodes, change);
            }
            Event::Observed(Observation::DaemonSet(change)) => {
                advance(&mut self.feeds.daemon_sets, change);
            }
            Event::Observed(Observation::Pod(change)) => {
                advance(&mut self.feeds.pods, change);
                if let Change::Reset { version, .. } = change {
                    self.feeds.pods_listed = version.0;
                }
            }
            Event::Observed(Observation::Revision(change)) => {
                advance(&mut self.feeds.revisions, change);
            }
            Event::Written { uid, result, .. } => {
                if is_pod_write(&result.write) || matches!(result.write, Write::WriteRecord { .. })
                {
                    let (daemon_set, result) = (uid.to_string(), result.clone());
                    // What the API server refuses to change is not tried again (G56).
                    let is_recent = |old: &WriteOutcome| {
                        now.0 - old.arrived_at.0 <= OUTCOMES_KEPT_MS
                            || matches!(old.result.outcome, Outcome::CannotChange { .. })
                    };
                    self.outcomes.retain(is_recent);
                    let Feeds { daemon_sets, pods, .. } = self.feeds;
                    self.outcomes.push(WriteOutcome {
                        daemon_set,
                        result,
                        arrived_at: now,
                        daemon_sets,
                        pods,
                    });
                }
            }
            Event::Observed(Observation::Namespace(change)) => {
                advance(&mut self.feeds.namespaces, change);
            }
            Event::ConfigMapsObserved { change, .. } => {
                advance(&mut self.feeds.config_maps, change);
            }
            Event::OrphansListed(_)
            | Event::Executed { .. }
            | Event::Connected
            | Event::Observed(
                Observation::RolloutPolicy(_) | Observation::ClusterRolloutPolicy(_),
            )
            | Event::PolicyStatusWritten { .. } => {}
            Event::CheckAnswered { question, answer } => {
                let (question, verdict) = (CheckQuestion::clone(question), answer.verdict);
                let answers = Arc::make_mut(&mut self.answers);
                let is_recent = |old: &KnownAnswer| now.0 - old.question.asked.0 <= ANSWERS_KEPT_MS;
                answers.retain(is_recent);
                let Feeds { daemon_sets, .. } = self.feeds;
                answers.push(KnownAnswer { question, verdict, answered_at: now, daemon_sets });
            }
        }
    }

    /// The versions that the watches have reached.
    pub(crate) const fn feeds(&self) -> Feeds {
        self.feeds
    }

    /// The view of a plan that is about to be executed.
    pub(crate) fn view(
        &mut self,
        planner: Planner,
        (uid, stated): (&Uid, Statement),
        plan: &Plan,
    ) -> Arc<View> {
        self.plans += 1;
        let mut view = self.idle_view(planner, (uid, stated));
        view.writes.clone_from(&plan.writes);
        view.is_waiting = plan.waiting.is_some();
        let view = Arc::new(view);
        if plan.writes.iter().any(is_pod_write) {
            self.last = Some(view.clone());
        }
        view
    }

    /// The view of a replica that has nothing to do for a DaemonSet: it writes nothing, and its
    /// number is that of the last plan.
    pub(crate) fn idle_view(&mut self, planner: Planner, (uid, stated): (&Uid, Statement)) -> View {
        let Planner { replica, role, times } = planner;
        let daemon_set = uid.to_string();
        let outcomes = self.outcomes.iter().filter(|outcome| outcome.daemon_set == daemon_set);
        View {
            replica,
            role,
            plan: self.plans,
            previous: self.last.clone(),
            outcomes: outcomes.cloned().collect(),
            daemon_set,
            planned_at: times.planned_at,
            wall_clock: times.wall_clock,
            followed_clock: times.followed_clock,
            stated,
            feeds: self.feeds,
            answers: self.answers.clone(),
            writes: Vec::new(),
            is_waiting: false,
        }
    }
}

/// Advances the version that a watch has reached. A list replaces what the watch has shown.
fn advance<T>(reached: &mut u64, change: &Change<T>) {
    let version = change.version().0;
    if version > *reached || matches!(change, Change::Reset { .. }) {
        *reached = version;
    }
}

impl Drop for View {
    /// Drops the earlier plans one by one: their number must not be limited by the stack.
    fn drop(&mut self) {
        let mut next = self.previous.take();
        while let Some(view) = next {
            next = Arc::into_inner(view).and_then(|mut view| view.previous.take());
        }
    }
}

pub(crate) fn is_pod_write(write: &Write) -> bool {
    matches!(write, Write::CreatePod(_) | Write::DeletePod(_) | Write::ChangePod(_))
}
