//! The commands about ConfigMaps and their copies (G58).

use super::*;
use crate::support::config_maps::ConfigMapList;

/// The ConfigMaps of a template; those with ? may be missing.
pub(super) fn config_maps(names: &str) -> Arc<StoredConfig> {
    let object = |name: &str| ConfigObject::ConfigMap(name.trim_end_matches('?').into());
    Arc::new(StoredConfig {
        objects: names.split(',').map(object).collect(),
        optional: names.split(',').filter(|it| it.ends_with('?')).map(object).collect(),
        ..StoredConfig::default()
    })
}

pub(super) fn edit_config_maps(world: &mut World, verb: &str, words: &[&str]) {
    match verb {
        "config-map" => world.put_config_map(words[0], words[1]),
        "config-map-gone" => {
            words.iter().for_each(|name| drop(world.server.config_maps.maps.remove(*name)));
        }
        "refuse-config-maps" => world.server.config_maps.list = ConfigMapList::Refused,
        "delay-config-maps" => world.server.config_maps.list = ConfigMapList::Pending,
        _ => world.server.config_maps.list = ConfigMapList::Answered,
    }
}

/// The copies of ConfigMaps with their content.
pub(super) fn describe_copies(world: &World) -> String {
    let copies = world.server.config_maps.maps.values().filter(|map| map.copy_of.is_some());
    copies.map(|copy| format!("{}: {}\n", copy.name, copy.digest)).collect()
}
