//! The faults that can be injected into a request, in the form that they have in a file of rules.

use serde::{Deserialize, Deserializer, Serialize};

use super::point::Point;
use crate::duration::Duration;
use crate::status::Reason;

/// A fault to inject into a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// The response is an error.
    Error(InjectedError),
    /// The connection closes without a response.
    LoseAnswer(LoseAnswer),
    /// The response is an error, or the connection closes without one; the write takes effect
    /// later.
    CommitLate(CommitLate),
    /// The connection closes in the middle of the response.
    Cut(Point),
    /// From a point of the response on, the connection transfers nothing and stays open.
    Freeze(Point),
    /// The response pauses at a point for a time, and then continues. The connection stays usable.
    Stall(Stall),
    /// The request waits before it is served.
    Delay(Delay),
    /// A watch whose response has code 200 ends with an ERROR event.
    WatchError(WatchError),
    /// The bookmark that ends the initial events of a streaming list arrives late, after live
    /// events.
    LateBookmark(LateBookmark),
    /// A read returns an older state of the store.
    StaleRead(StaleRead),
    /// An object is served with a byte that is not valid UTF-8.
    InvalidUtf8(InvalidUtf8),
    /// The server restarts: it closes all connections and refuses new ones for a time. Then it
    /// returns 403 for a time, as a server does before its authorization caches are filled.
    Restart(Restart),
}

/// An error response: a `Status` with any code, reason and message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InjectedError {
    /// The HTTP status code, 400 to 599.
    #[serde(deserialize_with = "error_code")]
    pub code: u16,
    /// `metav1.StatusReason`; by default that of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// By default the message of Kubernetes for the code; for 403 that of RBAC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The value of the header `Retry-After` and of `details.retryAfterSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// True if the body is plain text instead of a `Status`, as from a proxy.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain_text: bool,
    /// True if the write takes effect before the error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_commit: bool,
}

/// A lost response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LoseAnswer {
    /// True if the write takes effect before its response is lost.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_commit: bool,
}

/// A write that takes effect after its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CommitLate {
    /// The time from the response to the write.
    pub after: Duration,
    /// The response to the client; without it the connection closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<InjectedError>,
}

/// A pause in a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Stall {
    /// The length of the pause.
    pub lasts: Duration,
    /// The point of the response at which it happens.
    #[serde(default)]
    pub at: Point,
}

/// A delay before a request is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Delay {
    /// The length of the delay.
    pub lasts: Duration,
}

/// An ERROR event at a point of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WatchError {
    /// The status in the event.
    pub error: InjectedError,
    /// The point of the response at which it happens.
    #[serde(default)]
    pub at: Point,
}

/// A delay of the bookmark that ends the initial events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LateBookmark {
    /// The length of the delay.
    pub after: Duration,
}

/// A read of an older state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StaleRead {
    /// The number of latest writes, of any kind, that the state lacks. The store's log limits it.
    pub writes_behind: u64,
}

/// An object to make invalid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InvalidUtf8 {
    /// The namespace of the object; empty for a cluster-scoped one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The text in the object's JSON whose first byte becomes 0xFF, wherever it occurs.
    pub text: String,
}

/// A restart of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Restart {
    /// The time for which connections are refused.
    pub down: Duration,
    /// The time after that for which every request gets 403.
    #[serde(default)]
    pub forbidden: Duration,
    /// True if the matched write takes effect before the restart.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_commit: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Fault {
    /// The name in a file of rules: `loseAnswer`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::LoseAnswer(_) => "loseAnswer",
            Self::CommitLate(_) => "commitLate",
            Self::Cut(_) => "cut",
            Self::Freeze(_) => "freeze",
            Self::Stall(_) => "stall",
            Self::Delay(_) => "delay",
            Self::WatchError(_) => "watchError",
            Self::LateBookmark(_) => "lateBookmark",
            Self::StaleRead(_) => "staleRead",
            Self::InvalidUtf8(_) => "invalidUtf8",
            Self::Restart(_) => "restart",
        }
    }

    /// True if the fault applies to requests with this verb. A rule without verbs matches all of
    /// these.
    pub fn can_happen_to(&self, verb: &str, is_watchlist: bool) -> bool {
        let is_write = matches!(
            verb,
            "create" | "update" | "patch" | "delete" | "deletecollection" | "post" | "put"
        );
        match self {
            Self::Error(InjectedError { after_commit, .. })
            | Self::LoseAnswer(LoseAnswer { after_commit })
            | Self::Restart(Restart { after_commit, .. }) => is_write || !after_commit,
            Self::CommitLate(_) => is_write,
            Self::Cut(_) | Self::Freeze(_) | Self::Stall(_) | Self::Delay(_) => true,
            Self::WatchError(_) => verb == "watch",
            Self::LateBookmark(_) => is_watchlist,
            Self::StaleRead(_) => is_watchlist || matches!(verb, "get" | "list"),
            Self::InvalidUtf8(_) => matches!(verb, "get" | "list" | "watch"),
        }
    }
}

impl InjectedError {
    /// An error with a code and defaults for the rest.
    pub const fn of(code: u16) -> Self {
        Self {
            code,
            reason: None,
            message: None,
            retry_after_seconds: None,
            plain_text: false,
            after_commit: false,
        }
    }

    /// `metav1.StatusReason`; empty if the code has no default.
    pub fn reason(&self) -> &str {
        let default = || Reason::of_code(self.code).name();
        self.reason.as_deref().unwrap_or_else(default)
    }

    /// The message, or a default that depends on the code only.
    pub fn message(&self) -> &str {
        let default = match self.code {
            403 => "forbidden",
            410 => "too old resource version",
            429 => "Too many requests, please try again later.",
            500 => "etcdserver: request timed out",
            502 => "Bad Gateway",
            503 => "the server is currently unable to handle the request",
            504 => "Timeout: request did not complete within the allotted timeout",
            _ => "injected by a rule of the sandbox",
        };
        self.message.as_deref().unwrap_or(default)
    }

    /// The `Status` document with a message.
    pub fn to_value(&self, message: &str) -> crate::json::Value {
        let mut status = crate::json::json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "code": self.code,
        });
        if !self.reason().is_empty() {
            status["reason"] = self.reason().into();
        }
        if let Some(seconds) = self.retry_after_seconds {
            status["details"] = crate::json::json!({"retryAfterSeconds": seconds});
        }
        status
    }
}

/// Reads an HTTP status code of an error.
fn error_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let code = u16::deserialize(deserializer)?;
    if (400..600).contains(&code) {
        return Ok(code);
    }
    Err(serde::de::Error::custom(format!("{code} is not an error code: expected 400 to 599")))
}
