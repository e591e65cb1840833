//! The revisions of the pods that a node had since it came, compared with the target (G33).

/// The pods that a node had since it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Past {
    /// It had none.
    #[default]
    Nothing,
    /// Those of the target, and no other.
    Target,
    /// Those of one other revision, and none of the target.
    Other,
    /// Those of another revision, and then those of the target or a third one.
    Several,
    /// It was there before this controller looked.
    Unknown {
        /// True if this controller has seen a pod of the target since.
        had_target: bool,
    },
}

/// The revision of a pod, compared with the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Target,
    /// It has the labels of the target before this one: those of this one are not known yet.
    FormerTarget,
    Other,
}

impl Of {
    /// The revision of a pod with the labels of the target.
    pub(crate) const fn target(is_target_known: bool) -> Self {
        if is_target_known { Self::Target } else { Self::FormerTarget }
    }
}

impl Past {
    /// True if it had a pod of another revision, as far as that is known.
    pub(super) const fn had_other(self) -> bool {
        matches!(self, Self::Other | Self::Several)
    }

    /// True if it had none, which is known.
    pub(super) const fn had_no_other(self) -> bool {
        matches!(self, Self::Nothing | Self::Target)
    }

    pub(super) const fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// The past once a pod of this revision is seen.
    pub(super) const fn with(self, pod: Of) -> Self {
        match (self, pod) {
            (Self::Nothing, Of::Target) => Self::Target,
            (Self::Nothing | Self::Other, Of::Other) => Self::Other,
            (Self::Unknown { .. }, Of::Target) => Self::Unknown { had_target: true },
            // Somebody may have taken the labels of the target's revision away.
            (Self::Target | Self::Unknown { had_target: true }, Of::Target | Of::FormerTarget) => {
                self
            }
            (Self::Nothing | Self::Unknown { had_target: false }, Of::FormerTarget)
            | (Self::Target | Self::Unknown { .. }, Of::Other)
            | (Self::Other, Of::Target | Of::FormerTarget)
            | (Self::Several, _) => Self::Several,
        }
    }

    /// The past under another target. `has_begun` is whether the rollout of the former one had
    /// begun on the node, `has_target` whether all its pods are of the new one.
    pub(super) const fn of_another_target(self, has_begun: bool, has_target: bool) -> Self {
        match self {
            Self::Other if has_target && !has_begun => Self::Target,
            Self::Target => Self::Other,
            Self::Nothing | Self::Other => self,
            Self::Unknown { had_target: false } if !has_begun => self,
            Self::Unknown { .. } | Self::Several => Self::Several,
        }
    }

    /// The past under a target with which the node has nothing to do.
    pub(super) const fn left_out(self) -> Self {
        match self {
            Self::Unknown { .. } => Self::Unknown { had_target: false },
            _ => self,
        }
    }
}
