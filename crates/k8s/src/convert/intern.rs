//! One allocation for each text that many objects share: label keys, most label values, node names; and for
//! the labels as a whole that the pods of a DaemonSet have in common.

use std::collections::HashSet;
use std::sync::Arc;

use everynode_core::api::Labels;

/// How many texts are remembered before it starts over. What was handed out stays as it is.
const TEXTS_MAX: usize = 1 << 16;

/// As above, of labels as a whole.
const LABELS_MAX: usize = 1 << 12;

#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    labels: HashSet<Labels>,
}

impl Interner {
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

    /// C3: what many objects share is held once.
    #[test]
    fn equal_texts_share_one_allocation() {
        let mut interner = Interner::default();
        let (a, b) = (interner.text("fluentd"), interner.text("fluentd"));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &interner.text("other")));
    }
}
