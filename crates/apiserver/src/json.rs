//! JSON values whose copies share memory.
//!
//! A [`Value`] is read and written like one of `serde_json`, but a copy takes constant time: arrays
//! and objects are shared until one of the copies is changed, which then copies the levels from the
//! root to the change. The versions of a stored object have most of their content in common.
//! Strings of up to 23 bytes, which are most, need no memory of their own. `serde_json` parses and
//! writes the text.

mod build;
mod convert;
mod index;
mod map;
mod shared;
mod size;
mod text;

use std::ops::{Deref, DerefMut};

pub use serde_json::Number;
pub use smol_str::SmolStr;

pub use build::ToValue;
pub use build::json;
pub use index::Index;
pub use map::{Entry, IntoIter, Iter, Map, VacantEntry};
pub use size::Size;
pub use text::{ReadNested, Unambiguous, ValueVisitor};

use shared::Shared;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Null.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(SmolStr),
    /// An array.
    Array(Array),
    /// An object.
    Object(Map),
}

/// The items of an array, which are copied when they are changed while another value has them.
#[derive(Clone, Debug, Default)]
pub struct Array(Shared<Vec<Value>>);

impl Value {
    /// The item of an array, or the field of an object.
    pub fn get(&self, index: impl Index) -> Option<&Value> {
        index.of(self)
    }

    /// The item of an array, or the field of an object, for changes.
    pub fn get_mut(&mut self, index: impl Index) -> Option<&mut Value> {
        index.of_mut(self)
    }

    /// The value at a JSON pointer.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let steps = pointer_steps(pointer)?;
        steps.into_iter().try_fold(self, |value, step| {
            value.get(step.as_str()).or_else(|| value.get(step.parse::<usize>().ok()?))
        })
    }

    /// The value at a JSON pointer, for changes.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        let steps = pointer_steps(pointer)?;
        steps.into_iter().try_fold(self, |value, step| match value {
            Self::Object(fields) => fields.get_mut(&step),
            Self::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// True if the value is null.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// True if the value is a boolean.
    #[inline]
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// True if the value is a number.
    #[inline]
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// True if the value is an integer within the range of `i64`.
    #[inline]
    pub fn is_i64(&self) -> bool {
        self.as_i64().is_some()
    }

    /// True if the value is a string.
    #[inline]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// True if the value is an array.
    #[inline]
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// True if the value is an object.
    #[inline]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The boolean; `None` for a value of another type.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number; `None` for a value of another type.
    #[inline]
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The integer; `None` for a value of another type, or out of range.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The integer; `None` for a value of another type, or out of range.
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number as a float; `None` for a value of another type.
    #[inline]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// The string; `None` for a value of another type.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items; `None` for a value of another type.
    #[inline]
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The items, for changes; `None` for a value of another type.
    #[inline]
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The fields; `None` for a value of another type.
    #[inline]
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// The fields, for changes; `None` for a value of another type.
    #[inline]
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// True if this is an array or object that a copy has left unchanged. Then both are equal,
    /// which takes no comparison to find.
    #[inline]
    pub fn is_shared_with(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Array(one), Self::Array(other)) => one.0.is_same(&other.0),
            (Self::Object(one), Self::Object(other)) => one.is_shared_with(other),
            _ => false,
        }
    }

    /// Takes the value, and leaves null.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }
}

/// The steps of a JSON pointer; `None` if it is not one.
fn pointer_steps(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let steps = pointer.strip_prefix('/')?.split('/');
    Some(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

impl Array {
    /// The items, copied if another value has them.
    pub fn into_vec(self) -> Vec<Value> {
        self.0.into_content()
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&other.0) || self.0.get() == other.0.get()
    }
}

impl Eq for Array {}

impl Deref for Array {
    type Target = Vec<Value>;

    #[inline]
    fn deref(&self) -> &Vec<Value> {
        self.0.get()
    }
}

impl DerefMut for Array {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        self.0.get_mut()
    }
}

impl From<Vec<Value>> for Array {
    fn from(items: Vec<Value>) -> Self {
        Self(Shared::new(items))
    }
}

impl FromIterator<Value> for Array {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self(Shared::new(items.into_iter().collect()))
    }
}

impl IntoIterator for Array {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a Array {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.get().iter()
    }
}

#[cfg(test)]
mod tests;
