//! One allocation for each text that many objects share: label keys, most label values, node names.

use std::collections::HashSet;
use std::sync::Arc;

/// How many texts are remembered before it starts over. What was handed out stays as it is.
const TEXTS_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= TEXTS_MAX {
            self.0.clear();
        }
        let text: Arc<str> = text.into();
        self.0.insert(text.clone());
        text
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
