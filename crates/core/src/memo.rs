//! Values that are computed again only after what they were computed from has changed.

/// A value, and the key that it was computed from.
///
/// Nothing tells a memo that its value is outdated. The key holds all that the computation reads,
/// as values or as numbers of changes: whoever needs the value makes the key of the present, and
/// computes again unless [`get`](Self::get) finds the value of that key. What no key can hold, such
/// as a time that has come, is the reader's to check, or ends the value by
/// [`invalidate`](Self::invalidate).
#[derive(Debug)]
pub(crate) struct Memo<K, V> {
    key: Option<K>,
    value: V,
}

impl<K, V: Default> Default for Memo<K, V> {
    fn default() -> Self {
        Self { key: None, value: V::default() }
    }
}

impl<K: PartialEq, V> Memo<K, V> {
    /// The value, if it was computed from this key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        (self.key.as_ref() == Some(key)).then_some(&self.value)
    }

    /// True if a value was computed, and is not invalidated.
    pub(crate) const fn is_known(&self) -> bool {
        self.key.is_some()
    }

    /// The value that was computed last, from whatever key.
    pub(crate) const fn last(&self) -> &V {
        &self.value
    }

    pub(crate) fn set(&mut self, key: K, value: V) {
        *self = Self { key: Some(key), value };
    }

    /// Makes sure that the value is computed again.
    pub(crate) fn invalidate(&mut self) {
        self.key = None;
    }
}
