//! Validates volumes: unique names, and exactly one source each.

use std::collections::{HashMap, HashSet};

use super::{environment, resources};
use crate::format;
use crate::kind::rules::{Causes, Field, selector};

/// The valid volumes of a pod, which its containers can mount.
/// By name, whether it is a claim, which can be a block device.
pub(super) struct Volumes(HashMap<String, bool>);

impl Volumes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.is_claim(name).is_some()
    }

    /// True if the volume with this name is a claim; `None` if there is no such volume.
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
        source(&volume, &mut found);
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

/// Validates one type of volume.
type SourceValidator = fn(&Field, &mut Causes);

/// The types of volumes, in upstream's order.
const TYPES: [(&str, SourceValidator); 29] = [
    ("emptyDir", empty_dir),
    ("hostPath", host_path),
    ("gitRepo", |source, causes| causes.required_text(&source.child("repository"))),
    ("gcePersistentDisk", |source, causes| causes.required_text(&source.child("pdName"))),
    ("awsElasticBlockStore", |source, causes| causes.required_text(&source.child("volumeID"))),
    ("secret", |source, causes| keyed(source, "secretName", causes)),
    ("nfs", nfs),
    ("iscsi", |source, causes| all_required(source, &["targetPortal", "iqn"], causes)),
    ("glusterfs", |source, causes| all_required(source, &["endpoints", "path"], causes)),
    ("flocker", |_, _| {}),
    ("persistentVolumeClaim", |source, causes| causes.required_text(&source.child("claimName"))),
    ("rbd", |source, causes| {
        required_list(&source.child("monitors"), causes);
        causes.required_text(&source.child("image"));
    }),
    ("cinder", |source, causes| causes.required_text(&source.child("volumeID"))),
    ("cephfs", |source, causes| required_list(&source.child("monitors"), causes)),
    ("quobyte", |source, causes| causes.required_text(&source.child("volume"))),
    ("downwardAPI", |source, causes| {
        default_mode(source, causes);
        for item in source.child("items").items() {
            downward_file(source, &item, causes);
        }
    }),
    ("fc", |_, _| {}),
    ("flexVolume", |source, causes| causes.required_text(&source.child("driver"))),
    ("configMap", |source, causes| keyed(source, "name", causes)),
    ("azureFile", |source, causes| all_required(source, &["secretName", "shareName"], causes)),
    ("vsphereVolume", |source, causes| causes.required_text(&source.child("volumePath"))),
    ("photonPersistentDisk", |source, causes| causes.required_text(&source.child("pdID"))),
    ("portworxVolume", |source, causes| causes.required_text(&source.child("volumeID"))),
    ("azureDisk", |source, causes| all_required(source, &["diskName", "diskURI"], causes)),
    ("storageos", |source, causes| causes.required_text(&source.child("volumeName"))),
    ("projected", projected),
    ("scaleIO", |source, causes| {
        all_required(source, &["gateway", "system", "volumeName"], causes)
    }),
    ("csi", csi),
    ("ephemeral", ephemeral),
];

/// A volume has exactly one type.
pub(super) fn source(volume: &Field, causes: &mut Causes) {
    let mut found = 0;
    for (name, validate) in TYPES {
        let source = volume.child(name);
        if !source.is_set() {
            continue;
        }
        found += 1;
        if found > 1 {
            causes.forbidden(&source, "may not specify more than 1 volume type");
        } else {
            validate(&source, causes);
        }
    }
    let image = volume.child("image");
    if image.is_set() {
        found += 1;
        if found > 1 {
            causes.forbidden(&image, "may not specify more than 1 volume type");
        } else {
            image_source(&image, causes);
        }
    }
    if found == 0 {
        causes.required(volume, "must specify a volume type");
    }
}

fn all_required(source: &Field, names: &[&str], causes: &mut Causes) {
    for name in names {
        causes.required_text(&source.child(name));
    }
}

fn required_list(list: &Field, causes: &mut Causes) {
    if list.is_empty() {
        causes.required(list, "");
    }
}

fn empty_dir(source: &Field, causes: &mut Causes) {
    let limit = source.child("sizeLimit");
    if resources::quantity(&limit).is_some_and(|limit| limit.is_negative()) {
        causes.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
    }
}

fn host_path(source: &Field, causes: &mut Causes) {
    let path = source.child("path");
    if path.text().is_empty() {
        return causes.required(&path, "");
    }
    causes.invalid_each(&path, format::no_backsteps(path.text()));
    causes.optional_choice(&source.child("type"), &HOST_PATH_TYPES);
}

fn nfs(source: &Field, causes: &mut Causes) {
    all_required(source, &["server", "path"], causes);
    let path = source.child("path");
    if !path.text().starts_with('/') {
        causes.invalid_text(&path, path.text(), "must be an absolute path");
    }
}

fn csi(source: &Field, causes: &mut Causes) {
    let driver = source.child("driver");
    if driver.text().is_empty() {
        causes.required(&driver, "");
    } else {
        if driver.text().len() > 63 {
            causes.too_long(&driver, 63);
        }
        causes.invalid_each(&driver, format::dns_subdomain(&driver.text().to_lowercase()));
    }
    let secret = source.child("nodePublishSecretRef");
    if secret.is_set() {
        causes.required_text(&secret.child("name"));
    }
}

fn ephemeral(source: &Field, causes: &mut Causes) {
    let template = source.child("volumeClaimTemplate");
    if !template.is_set() {
        return causes.required(&template, "");
    }
    if template.child("spec").child("accessModes").is_empty() {
        let spec = template.child("spec");
        causes.required(&spec.child("accessModes"), "at least 1 access mode is required");
    }
}

fn image_source(source: &Field, causes: &mut Causes) {
    causes.required_text(&source.child("reference"));
    causes.required_choice(&source.child("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
}

fn local_path(path: &Field, causes: &mut Causes) {
    causes.invalid_each(path, format::local_path(path.text()));
}

fn file_mode(mode: &Field, causes: &mut Causes) {
    causes.invalid_each(mode, format::file_mode(mode.int()));
}

fn default_mode(source: &Field, causes: &mut Causes) {
    file_mode(&source.child("defaultMode"), causes);
}

/// A Secret or ConfigMap, with the paths of its keys.
fn keyed(source: &Field, name: &str, causes: &mut Causes) {
    causes.required_text(&source.child(name));
    default_mode(source, causes);
    for item in source.child("items").items() {
        key_to_path(&item, causes);
    }
}

fn key_to_path(item: &Field, causes: &mut Causes) {
    causes.required_text(&item.child("key"));
    causes.required_text(&item.child("path"));
    local_path(&item.child("path"), causes);
    file_mode(&item.child("mode"), causes);
}

/// Upstream reports the files of a downward API volume under the volume itself.
fn downward_file(owner: &Field, item: &Field, causes: &mut Causes) {
    let owner = owner.with_value(item.value());
    causes.required_text(&owner.child("path"));
    local_path(&owner.child("path"), causes);
    let (field, resource) = (owner.child("fieldRef"), owner.child("resourceFieldRef"));
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            environment::field_reference(&field, true, causes);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.invalid_text(&owner, "resource", detail);
            }
        }
        (false, true) => environment::resource_reference(&resource, true, causes),
        (false, false) => {
            causes.required(&owner, "one of fieldRef and resourceFieldRef is required")
        }
    }
    file_mode(&owner.child("mode"), causes);
}

fn projected(projected: &Field, causes: &mut Causes) {
    default_mode(projected, causes);
    let mut paths = Paths(HashSet::new());
    for source in projected.child("sources").items() {
        projection(projected, &source, &mut paths, causes);
    }
}

/// The paths in a projected volume.
struct Paths(HashSet<String>);

impl Paths {
    /// Adds a path; if it is a duplicate, reports the value `reported` as upstream does.
    fn take(&mut self, projected: &Field, path: &str, reported: &str, causes: &mut Causes) {
        if !path.is_empty() && !self.0.insert(path.to_owned()) {
            causes.invalid_text(projected, reported, "conflicting duplicate paths");
        }
    }
}

fn projection(projected: &Field, source: &Field, paths: &mut Paths, causes: &mut Causes) {
    let mut found = 0;
    for name in ["secret", "configMap"] {
        let keyed = source.child(name);
        if !keyed.is_set() {
            continue;
        }
        found += 1;
        causes.required_text(&keyed.child("name"));
        for item in keyed.child("items").items() {
            key_to_path(&item, causes);
            paths.take(projected, item.child("path").text(), keyed.child("name").text(), causes);
        }
    }
    let downward = source.child("downwardAPI");
    if downward.is_set() {
        found += 1;
        for item in downward.child("items").items() {
            downward_file(&downward, &item, causes);
            paths.take(projected, item.child("path").text(), item.child("path").text(), causes);
        }
    }
    let token = source.child("serviceAccountToken");
    if token.is_set() {
        found += 1;
        account_token(projected, &token, causes);
    }
    let bundle = source.child("clusterTrustBundle");
    if bundle.is_set() {
        found += 1;
        trust_bundle(source, &bundle, causes);
        paths.take(projected, bundle.child("path").text(), bundle.child("path").text(), causes);
    }
    if found > 1 {
        causes.forbidden(source, "may not specify more than 1 volume type");
    }
}

/// Upstream reports the path of a token under the volume itself.
fn account_token(projected: &Field, token: &Field, causes: &mut Causes) {
    let expiration = token.child("expirationSeconds");
    if expiration.int() < 600 {
        let value = expiration.int().to_string();
        causes.invalid_rendered(
            &expiration,
            value,
            "may not specify a duration less than 10 minutes",
        );
    }
    if expiration.int() > 1 << 32 {
        causes.invalid(&expiration, "may not specify a duration larger than 2^32 seconds");
    }
    let path = projected.child("path");
    let path = path.with_value(token.child("path").value());
    causes.required_text(&path);
    local_path(&path, causes);
}

fn trust_bundle(source: &Field, bundle: &Field, causes: &mut Causes) {
    let field = source.child("clusterTrustBundlePEM");
    let field = field.with_value(bundle.value());
    match (bundle.child("name").is_set(), bundle.child("signerName").is_set()) {
        (true, true) => causes.invalid(&field, "only one of name and signerName may be used"),
        (true, false) => {
            if bundle.child("labelSelector").is_set() {
                let detail = "labelSelector must be unset if name is specified";
                causes.invalid(&field.child("labelSelector"), detail);
            }
        }
        (false, true) => selector::label_selector(&field.child("labelSelector"), causes),
        (false, false) => causes.required(&field, "either name or signerName must be specified"),
    }
    causes.required_text(&field.child("path"));
    local_path(&field.child("path"), causes);
}
