//! Which orphan pods a replica knows. It drops those that no DaemonSet selects, and lists them live
//! for a new DaemonSet (C3, C21). So it does not know an orphan that its watch showed before the
//! DaemonSet and that is gone by the time of the list, although the watch has not shown that yet.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use everynode_controller::observation::OrphanPods;
use everynode_controller::watch::Change;
use everynode_core::api::{DaemonSetKey, Namespace, ResourceVersion, Uid};
use everynode_k8s::convert::{DaemonSetObject, PodObject};

/// The orphans that a replica knows for a DaemonSet: those that its watch has shown since it keeps
/// them, and those of the live list.
#[derive(Clone, Debug, Default)]
pub struct KnownOrphans {
    /// The version that the watch of pods had reached when the replica began to keep them. It knows
    /// all that the watch shows after that.
    pub kept_since: u64,
    /// The UIDs of the listed pods.
    pub listed: BTreeSet<String>,
}

/// Records which orphans a replica knows.
#[derive(Debug, Default)]
pub(super) struct OrphanRecorder {
    has_pods: bool,
    pods_version: u64,
    daemon_sets: BTreeMap<DaemonSetKey, KnownDaemonSet>,
    /// While lists of a namespace are pending, all of its orphans are kept.
    pending: BTreeMap<Namespace, PendingLists>,
    /// Lists that are ahead of the watch of pods. They take effect when it has reached them.
    early: Vec<OrphanPods>,
}

#[derive(Debug)]
struct KnownDaemonSet {
    uid: Uid,
    /// `None` if the initial list of pods came after the DaemonSet.
    orphans: Option<Arc<KnownOrphans>>,
}

#[derive(Debug)]
struct PendingLists {
    count: usize,
    orphans: Arc<KnownOrphans>,
}

impl OrphanRecorder {
    /// What the replica knows for a DaemonSet; `None` if it knows what the watch has shown.
    pub(super) fn orphans(&self, key: &DaemonSetKey) -> Option<Arc<KnownOrphans>> {
        self.daemon_sets.get(key)?.orphans.clone()
    }

    /// Records a change of DaemonSets that the watch has not shown before. For each new DaemonSet
    /// the replica requests a list.
    pub(super) fn record_daemon_set(&mut self, change: &Change<DaemonSetObject>) {
        match change {
            Change::Reset { items, .. } => {
                let mut old = mem::take(&mut self.daemon_sets);
                for item in items {
                    let old = old.remove(&item.raw.key);
                    self.replace(item, old);
                }
            }
            Change::Applied { item, .. } => {
                let old = self.daemon_sets.remove(&item.raw.key);
                self.replace(item, old);
            }
            Change::Deleted { item, .. } => {
                self.daemon_sets.remove(&item.raw.key);
            }
            Change::Reached(_) => {}
        }
    }

    fn replace(&mut self, item: &DaemonSetObject, old: Option<KnownDaemonSet>) {
        let (key, uid) = (item.raw.key.clone(), item.raw.uid.clone());
        let orphans = match old.filter(|old| old.uid == uid) {
            Some(old) => old.orphans,
            None => self.has_pods.then(|| self.begin_list(&key.namespace)),
        };
        self.daemon_sets.insert(key, KnownDaemonSet { uid, orphans });
    }

    fn begin_list(&mut self, namespace: &Namespace) -> Arc<KnownOrphans> {
        let kept_since = self.pods_version;
        let pending = self.pending.entry(namespace.clone()).or_insert_with(|| PendingLists {
            count: 0,
            orphans: Arc::new(KnownOrphans { kept_since, ..KnownOrphans::default() }),
        });
        pending.count += 1;
        pending.orphans.clone()
    }

    /// Records a change of pods that the watch has not shown before.
    pub(super) fn record_pod(&mut self, change: &Change<PodObject>) {
        self.pods_version = change.version().0;
        if let Change::Reset { .. } = change {
            self.has_pods = true;
            // The list has all orphans.
            self.known().for_each(|known| *known = Arc::default());
        }
        self.apply_lists();
    }

    /// Records the answer to a request for a list.
    pub(super) fn record_list(&mut self, list: &OrphanPods) {
        self.early.push(list.clone());
        self.apply_lists();
    }

    fn apply_lists(&mut self) {
        let reached = ResourceVersion(self.pods_version);
        let lists: Vec<OrphanPods> =
            self.early.extract_if(.., |list| list.version <= reached).collect();
        for list in lists {
            let namespace = &list.key.namespace;
            let listed = || list.pods.iter().map(|pod| pod.uid.to_string());
            let daemon_sets = self.daemon_sets.iter_mut();
            let daemon_sets = daemon_sets.filter(|(key, _)| key.namespace == *namespace);
            for known in daemon_sets.filter_map(|(_, known)| known.orphans.as_mut()) {
                Arc::make_mut(known).listed.extend(listed());
            }
            let Some(pending) = self.pending.get_mut(namespace) else { continue };
            Arc::make_mut(&mut pending.orphans).listed.extend(listed());
            pending.count -= 1;
            if pending.count == 0 {
                self.pending.remove(namespace);
            }
        }
    }

    fn known(&mut self) -> impl Iterator<Item = &mut Arc<KnownOrphans>> {
        let daemon_sets = self.daemon_sets.values_mut();
        let daemon_sets = daemon_sets.filter_map(|known| known.orphans.as_mut());
        daemon_sets.chain(self.pending.values_mut().map(|pending| &mut pending.orphans))
    }
}

#[cfg(test)]
mod tests {
    use everynode_k8s::convert::{self, Interner};
    use everynode_sandbox::json::json;

    use super::*;

    fn daemon_set(uid: &str, version: u64) -> Change<DaemonSetObject> {
        let json = json!({
            "metadata": {
                "name": "a", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
            },
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {}},
            },
        });
        let item = convert::daemon_set(json.to_string().as_bytes(), None).unwrap();
        Change::Applied { item, version: ResourceVersion(version) }
    }

    fn pod(uid: &str) -> PodObject {
        let json = json!({"metadata": {"name": uid, "namespace": "ns", "uid": uid}});
        convert::pod(json.to_string().as_bytes(), &mut Interner::default()).unwrap()
    }

    fn list(uid: &str, version: u64) -> OrphanPods {
        let PodObject::Pod(pod) = pod(uid) else { unreachable!() };
        let version = ResourceVersion(version);
        OrphanPods { key: DaemonSetKey::new("ns", "a"), pods: vec![*pod], version }
    }

    /// C3, C21: for a new DaemonSet a replica knows the orphans that it has seen since, and those
    /// of the live list, once the watch of pods has reached it. A complete list has all of them.
    #[test]
    fn orphans_are_known_since_a_daemon_set_is() {
        let key = DaemonSetKey::new("ns", "a");
        let mut recorder = OrphanRecorder::default();
        recorder.record_daemon_set(&daemon_set("first", 1));
        recorder.record_pod(&Change::Reset { items: vec![], version: ResourceVersion(5) });
        assert!(recorder.orphans(&key).is_none(), "the initial list came later");
        recorder.record_daemon_set(&daemon_set("second", 6));
        recorder.record_list(&list("listed", 7));
        let known = recorder.orphans(&key).unwrap();
        assert_eq!((known.kept_since, known.listed.len()), (5, 0));
        recorder.record_pod(&Change::Reached(ResourceVersion(7)));
        let known = recorder.orphans(&key).unwrap();
        assert_eq!(known.listed, ["listed".to_owned()].into());
        recorder.record_pod(&Change::Reset { items: vec![], version: ResourceVersion(9) });
        assert_eq!(recorder.orphans(&key).unwrap().kept_since, 0);
    }

    /// C21: while a list is pending, the orphans that a successor selects are kept, too.
    #[test]
    fn pending_lists_keep_all_orphans() {
        let key = DaemonSetKey::new("ns", "a");
        let mut recorder = OrphanRecorder::default();
        recorder.record_pod(&Change::Reset { items: vec![], version: ResourceVersion(5) });
        recorder.record_daemon_set(&daemon_set("first", 6));
        recorder.record_pod(&Change::Reached(ResourceVersion(8)));
        recorder.record_daemon_set(&daemon_set("second", 9));
        assert_eq!(recorder.orphans(&key).unwrap().kept_since, 5);
        recorder.record_list(&list("p", 8));
        recorder.record_list(&list("p", 8));
        recorder.record_daemon_set(&daemon_set("third", 10));
        assert_eq!(recorder.orphans(&key).unwrap().kept_since, 8);
    }
}
