//! What a list or a watch selects: a namespace, labels, fields. Parsed once at the edge, matched many times.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};

use crate::object::Object;

/// A selector did not parse; the message is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// Everything that narrows a list or a watch; the default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub namespace: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selector {
    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self.labels.matches(|key| object.label(key))
            && self.fields.matches(object)
    }

    /// Whether labels or fields narrow it.
    pub fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}
