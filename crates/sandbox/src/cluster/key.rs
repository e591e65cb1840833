//! Identifies a pod.

use std::sync::Arc;

use crate::object::Object;

/// A pod's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodKey {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl PodKey {
    pub(super) fn of(pod: &Object) -> Self {
        Self { namespace: pod.namespace().into(), name: pod.name().into() }
    }
}
