//! Volumes: named once, of one type each.

use super::field::{Causes, Field};
use super::{format, volume_source};

/// The valid volumes of a pod: what its containers can mount.
pub(super) struct Volumes(Vec<Volume>);

struct Volume {
    name: String,
    /// Whether it stands for a claim, and so can be a block device.
    claim: bool,
}

impl Volumes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.is_claim(name).is_some()
    }

    /// Whether the volume of this name is a claim; none if there is no such volume.
    pub(super) fn is_claim(&self, name: &str) -> Option<bool> {
        self.0.iter().find(|volume| volume.name == name).map(|volume| volume.claim)
    }
}

/// Validates the volumes, and returns those that are valid. A mount of an invalid one is then not found, as upstream has it.
pub(super) fn volumes(volumes: &Field, causes: &mut Causes) -> Volumes {
    let mut valid = Volumes(Vec::new());
    for volume in volumes.items() {
        let name = volume.child("name");
        let mut found = Causes::default();
        volume_source::source(&volume, &mut found);
        if name.text().is_empty() {
            found.required(&name, "");
        } else {
            found.invalid_each(&name, format::dns_label(name.text()));
        }
        if valid.has(name.text()) {
            found.duplicate(&name);
        }
        if found.is_empty() {
            let claim = volume.child("persistentVolumeClaim").is_set()
                || volume.child("ephemeral").is_set();
            valid.0.push(Volume { name: name.text().to_owned(), claim });
        }
        causes.append(found);
    }
    valid
}
