//! `metav1.Status`: the errors of the server, with upstream's messages (S8, S12).

use crate::json::{Map, Value, json};

use crate::kind::Kind;

/// An error response. It is boxed because every result contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status(Box<StatusBody>);

/// The content of a [`Status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusBody {
    /// The reason, which determines the HTTP status code.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
    /// The details, if there are any.
    pub details: Option<Details>,
    /// The token with which an expired list can continue; empty otherwise.
    pub continue_token: String,
}

/// `metav1.StatusDetails`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The group of the resource.
    pub group: String,
    /// The resource (`pods`) for most reasons, the kind (`Pod`) for Invalid, as upstream.
    pub kind: String,
    /// The UID of the object.
    pub uid: String,
    /// The causes of an invalid object.
    pub causes: Vec<StatusCause>,
    /// The number of seconds after which to retry; 0 if a retry is useless.
    pub retry_after_seconds: u32,
}

/// An entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatusCause {
    /// The type of the cause.
    pub reason: String,
    /// The path of the field.
    pub field: String,
    /// The message for people.
    pub message: String,
}

/// `metav1.StatusReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// 400: the request is malformed.
    BadRequest,
    /// 401: the credentials are missing or invalid.
    Unauthorized,
    /// 403: the user may not make the request, or admission refused it.
    Forbidden,
    /// 404: the object or the resource does not exist.
    NotFound,
    /// 409: an object with this name exists already.
    AlreadyExists,
    /// 409: the object was changed, or a precondition does not hold.
    Conflict,
    /// 410: the object is gone.
    Gone,
    /// 410: the resourceVersion or continue token is too old.
    Expired,
    /// 422: the object is invalid.
    Invalid,
    /// 405: the resource does not support the method.
    MethodNotAllowed,
    /// 406: the client accepts no supported form of the response.
    NotAcceptable,
    /// 415: the body has an unsupported media type.
    UnsupportedMediaType,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 429: the client should retry later.
    TooManyRequests,
    /// 500: the server failed.
    InternalError,
    /// 503: the server can't serve requests now.
    ServiceUnavailable,
    /// 504: the request took too long.
    Timeout,
    /// 500 without a reason, for errors that upstream does not classify.
    Unknown,
}

/// The reasons with their names and HTTP status codes; first the usual reason of a code.
const REASONS: [(Reason, &str, u16); 18] = [
    (Reason::BadRequest, "BadRequest", 400),
    (Reason::Unauthorized, "Unauthorized", 401),
    (Reason::Forbidden, "Forbidden", 403),
    (Reason::NotFound, "NotFound", 404),
    (Reason::MethodNotAllowed, "MethodNotAllowed", 405),
    (Reason::NotAcceptable, "NotAcceptable", 406),
    (Reason::Conflict, "Conflict", 409),
    (Reason::AlreadyExists, "AlreadyExists", 409),
    (Reason::Expired, "Expired", 410),
    (Reason::Gone, "Gone", 410),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge", 413),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType", 415),
    (Reason::Invalid, "Invalid", 422),
    (Reason::TooManyRequests, "TooManyRequests", 429),
    (Reason::InternalError, "InternalError", 500),
    (Reason::Unknown, "", 500),
    (Reason::ServiceUnavailable, "ServiceUnavailable", 503),
    (Reason::Timeout, "Timeout", 504),
];

impl Reason {
    /// The name of the reason; empty for [`Unknown`](Self::Unknown).
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The HTTP status code.
    pub fn code(self) -> u16 {
        self.row().2
    }

    /// The usual reason of a code.
    pub(crate) fn of_code(code: u16) -> Self {
        let mut rows = REASONS.iter();
        rows.find(|(_, _, known)| *known == code).map_or(Self::Unknown, |(reason, ..)| *reason)
    }

    fn row(self) -> &'static (Self, &'static str, u16) {
        REASONS.iter().find(|(reason, ..)| *reason == self).expect("all reasons are listed")
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
    /// An error without details.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let (message, continue_token) = (message.into(), String::new());
        Self(Box::new(StatusBody { reason, message, details: None, continue_token }))
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.reason.code()
    }

    /// Adds details.
    pub fn with_details(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    /// Adds the token with which an expired list can continue.
    pub fn with_continue_token(mut self, token: String) -> Self {
        self.0.continue_token = token;
        self
    }

    /// The error with its texts cut to a number of bytes each.
    pub fn excerpt(&self, bytes_max: usize) -> Self {
        let mut status = self.clone();
        cut(&mut status.0.message, bytes_max);
        for cause in status.0.details.iter_mut().flat_map(|details| &mut details.causes) {
            cut(&mut cause.message, bytes_max);
            cut(&mut cause.field, bytes_max);
        }
        status
    }

    /// 400 with a message.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// 404 for an absent object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(Reason::NotFound, format!("{} \"{name}\" not found", kind.group_resource()))
            .with_details(Details::resource(kind, name))
    }

    /// 409 for a name that is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            Reason::AlreadyExists,
            format!("{} \"{name}\" already exists", kind.group_resource()),
        )
        .with_details(Details::resource(kind, name))
    }

    /// 409 for an object that is not in the state that the write expects.
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

    /// 409 for a stale resourceVersion (S8).
    pub fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try \
             again",
        )
    }

    /// 403 with a cause.
    pub fn forbidden(kind: &Kind, name: &str, cause: &str) -> Self {
        let resource = kind.group_resource();
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {cause}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {cause}")
        };
        Self::new(Reason::Forbidden, message).with_details(Details::resource(kind, name))
    }

    /// 403 for a create in a namespace that is being deleted. Controllers recognise the cause.
    pub fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let mut status = Self::forbidden(
            kind,
            name,
            &format!(
                "unable to create new content in namespace {namespace} because it is being \
                 terminated"
            ),
        );
        if let Some(details) = &mut status.0.details {
            let message = format!("namespace {namespace} is being terminated");
            let cause = StatusCause::new("NamespaceTerminating", "metadata.namespace", message);
            details.causes.push(cause);
        }
        status
    }

    /// 422 with all causes, which the message repeats.
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

    /// 422 for invalid options of a request, such as `CreateOptions`. Each cause is a field, `: `
    /// and a message that begins with a reason, as upstream's `field.Error`.
    pub fn invalid_options(options: &str, causes: &[String]) -> Self {
        let causes = causes.iter().map(|cause| {
            let (field, message) = cause.split_once(": ").unwrap_or(("", cause));
            let reason = match message.split_once(':').map_or(message, |(title, _)| title) {
                "Forbidden" => "FieldValueForbidden",
                "Required value" => "FieldValueRequired",
                "Too long" => "FieldValueTooLong",
                "Unsupported value" => "FieldValueNotSupported",
                _ => "FieldValueInvalid",
            };
            StatusCause::new(reason, field, message)
        });
        let causes: Vec<StatusCause> = causes.collect();
        let message = format!("{options}.meta.k8s.io \"\" is invalid{}", aggregate(&causes));
        Self::new(Reason::Invalid, message).with_details(Details {
            group: "meta.k8s.io".to_owned(),
            kind: options.to_owned(),
            causes,
            ..Details::default()
        })
    }

    /// 410 for a resourceVersion that is older than the log (S7).
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    /// 504 for a list or watch from a resourceVersion that does not exist yet.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        Self::new(
            Reason::Timeout,
            format!("Too large resource version: {requested}, current: {current}"),
        )
        .with_details(Details {
            causes: vec![StatusCause::new(
                "ResourceVersionTooLarge",
                "",
                "Too large resource version",
            )],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// 415 with a message.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(Reason::UnsupportedMediaType, message)
    }

    /// The response body.
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
    /// The details of an error about an object.
    pub fn resource(kind: &Kind, name: &str) -> Self {
        Self {
            name: name.to_string(),
            group: kind.group.to_string(),
            kind: kind.plural.to_string(),
            ..Self::default()
        }
    }

    /// The details in JSON.
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
            details.insert("causes", Value::Array(causes));
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds", Value::from(self.retry_after_seconds));
        }
        Value::Object(details)
    }
}

impl StatusCause {
    /// A cause.
    pub fn new(reason: &str, field: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), field: field.to_owned(), message: message.into() }
    }

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

fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str("...");
    }
}

/// Formats causes like upstream's error aggregate: one as it is, several in brackets without
/// duplicates.
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
