//! Faults on demand (S17): which requests go wrong, how often, and what happens to them then.
//!
//! Only data and decisions. The HTTP front carries out what [`Table::decide`] returns; the simulation uses the same
//! [`Fault`]s without a front.

mod bytes;
mod matching;
mod point;
mod table;
mod wire;

pub use crate::duration::Duration;
pub use bytes::{invalidate, object_ends};
pub use matching::{Match, Request};
pub use point::{Event, Point, Progress};
pub use table::{Decision, Entry, RULES_MAX, Table, TooMany, Window};
pub use wire::{Error, Rule, TEXT_BYTES_MAX, parse};

use serde::{Deserialize, Serialize};

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// The answer is an error.
    Error(Refusal),
    /// The connection is closed without an answer.
    LoseAnswer(LoseAnswer),
    /// The answer is an error, or the connection is closed without one; the write takes effect later.
    CommitLate(CommitLate),
    /// The connection is closed in the middle of the answer.
    Cut(Point),
    /// From some point of the answer on, the connection carries nothing and stays open.
    Freeze(Point),
    /// From some point on, the answer stands still for a time, and then goes on; the connection is alive.
    Stall(Stall),
    /// The request waits before it is served.
    Delay(Delay),
    /// A watch, answered 200, ends with an ERROR event.
    WatchError(WatchError),
    /// The bookmark that ends the initial events of a streaming list comes late; live events come before it.
    LateBookmark(LateBookmark),
    /// A read shows an older state of the store.
    StaleRead(StaleRead),
    /// An object is served with a byte that is not UTF-8.
    InvalidUtf8(InvalidUtf8),
    /// The server is gone for a time: connections are closed, new ones refused. When it is back, it answers 403 for a
    /// while, as a server does whose authorization caches are cold.
    Restart(Restart),
}

/// A `Status` of any code, reason and message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refusal {
    #[serde(deserialize_with = "wire::error_code")]
    pub code: u16,
    /// The one that belongs to the code by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In RBAC's words by default for 403, else those of Kubernetes for the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The header `Retry-After`, and `details.retryAfterSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// The body is no `Status` but text, as that of a proxy.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain_text: bool,
    /// The write takes effect before its answer goes wrong.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_commit: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LoseAnswer {
    /// The write takes effect before its answer is lost.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_commit: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CommitLate {
    /// Time from the answer to the write.
    pub after: Duration,
    /// What the client is answered; none: the connection is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Stall {
    /// How long the answer stands still.
    pub lasts: Duration,
    #[serde(default)]
    pub at: Point,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Delay {
    pub lasts: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WatchError {
    pub error: Refusal,
    #[serde(default)]
    pub at: Point,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LateBookmark {
    pub after: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StaleRead {
    /// Number of the latest writes, of any kind, that the state lacks; as far back as the store's log goes.
    pub writes_behind: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InvalidUtf8 {
    /// Empty for an object that is in no namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// The text in the object's JSON whose first byte is replaced by 0xFF, wherever it occurs.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Restart {
    /// How long connections are refused.
    pub down: Duration,
    /// How long, after that, every request is answered 403.
    #[serde(default)]
    pub forbidden: Duration,
    /// The write that the rule matches takes effect before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_commit: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Fault {
    /// The name in a file of rules.
    pub const fn name(&self) -> &'static str {
        match self {
            Fault::Error(_) => "error",
            Fault::LoseAnswer(_) => "loseAnswer",
            Fault::CommitLate(_) => "commitLate",
            Fault::Cut(_) => "cut",
            Fault::Freeze(_) => "freeze",
            Fault::Stall(_) => "stall",
            Fault::Delay(_) => "delay",
            Fault::WatchError(_) => "watchError",
            Fault::LateBookmark(_) => "lateBookmark",
            Fault::StaleRead(_) => "staleRead",
            Fault::InvalidUtf8(_) => "invalidUtf8",
            Fault::Restart(_) => "restart",
        }
    }

    /// Whether it can happen to a request with this verb: of a rule that names no verbs, those are the ones.
    pub fn can_happen_to(&self, verb: &str, is_watchlist: bool) -> bool {
        let is_write = matches!(
            verb,
            "create" | "update" | "patch" | "delete" | "deletecollection" | "post" | "put"
        );
        match self {
            Fault::Error(Refusal { after_commit, .. })
            | Fault::LoseAnswer(LoseAnswer { after_commit })
            | Fault::Restart(Restart { after_commit, .. }) => is_write || !after_commit,
            Fault::CommitLate(_) => is_write,
            Fault::Cut(_) | Fault::Freeze(_) | Fault::Stall(_) | Fault::Delay(_) => true,
            Fault::WatchError(_) => verb == "watch",
            Fault::LateBookmark(_) => is_watchlist,
            Fault::StaleRead(_) => is_watchlist || matches!(verb, "get" | "list"),
            Fault::InvalidUtf8(_) => matches!(verb, "get" | "list" | "watch"),
        }
    }
}

impl Refusal {
    /// A refusal with nothing but its code.
    pub const fn of(code: u16) -> Refusal {
        Refusal {
            code,
            reason: None,
            message: None,
            retry_after_seconds: None,
            plain_text: false,
            after_commit: false,
        }
    }

    /// `metav1.StatusReason`; empty if the code has none.
    pub fn reason(&self) -> &str {
        let default = match self.code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        self.reason.as_deref().unwrap_or(default)
    }

    /// The message, without knowledge of who asked for what.
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

    /// The `Status` document.
    pub fn to_value(&self, message: &str) -> serde_json::Value {
        let mut status = serde_json::json!({
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
            status["details"] = serde_json::json!({"retryAfterSeconds": seconds});
        }
        status
    }
}
