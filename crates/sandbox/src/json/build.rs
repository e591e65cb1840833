//! Values from literals: the macro `json!`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol_str::SmolStr;

use super::{Map, Value};

/// What a literal can contain.
pub trait ToValue {
    /// The value.
    fn to_value(&self) -> Value;
}

/// A value in the form of a JSON literal. Fields and items can be expressions whose types are
/// [`ToValue`], and names can be expressions in parentheses.
#[macro_export]
#[doc(hidden)]
macro_rules! __json {
    (@fields $map:ident) => {};
    (@fields $map:ident $name:tt : null $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::Value::Null);
        $crate::__json!(@fields $map $($($rest)*)?);
    };
    (@fields $map:ident $name:tt : {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::__json!({$($inner)*}));
        $crate::__json!(@fields $map $($($rest)*)?);
    };
    (@fields $map:ident $name:tt : [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::__json!([$($inner)*]));
        $crate::__json!(@fields $map $($($rest)*)?);
    };
    (@fields $map:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::ToValue::to_value(&$value));
        $crate::__json!(@fields $map $($($rest)*)?);
    };
    (@items $items:ident) => {};
    (@items $items:ident null $(, $($rest:tt)*)?) => {
        $items.push($crate::json::Value::Null);
        $crate::__json!(@items $items $($($rest)*)?);
    };
    (@items $items:ident {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $items.push($crate::__json!({$($inner)*}));
        $crate::__json!(@items $items $($($rest)*)?);
    };
    (@items $items:ident [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $items.push($crate::__json!([$($inner)*]));
        $crate::__json!(@items $items $($($rest)*)?);
    };
    (@items $items:ident $value:expr $(, $($rest:tt)*)?) => {
        $items.push($crate::json::ToValue::to_value(&$value));
        $crate::__json!(@items $items $($($rest)*)?);
    };
    (null) => { $crate::json::Value::Null };
    ({}) => { $crate::json::Value::Object($crate::json::Map::new()) };
    ([]) => { $crate::json::Value::Array($crate::json::Array::default()) };
    ({$($fields:tt)*}) => {{
        let mut map = $crate::json::Map::new();
        $crate::__json!(@fields map $($fields)*);
        $crate::json::Value::Object(map)
    }};
    ([$($items:tt)*]) => {{
        #[allow(clippy::vec_init_then_push, reason = "items are literals or expressions")]
        let items = {
            let mut items: Vec<$crate::json::Value> = Vec::new();
            $crate::__json!(@items items $($items)*);
            items
        };
        $crate::json::Value::from(items)
    }};
    ($value:expr) => { $crate::json::ToValue::to_value(&$value) };
}

pub use __json as json;

macro_rules! to_value_by_copy {
    ($($type:ty),*) => {$(
        impl ToValue for $type {
            fn to_value(&self) -> Value {
                Value::from(*self)
            }
        }
    )*};
}

to_value_by_copy!(bool, f64, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl ToValue for str {
    fn to_value(&self) -> Value {
        Value::from(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value {
        Value::from(self)
    }
}

impl ToValue for SmolStr {
    fn to_value(&self) -> Value {
        Value::from(self)
    }
}

impl ToValue for Cow<'_, str> {
    fn to_value(&self) -> Value {
        Value::from(&**self)
    }
}

impl ToValue for Value {
    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl ToValue for Map {
    fn to_value(&self) -> Value {
        Value::Object(self.clone())
    }
}

impl ToValue for serde_json::Value {
    fn to_value(&self) -> Value {
        Value::from(self.clone())
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value {
        (**self).to_value()
    }
}

impl<T: ToValue + ?Sized> ToValue for Box<T> {
    fn to_value(&self) -> Value {
        (**self).to_value()
    }
}

impl<T: ToValue + ?Sized> ToValue for Arc<T> {
    fn to_value(&self) -> Value {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl<T: ToValue> ToValue for [T] {
    fn to_value(&self) -> Value {
        Value::Array(self.iter().map(ToValue::to_value).collect())
    }
}

impl<T: ToValue, const N: usize> ToValue for [T; N] {
    fn to_value(&self) -> Value {
        self.as_slice().to_value()
    }
}

impl<T: ToValue> ToValue for Vec<T> {
    fn to_value(&self) -> Value {
        self.as_slice().to_value()
    }
}

impl<T: ToValue> ToValue for BTreeSet<T> {
    fn to_value(&self) -> Value {
        Value::Array(self.iter().map(ToValue::to_value).collect())
    }
}

impl<K: AsRef<str>, T: ToValue> ToValue for BTreeMap<K, T> {
    fn to_value(&self) -> Value {
        let fields = self.iter().map(|(name, value)| (name.as_ref(), value.to_value()));
        Value::Object(fields.collect())
    }
}
