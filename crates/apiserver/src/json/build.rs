//! Values from literals: the macro `json!`.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;

use super::{Map, Value};

/// A value that a literal can contain.
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

macro_rules! to_value {
    ($([$($parameters:tt)*] $type:ty: $this:ident => $value:expr;)*) => {$(
        impl<$($parameters)*> ToValue for $type {
            fn to_value(&self) -> Value {
                let $this = self;
                $value
            }
        }
    )*};
}

to_value! {
    [] str: text => Value::from(text);
    [] String: text => Value::from(text);
    [] SmolStr: text => Value::from(text);
    [] Value: value => value.clone();
    [] Map: fields => Value::Object(fields.clone());
    [T: ToValue + ?Sized] &T: value => (**value).to_value();
    [T: ToValue] Option<T>: value => value.as_ref().map_or(Value::Null, ToValue::to_value);
    [T: ToValue] [T]: items => Value::Array(items.iter().map(ToValue::to_value).collect());
    [T: ToValue, const N: usize] [T; N]: items => items.as_slice().to_value();
    [T: ToValue] Vec<T>: items => items.as_slice().to_value();
    [T: ToValue] BTreeSet<T>: items => Value::Array(items.iter().map(ToValue::to_value).collect());
    [K: AsRef<str>, T: ToValue] BTreeMap<K, T>: fields => {
        let fields = fields.iter().map(|(name, value)| (name.as_ref(), value.to_value()));
        Value::Object(fields.collect())
    };
}

macro_rules! to_value_by_copy {
    ($($type:ty),*) => {
        to_value! { $([] $type: value => Value::from(*value);)* }
    };
}

to_value_by_copy!(bool, f64, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);
