//! JSON values as the conversions read them, whichever type they have.

use std::fmt;

use serde_json::Value;

/// A JSON value. Its text is what it displays.
pub trait Json: fmt::Display + Sized {
    /// A field of an object.
    fn field(&self, name: &str) -> Option<&Self>;

    /// The fields of an object; none for another value.
    fn fields(&self) -> impl Iterator<Item = (&str, &Self)>;

    /// The items of an array; none for another value.
    fn items(&self) -> &[Self];

    /// A string.
    fn string(&self) -> Option<&str>;

    /// A boolean.
    fn boolean(&self) -> Option<bool>;

    /// An integer that is not negative.
    fn unsigned(&self) -> Option<u64>;

    /// True if the value is null.
    fn is_null(&self) -> bool;

    /// The value to which a list of fields leads.
    fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.field(name))
    }

    /// The string to which a list of fields leads; empty if there is none.
    fn string_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Self::string).unwrap_or_default()
    }

    /// The items of the array to which a list of fields leads; none if there is no array.
    fn items_at(&self, path: &[&str]) -> &[Self] {
        self.at(path).map_or(&[], Self::items)
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
