//! Shares one allocation between equal texts (label keys, most label values, node names) and
//! between equal sets of labels, which most pods of a DaemonSet have.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use everynode_core::api::Labels;

/// Maximum number of texts in the pool. At the maximum the pool is emptied; texts in use keep their
/// allocations.
const TEXTS_MAX: usize = 1 << 16;

/// Maximum number of sets of labels in the pool.
const LABELS_MAX: usize = 1 << 12;

/// Maximum number of bytes of the texts, and of the sets of labels: whoever may change one object
/// again and again must not fill the memory with what is not used any more.
const BYTES_MAX: usize = 16 << 20;

/// A pool of texts and sets of labels.
#[derive(Debug, Default)]
pub struct Interner {
    texts: Pool<Arc<str>>,
    labels: Pool<Labels>,
}

impl Interner {
    /// The pooled copy of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.items.get(text) {
            return known.clone();
        }
        self.texts.add(text.into(), text.len(), TEXTS_MAX)
    }

    /// The pooled copy of a set of labels.
    pub fn labels(&mut self, labels: Labels) -> Labels {
        if let Some(known) = self.labels.items.get(&labels) {
            return known.clone();
        }
        let bytes = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.labels.add(labels, bytes, LABELS_MAX)
    }
}

/// The items of one kind, and the number of their bytes.
#[derive(Debug)]
struct Pool<T> {
    items: HashSet<T>,
    bytes: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { items: HashSet::new(), bytes: 0 }
    }
}

impl<T: Clone + Eq + Hash> Pool<T> {
    fn add(&mut self, item: T, bytes: usize, items_max: usize) -> T {
        if self.items.len() >= items_max || self.bytes + bytes > BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.items.insert(item.clone());
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C3: texts that many objects share are stored once.
    #[test]
    fn equal_texts_share_one_allocation() {
        let mut interner = Interner::default();
        let (a, b) = (interner.text("fluentd"), interner.text("fluentd"));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &interner.text("other")));
    }

    /// C3: texts that nobody uses any more do not fill the memory.
    #[test]
    fn a_pool_holds_a_limited_number_of_bytes() {
        let mut interner = Interner::default();
        let padding = "x".repeat(1 << 20);
        let texts = || (0..40).map(|number| format!("{number}{padding}"));
        for text in texts() {
            interner.text(&text);
            interner.labels([("key", text.as_str())].into_iter().collect());
        }
        for bytes in [interner.texts.bytes, interner.labels.bytes] {
            assert!((1 << 20..=BYTES_MAX).contains(&bytes), "{bytes}");
        }
        assert!(interner.texts.items.len() <= 16 && interner.labels.items.len() <= 16);
    }
}
