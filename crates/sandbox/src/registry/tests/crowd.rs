//! Many watchers with different speeds on one log.

use super::*;

/// The next number of a small generator; the test needs variety, not randomness.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 40).unwrap_or(0)
}

struct Watcher {
    position: u64,
    /// The known state: the newest resourceVersion of each object.
    known: BTreeMap<String, u64>,
    /// The number of writes between two reads.
    every: usize,
    lists: usize,
}

impl Watcher {
    fn catch_up(&mut self, store: &Store) {
        loop {
            let Ok(changes) = store.changes_since(&CONFIG_MAP, self.position, 500) else {
                self.lists += 1;
                self.position = store.resource_version();
                self.known = truth(store);
                return;
            };
            let Some(last) = changes.last() else { return };
            self.position = last.resource_version;
            for change in &changes {
                let name = change.object.name().to_string();
                match change.action {
                    Action::Added | Action::Modified => {
                        self.known.insert(name, change.resource_version);
                    }
                    Action::Deleted => {
                        self.known.remove(&name);
                    }
                }
            }
        }
    }
}

fn truth(store: &Store) -> BTreeMap<String, u64> {
    store
        .iter(&CONFIG_MAP, None)
        .map(|object| (object.name().to_string(), object.resource_version()))
        .collect()
}

/// S7: watchers that read at every write and watchers that pause for a thousand writes end with
/// the same state, and the log never exceeds its window.
#[test]
fn watchers_of_all_speeds_end_with_the_same_state() {
    const WINDOW: usize = 500;
    let mut registry =
        Registry::new(&Options { seed: 0, window: WINDOW, ..Options::default() }, START);
    let mut watchers: Vec<Watcher> = (0..100)
        .map(|index| Watcher {
            position: registry.store().resource_version(),
            known: BTreeMap::new(),
            every: if index % 10 == 0 { 1_000 } else { 1 + index },
            lists: 0,
        })
        .collect();
    let mut state = 7;
    for index in 0..4_000_usize {
        let name = format!("object-{}", next(&mut state) % 50);
        let patch = merge(json!({"data": {"k": index.to_string()}}));
        if registry.store().find(&CONFIG_MAP, "default", &name).is_none() {
            create(&mut registry, &CONFIG_MAP, config_map(&name));
        } else if next(&mut state).is_multiple_of(10) {
            let delete = DeleteOptions::default();
            registry
                .delete(&CONFIG_MAP, "default", &name, &delete, &options())
                .expect("it is there");
        } else {
            registry.patch(&CONFIG_MAP, "default", &name, &patch, &options()).expect("it is valid");
        }
        if index.is_multiple_of(1_000) {
            let newest = registry.store().resource_version();
            registry.store_mut().compact(newest.saturating_sub(10));
        }
        for watcher in watchers.iter_mut().filter(|watcher| index.is_multiple_of(watcher.every)) {
            watcher.catch_up(registry.store());
        }
    }
    let oldest = registry.store().resource_version() - u64::try_from(WINDOW).expect("it is small");
    assert!(registry.store().changes_since(&CONFIG_MAP, oldest - 1, 1).is_err());
    let truth = truth(registry.store());
    for watcher in &mut watchers {
        watcher.catch_up(registry.store());
        assert_eq!(watcher.known, truth);
    }
    assert!(watchers.iter().any(|watcher| watcher.lists == 0), "fast ones never list again");
    assert!(watchers.iter().any(|watcher| watcher.lists > 1), "slow ones do");
}

/// S25: of large objects that are written again and again, only the newest changes keep their
/// trees.
#[test]
fn old_versions_keep_no_trees() {
    let mut registry = registry();
    let names: Vec<String> = (0..TREE_CHANGES + 500).map(|n| format!("object-{n}")).collect();
    for name in &names {
        let mut map = config_map(name);
        map["data"] = (0..50).map(|n| (format!("key-{n}"), "value".into())).collect();
        create(&mut registry, &CONFIG_MAP, map);
    }
    for round in 0..2 {
        let patch = merge(json!({"data": {"k": round.to_string()}}));
        for name in &names {
            registry.patch(&CONFIG_MAP, "default", name, &patch, &options()).expect("it is valid");
        }
    }
    let changes =
        registry.store().changes_since(&CONFIG_MAP, 0, usize::MAX).expect("the window holds them");
    let hot = |object: &Arc<Object>| object.has_tree();
    assert!(changes.iter().filter(|change| hot(&change.object)).count() <= TREE_CHANGES);
    assert!(!changes.iter().filter_map(|change| change.previous.as_ref()).any(hot));
    assert!(
        registry.store().iter(&CONFIG_MAP, None).filter(|object| hot(object)).count()
            <= TREE_CHANGES
    );
}
