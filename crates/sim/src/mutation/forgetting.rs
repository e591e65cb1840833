//! Deliberate bugs with which a replica forgets every few minutes what it has seen, and writes it
//! again. So it never comes to rest, although each write is right and there are few.

use std::collections::BTreeMap;

use everynode_controller::event::Event;
use everynode_controller::observation::Observation;
use everynode_controller::watch::Change;
use everynode_core::api::{
    DaemonSetKey, Namespace, ResourceVersion, Revision, RevisionName, Timestamp,
};
use everynode_k8s::convert::{DaemonSetObject, RevisionObject};

use super::Mutation;

const INTERVAL_MS: i64 = 2 * 60_000;

/// The observations of a replica, some of which it forgets from time to time.
#[derive(Default)]
pub(crate) struct Forgetting {
    daemon_sets: BTreeMap<DaemonSetKey, DaemonSetObject>,
    revisions: BTreeMap<(Namespace, RevisionName), Revision>,
    daemon_sets_version: ResourceVersion,
    revisions_version: ResourceVersion,
    last: Timestamp,
}

impl Forgetting {
    /// Records what the replica sees.
    pub(crate) fn record(&mut self, event: &Event) {
        match event {
            Event::Observed(Observation::DaemonSet(change)) => {
                self.daemon_sets_version = reached(self.daemon_sets_version, change);
                record(&mut self.daemon_sets, change, |object| {
                    Some((object.raw.key.clone(), object.clone()))
                });
            }
            Event::Observed(Observation::Revision(change)) => {
                self.revisions_version = reached(self.revisions_version, change);
                record(&mut self.revisions, change, |object| match object {
                    RevisionObject::Revision { namespace, revision } => {
                        Some(((namespace.clone(), revision.name.clone()), revision.clone()))
                    }
                    RevisionObject::Foreign { .. } => None,
                });
            }
            _ => {}
        }
    }

    /// The false belief of the replica for one step, because it has forgotten something, and the
    /// truth.
    pub(crate) fn forget(
        &mut self,
        mutation: Mutation,
        now: Timestamp,
    ) -> Option<[Observation; 2]> {
        if now.0 - self.last.0 < INTERVAL_MS {
            return None;
        }
        self.last = now;
        match mutation {
            Mutation::ForgetStatus => {
                let (key, truth) = self.daemon_sets.first_key_value()?;
                let mut belief = truth.clone();
                belief.daemon_set.status.number_ready += 1;
                let mut believed = self.daemon_sets.clone();
                believed.insert(key.clone(), belief);
                Some([believed, self.daemon_sets.clone()].map(|all| {
                    let (items, version) = (all.into_values().collect(), self.daemon_sets_version);
                    Observation::DaemonSet(Change::Reset { items, version })
                }))
            }
            Mutation::ForgetNumber => {
                let (key, truth) =
                    self.revisions.iter().max_by_key(|(_, revision)| revision.number)?;
                let mut believed = self.revisions.clone();
                believed.insert(key.clone(), Revision { number: 0, ..truth.clone() });
                Some([believed, self.revisions.clone()].map(|all| {
                    let item = |((namespace, _), revision)| RevisionObject::Revision {
                        namespace,
                        revision,
                    };
                    let items = all.into_iter().map(item).collect();
                    Observation::Revision(Change::Reset { items, version: self.revisions_version })
                }))
            }
            _ => None,
        }
    }
}

/// The version that a watch has reached with a change.
fn reached<T>(before: ResourceVersion, change: &Change<T>) -> ResourceVersion {
    match change {
        Change::Reset { version, .. } => *version,
        other => other.version().max(before),
    }
}

fn record<T, K: Ord, V>(
    known: &mut BTreeMap<K, V>,
    change: &Change<T>,
    entry: impl Fn(&T) -> Option<(K, V)>,
) {
    match change {
        Change::Reset { items, .. } => *known = items.iter().filter_map(entry).collect(),
        Change::Applied { item, .. } => known.extend(entry(item)),
        Change::Deleted { item, .. } => {
            entry(item).map(|(key, _)| known.remove(&key));
        }
        Change::Reached(_) => {}
    }
}
