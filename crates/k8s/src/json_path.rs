//! Reads one value of a JSON text and ignores everything after it.
//!
//! Go writes `kind`, `apiVersion` and `metadata` of an object first. Reading its identity therefore
//! costs little, however large the object is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The first value at a path of keys; `None` if there is none. The text after the value is not
/// read.
///
/// # Errors
/// If the text before the value is malformed, a value on the path is not an object, or the value is
/// not of type `T`.
pub fn read_first<'de, T: Deserialize<'de>>(
    json: &'de str,
    path: &[&str],
) -> Result<Option<T>, serde_json::Error> {
    let mut found = None;
    let descent = Descent { path, found: &mut found };
    let read = descent.deserialize(&mut serde_json::Deserializer::from_str(json));
    match found {
        // serde_json rejects the unread rest; ignore that once the value is found.
        Some(value) => Ok(Some(value)),
        None => read.map(|()| None),
    }
}

/// Follows the keys of the path, and stops after the value of the last one.
struct Descent<'p, T> {
    path: &'p [&'p str],
    found: &'p mut Option<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Descent<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(T::deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Descent<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Ok(()) };
        while let Some(Key(key)) = map.next_key()? {
            if key == *first {
                // This fails after the value is found: the parser stops inside the object.
                map.next_value_seed(Descent { path: rest, found: self.found })?;
                if self.found.is_some() {
                    return Ok(());
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A key, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(json: &str) -> Result<Option<String>, String> {
        read_first(json, &["metadata", "name"]).map_err(|error| error.to_string())
    }

    /// C3, C80: a value is found at any position, and nothing after it is read.
    #[test]
    fn nothing_after_the_value_is_read() {
        let found = Ok(Some("n".to_owned()));
        assert_eq!(name(r#"{"kind":"K","metadata":{"uid":"u","name":"n","labels":"#), found);
        assert_eq!(name(r#"{"spec":{"name":[1]},"met\u0061data":{"name":"n"}}"#), found);
    }

    /// C4: a missing value is none, a malformed one an error.
    #[test]
    fn a_missing_value_is_none_and_a_malformed_one_an_error() {
        for missing in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"uid":"u"},"spec":{}}"#] {
            assert_eq!(name(missing), Ok(None), "{missing}");
        }
        for malformed in [
            "",
            "[]",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":7}}"#,
            r#"{"spec":"#,
            r#"{"metadata":{"uid":"u"}"#,
        ] {
            assert!(name(malformed).is_err(), "{malformed}");
        }
    }
}
