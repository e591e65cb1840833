//! The form of lifecycles in a file or an annotation.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Admission, Error, Failure, JitteredDelay, Readiness, Resize, Run, Stop};
use crate::duration::Duration;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub lifecycles: Vec<Lifecycle>,
    #[serde(default)]
    pub choose: Vec<SelectionRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SelectionRule {
    pub image: Option<String>,
    #[serde(default)]
    pub node_labels: BTreeMap<String, String>,
    pub lifecycle: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lifecycle {
    pub name: String,
    pub stages: Vec<Stage>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "stage", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Stage {
    Admit {
        outcome: AdmitOutcome,
        reason: Option<String>,
        message: Option<String>,
    },
    Pull(Attempt<PullOutcome>),
    Start(Attempt<StartOutcome>),
    Ready(Timed<ReadyOutcome>),
    #[serde(rename_all = "camelCase")]
    Run {
        #[serde(default)]
        delay: Duration,
        #[serde(default)]
        jitter: Duration,
        outcome: RunOutcome,
        #[serde(default)]
        exit_code: i32,
        reason: Option<String>,
        times: Option<u32>,
    },
    Stop(Timed<StopOutcome>),
    Resize {
        #[serde(default)]
        delay: Duration,
        #[serde(default)]
        jitter: Duration,
        #[serde(default)]
        outcome: ResizeOutcome,
        message: Option<String>,
    },
}

/// A stage that takes a time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timed<O> {
    #[serde(default)]
    delay: Duration,
    #[serde(default)]
    jitter: Duration,
    #[serde(default)]
    outcome: O,
}

/// A stage that takes a time, and can fail.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attempt<O> {
    #[serde(default)]
    delay: Duration,
    #[serde(default)]
    jitter: Duration,
    #[serde(default)]
    outcome: O,
    message: Option<String>,
    times: Option<u32>,
}

macro_rules! outcomes {
    ($($name:ident { $default:ident $(, $other:ident)+ })*) => {$(
        #[derive(Clone, Copy, Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub(super) enum $name { #[default] $default, $($other),+ }
    )*};
}

outcomes! {
    AdmitOutcome { Admit, Reject }
    PullOutcome { Pulled, Fail }
    StartOutcome { Started, Fail }
    ReadyOutcome { Ready, Never }
    RunOutcome { Forever, Exit }
    StopOutcome { Stops, Ignores }
    ResizeOutcome { Resized, Infeasible, Deferred }
}

/// The message of a kubelet for which a lifecycle has none.
const CONFIGURED: &str = "configured in the lifecycle";

impl Stage {
    fn name(&self) -> &'static str {
        match self {
            Self::Admit { .. } => "admit",
            Self::Pull(_) => "pull",
            Self::Start(_) => "start",
            Self::Ready(_) => "ready",
            Self::Run { .. } => "run",
            Self::Stop(_) => "stop",
            Self::Resize { .. } => "resize",
        }
    }
}

impl Lifecycle {
    /// The lifecycle, with the stages of `base` where it lists none. Only the first built-in
    /// lifecycle has no base.
    pub(super) fn with_defaults_of(
        &self,
        base: Option<&super::Lifecycle>,
    ) -> Result<super::Lifecycle, Error> {
        let mut lifecycle = base.cloned().unwrap_or(super::Lifecycle::IDLE);
        let mut seen = BTreeSet::new();
        for stage in &self.stages {
            if !seen.insert(stage.name()) {
                return Err(Error::DuplicateStage { name: self.name.clone(), stage: stage.name() });
            }
            stage.apply(&mut lifecycle);
        }
        Ok(lifecycle)
    }
}

fn span(delay: Duration, jitter: Duration) -> JitteredDelay {
    JitteredDelay { delay_ms: delay.0, jitter_ms: jitter.0 }
}

impl Stage {
    fn apply(&self, lifecycle: &mut super::Lifecycle) {
        match self {
            Self::Admit { outcome, reason, message } => {
                lifecycle.admit = admit(*outcome, reason.clone(), message.clone());
            }
            Self::Pull(pull) => {
                lifecycle.pull = pull.attempt(matches!(pull.outcome, PullOutcome::Fail));
            }
            Self::Start(start) => {
                lifecycle.start = start.attempt(matches!(start.outcome, StartOutcome::Fail));
            }
            Self::Ready(Timed { delay, jitter, outcome }) => {
                lifecycle.ready = match outcome {
                    ReadyOutcome::Ready => Readiness::After(span(*delay, *jitter)),
                    ReadyOutcome::Never => Readiness::Never,
                };
            }
            Self::Run { delay, jitter, outcome, exit_code, reason, times } => {
                lifecycle.run = match outcome {
                    RunOutcome::Forever => Run::Forever,
                    RunOutcome::Exit => Run::Exit {
                        after: span(*delay, *jitter),
                        exit_code: *exit_code,
                        reason: reason.clone().unwrap_or_else(|| exit_reason(*exit_code)),
                        times: *times,
                    },
                };
            }
            Self::Stop(Timed { delay, jitter, outcome }) => {
                lifecycle.stop = match outcome {
                    StopOutcome::Stops => Stop::After(span(*delay, *jitter)),
                    StopOutcome::Ignores => Stop::Ignores,
                };
            }
            Self::Resize { delay, jitter, outcome, message } => {
                let message = || message.clone().unwrap_or_else(|| CONFIGURED.to_owned());
                lifecycle.resize = match outcome {
                    ResizeOutcome::Resized => Resize::After(span(*delay, *jitter)),
                    ResizeOutcome::Infeasible => Resize::Infeasible(message()),
                    ResizeOutcome::Deferred => Resize::Deferred(message()),
                };
            }
        }
    }
}

fn admit(outcome: AdmitOutcome, reason: Option<String>, message: Option<String>) -> Admission {
    match outcome {
        AdmitOutcome::Admit => Admission::Admit,
        AdmitOutcome::Reject => Admission::Reject {
            reason: reason.unwrap_or_else(|| "UnexpectedAdmissionError".to_owned()),
            message: message.unwrap_or_else(|| CONFIGURED.to_owned()),
        },
    }
}

impl<O> Attempt<O> {
    fn attempt(&self, fails: bool) -> super::Attempt {
        let failure = Failure { message: self.message.clone(), times: self.times };
        super::Attempt { time: span(self.delay, self.jitter), failure: fails.then_some(failure) }
    }
}

fn exit_reason(exit_code: i32) -> String {
    if exit_code == 0 { "Completed" } else { "Error" }.to_owned()
}
