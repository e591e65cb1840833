//! Logs outages of the API server. Watches, writes, Events and the lease report their failures
//! here; `state` logs an outage once instead of once per request.

mod state;

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use state::FailureKind;
use state::{LogLine, OutageState};

/// Takes reports of requests and logs outages. Cheap to clone; a process has one.
#[derive(Clone, Debug)]
pub struct OutageLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    state: Mutex<OutageState>,
}

impl Default for OutageLog {
    fn default() -> Self {
        Self(Arc::new(Shared { started: Instant::now(), state: Mutex::default() }))
    }
}

impl OutageLog {
    /// Reports a failed request. `subject` is its purpose, `cause` a sentence.
    pub fn failed(&self, subject: &str, kind: FailureKind, cause: &str) {
        let line = self.state().failed(subject, kind, cause, self.now());
        match line {
            Some(line) => log(&line),
            None => tracing::debug!("{subject}: {cause}"),
        }
    }

    /// Reports that the server did what was requested: it is reachable.
    pub fn answered(&self) {
        let line = self.state().answered(self.now());
        line.iter().for_each(log);
    }

    /// Reports that requests with this subject succeed.
    pub fn recovered(&self, subject: &str) {
        let line = self.state().recovered(subject, self.now());
        line.iter().for_each(log);
    }

    /// Removes a subject, which no longer exists.
    pub fn forget(&self, subject: &str) {
        self.state().forget(subject);
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, OutageState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(line: &LogLine) {
    if line.is_warning() {
        tracing::warn!("{line}");
    } else {
        tracing::info!("{line}");
    }
}

/// The kind of failure that an answer with this code means; `None`: there was no answer.
pub const fn failure_kind(code: Option<u16>) -> FailureKind {
    match code {
        None | Some(502 | 503) => FailureKind::Unreachable,
        Some(_) => FailureKind::Refused,
    }
}

/// The kind and the cause of a failed request.
pub fn failure(error: &kube::Error) -> (FailureKind, String) {
    match error {
        kube::Error::Api(status) => {
            (failure_kind(Some(status.code)), refusal(status.code, &status.message))
        }
        // The text of the error quotes values of the answer.
        kube::Error::SerdeError(error) => {
            let (line, column) = (error.line(), error.column());
            let cause = format!("the answer can't be read from line {line}, column {column}");
            (FailureKind::Unreachable, cause)
        }
        other => (FailureKind::Unreachable, cause(other)),
    }
}

/// Maximum number of bytes of a server's message in the log and in Events.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The beginning of a server's message, if it is too long for the log.
pub fn shortened(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}

/// The refusal of a request as one line: its message, or its code.
pub fn refusal(code: u16, message: &str) -> String {
    let message = shortened(message).split_whitespace().collect::<Vec<_>>().join(" ");
    if message.is_empty() { format!("the server answered {code}") } else { message }
}

/// The innermost cause of an error: `connection refused`.
pub fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    // Some libraries keep only the kind and the text of the system's error, or only its text.
    let system = text.split_once(" (os error ").map(|(words, _)| words);
    let kind = innermost.downcast_ref::<io::Error>().map(io::Error::kind);
    let words = match (system, kind) {
        (_, Some(io::ErrorKind::UnexpectedEof)) => "the server closed the connection".to_owned(),
        (None, _) => text,
        (Some(words), None | Some(io::ErrorKind::Other)) => words.to_lowercase(),
        (Some(_), Some(kind)) => kind.to_string(),
    };
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if nothing listens at the server's address.
pub fn is_connection_refused(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
