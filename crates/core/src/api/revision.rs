//! What decisions read of a ControllerRevision.

use std::sync::Arc;

use super::daemon_set::Template;
use super::labels::{HASH_LABEL, Labels};
use super::names::{ResourceVersion, RevisionHash, RevisionName, Uid};

/// A ControllerRevision: one template that the DaemonSet has had (C40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    pub name: RevisionName,
    pub uid: Uid,
    pub resource_version: ResourceVersion,
    pub labels: Labels,
    /// The UID of the owner that is marked as controller.
    pub controller: Option<Uid>,
    pub terminating: bool,
    /// `revision`: the higher, the newer.
    pub number: i64,
    /// The template in `data`, in the form of [`Template::canonical`]; or why
    /// the data is not of the form that C40 gives, and so matches no template (C4).
    pub template: Result<Arc<str>, Arc<str>>,
}

impl Revision {
    pub fn hash(&self) -> Option<RevisionHash> {
        self.labels.get(HASH_LABEL).map(|hash| RevisionHash::new(hash.clone()))
    }

    /// Whether it stores this template (C41).
    pub fn stores(&self, template: &Template) -> bool {
        self.template.as_ref().is_ok_and(|stored| *stored == template.canonical)
    }
}
