//! Shares one allocation between equal texts (label keys, most label values, node names) and
//! between equal sets of labels, which most pods of a DaemonSet have.

use std::collections::HashSet;
use std::sync::Arc;

use everynode_core::api::Labels;

/// Maximum number of texts in the pool. At the maximum the pool is emptied; texts in use keep their
/// allocations.
const TEXTS_MAX: usize = 1 << 16;

/// Maximum number of sets of labels in the pool.
const LABELS_MAX: usize = 1 << 12;

/// A pool of texts and sets of labels.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    labels: HashSet<Labels>,
}

impl Interner {
    /// The pooled copy of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= TEXTS_MAX {
            self.texts.clear();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    /// The pooled copy of a set of labels.
    pub fn labels(&mut self, labels: Labels) -> Labels {
        if let Some(known) = self.labels.get(&labels) {
            return known.clone();
        }
        if self.labels.len() >= LABELS_MAX {
            self.labels.clear();
        }
        self.labels.insert(labels.clone());
        labels
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
}
