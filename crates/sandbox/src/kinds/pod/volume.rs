//! Validates volumes: unique names, exactly one type each, and the fields of the types that most
//! pods use.

use std::collections::HashSet;

use super::environment;
use crate::format;
use crate::kind::rules::{Causes, Field};

/// Validates the volumes and returns the names of the valid ones, which containers can mount. As
/// upstream, a mount of an invalid volume is not found.
pub(super) fn volumes(volumes: &Field, causes: &mut Causes) -> HashSet<String> {
    let mut valid = HashSet::new();
    for volume in volumes.items() {
        let name = volume.child("name");
        let mut found = causes.part();
        source(&volume, &mut found);
        found.required_format(&name, format::dns_label);
        if valid.contains(name.text()) {
            found.duplicate(&name);
        }
        if found.is_empty() {
            valid.insert(name.text().to_owned());
        }
        causes.append(found);
    }
    valid
}

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The required fields of some types of volumes.
const REQUIRED: [(&str, &[&str]); 6] = [
    ("configMap", &["name"]),
    ("csi", &["driver"]),
    ("hostPath", &["path"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("secret", &["secretName"]),
];

/// A volume has exactly one type.
fn source(volume: &Field, causes: &mut Causes) {
    let mut types = volume.entries().map(|(name, _)| name).filter(|name| *name != "name");
    let Some(name) = types.find(|name| volume.child(name).is_set()) else {
        return causes.required(volume, "must specify a volume type");
    };
    let source = volume.child(name);
    let required = REQUIRED.iter().find(|(of, _)| *of == name);
    for field in required.into_iter().flat_map(|(_, fields)| *fields) {
        causes.required_text(&source.child(field));
    }
    match name {
        "hostPath" => {
            let path = source.child("path");
            causes.invalid_each(&path, format::no_backsteps(path.text()));
            causes.optional_choice(&source.child("type"), &HOST_PATH_TYPES);
        }
        "configMap" | "secret" => {
            file_mode(&source.child("defaultMode"), causes);
            source.child("items").items().for_each(|item| key_to_path(&item, causes));
        }
        "downwardAPI" => downward_files(&source, causes),
        "projected" => source.child("sources").items().for_each(|it| projection(&it, causes)),
        _ => {}
    }
    for other in types.filter(|name| volume.child(name).is_set()) {
        causes.forbidden(&volume.child(other), "may not specify more than 1 volume type");
    }
}

fn local_path(path: &Field, causes: &mut Causes) {
    causes.invalid_each(path, format::local_path(path.text()));
}

fn file_mode(mode: &Field, causes: &mut Causes) {
    causes.invalid_each(mode, format::file_mode(mode.int()));
}

fn key_to_path(item: &Field, causes: &mut Causes) {
    causes.required_text(&item.child("key"));
    causes.required_text(&item.child("path"));
    local_path(&item.child("path"), causes);
    file_mode(&item.child("mode"), causes);
}

/// Upstream reports the files of a downward API volume under the volume itself.
fn downward_files(owner: &Field, causes: &mut Causes) {
    for item in owner.child("items").items() {
        let file = owner.with_value(item.value());
        causes.required_text(&file.child("path"));
        local_path(&file.child("path"), causes);
        let (field, resource) = (file.child("fieldRef"), file.child("resourceFieldRef"));
        if field.is_set() {
            environment::field_reference(&field, &environment::VOLUME_FIELD_PATHS, causes);
        } else if resource.is_set() {
            causes.required_text(&resource.child("containerName"));
            environment::resource_reference(&resource, causes);
        } else {
            causes.required(&file, "one of fieldRef and resourceFieldRef is required");
        }
    }
}

fn projection(source: &Field, causes: &mut Causes) {
    for name in ["secret", "configMap"] {
        let keyed = source.child(name);
        if keyed.is_set() {
            causes.required_text(&keyed.child("name"));
            keyed.child("items").items().for_each(|item| key_to_path(&item, causes));
        }
    }
    downward_files(&source.child("downwardAPI"), causes);
}
