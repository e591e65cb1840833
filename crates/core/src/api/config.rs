//! The ConfigMaps and Secrets that a template names. What they contain is no part of a revision:
//! going back to a template does not restore it (G53).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A ConfigMap or Secret of the DaemonSet's namespace, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigObject {
    /// A ConfigMap.
    ConfigMap(Arc<str>),
    /// A Secret.
    Secret(Arc<str>),
}

/// The configuration of a template that is stored elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredConfig {
    /// The objects that its volumes and containers name, and whose names say nothing of their
    /// content.
    pub objects: BTreeSet<ConfigObject>,
    /// Those whose names end with a hash of their content: another content has another name.
    pub hashed: BTreeSet<ConfigObject>,
    /// Those of both that may be missing: nothing refers to them without `optional`.
    pub optional: BTreeSet<ConfigObject>,
    /// The annotations of its pods that state checksums of their content, such as
    /// `checksum/config`.
    pub checksums: BTreeMap<Arc<str>, Arc<str>>,
}

impl StoredConfig {
    /// The names of its ConfigMaps, and whether each may be missing.
    pub fn config_maps(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.objects.iter().chain(&self.hashed).filter_map(|object| match object {
            ConfigObject::ConfigMap(name) => Some((name, self.optional.contains(object))),
            ConfigObject::Secret(_) => None,
        })
    }

    /// The objects with a fixed name, if nothing but checksums differs: the content of some has
    /// changed. Where an object has another name, that explains the checksum.
    pub fn changed_since(&self, other: &Self) -> Vec<ConfigObject> {
        let has_same_names = self.objects == other.objects && self.hashed == other.hashed;
        match has_same_names && self.checksums != other.checksums {
            true => self.objects.iter().cloned().collect(),
            false => Vec::new(),
        }
    }
}

impl fmt::Display for ConfigObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfigMap(name) => write!(f, "ConfigMap {name}"),
            Self::Secret(name) => write!(f, "Secret {name}"),
        }
    }
}

/// Number of objects that a statement names.
const NAMED: usize = 3;

/// The statement that going back does not restore these objects; `None` without any.
pub fn unrestored(objects: &[ConfigObject]) -> Option<String> {
    let (last, others) = objects.split_last()?;
    let named: Vec<String> = objects.iter().take(NAMED).map(ConfigObject::to_string).collect();
    let names = match objects.len() {
        0 | 1 => last.to_string(),
        2..=NAMED => format!("{} and {last}", named[..others.len()].join(", ")),
        all => format!("{} and {} more", named.join(", "), all - NAMED),
    };
    Some(format!("going back does not restore {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(checksum: &str, maps: &[&str]) -> StoredConfig {
        StoredConfig {
            optional: BTreeSet::new(),
            objects: maps.iter().map(|name| ConfigObject::ConfigMap((*name).into())).collect(),
            hashed: BTreeSet::new(),
            checksums: BTreeMap::from([("checksum/config".into(), checksum.into())]),
        }
    }

    /// G53: objects are not restored whose names stay while a checksum changes. Another name of
    /// any explains the checksum, and without one nothing has changed.
    #[test]
    fn objects_with_the_same_name_are_not_restored() {
        let old = config("1", &["agent", "login"]);
        assert_eq!(config("2", &["agent", "login"]).changed_since(&old).len(), 2);
        assert_eq!(config("1", &["agent", "login"]).changed_since(&old), []);
        assert_eq!(config("2", &["agent-2", "login"]).changed_since(&old), []);
        let hashed = BTreeSet::from([ConfigObject::ConfigMap("rules-2fk5g7d9mt".into())]);
        let renamed = StoredConfig { hashed, ..config("2", &["agent", "login"]) };
        assert_eq!(renamed.changed_since(&old), []);
    }

    /// G53: a statement names at most three objects.
    #[test]
    fn a_statement_names_at_most_three_objects() {
        let names = ["a", "b", "c", "d", "e"].map(|name| ConfigObject::Secret(name.into()));
        let said = |number: usize| unrestored(&names[..number]).unwrap_or_default();
        assert_eq!(said(0), "");
        assert_eq!(said(1), "going back does not restore Secret a");
        assert_eq!(said(2), "going back does not restore Secret a and Secret b");
        assert_eq!(said(3), "going back does not restore Secret a, Secret b and Secret c");
        assert_eq!(said(5), "going back does not restore Secret a, Secret b, Secret c and 2 more");
    }
}
