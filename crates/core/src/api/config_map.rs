//! ConfigMaps, and the copies of them that belong to a revision (G58).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::config::ConfigObject;
use super::hash::revision_hash;
use super::names::Uid;

/// The annotation of a ControllerRevision with the copies of its revision, as JSON: the name of
/// each copied ConfigMap with the hash at the end of the name of its copy.
pub const CONFIG_ANNOTATION: &str = "everynode.dev/config-maps";

/// The annotation of a copy with the name of the ConfigMap that was copied.
pub const COPY_OF_ANNOTATION: &str = "everynode.dev/copy-of";

/// Maximum length of the name of an object.
const NAME_LENGTH_MAX: usize = 253;

/// A ConfigMap, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMap {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// True if `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// The digest of `data` and `binaryData`.
    pub digest: Arc<str>,
    /// Its origin, if it is an immutable copy.
    pub copy_of: Option<CopyOrigin>,
}

/// The origin of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOrigin {
    /// The UID of the DaemonSet that owns it; `None` if it has lost its owner, as when a DaemonSet
    /// is deleted without its dependents.
    pub owner: Option<Uid>,
    /// The name of the ConfigMap that was copied.
    pub source: Arc<str>,
}

/// The copies of ConfigMaps that the pods of a revision have in place of those that the template
/// names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigCopies {
    /// The name of each copied ConfigMap with the hash at the end of the name of its copy.
    pub hashes: BTreeMap<Arc<str>, Arc<str>>,
    /// The same as JSON with sorted keys.
    pub text: Arc<str>,
    /// Identifies them in a label of pods.
    pub tag: Arc<str>,
}

impl ConfigCopies {
    /// The copies with these hashes, and `text`, which states them as JSON with sorted keys.
    pub fn new(hashes: BTreeMap<Arc<str>, Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let tag = revision_hash(&text, None).as_str().into();
        Self { hashes, text, tag }
    }

    /// The name of the copy in place of this ConfigMap, if it is copied.
    pub fn name_for(&self, name: &str) -> Option<String> {
        self.hashes.get(name).map(|hash| copy_name(name, hash))
    }

    /// True if a revision with these copies has its own content of this object.
    pub fn restore(&self, object: &ConfigObject) -> bool {
        match object {
            ConfigObject::ConfigMap(name) => self.hashes.contains_key(name),
            ConfigObject::Secret(_) => false,
        }
    }
}

/// The hash at the end of the name of a copy. Two DaemonSets that name a ConfigMap have each a copy
/// of its own, which is deleted with the DaemonSet.
pub fn copy_hash(daemon_set: &str, digest: &str) -> Arc<str> {
    revision_hash(&format!("{daemon_set}\n{digest}"), None).as_str().into()
}

/// The name of a copy. A long name is cut, so that the whole is one.
pub fn copy_name(name: &str, hash: &str) -> String {
    let length = name.floor_char_boundary(NAME_LENGTH_MAX.saturating_sub(1 + hash.len()));
    let name = name[..length.min(name.len())].trim_end_matches(['-', '.']);
    format!("{name}-{hash}")
}

/// The tag of the override in the tag of pods.
pub(crate) fn override_of_tag(tag: &Arc<str>) -> Option<Arc<str>> {
    match parts_of_tag(tag) {
        (of_override, Some(_)) => of_override.map(Arc::from),
        (_, None) => Some(tag.clone()),
    }
}

/// The tag of the override in the tag of pods, and that of their copies of ConfigMaps.
pub fn parts_of_tag(tag: &str) -> (Option<&str>, Option<&str>) {
    let (of_override, of_copies) = match tag.split_once('/') {
        Some((of_override, of_copies)) => (of_override, Some(of_copies)),
        None => (tag, None),
    };
    (Some(of_override).filter(|it| !it.is_empty()), of_copies)
}

/// The tag of pods with copies of ConfigMaps, as [`parts_of_tag`] reads it.
pub(super) fn tag_with_copies(of_override: Option<&str>, of_copies: &str) -> Arc<str> {
    format!("{}/{of_copies}", of_override.unwrap_or_default()).into()
}

/// The ConfigMaps of a namespace, as far as they are known to a DaemonSet whose policy wants copies
/// of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConfigMaps {
    /// Nobody reads them here: the copies of the newest revision count.
    #[default]
    Unread,
    /// They have yet to be listed.
    Pending,
    /// The API server refuses to list them.
    Refused,
    /// They are known.
    Known(KnownConfigMaps),
}

/// The ConfigMaps that concern a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownConfigMaps {
    /// Those that its template names, or of which a revision has copies, each with the hash that
    /// its copy has.
    pub sources: BTreeMap<Arc<str>, Arc<str>>,
    /// The hash that stands for none. No copy has it.
    pub absent: Arc<str>,
    /// Its copies.
    pub copies: BTreeSet<ConfigCopy>,
}

/// A copy of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigCopy {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
}

impl KnownConfigMaps {
    /// Those with the names `sources` among all of a namespace, and the copies of the DaemonSet
    /// with this name and UID.
    pub(crate) fn new<'a>(
        (name, uid): (&str, &Uid),
        sources: impl Iterator<Item = &'a Arc<str>>,
        all: &'a BTreeMap<Arc<str>, ConfigMap>,
    ) -> Self {
        let sources = sources.filter_map(|source| {
            let found = all.get(source).filter(|found| !found.terminating)?;
            Some((source.clone(), copy_hash(name, &found.digest)))
        });
        let is_own = |map: &&'a ConfigMap| {
            !map.terminating
                && map.copy_of.as_ref().is_some_and(|CopyOrigin { owner, source }| {
                    owner.as_ref().is_none_or(|owner| owner == uid)
                        && *map.name == *copy_name(source, &copy_hash(name, &map.digest))
                })
        };
        let copies = all.values().filter(is_own);
        let copies = copies.map(|it| ConfigCopy { name: it.name.clone(), uid: it.uid.clone() });
        let absent = copy_hash(name, "");
        Self { sources: sources.collect(), absent, copies: copies.collect() }
    }

    /// True if this copy exists.
    pub fn has(&self, copy: &str) -> bool {
        self.copies.iter().any(|known| *known.name == *copy)
    }
}
