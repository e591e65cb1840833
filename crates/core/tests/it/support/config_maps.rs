//! The ConfigMaps of the API server, and the copies of them (G58).

use everynode_core::api::{ConfigMap, ConfigMaps, CopyOrigin};
use everynode_core::plan::{CopyReference, NewCopy};

use super::*;

/// The ConfigMaps of the namespace.
#[derive(Default)]
pub(crate) struct ServedConfigMaps {
    pub maps: BTreeMap<Arc<str>, ConfigMap>,
    pub list: ConfigMapList,
}

/// The answer of the API server when they are listed.
#[derive(Clone, Copy, Default)]
pub(crate) enum ConfigMapList {
    #[default]
    Answered,
    /// It has yet to answer.
    Pending,
    Refused,
}

impl World {
    /// Shows the ConfigMaps to the controller, if it needs them.
    pub(super) fn observe_config_maps(&mut self) {
        if self.state.needs_config_maps() {
            let ServedConfigMaps { maps, list } = &self.server.config_maps;
            let known = match list {
                ConfigMapList::Refused => ConfigMaps::Refused,
                ConfigMapList::Pending => ConfigMaps::Pending,
                ConfigMapList::Answered => self.state.known_config_maps(maps),
            };
            self.state.apply_config_maps(known);
        }
    }

    /// Creates or changes a ConfigMap.
    pub(crate) fn put_config_map(&mut self, name: &str, content: &str) {
        let version = self.server.next_version();
        let map = ConfigMap {
            name: name.into(),
            uid: Uid::new(&format!("map-{version}")),
            terminating: false,
            digest: content.into(),
            copy_of: None,
        };
        self.server.config_maps.maps.insert(name.into(), map);
    }

    pub(super) fn copy_config_map(&mut self, new: &NewCopy) -> Outcome {
        let maps = &self.server.config_maps.maps;
        let Some(source) = maps.get(&new.source).cloned() else { return Outcome::Skipped };
        let name: Arc<str> = new.name().into();
        if !maps.contains_key(&name) {
            let version = self.server.next_version();
            let uid = Uid::new(&format!("map-{version}"));
            let copy_of =
                Some(CopyOrigin { owner: Some(DS_UID.into()), source: new.source.clone() });
            let copy = ConfigMap { name: name.clone(), uid, copy_of, ..source };
            self.server.config_maps.maps.insert(name.clone(), copy);
        }
        self.written(&self.server.config_maps.maps[&name].uid)
    }

    pub(super) fn delete_copy(&mut self, copy: &CopyReference) -> Outcome {
        let maps = &mut self.server.config_maps.maps;
        match maps.get(&copy.name).is_some_and(|known| known.uid == copy.uid) {
            true => {
                maps.remove(&copy.name);
                self.written(&copy.uid)
            }
            false => Outcome::Gone,
        }
    }
}
