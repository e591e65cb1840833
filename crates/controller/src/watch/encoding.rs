//! The encoding of objects, lists and watches: JSON or protobuf (C82).

use bytes::Bytes;
use everynode_k8s::{convert, protobuf};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Text. A watch has a line for each event.
    Json,
    /// Messages. A watch has their length before each event.
    Protobuf,
}

impl Encoding {
    /// The encoding that the headers of an answer name.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or("");
        if media_type.trim().eq_ignore_ascii_case(protobuf::MEDIA_TYPE) {
            Self::Protobuf
        } else {
            Self::Json
        }
    }

    /// The Accept header of a request that prefers this encoding. JSON is always accepted.
    pub(super) const fn accept(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf, application/json",
        })
    }
}

/// An object as the server encodes it.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// Its JSON text.
    Json(&'a [u8]),
    /// Its protobuf message, without apiVersion and kind.
    Protobuf(&'a Bytes),
}

impl<'a> Encoded<'a> {
    /// The JSON of an object of a kind that is read only in JSON.
    ///
    /// # Errors
    /// If the server sent protobuf.
    pub fn json(self, kind: &'static str) -> Result<&'a [u8], convert::Error> {
        match self {
            Self::Json(json) => Ok(json),
            Self::Protobuf(message) => Err(convert::Error::not_json(kind, message)),
        }
    }

    /// The namespace and name, as far as they can be read.
    pub(super) fn name(self) -> String {
        let meta = match self {
            Self::Json(json) => convert::meta(json).ok(),
            Self::Protobuf(message) => convert::meta_of_protobuf(message).ok(),
        };
        meta.map_or_else(|| "an object without a name".to_owned(), |meta| meta.to_string())
    }
}
