//! The ConfigMaps of a namespace in which a DaemonSet has copies of some (G58).

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{ConfigMap, ConfigMaps, ResourceVersion};
use everynode_core::daemon_set::DaemonSetState;

use crate::watch::Change;

/// The ConfigMaps of a namespace.
#[derive(Debug, Default)]
pub(super) enum NamespaceConfigMaps {
    /// No DaemonSet needs them.
    #[default]
    Unread,
    /// They are being listed.
    Pending,
    /// The API server refuses to list them.
    Refused,
    Known {
        maps: BTreeMap<Arc<str>, ConfigMap>,
        /// The version of the newest change: a watch that restarts may repeat earlier ones.
        newest: ResourceVersion,
    },
}

impl NamespaceConfigMaps {
    /// Applies a change that their watch reports; returns whether anything changed.
    pub(super) fn apply(&mut self, change: Change<ConfigMap>) -> bool {
        let (version, is_change) = (change.version(), !matches!(change, Change::Reached(_)));
        match (&mut *self, change) {
            (_, Change::Reset { version: ResourceVersion(0), .. }) => *self = Self::Refused,
            (_, Change::Reset { items, version }) => {
                let maps = items.into_iter().map(|item| (item.name.clone(), item)).collect();
                *self = Self::Known { maps, newest: version };
            }
            (Self::Known { newest, .. }, _) if version <= *newest => return false,
            (Self::Known { maps, newest }, Change::Applied { item, .. }) => {
                *newest = version;
                maps.insert(item.name.clone(), item);
            }
            (Self::Known { maps, newest }, Change::Deleted { item, .. }) => {
                *newest = version;
                maps.remove(&item.name);
            }
            (Self::Known { .. }, Change::Reached(_))
            | (Self::Unread | Self::Pending | Self::Refused, _) => {}
        }
        is_change
    }

    /// Records that they are needed; returns whether they have yet to be watched.
    pub(super) fn need(&mut self) -> bool {
        let is_new = matches!(self, Self::Unread);
        if is_new {
            *self = Self::Pending;
        }
        is_new
    }

    /// The ConfigMaps that concern a DaemonSet.
    pub(super) fn of(&self, daemon_set: &DaemonSetState) -> ConfigMaps {
        match self {
            Self::Unread => ConfigMaps::Unread,
            Self::Pending => ConfigMaps::Pending,
            Self::Refused => ConfigMaps::Refused,
            Self::Known { maps, .. } => daemon_set.known_config_maps(maps),
        }
    }
}
