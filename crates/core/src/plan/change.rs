//! A change of a running pod (G56, G57).

use std::sync::Arc;

use crate::api::{ChangeGoal, NodeOverride, RevisionHash, Timestamp};

use super::PodReference;

/// A change of a running pod in place (G56).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChange {
    /// The pod.
    pub pod: PodReference,
    /// The hash of the revision to which it is changed.
    pub hash: RevisionHash,
    /// The template of its present revision, in the form of
    /// [`Template::canonical`](crate::api::Template::canonical).
    pub from: Arc<str>,
    /// The template to which it is changed, in the same form.
    pub to: Arc<str>,
    /// The tag of the override that it has before (G57).
    pub tag: Option<Arc<str>>,
    /// The override that it has then. It is another one only beside a controller that makes the
    /// pods, and sets nothing but resources there.
    pub r#override: Option<Arc<NodeOverride>>,
    /// The time, by the wall clock, in whole seconds.
    pub since: Timestamp,
}

impl NewChange {
    /// The revision and the override that the pod gets.
    pub fn goal(&self) -> ChangeGoal {
        let tag = self.r#override.as_ref().map(|it| it.tag.clone());
        ChangeGoal { hash: self.hash.clone(), tag }
    }

    /// True if nothing but the override of the pod changes.
    pub fn keeps_revision(&self) -> bool {
        self.from == self.to
    }

    /// True if the pod gets another override, or loses the one that it has. An earlier change of
    /// the override may be half done.
    pub fn changes_override(&self) -> bool {
        self.keeps_revision() || self.tag.as_ref() != self.r#override.as_ref().map(|it| &it.tag)
    }
}
