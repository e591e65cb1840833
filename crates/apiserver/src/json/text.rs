//! The text of values, which `serde_json` parses and writes.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::{Map, Value};

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
        deserializer.deserialize_any(ValueVisitor(Plain::<false>))
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(Error::custom("expected an object")),
        }
    }
}

/// A value without equal names among the fields of an object.
pub struct Unambiguous(pub Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor(Plain::<true>)).map(Self)
    }
}

/// How arrays and objects are read.
pub trait ReadNested<'de>: Sized {
    /// Reads an array.
    fn array<A: SeqAccess<'de>>(self, access: A) -> Result<Value, A::Error>;
    /// Reads an object.
    fn object<A: MapAccess<'de>>(self, access: A) -> Result<Value, A::Error>;
}

/// Reads a value.
#[derive(Clone, Copy)]
pub struct ValueVisitor<N>(pub N);

/// Reads arrays and objects of any size. Equal names are errors if `UNAMBIGUOUS`.
#[derive(Clone, Copy)]
struct Plain<const UNAMBIGUOUS: bool>;

/// Objects and arrays up to this size are read without intermediate allocations.
const FEW: usize = 16;

impl<'de, const UNAMBIGUOUS: bool> ReadNested<'de> for Plain<UNAMBIGUOUS> {
    fn array<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items: SmallVec<[Value; FEW]> = SmallVec::new();
        while let Some(item) = access.next_element_seed(ValueVisitor(self))? {
            items.push(item);
        }
        Ok(Value::Array(items.into_iter().collect()))
    }

    fn object<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields: SmallVec<[(SmolStr, Value); FEW]> = SmallVec::new();
        while let Some(name) = access.next_key()? {
            fields.push((name, access.next_value_seed(ValueVisitor(self))?));
        }
        let read = fields.len();
        let map = Map::from_iter(fields);
        if UNAMBIGUOUS && map.len() < read {
            return Err(Error::custom("two fields of an object have the same name"));
        }
        Ok(Value::Object(map))
    }
}

impl<'de, N: ReadNested<'de>> DeserializeSeed<'de> for ValueVisitor<N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: ReadNested<'de>> Visitor<'de> for ValueVisitor<N> {
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
        Ok(value.into())
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

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        self.0.array(access)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        self.0.object(access)
    }
}
