//! Validates volumes: unique names, and exactly one type each.

use std::collections::HashMap;

use super::volume_source;
use crate::format;
use crate::kind::rules::{Causes, Field};

/// The valid volumes of a pod, which its containers can mount.
/// By name, whether it is a claim, which can be a block device.
pub(super) struct Volumes(HashMap<String, bool>);

impl Volumes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.is_claim(name).is_some()
    }

    /// Whether the volume with this name is a claim; `None` if there is no such volume.
    pub(super) fn is_claim(&self, name: &str) -> Option<bool> {
        self.0.get(name).copied()
    }
}

/// Validates the volumes and returns the valid ones. As upstream, a mount of an invalid volume is
/// not found.
pub(super) fn volumes(volumes: &Field, causes: &mut Causes) -> Volumes {
    let mut valid = Volumes(HashMap::new());
    for volume in volumes.items() {
        let name = volume.child("name");
        let mut found = causes.part();
        volume_source::source(&volume, &mut found);
        found.required_format(&name, format::dns_label);
        if valid.has(name.text()) {
            found.duplicate(&name);
        }
        if found.is_empty() {
            let claim = volume.child("persistentVolumeClaim").is_set()
                || volume.child("ephemeral").is_set();
            valid.0.insert(name.text().to_owned(), claim);
        }
        causes.append(found);
    }
    valid
}
