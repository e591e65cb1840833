//! The parts of JSON objects that several kinds share, borrowed from the bytes where possible.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use everynode_core::api::{Labels, PULLS_FOR_LABEL, Timestamp, Uid};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::{Controller, Interner};
use crate::go_json;
use crate::json_path::read_first;
use crate::protobuf;

/// A string that is borrowed unless it contains escapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl<'a> Text<'a> {
    /// The text of a protobuf field. Invalid UTF-8 is read as Go reads it in JSON.
    pub(super) fn of_bytes(bytes: &'a [u8]) -> Self {
        Text(String::from_utf8_lossy(bytes))
    }

    /// The same, or `None` for an empty field, which JSON leaves out.
    pub(super) fn of_field(bytes: &'a [u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self::of_bytes(bytes))
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

/// A JSON object whose values are strings, in its own order.
#[derive(Debug, Default)]
pub(super) struct TextMap<'a>(Vec<(Text<'a>, Text<'a>)>);

impl TextMap<'_> {
    pub(super) fn labels(&self, interner: &mut Interner) -> Labels {
        self.0.iter().map(|(key, value)| (interner.text(key), interner.text(value))).collect()
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(k, _)| &**k == key).map(|(_, value)| &**value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl<'a> FromIterator<&'a protobuf::Entry> for TextMap<'a> {
    fn from_iter<I: IntoIterator<Item = &'a protobuf::Entry>>(entries: I) -> Self {
        let text =
            |entry: &'a protobuf::Entry| (Text::of_bytes(&entry.key), Text::of_bytes(&entry.value));
        Self(entries.into_iter().map(text).collect())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = TextMap<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TextMap(entries))
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

/// A time in one of the encodings. It is parsed only if it is read.
#[derive(Debug)]
pub(super) enum Time<'a> {
    Text(Text<'a>),
    Seconds(i64),
}

impl<'de: 'a, 'a> Deserialize<'de> for Time<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Time::Text)
    }
}

impl Time<'_> {
    /// Go's zero time is `None`, as in JSON.
    pub(super) fn of_field(time: Option<protobuf::Time>) -> Option<Self> {
        time.and_then(|time| time.seconds).map(Time::Seconds)
    }

    /// `None` if the time is malformed or out of range.
    pub(super) fn timestamp(&self) -> Option<Timestamp> {
        match self {
            Time::Text(text) => timestamp(text),
            Time::Seconds(seconds) => {
                let at = jiff::Timestamp::from_second(*seconds).ok()?;
                Some(Timestamp(at.as_millisecond()))
            }
        }
    }
}

/// `metadata`, without the parts that no kind reads.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    #[serde(borrow)]
    pub namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub resource_version: Option<Text<'a>>,
    pub generation: Option<i64>,
    #[serde(borrow)]
    pub labels: Option<TextMap<'a>>,
    #[serde(borrow)]
    pub owner_references: Option<Vec<OwnerReference<'a>>>,
    #[serde(borrow)]
    pub creation_timestamp: Option<Time<'a>>,
    #[serde(borrow)]
    pub deletion_timestamp: Option<Time<'a>>,
    pub deletion_grace_period_seconds: Option<i64>,
}

impl<'a> From<&'a protobuf::ObjectMeta> for Metadata<'a> {
    fn from(message: &'a protobuf::ObjectMeta) -> Self {
        Self {
            name: Text::of_field(&message.name),
            namespace: Text::of_field(&message.namespace),
            uid: Text::of_field(&message.uid),
            resource_version: Text::of_field(&message.resource_version),
            generation: None,
            labels: Some(message.labels.iter().collect()),
            owner_references: Some(message.owner_references.iter().map(Into::into).collect()),
            creation_timestamp: Time::of_field(message.creation_timestamp),
            deletion_timestamp: Time::of_field(message.deletion_timestamp),
            deletion_grace_period_seconds: message.deletion_grace_period_seconds,
        }
    }
}

/// A condition of a pod or a node.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub status: Option<Text<'a>>,
    #[serde(borrow)]
    pub last_transition_time: Option<Time<'a>>,
}

impl<'a> From<&'a protobuf::Condition> for Condition<'a> {
    fn from(message: &'a protobuf::Condition) -> Self {
        Self {
            kind: Text::of_field(&message.kind),
            status: Text::of_field(&message.status),
            last_transition_time: Time::of_field(message.last_transition_time),
        }
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerReference<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    controller: Option<bool>,
}

impl<'a> From<&'a protobuf::OwnerReference> for OwnerReference<'a> {
    fn from(message: &'a protobuf::OwnerReference) -> Self {
        Self {
            api_version: Text::of_field(&message.api_version),
            kind: Text::of_field(&message.kind),
            name: Text::of_field(&message.name),
            uid: Text::of_field(&message.uid),
            controller: message.controller,
        }
    }
}

impl Metadata<'_> {
    pub(super) fn controller(&self) -> Controller {
        let references = self.owner_references.as_deref().unwrap_or_default();
        match references.iter().find(|reference| reference.controller == Some(true)) {
            None => Controller::None,
            Some(reference) if reference.is_daemon_set() => {
                Controller::DaemonSet(Uid::new(text(reference.uid.as_ref())))
            }
            Some(_) => Controller::Foreign,
        }
    }

    /// True if the pod pulls images: a revision is its controller, and a label says so (G55).
    pub(super) fn is_puller(&self) -> bool {
        let references = self.owner_references.as_deref().unwrap_or_default();
        let controller = references.iter().find(|reference| reference.controller == Some(true));
        let is_revision =
            controller.is_some_and(|it| text(it.kind.as_ref()) == "ControllerRevision");
        is_revision && self.labels.as_ref().is_some_and(|it| it.get(PULLS_FOR_LABEL).is_some())
    }

    /// The name of the DaemonSet that is the controller.
    pub(super) fn controller_name(&self) -> Option<&str> {
        let references = self.owner_references.as_deref().unwrap_or_default();
        let controller = references.iter().find(|reference| reference.controller == Some(true));
        controller.filter(|reference| reference.is_daemon_set())?.name.as_deref()
    }

    pub(super) fn labels(&self, interner: &mut Interner) -> Labels {
        self.labels.as_ref().map(|labels| labels.labels(interner)).unwrap_or_default()
    }

    /// When its deletion was requested; `None` if it was not.
    pub(super) fn deleted_at(&self) -> Option<Timestamp> {
        let at = self.deletion_timestamp.as_ref()?.timestamp()?;
        let grace = self.deletion_grace_period_seconds.unwrap_or_default();
        Some(at - Duration::from_secs(grace.try_into().unwrap_or_default()))
    }

    pub(super) fn name(&self) -> Result<&str, &'static str> {
        self.name.as_deref().filter(|name| !name.is_empty()).ok_or("metadata.name is missing")
    }

    pub(super) fn uid(&self) -> Uid {
        Uid::new(text(self.uid.as_ref()))
    }
}

/// The API groups of DaemonSets, past and present. An owner reference keeps the group that it was
/// written with: pods and revisions created by Kubernetes 1.8 or older have `extensions/v1beta1`.
const GROUPS: [&str; 2] = ["apps", "extensions"];

impl OwnerReference<'_> {
    fn is_daemon_set(&self) -> bool {
        text(self.kind.as_ref()) == "DaemonSet"
            && GROUPS.contains(&text(self.api_version.as_ref()).split('/').next().unwrap_or(""))
    }
}

pub(super) fn text<'a>(text: Option<&'a Text>) -> &'a str {
    text.map_or("", |text| text)
}

/// Parses a time of RFC 3339, to the millisecond; `None` if it is malformed.
pub fn timestamp(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp(at.as_millisecond()))
}

/// The identity and version of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// `metadata.namespace`; `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    /// `metadata.name`; empty if it is missing.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, unparsed.
    pub resource_version: String,
    /// `metadata.generation`; zero if it is missing.
    pub generation: i64,
    /// True if `metadata.deletionTimestamp` is set.
    pub terminating: bool,
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Reads the metadata of an object of any kind, and nothing after it.
///
/// # Errors
/// If the JSON is malformed or not an object, or a field of the metadata has a wrong type.
pub fn meta(json: &[u8]) -> Result<Meta, serde_json::Error> {
    let json = go_json::text(json);
    let metadata: Option<Option<Metadata>> = read_first(&json, &["metadata"])?;
    Ok(Meta::new(&metadata.flatten().unwrap_or_default()))
}

/// The same of an object's protobuf message; its generation is not read.
///
/// # Errors
/// If the message is malformed.
pub fn meta_of_protobuf(object: &Bytes) -> Result<Meta, protobuf::Error> {
    Ok(Meta::new(&Metadata::from(&protobuf::metadata(object)?)))
}

impl Meta {
    fn new(metadata: &Metadata<'_>) -> Self {
        Self {
            namespace: metadata.namespace.as_deref().map(str::to_owned),
            name: text(metadata.name.as_ref()).to_owned(),
            uid: metadata.uid(),
            resource_version: text(metadata.resource_version.as_ref()).to_owned(),
            generation: metadata.generation.unwrap_or(0),
            terminating: metadata.deletion_timestamp.is_some(),
        }
    }
}
