//! How the connection to the API server does, for people who read the log: watches, writes, events and the lease report
//! here, and what is news ([`state`]) is logged once, not by each of them.

mod state;

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use state::FailureKind;
use state::{Report, State};

/// Where requests report how they end. Cheap to clone; one for all of a process.
#[derive(Clone, Debug)]
pub struct OutageLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    state: Mutex<State>,
}

impl Default for OutageLog {
    fn default() -> Self {
        Self(Arc::new(Shared { started: Instant::now(), state: Mutex::default() }))
    }
}

impl OutageLog {
    /// A request failed. `subject` is what it was made for, `cause` one sentence.
    pub fn failed(&self, subject: &str, sign: FailureKind, cause: &str) {
        let report = self.state().failed(subject, sign, cause, self.now());
        match report {
            Some(report) => log(&report),
            None => tracing::debug!("{subject}: {cause}"),
        }
    }

    /// The server did what it was asked for.
    pub fn answered(&self) {
        let report = self.state().answered(self.now());
        report.iter().for_each(log);
    }

    /// What was refused for this subject works.
    pub fn works(&self, subject: &str) {
        let report = self.state().works(subject, self.now());
        report.iter().for_each(log);
    }

    /// The subject is no more.
    pub fn forget(&self, subject: &str) {
        self.state().forget(subject);
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(report: &Report) {
    if report.is_warning() {
        tracing::warn!("{report}");
    } else {
        tracing::info!("{report}");
    }
}

/// What an answer with this code says of the server; `None`: there was no answer.
pub const fn failure_kind(code: Option<u16>) -> FailureKind {
    match code {
        None | Some(502 | 503) => FailureKind::Unreachable,
        Some(_) => FailureKind::Refused,
    }
}

/// What a failed request says of the server, and why it failed.
pub fn failure(error: &kube::Error) -> (FailureKind, String) {
    match error {
        kube::Error::Api(status) => {
            (failure_kind(Some(status.code)), refusal(status.code, &status.message))
        }
        other => (FailureKind::Unreachable, cause(other)),
    }
}

/// What a server answered, in words.
pub fn refusal(code: u16, message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if message.is_empty() { format!("the server answered {code}") } else { message }
}

/// The innermost cause of an error, in words: `connection refused`.
pub fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    // Some libraries keep of the system's error only its kind and its text, or the text alone.
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

/// Whether nobody listens at the server's address.
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
