//! The created pods that have not been seen (C60).

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{ResourceVersion, Uid};

/// Also ordered by version, so that what the watch has passed is found without a look at the rest:
/// it is asked after every event.
#[derive(Clone, Debug, Default)]
pub(super) struct Creations {
    versions: BTreeMap<Uid, ResourceVersion>,
    by_version: BTreeSet<(ResourceVersion, Uid)>,
}

impl Creations {
    pub(super) fn insert(&mut self, uid: Uid, version: ResourceVersion) {
        self.remove(&uid);
        self.by_version.insert((version, uid.clone()));
        self.versions.insert(uid, version);
    }

    /// Returns whether the pod was among them.
    pub(super) fn remove(&mut self, uid: &Uid) -> bool {
        let Some((uid, version)) = self.versions.remove_entry(uid) else { return false };
        self.by_version.remove(&(version, uid))
    }

    /// Removes those that the watch has passed.
    pub(super) fn remove_until(&mut self, watermark: ResourceVersion) {
        while let Some((version, uid)) = self.by_version.first()
            && *version <= watermark
        {
            self.versions.remove(uid);
            self.by_version.pop_first();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.versions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both orders always hold the same pods.
    #[test]
    fn a_pod_is_removed_when_it_is_seen_or_passed() {
        let mut creations = Creations::default();
        for (uid, version) in [("a", 3), ("b", 1), ("c", 2), ("d", 9)] {
            creations.insert(uid.into(), ResourceVersion(version));
        }
        assert!(creations.remove(&"c".into()));
        assert!(!creations.remove(&"c".into()));
        creations.remove_until(ResourceVersion(2));
        assert!(!creations.remove(&"b".into()));
        assert_eq!(creations.len(), 2);
        creations.insert("d".into(), ResourceVersion(4));
        creations.remove_until(ResourceVersion(4));
        assert_eq!((creations.len(), creations.by_version.len()), (0, 0));
    }
}
