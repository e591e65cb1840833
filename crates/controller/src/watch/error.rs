//! Why a request of a watch ended, and what follows from it.

use std::time::Duration;

use super::machine::End;
use super::read;
use super::wire::Status;
use crate::outage_log::{self, FailureKind};

/// Why a round ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the server ended the watch")]
    Closed,
    /// As a proxy does that can't keep a connection open.
    #[error("the server ended the watch at once")]
    ClosedAtOnce,
    #[error("no answer in time")]
    Silent(#[from] tokio::time::error::Elapsed),
    #[error("the connection broke: {}", outage_log::cause(.0))]
    Broken(#[from] std::io::Error),
    #[error("{}", outage_log::cause(.0))]
    Request(#[from] kube::Error),
    #[error("{0}")]
    Refused(Status),
    #[error(transparent)]
    Unusable(#[from] read::Error),
    #[error("nobody listens")]
    Unheard,
}

impl Error {
    /// Of the server's answer, if it is one of refusal.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    pub fn end(&self) -> End {
        match self {
            Self::Closed | Self::Broken(_) => End::Closed,
            Self::Refused(status) => status.end(),
            Self::Unusable(error) => error.end(),
            Self::Request(error) if outage_log::is_connection_refused(error) => End::Unavailable,
            Self::Request(_) => End::Unreachable,
            Self::ClosedAtOnce | Self::Silent(_) | Self::Unheard => End::Failed,
        }
    }

    /// What it says of the server.
    pub fn failure_kind(&self) -> FailureKind {
        match self {
            Self::Refused(_) | Self::Unusable(_) | Self::ClosedAtOnce => self
                .code()
                .map_or(FailureKind::Refused, |code| outage_log::failure_kind(Some(code))),
            Self::Closed | Self::Broken(_) | Self::Silent(_) | Self::Request(_) | Self::Unheard => {
                FailureKind::Unreachable
            }
        }
    }

    /// The pause that the server asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        let status = self.status().filter(|status| status.code == 429)?;
        let seconds = u64::from(status.details.as_ref()?.retry_after_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) | Self::Unusable(read::Error::Status(status)) => Some(status),
            Self::Unusable(_)
            | Self::Closed
            | Self::ClosedAtOnce
            | Self::Silent(_)
            | Self::Broken(_)
            | Self::Request(_)
            | Self::Unheard => None,
        }
    }
}
