//! Reading and writing the items of arrays and the fields of objects.

use smol_str::SmolStr;

use super::Value;

/// The index of an item, or the name of a field.
pub trait Index {
    /// The value at the index; `None` if there is none.
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value>;

    /// The value at the index, for changes; `None` if there is none.
    fn of_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value>;

    /// The value at the index, which is added to an object that lacks it. Null becomes an object.
    ///
    /// # Panics
    /// If an array has no such item, or the value is neither an array nor an object.
    fn of_or_insert<'a>(&self, value: &'a mut Value) -> &'a mut Value;
}

impl Index for str {
    #[inline]
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        value.as_object()?.get(self)
    }

    #[inline]
    fn of_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn of_or_insert<'a>(&self, value: &'a mut Value) -> &'a mut Value {
        if value.is_null() {
            *value = Value::Object(super::Map::new());
        }
        match value {
            Value::Object(fields) => fields.entry(self).or_insert(Value::Null),
            // Without the value, which may be secret.
            _ => panic!("cannot access the field {self:?} of a value that is no object"),
        }
    }
}

macro_rules! index_by_text {
    ($($text:ty),*) => {$(
        impl Index for $text {
            #[inline]
            fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
                self.as_str().of(value)
            }

            #[inline]
            fn of_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
                self.as_str().of_mut(value)
            }

            fn of_or_insert<'a>(&self, value: &'a mut Value) -> &'a mut Value {
                self.as_str().of_or_insert(value)
            }
        }
    )*};
}

index_by_text!(String, SmolStr);

impl Index for usize {
    #[inline]
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        value.as_array()?.get(*self)
    }

    #[inline]
    fn of_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn of_or_insert<'a>(&self, value: &'a mut Value) -> &'a mut Value {
        match value {
            Value::Array(items) => &mut items[*self],
            _ => panic!("cannot access the item {self} of a value that is no array"),
        }
    }
}

impl<T: Index + ?Sized> Index for &T {
    #[inline]
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        (**self).of(value)
    }

    #[inline]
    fn of_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        (**self).of_mut(value)
    }

    fn of_or_insert<'a>(&self, value: &'a mut Value) -> &'a mut Value {
        (**self).of_or_insert(value)
    }
}

/// Null if there is no such item or field.
impl<I: Index> std::ops::Index<I> for Value {
    type Output = Value;

    fn index(&self, index: I) -> &Value {
        static NULL: Value = Value::Null;
        index.of(self).unwrap_or(&NULL)
    }
}

/// Adds a field that an object lacks.
impl<I: Index> std::ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Value {
        index.of_or_insert(self)
    }
}
