//! A pod on its node: the order of its containers, and its phase (S22). Pure.

use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::container::{
    Container, ContainerEvent, ContainerRole, ContainerState, Runtime, VisibleState,
};
use super::resize_state::{ResizeProgress, ResizeState};

/// The containers of one pod.
#[derive(Clone, Debug)]
pub(crate) struct PodRun {
    /// Init containers first, both lists in the order of the spec.
    pub containers: Vec<Container>,
    pub started_at: Timestamp,
    pub pod_ip: Option<Arc<str>>,
    pub resize: ResizeState,
}

/// An event of one container of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEvent {
    pub container: usize,
    pub event: ContainerEvent,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl PodPhase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Succeeded | Self::Failed => true,
        }
    }
}

impl PodRun {
    /// Makes all changes of state that are due by `now`.
    pub(crate) fn advance(
        &mut self,
        now: Timestamp,
        runtime: &mut Runtime<'_>,
        pod_events: &mut Vec<PodEvent>,
    ) {
        let mut events = Vec::new();
        loop {
            let mut moved = false;
            for index in 0..self.containers.len() {
                let may_begin = self.may_begin(index);
                let container = &mut self.containers[index];
                if container.state == ContainerState::Waiting && may_begin {
                    container.pull_or_start(now, runtime, &mut events);
                    moved = true;
                }
                moved |= container.step(now, runtime, &mut events);
                let noted = events.drain(..).map(|event| PodEvent { container: index, event });
                pod_events.extend(noted);
            }
            if !moved {
                return;
            }
        }
    }

    fn may_begin(&self, index: usize) -> bool {
        let before = match self.containers[index].role {
            ContainerRole::Init | ContainerRole::Sidecar => &self.containers[..index],
            ContainerRole::Main => &self.containers[..],
        };
        before.iter().all(Container::allows_next_to_start)
    }

    /// The states that the pod's status shows: as long as they are equal, no report is needed.
    pub(crate) fn visible_states(&self) -> Vec<VisibleState> {
        self.containers.iter().map(Container::visible_state).collect()
    }

    /// The time of the next change of state that needs no outside cause.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        if self.phase().is_terminal() {
            return None;
        }
        let resize = self.resize.deadline().into_iter();
        self.containers.iter().filter_map(Container::deadline).chain(resize).min()
    }

    /// True if the regular containers may start, or have: sidecars may restart later.
    pub(crate) fn initialized(&self) -> bool {
        self.containers.iter().all(Container::allows_next_to_start)
            || self.of_role(ContainerRole::Main).any(has_run)
    }

    /// Ends the resize that is in progress if each running container has what was granted. Returns
    /// the generation of the resize.
    pub(crate) fn finish_resize(&mut self) -> Option<i64> {
        let is_due = |progress: &mut ResizeProgress| progress.actuate_at.is_none();
        let has_all = |c: &Container| c.running().is_none() || c.actual == c.allocated;
        if !self.containers.iter().all(has_all) {
            return None;
        }
        self.resize.progress.take_if(is_due).map(|progress| progress.generation)
    }

    fn of_role(&self, role: ContainerRole) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |container| container.role == role)
    }

    pub(crate) fn phase(&self) -> PodPhase {
        let exit_code = |container: &Container| match &container.state {
            ContainerState::Exited(exit) => Some(exit.code),
            _ => None,
        };
        if self
            .of_role(ContainerRole::Init)
            .any(|container| exit_code(container).is_some_and(|c| c != 0))
        {
            return PodPhase::Failed;
        }
        if !self.initialized()
            && self.of_role(ContainerRole::Main).all(|c| c.state == ContainerState::Waiting)
        {
            return PodPhase::Pending;
        }
        let exits: Vec<Option<i32>> = self.of_role(ContainerRole::Main).map(exit_code).collect();
        match exits.iter().copied().collect::<Option<Vec<i32>>>() {
            Some(codes) if codes.iter().all(|code| *code == 0) => PodPhase::Succeeded,
            Some(_) => PodPhase::Failed,
            None if self.of_role(ContainerRole::Main).any(has_run) => PodPhase::Running,
            None => PodPhase::Pending,
        }
    }

    /// The time that the pod takes to stop, at most `grace_ms`.
    pub(crate) fn stop_time(&self, grace_ms: i64, runtime: &mut Runtime<'_>) -> i64 {
        self.containers.iter().map(|c| c.stop_time(grace_ms, runtime.rng)).max().unwrap_or(0)
    }

    pub(crate) fn stop(&mut self, now: Timestamp) {
        self.containers.iter_mut().for_each(|container| container.stop(now));
    }
}

fn has_run(container: &Container) -> bool {
    match &container.state {
        ContainerState::Running(_)
        | ContainerState::CrashLoopBackOff { .. }
        | ContainerState::Exited(_) => true,
        ContainerState::Waiting
        | ContainerState::Pulling { .. }
        | ContainerState::PullFailed { .. }
        | ContainerState::Starting { .. }
        | ContainerState::StartFailed { .. } => container.last_exit.is_some(),
    }
}
