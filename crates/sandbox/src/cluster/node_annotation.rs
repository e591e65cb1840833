//! The annotations with which people take nodes away for a time or for ever (S23).

use everynode_core::api::Timestamp;

use super::component_context::ComponentContext;
use super::timer::Timer;
use crate::duration::Duration;
use crate::object::Object;

/// The annotation under which a kubelet does nothing, while its containers run on.
pub const DOWN_ANNOTATION: &str = "sandbox.everynode.dev/down";
/// The annotation under which a node shuts down gracefully and stays off.
pub const SHUTDOWN_ANNOTATION: &str = "sandbox.everynode.dev/shutdown";
/// The annotation with which an autoscaler taints a node and then removes it.
pub const SCALE_DOWN_ANNOTATION: &str = "sandbox.everynode.dev/scale-down";

/// An annotation of one node, as it was seen last. Its value is `true` or a duration; `false` is
/// the same as no annotation.
#[derive(Debug)]
pub(super) struct TimedAnnotation {
    pub key: &'static str,
    value: Option<Box<str>>,
    period: Period,
}

/// How long an annotation applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    None,
    UntilRemoved,
    Until(Timestamp),
}

impl TimedAnnotation {
    pub(super) fn new(key: &'static str) -> Self {
        Self { key, value: None, period: Period::None }
    }

    /// Reads the annotation; returns whether it has changed. A value that means nothing has no
    /// effect, and a warning says so.
    pub(super) fn follow(&mut self, context: &mut ComponentContext<'_>, node: &Object) -> bool {
        let value = node.annotation(self.key);
        if self.value.as_deref() == value {
            return false;
        }
        self.value = value.map(Into::into);
        self.period = match value {
            None | Some("false") => Period::None,
            Some("true") => Period::UntilRemoved,
            Some(text) => match Duration::try_from(text.to_owned()) {
                Ok(Duration(ms)) => {
                    let until = Timestamp(context.now.0 + ms);
                    context.timers.set(until, Timer::Node { node: node.name().into() });
                    Period::Until(until)
                }
                Err(error) => {
                    context.warn_of_annotation(node, self.key, &format!("{error}, nor true"));
                    Period::None
                }
            },
        };
        true
    }

    pub(super) fn applies(&self) -> bool {
        self.period != Period::None
    }

    /// True if its time is over.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.period, Period::Until(until) if until <= now)
    }
}
