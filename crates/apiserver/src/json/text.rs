//! The text of values, which `serde_json` parses and writes.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::{Map, Number, Value};

/// JSON text, indented for `{:#}`.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match formatter.alternate() {
            true => serde_json::to_string_pretty(self),
            false => serde_json::to_string(self),
        };
        formatter.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items.iter()),
            Self::Object(fields) => fields.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name.as_str(), value)))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor::<false>)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MapVisitor::<false>)
    }
}

/// A value without equal names among the fields of an object.
pub struct Unambiguous(pub Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor::<true>).map(Self)
    }
}

/// Reads a value. Equal names are errors if `UNAMBIGUOUS`.
#[derive(Clone, Copy)]
struct ValueVisitor<const UNAMBIGUOUS: bool>;

#[derive(Clone, Copy)]
struct MapVisitor<const UNAMBIGUOUS: bool>;

/// Objects and arrays up to this size are read without intermediate allocations.
const FEW: usize = 16;

impl<'de, const UNAMBIGUOUS: bool> DeserializeSeed<'de> for ValueVisitor<UNAMBIGUOUS> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, const UNAMBIGUOUS: bool> Visitor<'de> for MapVisitor<UNAMBIGUOUS> {
    type Value = Map;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Map, A::Error> {
        let mut fields: SmallVec<[(SmolStr, Value); FEW]> = SmallVec::new();
        while let Some(name) = access.next_key()? {
            fields.push((name, access.next_value_seed(ValueVisitor::<UNAMBIGUOUS>)?));
        }
        let read = fields.len();
        let map = Map::from_iter(fields);
        if UNAMBIGUOUS && map.len() < read {
            return Err(serde::de::Error::custom("two fields of an object have the same name"));
        }
        Ok(map)
    }
}

impl<'de, const UNAMBIGUOUS: bool> Visitor<'de> for ValueVisitor<UNAMBIGUOUS> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items: SmallVec<[Value; FEW]> = SmallVec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items.into_iter().collect()))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        MapVisitor::<UNAMBIGUOUS>.visit_map(access).map(Value::Object)
    }
}
