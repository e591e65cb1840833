//! Which part of the work of a DaemonSet controller a replica does.

use everynode_core::daemon_set::Mode;
use serde::{Deserialize, Serialize};

/// The work that a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// All of it: it is the cluster's DaemonSet controller.
    Controller,
    /// All but guarded rollouts: it plays the built-in controller.
    BuiltIn,
    /// Only guarded rollouts, beside the built-in controller (G18).
    Beside,
}

/// The controllers that are installed in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Installation {
    /// The cluster's DaemonSet controller.
    #[default]
    Controller,
    /// The built-in controller, and one that guards rollouts beside it.
    Beside,
    /// The same, with the right to roll back (G20).
    BesideRollingBack,
}

impl Installation {
    /// The roles of its replicas.
    pub(crate) const fn roles(self) -> &'static [Role] {
        match self {
            Self::Controller => &[Role::Controller],
            Self::Beside | Self::BesideRollingBack => &[Role::BuiltIn, Role::Beside],
        }
    }

    /// How the controller runs in a role.
    pub(crate) const fn mode(self, role: Role) -> Mode {
        match role {
            Role::Controller => Mode::Controller,
            Role::BuiltIn => Mode::Unguarded,
            Role::Beside => Mode::Beside { rolls_back: matches!(self, Self::BesideRollingBack) },
        }
    }
}
