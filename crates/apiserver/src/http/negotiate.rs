//! Content negotiation: the form of the response and the syntax of the request's body.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use super::protobuf;
use crate::kind::Kind;
use crate::status::{Reason, Status};

/// The form of a response (S4, S16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object or list itself, in JSON.
    Object,
    /// The object or list itself.
    Protobuf,
    Table(MetaVersion),
    PartialObjectMetadata(MetaVersion),
}

/// The versions of `meta.k8s.io` for tables and partial objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }

    fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }
}

/// One entry of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MediaRange {
    /// `application/json`, in lower case and without parameters.
    pub essence: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

impl MediaRange {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn is(&self, essence: &str) -> bool {
        let family = essence.split('/').next().unwrap_or_default();
        self.essence == essence
            || self.essence == "*/*"
            || self.essence.strip_suffix("/*") == Some(family)
    }
}

/// Maximum number of entries that are read from the Accept header.
const RANGES_MAX: usize = 64;

/// The entries of the Accept header, the preferred ones first; `*/*` if there is no such header.
pub(crate) fn accepted(headers: &HeaderMap) -> Vec<MediaRange> {
    let mut ranges: Vec<MediaRange> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter(|entry| !entry.trim().is_empty())
        .take(RANGES_MAX)
        .map(range)
        .filter(|range| range.quality > 0.0)
        .collect();
    if !headers.contains_key(ACCEPT) {
        ranges.push(range("*/*"));
    }
    // A stable sort: entries of the same quality keep the client's order.
    ranges.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    ranges
}

fn range(entry: &str) -> MediaRange {
    let mut parts = entry.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let parameters: Vec<(String, String)> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let quality = parameters
        .iter()
        .find(|(key, _)| key == "q")
        .and_then(|(_, value)| value.parse::<f32>().ok())
        .unwrap_or(1.0);
    MediaRange { essence, parameters, quality }
}

/// The form of a response with objects of a kind: the first entry of the Accept header that the
/// sandbox supports.
pub(crate) fn form(headers: &HeaderMap, kind: &Kind) -> Result<Form, Status> {
    let offer = |range| offer(range, kind);
    accepted(headers).iter().find_map(offer).ok_or_else(not_acceptable)
}

/// Removes protobuf from what a client accepts.
pub(crate) fn refuse_protobuf(headers: &mut HeaderMap) {
    let accepted: Vec<HeaderValue> = headers.get_all(ACCEPT).iter().cloned().collect();
    let others = accepted.iter().filter_map(|value| value.to_str().ok()).map(|value| {
        let others = value.split(',').filter(|entry| range(entry).essence != protobuf::MEDIA_TYPE);
        others.collect::<Vec<_>>().join(",")
    });
    let others: Vec<_> = others.collect();
    if let Ok(value) = HeaderValue::from_str(&others.join(","))
        && !accepted.is_empty()
    {
        headers.insert(ACCEPT, value);
    }
}

fn offer(range: &MediaRange, kind: &Kind) -> Option<Form> {
    if range.essence == protobuf::MEDIA_TYPE {
        let is_whole = range.parameter("as").is_none();
        return (is_whole && protobuf::is_known(kind)).then_some(Form::Protobuf);
    }
    if !range.is("application/json") {
        return None;
    }
    let Some(kind) = range.parameter("as") else { return Some(Form::Object) };
    if range.parameter("g") != Some("meta.k8s.io") {
        return None;
    }
    let version = MetaVersion::parse(range.parameter("v")?)?;
    match kind {
        "Table" => Some(Form::Table(version)),
        "PartialObjectMetadata" | "PartialObjectMetadataList" => {
            Some(Form::PartialObjectMetadata(version))
        }
        _ => None,
    }
}

/// Refuses a client that does not accept plain JSON.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Status> {
    let is_plain = |range: &MediaRange| range.is("application/json");
    if accepted(headers).iter().any(is_plain) { Ok(()) } else { Err(not_acceptable()) }
}

pub(crate) fn not_acceptable() -> Status {
    Status::new(
        Reason::NotAcceptable,
        "only the following media types are accepted: application/json, \
         application/vnd.kubernetes.protobuf, \
         application/json;as=Table;v=v1;g=meta.k8s.io, \
         application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )
}

/// The syntax of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
    Protobuf,
}

/// The syntax of the body of a create, update or delete. Without a content type it is JSON.
pub(crate) fn body_syntax(headers: &HeaderMap) -> Result<Syntax, Status> {
    match content_type(headers).as_str() {
        "" | "application/json" => Ok(Syntax::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Syntax::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Syntax::Protobuf),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// The media type in the Content-Type header, in lower case; empty if there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::test_kinds::POD;

    fn form_of(accept: &str) -> Result<Form, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header"));
        form(&headers, &POD).map_err(|status| status.code())
    }

    /// S4: the response has the client's most preferred form that the sandbox supports; without any
    /// it is 406.
    #[test]
    fn the_preferred_supported_media_type_is_selected() {
        use Form::{Object, PartialObjectMetadata, Protobuf, Table};
        let cases = [
            ("application/json", Ok(Object)),
            ("*/*", Ok(Object)),
            ("application/*", Ok(Object)),
            ("application/vnd.kubernetes.protobuf, application/json", Ok(Protobuf)),
            ("application/vnd.kubernetes.protobuf;stream=watch", Ok(Protobuf)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Ok(PartialObjectMetadata(MetaVersion::V1)),
            ),
            ("text/html", Err(406)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,\
                 application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Ok(Table(MetaVersion::V1)),
            ),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io,\
                 application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                Ok(Table(MetaVersion::V1Beta1)),
            ),
            ("application/json;as=Table;v=v1;g=else", Err(406)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Ok(PartialObjectMetadata(MetaVersion::V1)),
            ),
            (
                "application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io",
                Ok(Table(MetaVersion::V1)),
            ),
            ("application/json;q=0", Err(406)),
            ("application/json;stream=watch", Ok(Object)),
        ];
        for (accept, expected) in cases {
            assert_eq!(form_of(accept), expected, "{accept}");
        }
        assert_eq!(form(&HeaderMap::new(), &POD).ok(), Some(Object));
    }
}
