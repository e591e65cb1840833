//! The copies of ConfigMaps that writes create and delete (G58).

use std::sync::Arc;

use crate::api::{Uid, copy_name};

/// A copy of a ConfigMap to create (G58).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCopy {
    /// The ConfigMap.
    pub source: Arc<str>,
    /// The hash at the end of the name of the copy. It is that of the content.
    pub hash: Arc<str>,
}

impl NewCopy {
    /// The name of the copy.
    pub fn name(&self) -> String {
        copy_name(&self.source, &self.hash)
    }
}

/// The copy of a ConfigMap that a write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReference {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`: the write fails if another ConfigMap has the name (C61).
    pub uid: Uid,
}
