//! A simulated container: pull, start, run, exit, back-off (S22). Pure: time and randomness are
//! arguments.

use std::sync::Arc;

use everynode_core::api::Timestamp;
use rand_pcg::Pcg64Mcg;

use super::back_off::back_off;
use crate::cluster::lifecycle::{Failure, Lifecycle, Readiness, Run, Stop};
use crate::json::Value;

/// Duration of an init container whose lifecycle has no exit.
const INIT_RUN_MS: i64 = 10;
/// Time for which a failed pull shows as ErrImagePull before ImagePullBackOff.
const PULL_ERROR_SHOWN_MS: i64 = 1_000;
/// The message of a container runtime about a command that does not exist.
const NO_COMMAND: &str = "failed to create containerd task: failed to create shim task: OCI \
                          runtime create failed: exec: no such file or directory";
/// Running time after which a container's back-off starts from the beginning.
const BACK_OFF_RESET_MS: i64 = 600_000;

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRole {
    Init,
    /// An init container with restartPolicy Always, which starts first and keeps running.
    Sidecar,
    Main,
}

/// `restartPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub name: Arc<str>,
    pub image: Arc<str>,
    /// True if imagePullPolicy is Always.
    pub always_pull: bool,
    /// True if its command can exist: not below a file that every system has.
    pub has_command: bool,
    pub role: ContainerRole,
    pub restart_policy: RestartPolicy,
    /// The lifecycle that its pod or image chooses.
    chosen: Arc<Lifecycle>,
    /// The lifecycle since its last start: that of the node, if it has one.
    pub lifecycle: Arc<Lifecycle>,
    /// The image of the current or last run.
    pub run_image: Arc<str>,
    /// `resources` as the kubelet has granted them.
    pub allocated: Value,
    /// `resources` of the current or last run.
    pub actual: Value,
    /// True if it stops to start again, whatever its restart policy.
    restarting: bool,
    pub state: ContainerState,
    pub restarts: u32,
    pub last_exit: Option<Exit>,
    error: String,
    failed_pulls: u32,
    failed_starts: u32,
    /// Exits since the back-off was last reset.
    back_offs: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContainerState {
    /// An earlier container has to complete first.
    Waiting,
    Pulling {
        until: Timestamp,
        began: Timestamp,
    },
    /// The pull failed: first shows the error, then the back-off.
    PullFailed {
        until: Timestamp,
        backing_off: bool,
    },
    Starting {
        until: Timestamp,
    },
    StartFailed {
        until: Timestamp,
    },
    Running(Running),
    /// It exited and waits for its restart.
    CrashLoopBackOff {
        until: Timestamp,
    },
    Exited(Exit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub id: u64,
    pub since: Timestamp,
    /// `None` if it never becomes ready.
    pub ready_at: Option<Timestamp>,
    pub ready: bool,
    pub exit_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub id: u64,
    pub code: i32,
    pub reason: String,
    pub started: Timestamp,
    pub finished: Timestamp,
}

/// The state of a container that a pod's status shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisibleState {
    Creating,
    PullError,
    PullBackOff,
    StartError,
    Running {
        id: u64,
        ready: bool,
    },
    /// It exited and restarts without a delay.
    Ended,
    BackOff,
    Exited,
}

/// An event of a container that the kubelet records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContainerEvent {
    Pulling,
    Pulled { took_ms: i64 },
    AlreadyPresent,
    PullFailed { message: String },
    BackingOffPull,
    Created,
    Started,
    StartFailed { message: String },
    BackingOffRestart,
    ImageChanged,
    ResizeRequiresRestart,
    Killing,
}

/// The node's part in running a container.
pub(crate) struct Runtime<'a> {
    pub images: &'a mut std::collections::BTreeSet<Arc<str>>,
    /// The lifecycle of all containers that start on the node.
    pub lifecycle: Option<&'a Arc<Lifecycle>>,
    pub rng: &'a mut Pcg64Mcg,
}

impl Container {
    pub(crate) fn new(
        name: Arc<str>,
        image: Arc<str>,
        role: ContainerRole,
        restart_policy: RestartPolicy,
        lifecycle: Arc<Lifecycle>,
    ) -> Self {
        Self {
            name,
            run_image: image.clone(),
            image,
            always_pull: false,
            has_command: true,
            role,
            restart_policy,
            chosen: lifecycle.clone(),
            lifecycle,
            allocated: Value::Null,
            actual: Value::Null,
            restarting: false,
            state: ContainerState::Waiting,
            restarts: 0,
            last_exit: None,
            error: String::new(),
            failed_pulls: 0,
            failed_starts: 0,
            back_offs: 0,
        }
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.state {
            ContainerState::Running(running) => Some(running),
            _ => None,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        match (&self.state, self.role) {
            (ContainerState::Running(running), _) => running.ready,
            (ContainerState::Exited(exit), ContainerRole::Init) => exit.code == 0,
            _ => false,
        }
    }

    pub(crate) fn visible_state(&self) -> VisibleState {
        match &self.state {
            ContainerState::Waiting
            | ContainerState::Pulling { .. }
            | ContainerState::Starting { .. } => match self.back_offs {
                _ if self.failed_pulls > 0 => VisibleState::PullBackOff,
                // A container that was killed to start again.
                0 if self.last_exit.is_some() => VisibleState::Ended,
                0 => VisibleState::Creating,
                1 => VisibleState::Ended,
                _ => VisibleState::BackOff,
            },
            ContainerState::PullFailed { backing_off: false, .. } => VisibleState::PullError,
            ContainerState::PullFailed { backing_off: true, .. } => VisibleState::PullBackOff,
            ContainerState::StartFailed { .. } => VisibleState::StartError,
            ContainerState::Running(running) => {
                VisibleState::Running { id: running.id, ready: running.ready }
            }
            // The first restart has no delay, the later ones have.
            ContainerState::CrashLoopBackOff { .. } if self.back_offs <= 1 => VisibleState::Ended,
            ContainerState::CrashLoopBackOff { .. } => VisibleState::BackOff,
            ContainerState::Exited(_) => VisibleState::Exited,
        }
    }

    /// The last error of the pull or the start; empty if there was none.
    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    /// The last exit, unless the container runs.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            ContainerState::Exited(exit) => Some(exit),
            ContainerState::Running(_) => None,
            _ => self.last_exit.as_ref(),
        }
    }

    /// True if the containers after this one may start.
    pub(crate) fn allows_next_to_start(&self) -> bool {
        match self.role {
            ContainerRole::Init => {
                matches!(&self.state, ContainerState::Exited(exit) if exit.code == 0)
            }
            ContainerRole::Sidecar => {
                self.running().is_some()
                    || matches!(self.state, ContainerState::CrashLoopBackOff { .. })
            }
            ContainerRole::Main => true,
        }
    }

    /// The time of the next change of state that needs no outside cause.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match &self.state {
            ContainerState::Waiting | ContainerState::Exited(_) => None,
            ContainerState::Pulling { until, .. }
            | ContainerState::PullFailed { until, .. }
            | ContainerState::Starting { until }
            | ContainerState::StartFailed { until, .. }
            | ContainerState::CrashLoopBackOff { until } => Some(*until),
            ContainerState::Running(running) => {
                let ready_at = running.ready_at.filter(|_| !running.ready);
                [ready_at, running.exit_at].into_iter().flatten().min()
            }
        }
    }

    /// Takes the lifecycle of the node, or the chosen one if it has none. Init containers must
    /// complete, or none of the others would start.
    pub(crate) fn take_lifecycle(&mut self, of_node: Option<&Arc<Lifecycle>>) {
        let of_node = of_node.filter(|_| self.role != ContainerRole::Init);
        self.lifecycle = of_node.unwrap_or(&self.chosen).clone();
    }

    /// Starts the container, or first pulls its image if the node lacks it.
    pub(crate) fn pull_or_start(
        &mut self,
        now: Timestamp,
        runtime: &mut Runtime<'_>,
        events: &mut Vec<ContainerEvent>,
    ) {
        self.take_lifecycle(runtime.lifecycle);
        if runtime.images.contains(&self.image) && !self.always_pull {
            events.push(ContainerEvent::AlreadyPresent);
            self.begin_start(now, runtime);
            return;
        }
        events.push(ContainerEvent::Pulling);
        let known = runtime.images.contains(&self.image);
        let takes = if known { 0 } else { self.lifecycle.pull.time.draw(runtime.rng) };
        self.state = ContainerState::Pulling { until: after(now, takes), began: now };
    }

    /// Makes one change of state that is due at `now`. Returns whether there was one.
    pub(crate) fn step(
        &mut self,
        now: Timestamp,
        runtime: &mut Runtime<'_>,
        events: &mut Vec<ContainerEvent>,
    ) -> bool {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return false;
        }
        match self.state.clone() {
            ContainerState::Waiting | ContainerState::Exited(_) => {
                unreachable!("these have no deadline")
            }
            ContainerState::Pulling { began, .. } => self.finish_pull(now, began, runtime, events),
            ContainerState::PullFailed { backing_off: false, .. } => {
                events.push(ContainerEvent::BackingOffPull);
                let until = after(now, back_off(self.failed_pulls.saturating_sub(1)));
                self.state = ContainerState::PullFailed { until, backing_off: true };
            }
            ContainerState::PullFailed { backing_off: true, .. } => {
                self.pull_or_start(now, runtime, events)
            }
            ContainerState::Starting { .. } => self.finish_start(now, runtime, events),
            ContainerState::StartFailed { .. } => self.pull_or_start(now, runtime, events),
            ContainerState::Running(running) if running.exit_at.is_some_and(|at| at <= now) => {
                self.finish_run(running, now, events);
            }
            ContainerState::Running(running) => {
                self.state = ContainerState::Running(Running { ready: true, ..running });
            }
            ContainerState::CrashLoopBackOff { .. } => {
                self.restarts += 1;
                self.pull_or_start(now, runtime, events);
            }
        }
        true
    }

    fn finish_pull(
        &mut self,
        now: Timestamp,
        began: Timestamp,
        runtime: &mut Runtime<'_>,
        events: &mut Vec<ContainerEvent>,
    ) {
        match &self.lifecycle.pull.failure {
            Some(failure) if failure.fails(self.failed_pulls) => {
                let message = self.pull_error(failure);
                events.push(ContainerEvent::PullFailed { message: message.clone() });
                self.error = message;
                self.failed_pulls += 1;
                let until = after(now, PULL_ERROR_SHOWN_MS);
                self.state = ContainerState::PullFailed { until, backing_off: false };
            }
            _ => {
                runtime.images.insert(self.image.clone());
                events.push(ContainerEvent::Pulled { took_ms: now.0 - began.0 });
                self.failed_pulls = 0;
                self.begin_start(now, runtime);
            }
        }
    }

    fn pull_error(&self, failure: &Failure) -> String {
        let image = &self.image;
        failure.message.clone().unwrap_or_else(|| {
            format!(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": \
                 failed to resolve reference \"{image}\": {image}: not found"
            )
        })
    }

    fn begin_start(&mut self, now: Timestamp, runtime: &mut Runtime<'_>) {
        let takes = self.lifecycle.start.time.draw(runtime.rng);
        self.state = ContainerState::Starting { until: after(now, takes) };
    }

    fn finish_start(
        &mut self,
        now: Timestamp,
        runtime: &mut Runtime<'_>,
        events: &mut Vec<ContainerEvent>,
    ) {
        events.push(ContainerEvent::Created);
        if !self.has_command {
            self.run_image = self.image.clone();
            events.push(ContainerEvent::StartFailed { message: NO_COMMAND.to_owned() });
            let reason = "StartError".to_owned();
            let id = rand::RngExt::random(runtime.rng);
            let exit = Exit { id, code: 128, reason, started: Timestamp(0), finished: now };
            return self.handle_exit(exit, now, events);
        }
        match &self.lifecycle.start.failure {
            Some(failure) if failure.fails(self.failed_starts) => {
                let message = failure.message.clone().unwrap_or_else(|| {
                    "failed to start container: configured in the lifecycle".into()
                });
                events.push(ContainerEvent::StartFailed { message: message.clone() });
                self.error = message;
                let until = after(now, back_off(self.failed_starts));
                self.failed_starts += 1;
                self.restarts += 1;
                self.state = ContainerState::StartFailed { until };
            }
            _ => {
                events.push(ContainerEvent::Started);
                self.failed_starts = 0;
                self.run_image = self.image.clone();
                self.actual = self.allocated.clone();
                self.state = ContainerState::Running(self.new_run(now, runtime));
            }
        }
    }

    fn new_run(&self, now: Timestamp, runtime: &mut Runtime<'_>) -> Running {
        use rand::RngExt;
        let ready_at = match self.lifecycle.ready {
            Readiness::After(span) => Some(after(now, span.draw(runtime.rng))),
            Readiness::Never => None,
        };
        let exit_at = match (&self.lifecycle.run, self.role) {
            (Run::Exit { after: span, times, .. }, _)
                if times.is_none_or(|times| self.restarts < times) =>
            {
                Some(after(now, span.draw(runtime.rng)))
            }
            (_, ContainerRole::Init) => Some(after(now, INIT_RUN_MS)),
            (_, ContainerRole::Sidecar | ContainerRole::Main) => None,
        };
        let ready = self.role != ContainerRole::Init && ready_at.is_some_and(|at| at <= now);
        let ready_at = ready_at.filter(|_| self.role != ContainerRole::Init);
        Running { id: runtime.rng.random(), since: now, ready_at, ready, exit_at }
    }

    /// Continues with another lifecycle from now on, or from its restart on if the node has one.
    pub(crate) fn change_lifecycle(
        &mut self,
        to: &Arc<Lifecycle>,
        now: Timestamp,
        runtime: &mut Runtime<'_>,
    ) {
        self.chosen = to.clone();
        if runtime.lifecycle.is_none() {
            self.continue_as_chosen(now, runtime);
        }
    }

    /// True if its lifecycle is the chosen one, not that of the node.
    pub(crate) fn is_as_chosen(&self) -> bool {
        Arc::ptr_eq(&self.lifecycle, &self.chosen)
    }

    /// Continues with the chosen lifecycle.
    pub(crate) fn continue_as_chosen(&mut self, now: Timestamp, runtime: &mut Runtime<'_>) {
        if self.restarting {
            // It takes the lifecycle when it starts again.
            return;
        }
        self.lifecycle = self.chosen.clone();
        if let ContainerState::Running(running) = self.state {
            let anew = self.new_run(now, runtime);
            self.state =
                ContainerState::Running(Running { id: running.id, since: running.since, ..anew });
        }
    }

    fn finish_run(&mut self, running: Running, now: Timestamp, events: &mut Vec<ContainerEvent>) {
        if std::mem::take(&mut self.restarting) {
            self.last_exit = Some(self.exit_of_stop(running, now));
            self.state = ContainerState::Waiting;
            self.restarts += 1;
            self.back_offs = 0;
            return;
        }
        let (code, reason) = match &self.lifecycle.run {
            Run::Exit { exit_code, reason, .. } => (*exit_code, reason.clone()),
            Run::Forever => (0, "Completed".to_owned()),
        };
        let exit = Exit { id: running.id, code, reason, started: running.since, finished: now };
        self.handle_exit(exit, now, events);
    }

    fn handle_exit(&mut self, exit: Exit, now: Timestamp, events: &mut Vec<ContainerEvent>) {
        if !self.restarts_after(exit.code) {
            self.state = ContainerState::Exited(exit);
            return;
        }
        if exit.started.0 > 0 && now.0 - exit.started.0 >= BACK_OFF_RESET_MS {
            self.back_offs = 0;
        }
        self.last_exit = Some(exit);
        let waits = self.back_offs.checked_sub(1).map_or(0, back_off);
        self.back_offs += 1;
        if waits > 0 {
            events.push(ContainerEvent::BackingOffRestart);
        }
        self.state = ContainerState::CrashLoopBackOff { until: after(now, waits) };
    }

    fn restarts_after(&self, exit_code: i32) -> bool {
        match (self.role, self.restart_policy) {
            (ContainerRole::Sidecar, _) | (ContainerRole::Main, RestartPolicy::Always) => true,
            (ContainerRole::Main, RestartPolicy::OnFailure)
            | (ContainerRole::Init, RestartPolicy::Always | RestartPolicy::OnFailure) => {
                exit_code != 0
            }
            (ContainerRole::Main | ContainerRole::Init, RestartPolicy::Never) => false,
        }
    }

    /// The length of the current or last delay before a restart.
    pub(crate) fn back_off_ms(&self) -> i64 {
        self.back_offs.checked_sub(2).map_or(0, back_off)
    }

    /// The time that a stop takes, at most `grace_ms`; 0 if the container does not run.
    pub(crate) fn stop_time(&self, grace_ms: i64, rng: &mut Pcg64Mcg) -> i64 {
        match (self.running(), &self.lifecycle.stop) {
            (None, _) => 0,
            (Some(_), Stop::After(span)) => span.draw(rng).min(grace_ms),
            (Some(_), Stop::Ignores) => grace_ms,
        }
    }

    /// Takes a new image from the pod's spec. A container that runs has to be restarted, one that
    /// has ended stays so, and any other starts anew.
    pub(crate) fn change_image(&mut self, to: Arc<str>, lifecycle: Arc<Lifecycle>) {
        self.image = to;
        self.chosen = lifecycle;
        self.failed_pulls = 0;
        self.failed_starts = 0;
        if matches!(self.state, ContainerState::Running(_) | ContainerState::Exited(_)) {
            return;
        }
        let was_to_restart = matches!(self.state, ContainerState::CrashLoopBackOff { .. });
        self.restarts += u32::from(was_to_restart);
        self.back_offs = 0;
        self.state = ContainerState::Waiting;
    }

    /// Begins to stop a running container, at most for `grace_ms`, to start it again. Returns
    /// whether it did not stop already.
    pub(crate) fn begin_restart(
        &mut self,
        now: Timestamp,
        grace_ms: i64,
        rng: &mut Pcg64Mcg,
    ) -> bool {
        if self.restarting || self.running().is_none() {
            return false;
        }
        let exit_at = Some(after(now, self.stop_time(grace_ms, rng)));
        if let ContainerState::Running(running) = &mut self.state {
            running.exit_at = exit_at;
        }
        self.restarting = true;
        true
    }

    /// Cancels all later changes of state, because the pod is being stopped.
    pub(crate) fn cancel_deadlines(&mut self) {
        if let ContainerState::Running(running) = self.state {
            self.state =
                ContainerState::Running(Running { ready_at: None, exit_at: None, ..running });
        }
    }

    /// Stops the container.
    pub(crate) fn stop(&mut self, now: Timestamp) {
        if let Some(running) = self.running().copied() {
            self.state = ContainerState::Exited(self.exit_of_stop(running, now));
        }
    }

    fn exit_of_stop(&self, running: Running, now: Timestamp) -> Exit {
        let (code, reason) = match self.lifecycle.stop {
            Stop::After(_) => (0, "Completed".to_owned()),
            Stop::Ignores => (137, "Error".to_owned()),
        };
        Exit { id: running.id, code, reason, started: running.since, finished: now }
    }
}

fn after(now: Timestamp, ms: i64) -> Timestamp {
    Timestamp(now.0 + ms)
}
