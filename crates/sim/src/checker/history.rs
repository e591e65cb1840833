//! Every version of every object that the store has had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::kinds::{CONFIG_MAP, CONTROLLER_REVISION, DAEMON_SET, NAMESPACE, NODE, POD};
use everynode_sandbox::store::{Action, Store};

use crate::role::{Installation, Role};
use crate::statement::Copies;

use super::model::{ConfigMap, DaemonSet, Namespace, Node, Pod, Policy, Record, Revision, Step};

/// The versions of all objects that the checkers read.
#[derive(Default)]
pub(super) struct History {
    pub nodes: Versions<Node>,
    pub namespaces: Versions<Namespace>,
    daemon_sets: Versions<DaemonSet>,
    /// The DaemonSets as the built-in controller reads them, if there is one.
    unguarded: Option<Versions<DaemonSet>>,
    pub pods: Versions<Pod>,
    pub config_maps: Versions<ConfigMap>,
    pub revisions: Versions<Revision>,
    assumed: Assumed<Pod>,
    /// DaemonSets whose target has copies of ConfigMaps, as replicas state it.
    with_copies: Assumed<DaemonSet>,
    /// The steps of policies, by what identifies them in records.
    steps: BTreeMap<String, Vec<Step>>,
    /// The time at which each version was current for the first time.
    times: Vec<(Timestamp, u64)>,
    version: u64,
}

/// Objects as replicas count them, although no version of them is so.
struct Assumed<T>(OnceLock<Box<Assumption<T>>>);

/// One of them, by the address of the version that it is made of, and what is assumed.
struct Assumption<T> {
    key: (usize, String),
    object: T,
    rest: Assumed<T>,
}

/// The states of an object, with their versions. `None` is a deletion.
pub(super) type States<T> = Vec<(u64, Option<Arc<T>>)>;

/// The versions of the objects of a kind.
pub(super) struct Versions<T> {
    /// By UID, in the order of the versions.
    objects: BTreeMap<String, States<T>>,
}

/// The objects of a kind at one time, by UID.
pub(super) type Objects<'a, T> = BTreeMap<&'a str, &'a T>;

impl<T> Default for Assumed<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Assumed<T> {
    fn get(&self, of: &T, assumption: String, make: impl FnOnce() -> T) -> &T {
        let key = (std::ptr::from_ref(of).addr(), assumption);
        let mut rest = self;
        while let Some(known) = rest.0.get() {
            if known.key == key {
                return &known.object;
            }
            rest = &known.rest;
        }
        let new = || Box::new(Assumption { key, object: make(), rest: Self::default() });
        &rest.0.get_or_init(new).object
    }
}

impl History {
    pub(super) fn new(installation: Installation) -> Self {
        let has_built_in = installation.roles().contains(&Role::BuiltIn);
        Self { unguarded: has_built_in.then(Versions::default), ..Self::default() }
    }

    /// The DaemonSets as a replica with this role reads them.
    pub(super) fn daemon_sets(&self, role: Role) -> &Versions<DaemonSet> {
        match (role, &self.unguarded) {
            (Role::BuiltIn, Some(unguarded)) => unguarded,
            (Role::BuiltIn | Role::Controller | Role::Beside, _) => &self.daemon_sets,
        }
    }

    /// Reads all changes since the last call. Returns whether there were any.
    pub(super) fn update(&mut self, store: &Store, now: Timestamp) -> bool {
        let (since, version) = (self.version, store.resource_version());
        if since == version {
            return false;
        }
        self.nodes.update(store, &NODE, since, Node::parse);
        self.namespaces.update(store, &NAMESPACE, since, Namespace::parse);
        self.daemon_sets.update(store, &DAEMON_SET, since, DaemonSet::parse);
        if let Some(unguarded) = &mut self.unguarded {
            unguarded.update(store, &DAEMON_SET, since, DaemonSet::parse_unguarded);
        }
        self.pods.update(store, &POD, since, Pod::parse);
        self.config_maps.update(store, &CONFIG_MAP, since, ConfigMap::parse);
        self.revisions.update(store, &CONTROLLER_REVISION, since, Revision::parse);
        self.version = version;
        self.times.push((now, version));
        true
    }

    /// The pod while a request without an answer may have begun to change it (G56).
    pub(super) fn assumed_to_change(&self, pod: &Pod, to: &str) -> &Pod {
        self.assumed.get(pod, to.to_owned(), || pod.assumed_to_change(to))
    }

    /// The DaemonSet whose target has these copies of ConfigMaps (G58).
    pub(super) fn with_copies<'a>(&'a self, ds: &'a DaemonSet, copies: &Copies) -> &'a DaemonSet {
        match copies.is_empty() {
            true => ds,
            false => self.with_copies.get(ds, format!("{copies:?}"), || ds.with_copies(copies)),
        }
    }

    /// The ConfigMaps that a replica knows whose watch has reached a version, if it has any.
    pub(super) fn known_config_maps(&self, version: u64) -> Option<Objects<'_, ConfigMap>> {
        (version > 0).then(|| self.config_maps.seen(version))
    }

    /// The hashes of revisions that store the current template and have another owner, or had one:
    /// if one of them has the name of the current revision, its hash is used, until the creation is
    /// tried again (C43).
    pub(super) fn stored_by_others(&self, ds: &DaemonSet) -> BTreeSet<&str> {
        let states = self.revisions.states().map(|(_, revision)| revision);
        let same = states.filter(|revision| {
            revision.metadata.namespace == ds.metadata.namespace
                && ds.is_stored_by(revision)
                && !ds.owns(&revision.metadata)
        });
        same.map(|revision| revision.metadata.pod_hash()).collect()
    }

    /// The hashes of the revisions that stored the current template until they were changed or
    /// deleted, as far as that was after this time.
    pub(super) fn former_hashes(
        &self,
        ds: &DaemonSet,
        since: Timestamp,
    ) -> impl Iterator<Item = &str> {
        let former = self.revisions.replaced_after(self.version_before(since));
        let own = former.filter(move |it| ds.is_stored_by(it) && ds.owns(&it.metadata));
        own.map(|own| own.metadata.pod_hash())
    }

    /// Notes by which policy a record was begun.
    pub(super) fn note_steps(&mut self, record: &Record, policy: &Policy) {
        self.steps.entry(record.steps.clone()).or_insert_with(|| policy.steps.clone());
    }

    /// True if the position of a record refers to the steps of this policy.
    pub(super) fn is_of_steps(&self, record: &Record, policy: &Policy) -> bool {
        self.steps.get(&record.steps) == Some(&policy.steps)
    }

    /// True if a pod of a rolling update has the hash of another revision than the newest one.
    pub(super) fn has_rollout(&self) -> bool {
        self.daemon_sets.all().any(|ds| {
            let revisions = self.revisions.all().filter(|revision| ds.owns(&revision.metadata));
            let newest = revisions.max_by_key(|revision| revision.number);
            let newest = newest.and_then(|revision| revision.metadata.hash());
            let mut pods = self.pods.all().filter(|pod| ds.owns(&pod.metadata));
            ds.strategy.budget(1).is_some() && pods.any(|pod| pod.metadata.hash() != newest)
        })
    }

    /// When the phase of a revision's record was stored.
    pub(super) fn phase_stored_at(&self, uid: &str, record: &Record) -> Option<Timestamp> {
        let is_it = |other: &Record| {
            (other.phase, &other.position, other.since)
                == (record.phase, &record.position, record.since)
        };
        self.records(uid).find(|(_, other)| is_it(other)).map(|(at, _)| self.time_of(at))
    }

    /// The records that a revision has had, with the versions of its states.
    pub(super) fn records(&self, uid: &str) -> impl Iterator<Item = (u64, &Record)> {
        let states = self.revisions.of(uid);
        states.filter_map(|(at, revision)| Some((at, revision.record.as_ref()?)))
    }

    /// The pods that a DaemonSet had lost up to a version: their deletion had begun, or they were
    /// not its own any more. Each as it was before, with the version at which that changed.
    pub(super) fn lost_pods(
        &self,
        ds: &DaemonSet,
        version: u64,
    ) -> impl Iterator<Item = (&Pod, u64)> {
        let steps = self.pods.objects.values().flat_map(|states| states.windows(2));
        steps.filter_map(move |step| {
            let [(_, before), (at, after)] = step else { return None };
            let is_ours = |pod: &&Pod| ds.owns(&pod.metadata) && !ds.has_lost(pod);
            let before = before.as_deref().filter(is_ours)?;
            let is_lost = *at <= version && after.as_deref().is_none_or(|pod| ds.has_lost(pod));
            is_lost.then_some((before, *at))
        })
    }

    /// When a version was current for the first time.
    pub(super) fn time_of(&self, version: u64) -> Timestamp {
        let index = self.times.partition_point(|(_, current)| *current < version);
        self.times.get(index).map_or(Timestamp(i64::MAX), |(at, _)| *at)
    }

    /// The newest version.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The version that was current before this time.
    pub(super) fn version_before(&self, time: Timestamp) -> u64 {
        let count = self.times.partition_point(|(at, _)| *at < time);
        self.times[..count].last().map_or(0, |(_, version)| *version)
    }
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new() }
    }
}

impl<T> Versions<T> {
    fn update(
        &mut self,
        store: &Store,
        kind: &'static Kind,
        since: u64,
        parse: impl Fn(&Value) -> T,
    ) {
        let changes = store.changes_since(kind, since, usize::MAX);
        for change in changes.expect("the checkers read all changes before the log is compacted") {
            let object = match change.action {
                Action::Deleted => None,
                Action::Added | Action::Modified => Some(Arc::new(parse(&change.object.read()))),
            };
            let (uid, version) = (change.object.uid().to_owned(), change.resource_version);
            self.objects.entry(uid).or_default().push((version, object));
        }
    }

    /// The newest state of an object; `None` if it does not exist any more.
    pub(super) fn newest(&self, uid: &str) -> Option<&T> {
        self.objects.get(uid)?.last()?.1.as_deref()
    }

    /// The state with which an object was created.
    pub(super) fn first(&self, uid: &str) -> Option<&T> {
        self.objects.get(uid)?.first()?.1.as_deref()
    }

    /// The state of an object at a version; `None` if it did not exist.
    pub(super) fn at(&self, uid: &str, version: u64) -> Option<&T> {
        let states = self.objects.get(uid)?;
        let count = states.partition_point(|(at, _)| *at <= version);
        states[..count].last()?.1.as_deref()
    }

    /// True if an object was changed after one version and up to another.
    pub(super) fn has_changed(&self, uid: &str, after: u64, until: u64) -> bool {
        let mut states = self.objects.get(uid).into_iter().flatten();
        states.any(|(at, _)| *at > after && *at <= until)
    }

    /// The last states of the objects that were deleted after a version.
    pub(super) fn removed_after(&self, version: u64) -> impl Iterator<Item = &T> {
        self.objects.values().filter_map(move |states| match &states[..] {
            [.., (_, last), (at, None)] if *at > version => last.as_deref(),
            _ => None,
        })
    }

    /// The states that objects had until they were changed or deleted after a version.
    pub(super) fn replaced_after(&self, version: u64) -> impl Iterator<Item = &T> {
        let changes = self.objects.values().flat_map(|states| states.windows(2));
        changes.filter_map(move |change| match change {
            [(_, former), (at, _)] if *at > version => former.as_deref(),
            _ => None,
        })
    }

    /// The states of an object that exists or existed, with their versions.
    pub(super) fn of(&self, uid: &str) -> impl Iterator<Item = (u64, &T)> {
        let states = self.objects.get(uid).into_iter().flatten();
        states.filter_map(|(version, state)| Some((*version, state.as_deref()?)))
    }

    /// All states of each object, by UID, with their versions. `None` is a deletion.
    pub(super) fn histories(&self) -> impl Iterator<Item = (&String, &States<T>)> {
        self.objects.iter()
    }

    /// All objects that exist.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.objects.values().filter_map(|states| states.last()?.1.as_deref())
    }

    /// True if an object was so at a version and until another one.
    pub(super) fn was_always(
        &self,
        uid: &str,
        (since, until): (u64, u64),
        is_it: impl Fn(&T) -> bool,
    ) -> bool {
        let mut later = self.of(uid).filter(|(at, _)| *at > since && *at <= until);
        self.at(uid, since).is_some_and(&is_it) && later.all(|(_, state)| is_it(state))
    }

    /// The objects that exist and have changed since a version.
    pub(super) fn changed_since(&self, version: u64) -> impl Iterator<Item = &T> {
        let newest = self.objects.values().filter_map(|states| states.last());
        newest.filter(move |(at, _)| *at > version).filter_map(|(_, state)| state.as_deref())
    }

    /// All states of an object that exists or existed.
    pub(super) fn states(&self) -> impl Iterator<Item = (u64, &T)> {
        let states = self.objects.values().flatten();
        states.filter_map(|(version, state)| Some((*version, state.as_deref()?)))
    }

    /// The objects that a replica knows whose watch has reached a version. Changes that the watch
    /// shows again have no effect (C1).
    pub(super) fn seen(&self, version: u64) -> Objects<'_, T> {
        let known = |uid| Some((uid, self.at(uid, version)?));
        self.objects.keys().map(String::as_str).filter_map(known).collect()
    }
}
