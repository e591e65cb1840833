//! The controller's log and what the simulation notes inside a replica, until the world takes it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::OnceLock;

use everynode_controller::recorder::Occurrence;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::checker::Violation;
use crate::view::Idle;

/// The notes since the last call of [`take`].
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Lines for the transcript, if it is recorded.
    pub lines: Vec<String>,
    /// Errors that the controller logged.
    pub errors: Vec<String>,
    /// The first violation that was found inside a replica.
    pub violation: Option<Violation>,
    /// The replicas that have nothing to do for a DaemonSet.
    pub idle: Vec<Idle>,
    /// The Kubernetes Events that replicas have recorded.
    pub events: Vec<Occurrence>,
    is_recorded: bool,
}

thread_local! {
    static JOURNAL: RefCell<Journal> = RefCell::default();
}

/// Empties the journal of this thread. `is_recorded` is whether lines are kept from now on.
pub(crate) fn start(is_recorded: bool) {
    static SUBSCRIBER: OnceLock<()> = OnceLock::new();
    SUBSCRIBER.get_or_init(|| {
        // A test may have set a subscriber of its own. Then the log goes there.
        let _ = tracing::subscriber::set_global_default(Log);
    });
    JOURNAL.set(Journal { is_recorded, ..Journal::default() });
}

/// Takes what was noted on this thread.
pub(crate) fn take() -> Journal {
    JOURNAL.with_borrow_mut(|journal| {
        let is_recorded = journal.is_recorded;
        std::mem::replace(journal, Journal { is_recorded, ..Journal::default() })
    })
}

/// Notes a line for the transcript.
pub(crate) fn log(line: impl FnOnce() -> String) {
    JOURNAL.with_borrow_mut(|journal| {
        if journal.is_recorded {
            journal.lines.push(line());
        }
    });
}

/// Notes a violation, unless there is one already.
pub(crate) fn report(violation: Violation) {
    JOURNAL.with_borrow_mut(|journal| {
        journal.violation.get_or_insert(violation);
    });
}

/// Notes that a replica has nothing to do for a DaemonSet.
pub(crate) fn note_idle(idle: Idle) {
    JOURNAL.with_borrow_mut(|journal| journal.idle.push(idle));
}

/// Notes a Kubernetes Event that a replica has recorded.
pub(crate) fn note_event(occurrence: Occurrence) {
    JOURNAL.with_borrow_mut(|journal| journal.events.push(occurrence));
}

/// Writes the controller's log to the journal of the thread.
struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("everynode")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        JOURNAL.with_borrow_mut(|journal| {
            let is_error = level == Level::ERROR;
            if !is_error && !journal.is_recorded {
                return;
            }
            let mut message = Message::default();
            event.record(&mut message);
            if journal.is_recorded {
                journal.lines.push(format!("log {level}: {}", message.0));
            }
            if is_error {
                journal.errors.push(message.0);
            }
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string never fails.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
