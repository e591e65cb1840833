//! The decisions of a replica: those of the controller's event loop, with checks and, in tests, a
//! deliberate bug.

use std::sync::Arc;

use everynode_controller::event::Event;
use everynode_controller::event_loop::{Decisions, LoopState, Task};
use everynode_controller::recorder::Occurrence;
use everynode_core::api::{Now, Timestamp};
use tokio::sync::mpsc;

use crate::checker::{Property, Violation};
use crate::journal;
use crate::machine::Clocks;
use crate::mutation::{Forgetting, Mutation};
use crate::network::{Views, lock};
use crate::open_nodes;
use crate::role::Role;
use crate::view::{Planner, Times, ViewRecorder};

/// The decisions of one replica.
pub(crate) struct CheckedDecisions {
    /// The number of the replica.
    pub replica: u64,
    /// What the replica does.
    pub role: Role,
    /// Makes the decisions.
    pub state: LoopState,
    /// The deliberate bug.
    pub mutation: Option<Mutation>,
    /// What a deliberate bug makes the replica forget.
    pub forgetting: Forgetting,
    /// The clocks of the replica.
    pub clocks: Clocks,
    /// Maximum number of pods that a plan creates, and of those that it deletes.
    pub burst: usize,
    /// What the replica has seen and planned.
    pub recorder: ViewRecorder,
    /// Takes the view of each plan.
    pub views: Views,
    /// The Kubernetes Events that the replica records.
    pub occurrences: mpsc::Receiver<Occurrence>,
}

impl Decisions for CheckedDecisions {
    fn process(&mut self, events: &mut Vec<Event>, now: Now) -> Vec<Task> {
        if self.mutation.is_some_and(|mutation| mutation.skips(events)) {
            events.clear();
            return Vec::new();
        }
        let believed_now = self.mutation.map_or(now, |mutation| mutation.now(now));
        for event in &mut *events {
            self.observe(event);
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
        self.note_open_nodes();
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
                let times = Times {
                    planned_at: self.clocks.now(),
                    wall_clock: self.clocks.wall_clock(),
                    followed_clock: planned_at.to_wall(planned_at.steady),
                };
                let open = match self.role {
                    Role::Controller | Role::Beside => open_nodes::noted(&raw.uid.to_string()),
                    Role::BuiltIn => Arc::default(),
                };
                let planner = Planner { replica: self.replica, role: self.role, burst: self.burst };
                let view = self.recorder.view(planner, raw, plan, times, open);
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
                journal::log(|| {
                    let mut text = format!("replica {} sees {observation:?}", self.replica);
                    text.truncate(text.floor_char_boundary(160));
                    text
                });
            }
            Event::Written { result, .. } => {
                if let Some(mutation) = self.mutation {
                    mutation.result(result);
                }
            }
            Event::Executed { .. }
            | Event::Connected
            | Event::OrphansListed(_)
            | Event::PolicyStatusWritten { .. } => {}
            Event::CheckAnswered { answer, .. } => {
                if let Some(Mutation::Guarded(mutation)) = self.mutation {
                    mutation.answer(answer);
                }
            }
        }
    }

    /// Notes which nodes are open to each rollout.
    fn note_open_nodes(&self) {
        if self.role == Role::BuiltIn {
            return;
        }
        let index = &self.state.index;
        for state in index.keys().filter_map(|key| index.state(&key)) {
            let open = state.open_nodes(index.nodes()).map(ToString::to_string).collect();
            open_nodes::note(&state.daemon_set().uid.to_string(), open);
        }
    }

    /// Checks that the counts and work sets equal recomputed ones right after a plan (C80).
    fn recount_violation(&self, task: &Task, now: Now) -> Option<Violation> {
        let Task::Execute { raw, .. } = task else { return None };
        let state = self.state.index.state(&raw.key)?;
        if state.is_consistent(now, self.state.index.nodes()) {
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

    /// Logs the Kubernetes Events. An expectation that lapses is a violation (C60).
    fn check_occurrences(&mut self) {
        while let Ok(occurrence) = self.occurrences.try_recv() {
            journal::log(|| format!("event {}: {}", occurrence.reason, occurrence.note));
            if occurrence.reason == "ExpectationLapsed" {
                let message = format!("{}: {}", occurrence.regarding.name, occurrence.note);
                journal::report(Violation { property: Property::ExpectationLapse, message });
            }
        }
    }
}
