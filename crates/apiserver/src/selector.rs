//! Selectors of lists and watches: namespace, labels and fields. They are parsed once and matched
//! many times.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};

use crate::kind::Kind;
use crate::object::Object;

/// A selector can't be parsed; the message is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// The selection of a list or a watch. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
}

impl Selector {
    /// True if an object of a kind matches.
    pub fn matches(&self, kind: &Kind, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self.labels.matches(|key| object.label(key))
            && self.fields.matches(kind, object)
    }

    /// True if the selection depends on labels or fields.
    pub fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}
