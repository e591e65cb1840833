//! Values from and to other types.

use everynode_k8s::json::Json;
use smol_str::SmolStr;

use super::{Map, Number, Value};

macro_rules! from {
    ($($type:ty: $value:ident => $variant:ident($content:expr);)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                Self::$variant($content)
            }
        }
    )*};
}

from! {
    bool: value => Bool(value);
    &str: text => String(text.into());
    String: text => String(text.into());
    &String: text => String(text.into());
    SmolStr: text => String(text);
    &SmolStr: text => String(text.clone());
    Map: fields => Object(fields);
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Number::from_f64(value).map_or(Self::Null, Self::Number)
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Self {
                Self::Number(value.into())
            }
        }

        impl PartialEq<$integer> for Value {
            fn eq(&self, other: &$integer) -> bool {
                self.as_number().is_some_and(|number| *number == Number::from(*other))
            }
        }

        impl PartialEq<Value> for $integer {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

from_integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<SmolStr>> FromIterator<(K, Value)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(fields: I) -> Self {
        Self::Object(fields.into_iter().collect())
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(items) => items.into_iter().map(Self::from).collect(),
            serde_json::Value::Object(fields) => {
                Self::Object(fields.into_iter().map(|(name, value)| (name, value.into())).collect())
            }
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::String(text.to_string()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.to_string(), value.into()));
                Self::Object(fields.collect())
            }
        }
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

macro_rules! equals_texts {
    ($($text:ty),*) => {$(
        impl PartialEq<$text> for Value {
            fn eq(&self, other: &$text) -> bool {
                self.as_str() == Some(other.as_ref())
            }
        }

        impl PartialEq<Value> for $text {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

equals_texts!(str, &str, String);

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl Json for Value {
    fn field(&self, name: &str) -> Option<&Self> {
        self.get(name)
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        let fields = self.as_object().into_iter().flatten();
        fields.map(|(name, value)| (name.as_str(), value))
    }

    fn items(&self) -> &[Self] {
        self.as_array().map_or(&[], Vec::as_slice)
    }

    fn string(&self) -> Option<&str> {
        self.as_str()
    }

    fn boolean(&self) -> Option<bool> {
        self.as_bool()
    }

    fn unsigned(&self) -> Option<u64> {
        self.as_u64()
    }

    fn is_null(&self) -> bool {
        self.is_null()
    }
}
