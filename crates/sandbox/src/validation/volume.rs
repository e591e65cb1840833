//! Volumes: named once, of one type each.

use super::field::{Causes, Field};
use super::{format, volume_source};

const FILE_MODE_MAX: i64 = 0o777;

/// The valid volumes of a pod: what its containers can mount.
pub(super) struct Volumes(Vec<Volume>);

struct Volume {
    name: String,
    /// Whether it stands for a claim, and so can be a block device.
    claim: bool,
}

impl Volumes {
    pub fn has(&self, name: &str) -> bool {
        self.is_claim(name).is_some()
    }

    /// Whether the volume of this name is a claim; none if there is no such volume.
    pub fn is_claim(&self, name: &str) -> Option<bool> {
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

/// A relative path that does not climb.
pub(super) fn descending_path(path: &Field, causes: &mut Causes) {
    if path.text().starts_with('/') {
        causes.invalid(path, "must be a relative path");
    }
    no_backsteps(path, causes);
}

/// A relative path that does not climb, and does not look as if it did.
pub(super) fn local_path(path: &Field, causes: &mut Causes) {
    descending_path(path, causes);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        causes.invalid(path, "must not start with '..'");
    }
}

pub(super) fn no_backsteps(path: &Field, causes: &mut Causes) {
    if path.text().split('/').any(|part| part == "..") {
        causes.invalid(path, "must not contain '..'");
    }
}

pub(super) fn file_mode(mode: &Field, causes: &mut Causes) {
    if !(0..=FILE_MODE_MAX).contains(&mode.int()) {
        causes.invalid(mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

pub(super) fn required_text(field: &Field, causes: &mut Causes) {
    if field.text().is_empty() {
        causes.required(field, "");
    }
}
