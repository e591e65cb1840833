//! The copies of ConfigMaps that a rollout brings.

use std::sync::Arc;

use everynode_core::api::{ConfigCopies, DaemonSetKey, Revision, RevisionHash, copy_hash};
use schemars::JsonSchema;
use serde::Serialize;

use crate::snapshot::Snapshot;

/// A ConfigMap of which pods have a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapCopy {
    /// Its name in the template.
    pub name: String,
    /// The copy that pods of the current revision have; `null` if they have none, as of a
    /// ConfigMap that is missing.
    pub copy: Option<String>,
    /// The copy that pods of the base have; `null` if they have none.
    pub base: Option<String>,
}

/// The ConfigMaps of which pods of the current revision or of the base have copies.
pub(crate) fn config_map_copies(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    base: Option<&str>,
) -> Vec<ConfigMapCopy> {
    let Some(object) = snapshot.daemon_sets.get(key) else { return Vec::new() };
    let revisions = snapshot.revisions_of(key);
    let base = revisions
        .iter()
        .copied()
        .find(|it| it.hash().as_ref().map(RevisionHash::as_str) == base && base.is_some());
    let current = Revision::by_content(&object.daemon_set, revisions, None).current.pop();
    let copies = |of: Option<&Revision>| of?.overrides.as_ref()?.copies.clone();
    let (current, base) = (copies(current), copies(base));
    let named = current.iter().chain(&base).flat_map(|copies| copies.hashes.keys());
    let mut names: Vec<_> = named.collect();
    names.sort();
    names.dedup();
    let all = names.into_iter().map(|name| {
        let absent = copy_hash(key.name.as_str(), "");
        let copy = |of: &Option<Arc<ConfigCopies>>| {
            let of = of.as_ref().filter(|of| of.hashes.get(name) != Some(&absent))?;
            of.name_for(name)
        };
        ConfigMapCopy { name: name.to_string(), copy: copy(&current), base: copy(&base) }
    });
    all.collect()
}
