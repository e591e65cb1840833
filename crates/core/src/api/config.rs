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
    /// The objects that its volumes and containers name.
    pub objects: BTreeSet<ConfigObject>,
    /// The annotations of its pods that state checksums of their content, such as
    /// `checksum/config`.
    pub checksums: BTreeMap<Arc<str>, Arc<str>>,
}

impl StoredConfig {
    /// The objects that both templates name, if their checksums differ: their content has changed,
    /// and their names have not.
    pub fn shared_with(&self, other: &Self) -> Vec<ConfigObject> {
        match self.checksums == other.checksums {
            true => Vec::new(),
            false => self.objects.intersection(&other.objects).cloned().collect(),
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
            objects: maps.iter().map(|name| ConfigObject::ConfigMap((*name).into())).collect(),
            checksums: BTreeMap::from([("checksum/config".into(), checksum.into())]),
        }
    }

    /// G53: objects whose names stay while a checksum changes are not restored. One with another
    /// name is, and so is all if no checksum says that anything has changed.
    #[test]
    fn objects_with_the_same_name_are_not_restored() {
        let old = config("1", &["agent", "rules-1"]);
        assert_eq!(
            old.shared_with(&config("2", &["agent", "rules-2"])),
            [ConfigObject::ConfigMap("agent".into())]
        );
        assert_eq!(old.shared_with(&config("1", &["agent"])), []);
        let without = StoredConfig { checksums: BTreeMap::new(), ..config("", &["agent"]) };
        assert_eq!(without.shared_with(&without), []);
        assert_eq!(without.shared_with(&old).len(), 1);
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
