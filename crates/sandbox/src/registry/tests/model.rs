//! A client that follows the protocol ends with the true state, whatever happens meanwhile.

use proptest::prelude::*;

use super::*;
use crate::store::WatchCache;

/// Number of API servers.
const SERVERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Label(usize, usize),
    Delete(usize),
    /// The clients read at most this number of changes.
    Read(usize),
    /// The cache of an API server sees at most this number of further writes.
    Advance(usize, u64),
    /// The clients reconnect to this API server.
    Reconnect(usize),
    Compact,
    /// The client reads one page with this number of items.
    Page(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..12usize).prop_map(Step::Create),
        4 => (0..12usize, 0..3usize).prop_map(|(name, label)| Step::Label(name, label)),
        2 => (0..12usize).prop_map(Step::Delete),
        3 => (1..6usize).prop_map(Step::Read),
        3 => (0..SERVERS, 1..8u64).prop_map(|(server, writes)| Step::Advance(server, writes)),
        2 => (0..SERVERS).prop_map(Step::Reconnect),
        1 => Just(Step::Compact),
        2 => (1..4usize).prop_map(Step::Page),
    ]
}

/// The state that a client knows: names with their resourceVersions.
type ObjectVersions = BTreeMap<String, u64>;

fn object_versions(list: &List) -> ObjectVersions {
    list.items.iter().map(|item| (item.name().to_string(), item.resource_version())).collect()
}

/// Follows one kind with a selector: lists, then reads changes; lists again, a state that is not
/// older than what it knows, when the log no longer contains its position.
struct Client {
    selector: Selector,
    versions: ObjectVersions,
    position: u64,
}

impl Client {
    /// Returns false if the server is behind what the client knows.
    fn list(&mut self, cache: WatchCache, store: &Store) -> bool {
        let (selector, resource_version) = (self.selector.clone(), Some(self.position));
        let options = ListOptions { selector, resource_version, ..ListOptions::default() };
        let list = match cache.list(store, &CONFIG_MAP, &options) {
            Ok(list) => list,
            Err(status) => {
                assert_eq!(status.reason, Reason::Timeout);
                return false;
            }
        };
        assert!(list.resource_version >= self.position, "the client travels back");
        self.versions = object_versions(&list);
        self.position = list.resource_version;
        true
    }

    /// Returns false once there is nothing to read.
    fn read(&mut self, cache: WatchCache, store: &Store, limit: usize) -> bool {
        let Ok(changes) = cache.changes_since(store, &CONFIG_MAP, self.position, limit) else {
            return self.list(cache, store);
        };
        for change in &changes {
            assert!(change.resource_version > self.position, "changes come in order");
            self.position = change.resource_version;
            let Some(event) = watch_event(&CONFIG_MAP, change, &self.selector) else { continue };
            let name = event.object.name().to_string();
            let version = event.object.resource_version();
            assert_eq!(version, change.resource_version);
            let before = match event.action {
                Action::Added => self.versions.insert(name, version).is_none(),
                Action::Modified => self.versions.insert(name, version).is_some(),
                Action::Deleted => self.versions.remove(&name).is_some(),
            };
            assert!(before, "an event fits what the client knows: {event:?}");
        }
        !changes.is_empty()
    }
}

/// Reads a list page by page, and knows the expected result.
#[derive(Default)]
struct Pager {
    token: Option<String>,
    expected: ObjectVersions,
    seen: ObjectVersions,
}

impl Pager {
    fn page(&mut self, store: &Store, limit: usize) {
        let everything = || {
            let options = ListOptions::default();
            object_versions(&store.list(&CONFIG_MAP, &options).expect("it is valid"))
        };
        if self.token.is_none() {
            *self = Self { expected: everything(), ..Self::default() };
        }
        let options =
            ListOptions { limit, continue_token: self.token.take(), ..ListOptions::default() };
        let Ok(list) = store.list(&CONFIG_MAP, &options) else {
            return;
        };
        self.seen.extend(object_versions(&list));
        self.token = list.continue_token;
        match (&self.token, list.remaining_item_count) {
            (None, _) => assert_eq!(self.seen, self.expected, "pages show one snapshot"),
            (Some(_), remaining) => {
                assert_eq!(remaining, Some(self.expected.len() - self.seen.len()));
            }
        }
    }
}

fn run(steps: &[Step], window: usize) {
    let mut registry = Registry::new(&Options { seed: 0, window, ..Options::default() }, START);
    let labels = |label: usize| json!({"app": (["a", "b", "c"][label])});
    let mut clients: Vec<Client> = ["", "app=a", "app!=a"]
        .into_iter()
        .map(|labels| Client {
            selector: Selector {
                namespace: Some("default".to_string()),
                labels: LabelSelector::parse(labels).expect("it parses"),
                fields: FieldSelector::default(),
            },
            versions: ObjectVersions::new(),
            position: 0,
        })
        .collect();
    let mut pager = Pager::default();
    let mut caches = [WatchCache::at(registry.store().resource_version()); SERVERS];
    let mut server = 0;
    for client in &mut clients {
        assert!(client.list(caches[server], registry.store()));
    }
    for step in steps {
        let name = |index: &usize| format!("object-{index}");
        // Whether the write is refused does not matter, only what others see of it.
        let _refused_or_not = match step {
            Step::Create(index) => registry
                .create(&CONFIG_MAP, "default", config_map(&name(index)), &options())
                .map(|_| ()),
            Step::Label(index, label) => {
                let patch = merge(json!({"metadata": {"labels": labels(*label)}}));
                registry.patch(&CONFIG_MAP, "default", &name(index), &patch, &options()).map(|_| ())
            }
            Step::Delete(index) => {
                let delete = DeleteOptions::default();
                registry
                    .delete(&CONFIG_MAP, "default", &name(index), &delete, &options())
                    .map(|_| ())
            }
            Step::Read(limit) => {
                clients.iter_mut().for_each(|client| {
                    client.read(caches[server], registry.store(), *limit);
                });
                Ok(())
            }
            Step::Advance(server, writes) => {
                let reached = caches[*server].reached(registry.store(), &CONFIG_MAP);
                caches[*server].advance(registry.store().resource_version().min(reached + writes));
                Ok(())
            }
            Step::Reconnect(to) => {
                server = *to;
                Ok(())
            }
            Step::Compact => {
                let newest = registry.store().resource_version();
                registry.store_mut().compact(newest);
                Ok(())
            }
            Step::Page(limit) => {
                pager.page(registry.store(), *limit);
                Ok(())
            }
        };
    }
    let newest = WatchCache::at(registry.store().resource_version());
    for mut client in clients {
        while client.read(newest, registry.store(), 3) {}
        let followed = std::mem::take(&mut client.versions);
        assert!(client.list(newest, registry.store()));
        assert_eq!(followed, client.versions, "{:?}", client.selector.labels);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// S6, S7: with compaction, small windows, changing selections and reconnects to API servers
    /// that are behind, each client that follows lists and watches never goes back and ends with
    /// the true state, and the pages of a list show one snapshot.
    #[test]
    fn clients_that_follow_the_protocol_have_the_current_state(
        steps in prop::collection::vec(step(), 0..80), window in 2..40usize,
    ) {
        run(&steps, window);
    }
}
