//! `metav1.Status`: how the server says no (and, on some deletes, yes), in upstream's words (S8, S12).

use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// A refusal. Boxed inside, because results carry it through every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status(Box<StatusBody>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusBody {
    pub reason: Reason,
    pub message: String,
    pub details: Option<Details>,
    /// With which a list that has expired can go on; empty for all else.
    pub continue_token: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The resource (`pods`) for most reasons, the kind (`Pod`) for Invalid, as upstream has it.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<StatusCause>,
    pub retry_after_seconds: u32,
}

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatusCause {
    pub reason: String,
    pub field: String,
    pub message: String,
}

/// `metav1.StatusReason`, with its HTTP code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    UnsupportedMediaType,
    RequestEntityTooLarge,
    TooManyRequests,
    InternalError,
    Timeout,
    /// An error that upstream lets through as it is: 500, and no reason is told.
    Unknown,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Expired => "Expired",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::Timeout => "Timeout",
            Self::Unknown => "",
        }
    }

    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown => 500,
            Self::Timeout => 504,
        }
    }
}

impl std::ops::Deref for Status {
    type Target = StatusBody;

    fn deref(&self) -> &StatusBody {
        &self.0
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Status {
    /// A failure without details.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let (message, continue_token) = (message.into(), String::new());
        Self(Box::new(StatusBody { reason, message, details: None, continue_token }))
    }

    pub fn code(&self) -> u16 {
        self.reason.code()
    }

    pub fn with_details(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    pub fn with_continue_token(mut self, token: String) -> Self {
        self.0.continue_token = token;
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(Reason::NotFound, format!("{} \"{name}\" not found", kind.group_resource()))
            .with_details(Details::resource(kind, name))
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            Reason::AlreadyExists,
            format!("{} \"{name}\" already exists", kind.group_resource()),
        )
        .with_details(Details::resource(kind, name))
    }

    /// A write refused because the object is not what the writer took it for.
    pub fn conflict(kind: &Kind, name: &str, cause: &str) -> Self {
        Self::new(
            Reason::Conflict,
            format!(
                "Operation cannot be fulfilled on {} \"{name}\": {cause}",
                kind.group_resource()
            ),
        )
        .with_details(Details::resource(kind, name))
    }

    /// The stale resourceVersion of optimistic locking (S8).
    pub fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(kind: &Kind, name: &str, cause: &str) -> Self {
        let resource = kind.group_resource();
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {cause}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {cause}")
        };
        Self::new(Reason::Forbidden, message).with_details(Details::resource(kind, name))
    }

    /// A create in a namespace that is being deleted; the cause is what controllers look for.
    pub fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let mut status = Self::forbidden(
            kind,
            name,
            &format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ),
        );
        if let Some(details) = &mut status.0.details {
            details.causes.push(StatusCause {
                reason: "NamespaceTerminating".to_string(),
                field: "metadata.namespace".to_string(),
                message: format!("namespace {namespace} is being terminated"),
            });
        }
        status
    }

    /// Failed validation: every cause is listed, and the message tells them all.
    pub fn invalid(kind: &Kind, name: &str, causes: Vec<StatusCause>) -> Self {
        let message = format!("{} \"{name}\" is invalid{}", kind.group_kind(), aggregate(&causes));
        Self::new(Reason::Invalid, message).with_details(Details {
            name: name.to_string(),
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            causes,
            ..Details::default()
        })
    }

    /// The resourceVersion asked for lies before the window that is kept (S7).
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    /// A list or watch from a resourceVersion that has not been written yet.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        Self::new(
            Reason::Timeout,
            format!("Too large resource version: {asked}, current: {current}"),
        )
        .with_details(Details {
            causes: vec![StatusCause {
                reason: "ResourceVersionTooLarge".to_string(),
                field: String::new(),
                message: "Too large resource version".to_string(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(Reason::UnsupportedMediaType, message)
    }

    /// The body of the response.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code(),
        });
        if self.reason != Reason::Unknown {
            status["reason"] = Value::from(self.reason.name());
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = Value::from(self.continue_token.as_str());
        }
        status
    }
}

impl Details {
    pub fn resource(kind: &Kind, name: &str) -> Self {
        Self {
            name: name.to_string(),
            group: kind.group.to_string(),
            kind: kind.plural.to_string(),
            ..Self::default()
        }
    }

    pub fn to_value(&self) -> Value {
        let mut details = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details.insert(key.to_string(), Value::from(text.as_str()));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(StatusCause::to_value).collect();
            details.insert("causes".to_string(), Value::Array(causes));
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".to_string(), Value::from(self.retry_after_seconds));
        }
        Value::Object(details)
    }
}

impl StatusCause {
    fn to_value(&self) -> Value {
        let mut cause = Map::new();
        for (key, text) in
            [("reason", &self.reason), ("message", &self.message), ("field", &self.field)]
        {
            if !text.is_empty() {
                cause.insert(key.to_string(), Value::from(text.as_str()));
            }
        }
        Value::Object(cause)
    }
}

/// One cause stands alone, several in brackets, a repeated one once: as upstream's aggregate of errors prints.
fn aggregate(causes: &[StatusCause]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for cause in causes {
        let line = if cause.field.is_empty() {
            cause.message.clone()
        } else {
            format!("{}: {}", cause.field, cause.message)
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!(": {line}"),
        lines => format!(": [{}]", lines.join(", ")),
    }
}
