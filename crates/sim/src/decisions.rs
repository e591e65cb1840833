//! The decisions of a replica: those of the controller's event loop, with checks and, in tests, a
//! deliberate bug.

use std::collections::BTreeMap;

use everynode_controller::event::Event;
use everynode_controller::event_loop::{Decisions, LoopState, Task};
use everynode_core::api::{DaemonSetKey, Now, Timestamp, Uid};
use everynode_core::plan::Outcome;

use crate::checker::{Property, Violation};
use crate::event_ledger::EventLedger;
use crate::journal;
use crate::machine::{CLOCK_TOLERANCE_MS, Clocks};
use crate::mutation::{Forgetting, Mutation};
use crate::network::{Views, lock};
use crate::role::Role;
use crate::seen;
use crate::statement::{self, Statement, Statements};
use crate::view::{Idle, Planner, Times, ViewRecorder};

/// Maximum delay of a timer.
const TIMER_DELAY_MAX_MS: i64 = 5;

/// The decisions of one replica.
pub(crate) struct CheckedDecisions {
    /// The number of the replica.
    pub replica: u64,
    /// The role of the replica.
    pub role: Role,
    /// Makes the decisions.
    pub state: LoopState,
    /// The deliberate bug.
    pub mutation: Option<Mutation>,
    /// The observations that a deliberate bug makes the replica forget.
    pub forgetting: Forgetting,
    /// The clocks of the replica.
    pub clocks: Clocks,
    /// When events were last processed.
    pub processed_at: Timestamp,
    /// The DaemonSets for which the last plan has failed, or the one in execution has.
    pub failed: BTreeMap<DaemonSetKey, FailedPlan>,
    /// The observations and plans of the replica.
    pub recorder: ViewRecorder,
    /// The statements of the replica about each DaemonSet.
    pub statements: Statements,
    /// Takes the view of each plan.
    pub views: Views,
    /// The Kubernetes Events that the replica records.
    pub event_ledger: EventLedger,
}

/// Which plan for a DaemonSet has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailedPlan {
    /// The one that is executed.
    InExecution,
    /// The last one that was executed.
    Last,
}

impl Decisions for CheckedDecisions {
    fn process(&mut self, events: &mut Vec<Event>, now: Now) -> Vec<Task> {
        self.note_idle(now);
        self.check_occurrences();
        if self.mutation.is_some_and(|mutation| mutation.skips(events)) {
            events.clear();
            return Vec::new();
        }
        let believed_now = self.mutation.map_or(now, |mutation| mutation.now(now));
        for event in &mut *events {
            self.observe(event);
        }
        let mutation = self.mutation;
        let overlooks = |event: &mut Event| mutation.is_some_and(|bug| bug.overlooks(event));
        for event in events.extract_if(.., overlooks) {
            let Event::Observed(observation) = event else { continue };
            // Nothing is planned for what it changes.
            self.state.index.observe(observation);
        }
        let mut late = events.pop_if(|event| match (self.mutation, event) {
            (Some(mutation), Event::Observed(observation)) => mutation.applies_late(observation),
            _ => false,
        });
        let forgotten =
            self.mutation.and_then(|bug| self.forgetting.forget(bug, believed_now.steady));
        let truth = forgotten.map(|[belief, truth]| {
            events.push(Event::Observed(belief));
            truth
        });
        let mut tasks = self.state.process(events.drain(..), believed_now);
        let planned_at = Now { wall_ahead_ms: self.state.wall_ahead_ms, ..now };
        self.update_statements();
        if let Some(truth) = truth {
            self.state.index.observe(truth);
        }
        if let Some(Event::Observed(observation)) = late.take() {
            self.state.index.observe(observation);
        }
        for task in &mut tasks {
            if let Task::Execute { plan, raw } = task {
                if let Some(mutation) = self.mutation {
                    mutation.plan(plan);
                }
                for write in &plan.writes {
                    journal::log(|| {
                        format!("replica {}: {} plans: {write}", self.replica, raw.key)
                    });
                }
                let subject = self.subject(&raw.uid);
                let view = self.recorder.view(self.planner(self.times(planned_at)), subject, plan);
                lock(&self.views).insert(raw.key.clone(), view);
            }
        }
        tasks
            .iter()
            .filter_map(|task| self.recount_violation(task, planned_at))
            .for_each(journal::report);
        self.check_occurrences();
        tasks
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let at = self.state.next_deadline()?;
        match self.mutation {
            Some(mutation) => mutation.deadline(at),
            None => Some(at),
        }
    }
}

impl CheckedDecisions {
    fn observe(&mut self, event: &mut Event) {
        self.recorder.record(event, self.clocks.now());
        if self.mutation.is_some() {
            self.forgetting.record(event);
        }
        match event {
            Event::Observed(observation) => {
                let number = self.replica;
                journal::log(|| format!("replica {number} sees {}", seen::line(observation)));
            }
            Event::Written { key, result, .. } => {
                let problem = self.event_ledger.settle(key, result);
                self.report_event(key, problem);
                if let Some(mutation) = self.mutation {
                    mutation.result(result);
                }
                if matches!(result.outcome, Outcome::Failed { .. } | Outcome::Unknown { .. }) {
                    self.failed.insert(key.clone(), FailedPlan::InExecution);
                }
            }
            Event::Executed { key, .. } => {
                let problem = self.event_ledger.close(key);
                self.report_event(key, problem);
                if let Some(FailedPlan::InExecution) = self.failed.remove(key) {
                    self.failed.insert(key.clone(), FailedPlan::Last);
                }
            }
            Event::ConfigMapsObserved { change, .. } => {
                let (number, version) = (self.replica, change.version().0);
                journal::log(|| format!("replica {number} sees ConfigMaps up to {version}"));
            }
            Event::Connected | Event::OrphansListed(_) | Event::PolicyStatusWritten { .. } => {}
            Event::CheckAnswered { question, answer } => {
                let (number, wall) = (self.replica, question.asked_wall);
                let (wave, check) = (&question.wave, &question.check.name);
                let verdict = answer.verdict;
                journal::log(|| {
                    format!(
                        "replica {number} learns of check {check} of wave {wave}, asked at \
                         {wall:?}: {verdict:?}"
                    )
                });
                if let Some(Mutation::Guarded(mutation)) = self.mutation {
                    mutation.answer(answer);
                }
            }
        }
    }

    fn times(&self, now: Now) -> Times {
        Times {
            planned_at: self.clocks.now(),
            wall_clock: self.clocks.wall_clock(),
            followed_clock: now.to_wall(now.steady),
        }
    }

    /// True if the replica has nothing to do for a DaemonSet, as it believes. A plan that failed is
    /// made again later.
    fn is_idle(&self, key: &DaemonSetKey) -> bool {
        self.state.is_idle(key) && !self.failed.contains_key(key)
    }

    fn planner(&self, times: Times) -> Planner {
        Planner { replica: self.replica, role: self.role, times }
    }

    /// A DaemonSet, and what the replica states of it.
    fn subject<'a>(&self, uid: &'a Uid) -> (&'a Uid, Statement) {
        (uid, self.statements.get(uid).cloned().unwrap_or_default())
    }

    /// Notes the DaemonSets for which the replica had nothing to do until just before now, as it
    /// believed. Whatever it had left undone before, and what a late timer should have started, is
    /// still undone then.
    fn note_idle(&mut self, now: Now) {
        let times = self.times(Now { wall_ahead_ms: self.state.wall_ahead_ms, ..now });
        let before = times.earlier(TIMER_DELAY_MAX_MS);
        let waited_ms = before.planned_at.0 - self.processed_at.0;
        self.processed_at = times.planned_at;
        // It does not know yet that its wall clock was set.
        let ahead_ms = times.wall_clock.0 - times.followed_clock.0;
        let was_set = ahead_ms.abs() >= CLOCK_TOLERANCE_MS;
        if waited_ms <= 0 || was_set {
            return;
        }
        let idle: Vec<DaemonSetKey> =
            self.state.index.keys().filter(|key| self.is_idle(key)).collect();
        for key in &idle {
            let Some(state) = self.state.index.state(key) else { continue };
            let subject = self.subject(&state.daemon_set().uid);
            let view = self.recorder.idle_view(self.planner(before), subject);
            journal::note_idle(Idle { view, waited_ms });
        }
    }

    /// Updates what the replica states of each DaemonSet, and publishes what it states of rollouts.
    fn update_statements(&mut self) {
        let index = &self.state.index;
        let states = index.keys().filter_map(|key| index.state(&key));
        let now = (self.clocks.now(), self.recorder.feeds());
        let statements = states.map(|state| {
            let uid = &state.daemon_set().uid;
            let before = self.statements.get(uid);
            (uid.clone(), Statement::of(state, index.nodes(), before, now))
        });
        self.statements = statements.collect();
        if self.role != Role::BuiltIn {
            statement::publish(&self.statements);
        }
    }

    /// Checks that the counts and work sets equal recomputed ones right after a plan (C80).
    fn recount_violation(&self, task: &Task, now: Now) -> Option<Violation> {
        let Task::Execute { raw, .. } = task else { return None };
        let state = self.state.index.state(&raw.key)?;
        // Of one that is being deleted nothing is counted.
        if state.daemon_set().terminating || state.is_consistent(now, self.state.index.nodes()) {
            return None;
        }
        let message = format!(
            "{}: counts or work sets differ from recomputed ones: {:?}, recomputed {:?}",
            raw.key,
            state.counts(),
            state.recount(now),
        );
        Some(Violation { property: Property::Recount, message })
    }

    /// Logs and judges the Kubernetes Events. An expectation that lapses is a violation (C60).
    fn check_occurrences(&mut self) {
        while let Some(occurrence) = self.event_ledger.next() {
            let recorded = match self.mutation {
                Some(mutation) => mutation.event(occurrence),
                None => Some(occurrence),
            };
            let Some(occurrence) = recorded else { continue };
            journal::log(|| format!("event {}: {}", occurrence.reason, occurrence.note));
            if occurrence.reason == "ExpectationLapsed" {
                let message = format!("{}: {}", occurrence.regarding.name, occurrence.note);
                journal::report(Violation { property: Property::ExpectationLapse, message });
            }
            if self.judges_events() {
                self.event_ledger.record(&occurrence);
                journal::note_event(occurrence);
            }
        }
    }

    fn judges_events(&self) -> bool {
        self.mutation.is_none_or(Mutation::is_of_events)
    }

    /// Reports what is wrong with the Events about writes of a DaemonSet.
    fn report_event(&self, key: &DaemonSetKey, problem: Option<String>) {
        if let Some(problem) = problem.filter(|_| self.judges_events()) {
            let message = format!("{key}: {problem}");
            journal::report(Violation { property: Property::Event, message });
        }
    }
}
