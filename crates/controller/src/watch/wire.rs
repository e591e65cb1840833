//! The JSON around the objects of lists and watches. The objects themselves stay bytes, for their decoders.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A page of a list.
#[derive(Deserialize)]
pub struct List<'a> {
    pub metadata: ListMeta,
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    pub resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(rename = "type")]
    pub event: EventType,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// Cuts a line into its type and its object without reading the object, if it is spelt as Go spells it:
/// the type first, the object last. Most of a watch's bytes are then read once, by the object's decoder.
pub fn split(line: &[u8]) -> Option<(EventType, &str)> {
    let line = std::str::from_utf8(line.trim_ascii_end()).ok()?;
    let (event, rest) = line.strip_prefix("{\"type\":\"")?.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
    let event = match event {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        "ERROR" => EventType::Error,
        _ => return None,
    };
    Some((event, object))
}

/// Reads the metadata that every object of a watch has, and nothing behind it: Go writes it early.
///
/// # Errors
/// If there is none.
pub fn versioned(object: &str) -> Result<VersionedMeta<'_>, serde_json::Error> {
    let mut metadata = None;
    let mut json = serde_json::Deserializer::from_str(object);
    let read = Early(&mut metadata).deserialize(&mut json);
    match (metadata, read) {
        (Some(metadata), _) => Ok(metadata),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(serde::de::Error::missing_field("metadata")),
    }
}

/// Stops once it has the metadata. The parser then calls the rest of the object an error, which it is not.
struct Early<'s, 'de>(&'s mut Option<VersionedMeta<'de>>);

impl<'de> DeserializeSeed<'de> for Early<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Early<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            if key == "metadata" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Borrowed unless it has escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionedMeta<'a> {
    pub resource_version: String,
    #[serde(borrow, default)]
    pub annotations: Option<&'a RawValue>,
}

impl VersionedMeta<'_> {
    /// Does this bookmark end the initial events of a streaming list?
    pub fn ends_initial_events(&self) -> bool {
        #[derive(Default, Deserialize)]
        struct Annotations {
            #[serde(rename = "k8s.io/initial-events-end", default)]
            end: String,
        }
        let annotations = self.annotations.map(RawValue::get).unwrap_or("{}");
        serde_json::from_str::<Annotations>(annotations).unwrap_or_default().end == "true"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOKMARK: &str = r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}"#;

    /// C1, C80: a line is cut where Go would have put its parts; one that is spelt otherwise is read in full.
    #[test]
    fn a_line_is_cut_without_reading_its_object() {
        let line = format!("{{\"type\":\"BOOKMARK\",\"object\":{BOOKMARK}}}\n");
        assert_eq!(split(line.as_bytes()), Some((EventType::Bookmark, BOOKMARK)));
        let envelope: Envelope<'_> = serde_json::from_str(&line).unwrap();
        assert_eq!((envelope.event, envelope.object.get()), (EventType::Bookmark, BOOKMARK));
        for other in [
            r#"{ "type": "ADDED", "object": {} }"#,
            r#"{"object":{},"type":"ADDED"}"#,
            r#"{"type":"NEWS","object":{}}"#,
            "{",
            "",
        ] {
            assert_eq!(split(other.as_bytes()), None, "{other}");
        }
    }

    /// C1, C60: of an object only the metadata is read for its version, wherever it stands.
    #[test]
    fn the_version_is_read_from_the_metadata_alone() {
        let metadata = versioned(BOOKMARK).unwrap();
        assert_eq!(metadata.resource_version, "9");
        assert!(metadata.ends_initial_events());
        let last = versioned(r#"{"spec":{"a":[1]},"metadata":{"resourceVersion":"7"}}"#).unwrap();
        assert_eq!(last.resource_version, "7");
        assert!(!last.ends_initial_events());
        for none in ["{}", "[]", "", r#"{"metadata":{}}"#, r#"{"spec":"#] {
            assert!(versioned(none).is_err(), "{none}");
        }
    }
}
