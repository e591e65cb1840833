//! One pod on its node: its containers in their order, and what becomes of the whole (S22). Pure.

use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::container::{Container, Happening, Host, Look, Role, State};

/// The containers of one pod.
#[derive(Clone, Debug)]
pub struct PodRun {
    /// Init containers first, each list in the pod's order.
    pub containers: Vec<Container>,
    pub started_at: Timestamp,
    pub pod_ip: Option<Arc<str>>,
}

/// An event of one of the containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub container: usize,
    pub happening: Happening,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        }
    }

    pub fn is_terminal(self) -> bool {
        match self {
            Phase::Pending | Phase::Running => false,
            Phase::Succeeded | Phase::Failed => true,
        }
    }
}

impl PodRun {
    /// Does everything that is due by `now`.
    pub fn advance(&mut self, now: Timestamp, host: &mut Host<'_>, notes: &mut Vec<Note>) {
        let mut happenings = Vec::new();
        loop {
            let mut moved = false;
            for index in 0..self.containers.len() {
                let may_begin = self.may_begin(index);
                let container = &mut self.containers[index];
                if container.state == State::Waiting && may_begin {
                    container.begin(now, host, &mut happenings);
                    moved = true;
                }
                moved |= container.step(now, host, &mut happenings);
                let noted =
                    happenings.drain(..).map(|happening| Note { container: index, happening });
                notes.extend(noted);
            }
            if !moved {
                return;
            }
        }
    }

    fn may_begin(&self, index: usize) -> bool {
        let before = match self.containers[index].role {
            Role::Init | Role::Sidecar => &self.containers[..index],
            Role::Main => &self.containers[..],
        };
        before.iter().all(Container::lets_next_start)
    }

    /// What a status shows of the run: two runs that look alike need no second report.
    pub fn appearance(&self) -> Vec<Look> {
        self.containers.iter().map(Container::look).collect()
    }

    /// When something happens next of itself.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.phase().is_terminal() {
            return None;
        }
        self.containers.iter().filter_map(Container::deadline).min()
    }

    pub fn initialized(&self) -> bool {
        self.containers.iter().all(Container::lets_next_start)
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |container| container.role == role)
    }

    pub fn phase(&self) -> Phase {
        let exit_code = |container: &Container| match &container.state {
            State::Exited(exit) => Some(exit.code),
            _ => None,
        };
        if self.of_role(Role::Init).any(|container| exit_code(container).is_some_and(|c| c != 0)) {
            return Phase::Failed;
        }
        if !self.initialized() && self.of_role(Role::Main).all(|c| c.state == State::Waiting) {
            return Phase::Pending;
        }
        let exits: Vec<Option<i32>> = self.of_role(Role::Main).map(exit_code).collect();
        match exits.iter().copied().collect::<Option<Vec<i32>>>() {
            Some(codes) if codes.iter().all(|code| *code == 0) => Phase::Succeeded,
            Some(_) => Phase::Failed,
            None if self.of_role(Role::Main).any(has_run) => Phase::Running,
            None => Phase::Pending,
        }
    }

    /// How long the pod takes to stop, at most `grace_ms`.
    pub fn stop_time(&self, grace_ms: i64, host: &mut Host<'_>) -> i64 {
        self.containers.iter().map(|c| c.stop_time(grace_ms, host.rng)).max().unwrap_or(0)
    }

    pub fn stop(&mut self, now: Timestamp) {
        self.containers.iter_mut().for_each(|container| container.stop(now));
    }
}

fn has_run(container: &Container) -> bool {
    match &container.state {
        State::Running(_) | State::CrashLoopBackOff { .. } | State::Exited(_) => true,
        State::Waiting
        | State::Pulling { .. }
        | State::PullFailed { .. }
        | State::Starting { .. }
        | State::StartFailed { .. } => container.last_exit.is_some(),
    }
}
