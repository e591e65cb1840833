//! Why a request of a watch ended, and what to do next.

use std::time::Duration;

use super::machine::End;
use super::read;
use super::wire::Status;
use crate::outage_log::{self, FailureKind};

/// Why a request ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the server ended the watch")]
    Closed,
    /// Typical of a proxy that can't keep a connection open.
    #[error("the server ended the watch at once")]
    ClosedAtOnce,
    #[error("no answer before the timeout")]
    TimedOut(#[from] tokio::time::error::Elapsed),
    #[error("the connection broke: {}", outage_log::cause(.0))]
    Broken(#[from] std::io::Error),
    #[error("{}", outage_log::cause(.0))]
    Request(#[from] kube::Error),
    #[error("{0}")]
    Refused(Status),
    #[error(transparent)]
    Unreadable(#[from] read::Error),
    #[error("the list does not end: its pages lead back to themselves, or there are too many")]
    EndlessList,
    #[error("a line of the watch is longer than {} MiB", super::chunks::EVENT_BYTES_MAX >> 20)]
    LineTooLong,
    #[error(
        "an event of the watch has {0} bytes, more than {max} MiB",
        max = super::chunks::EVENT_BYTES_MAX >> 20
    )]
    FrameTooLong(u32),
    #[error("the receiver was dropped")]
    ReceiverDropped,
}

impl Error {
    /// The HTTP status code of the server's answer, if it refused the request.
    pub(super) fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    pub(super) fn end(&self) -> End {
        match self {
            Self::Closed | Self::Broken(_) => End::Closed,
            Self::Refused(status) => status.end(),
            Self::Unreadable(error) => error.end(),
            Self::Request(error) if outage_log::is_connection_refused(error) => End::RetryLater,
            Self::Request(_) => End::NoAnswer,
            Self::ClosedAtOnce
            | Self::TimedOut(_)
            | Self::EndlessList
            | Self::LineTooLong
            | Self::FrameTooLong(_)
            | Self::ReceiverDropped => End::Failed,
        }
    }

    /// True if the answer is called protobuf and can't be decoded as such.
    pub(super) fn is_malformed_protobuf(&self) -> bool {
        matches!(
            self,
            Self::FrameTooLong(_)
                | Self::Unreadable(read::Error::Protobuf(_) | read::Error::UnknownEvent(_))
        )
    }

    /// The kind of failure that the error shows.
    pub(super) fn failure_kind(&self) -> FailureKind {
        match self {
            Self::Refused(_)
            | Self::Unreadable(_)
            | Self::ClosedAtOnce
            | Self::EndlessList
            | Self::LineTooLong
            | Self::FrameTooLong(_) => self
                .code()
                .map_or(FailureKind::Refused, |code| outage_log::failure_kind(Some(code))),
            Self::Closed
            | Self::Broken(_)
            | Self::TimedOut(_)
            | Self::Request(_)
            | Self::ReceiverDropped => FailureKind::Unreachable,
        }
    }

    /// The pause that the server asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let status = self.status().filter(|status| status.code == 429)?;
        Some(Duration::from_secs(status.details.as_ref()?.retry_after_seconds.into()))
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) | Self::Unreadable(read::Error::Status(status)) => Some(status),
            Self::Unreadable(_)
            | Self::Closed
            | Self::ClosedAtOnce
            | Self::TimedOut(_)
            | Self::Broken(_)
            | Self::Request(_)
            | Self::EndlessList
            | Self::LineTooLong
            | Self::FrameTooLong(_)
            | Self::ReceiverDropped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::StatusDetails;
    use super::*;

    fn status(code: u16) -> Status {
        let details = StatusDetails { retry_after_seconds: 7 };
        Status { code, message: "no".to_owned(), details: Some(details) }
    }

    /// C1, C64, C83: a refusal is classified by its status code, whether it is the answer to a
    /// request or an ERROR event.
    #[test]
    fn a_refusal_is_classified_by_its_code() {
        for (code, end, kind, retry_after) in [
            (400, End::Unsupported, FailureKind::Refused, None),
            (403, End::Failed, FailureKind::Refused, None),
            (410, End::Expired, FailureKind::Refused, None),
            (429, End::RetryLater, FailureKind::Refused, Some(Duration::from_secs(7))),
            (500, End::Failed, FailureKind::Refused, None),
            (503, End::Failed, FailureKind::Unreachable, None),
        ] {
            let event = Error::Unreadable(read::Error::Status(status(code)));
            for error in [Error::Refused(status(code)), event] {
                assert_eq!(error.code(), Some(code));
                assert_eq!((error.end(), error.failure_kind()), (end, kind), "{code}");
                assert_eq!(error.retry_after(), retry_after, "{code}");
            }
        }
        let no_pause = Status { details: None, ..status(429) };
        assert_eq!(Error::Refused(no_pause).retry_after(), None);
    }

    /// C1, C64: an answer that breaks off, or that can't be used, has no status code.
    #[test]
    fn an_unusable_answer_has_no_code() {
        let broken = || std::io::Error::other("reset");
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        for (error, end, kind) in [
            (Error::Closed, End::Closed, FailureKind::Unreachable),
            (Error::ClosedAtOnce, End::Failed, FailureKind::Refused),
            (Error::Broken(broken()), End::Closed, FailureKind::Unreachable),
            (
                Error::Request(kube::Error::Service(Box::new(broken()))),
                End::NoAnswer,
                FailureKind::Unreachable,
            ),
            (
                Error::Request(kube::Error::Service(Box::new(refused()))),
                End::RetryLater,
                FailureKind::Unreachable,
            ),
            (
                Error::Unreadable(read::Error::UnreadableDeletion),
                End::Expired,
                FailureKind::Refused,
            ),
        ] {
            assert_eq!((error.code(), error.retry_after()), (None, None), "{error}");
            assert_eq!((error.end(), error.failure_kind()), (end, kind), "{error}");
        }
    }
}
