//! The selectors of all PodDisruptionBudgets, and the number of pods that each one selects. Both
//! follow the store's log of changes.
//!
//! The pods that exist before a budget are counted in parts, in the order of their names: a change
//! of a pod that was not reached yet changes no count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::kinds::{POD, POD_DISRUPTION_BUDGET};
use crate::object::Object;
use crate::selector::LabelSelector;
use crate::store::{Follower, Store};
use crate::value::integer;

use super::is_ready;

/// Maximum length of the text that names the controller of a pod, in characters.
const CONTROLLER_LENGTH_MAX: usize = 256;
/// The work of parsing this number of bytes, compared with matching a requirement of a selector.
const BYTES_PER_REQUIREMENT: usize = 16;

/// The namespace and the name of a budget.
type Key = (Arc<str>, Arc<str>);

/// A budget whose status may be out of date.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DueBudget {
    /// There is none.
    None,
    /// There may be one, after more work.
    Later,
    /// The budget with this namespace and name.
    Budget(Arc<str>, Arc<str>),
}

#[derive(Debug)]
pub(in super::super) struct Budgets {
    changes: Follower,
    pod_changes: Follower,
    by_namespace: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Budget>>,
    /// The budgets to count or to look at, each once.
    queue: VecDeque<Key>,
    queued: BTreeSet<Key>,
}

#[derive(Debug)]
pub(super) struct Budget {
    version: SpecVersion,
    /// `None` matches no pod.
    selector: Option<LabelSelector>,
    pub(super) count: PodCount,
    /// The name after which pods are not counted yet; `None` if all are counted.
    uncounted_after: Option<Box<str>>,
}

/// Identifies a spec of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SpecVersion {
    uid: Box<str>,
    generation: i64,
}

/// The pods that a budget selects.
#[derive(Clone, Debug, Default)]
pub(super) struct PodCount {
    pub(super) pods: i64,
    pub(super) healthy: i64,
    controlled: i64,
    /// The resource of the controller of one of them.
    controller: Option<Arc<str>>,
}

/// The state of a pod, as far as a budget counts it.
#[derive(PartialEq)]
struct PodState {
    is_ready: bool,
    is_terminating: bool,
    /// The resource of its controller, with the group: `daemonsets.apps`.
    controller: Option<Arc<str>>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            changes: Follower::new(&POD_DISRUPTION_BUDGET),
            pod_changes: Follower::new(&POD),
            by_namespace: BTreeMap::new(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
        }
    }
}

impl Budgets {
    /// The names of the budgets that select a pod.
    pub(super) fn selecting(&self, pod: &Object) -> impl Iterator<Item = &Arc<str>> {
        let budgets = self.by_namespace.get(pod.namespace()).into_iter().flatten();
        budgets.filter(|(_, budget)| budget.selects(pod)).map(|(name, _)| name)
    }

    /// A budget whose pods are all counted.
    pub(super) fn counted(&self, namespace: &str, name: &str) -> Option<&Budget> {
        let budget = self.by_namespace.get(namespace)?.get(name)?;
        budget.uncounted_after.is_none().then_some(budget)
    }

    /// Looks at a budget again.
    pub(super) fn enqueue(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        let key = (namespace.clone(), name.clone());
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    /// Reads the changes of budgets.
    pub(in super::super) fn follow_budgets(&mut self, store: &Store) {
        loop {
            match self.changes.next(store) {
                Ok(None) => return,
                Ok(Some(change)) => match change.after() {
                    Some(budget) => self.apply_budget(budget),
                    None => self.remove(&change.object),
                },
                Err(_) => {
                    self.by_namespace.clear();
                    for budget in store.iter(&POD_DISRUPTION_BUDGET, None) {
                        self.apply_budget(budget);
                    }
                }
            }
        }
    }

    fn apply_budget(&mut self, object: &Object) {
        let (namespace, name) = (object.namespace().into(), object.name().into());
        let budgets = self.by_namespace.entry(Arc::clone(&namespace)).or_default();
        let version = SpecVersion::of(object);
        match budgets.get_mut(&name) {
            // Most changes are those of the status.
            Some(known) if known.version == version => {}
            Some(_) | None => {
                let selector = LabelSelector::of_object(&object.read()["spec"]["selector"]);
                budgets.insert(Arc::clone(&name), Budget::new(version, selector));
            }
        }
        self.enqueue(&namespace, &name);
    }

    fn remove(&mut self, object: &Object) {
        let Some(budgets) = self.by_namespace.get_mut(object.namespace()) else { return };
        budgets.remove(object.name());
        if budgets.is_empty() {
            self.by_namespace.remove(object.namespace());
        }
    }

    /// Reads changes of pods, and counts the pods of new budgets, while `work` is left: the number
    /// of requirements that are matched.
    pub(super) fn next(&mut self, store: &Store, work: &mut usize) -> DueBudget {
        if !self.follow_pods(store, work) {
            return DueBudget::Later;
        }
        while let Some(key) = self.queue.pop_front() {
            self.queued.remove(&key);
            let budgets = self.by_namespace.get_mut(&key.0);
            let Some(budget) = budgets.and_then(|budgets| budgets.get_mut(&key.1)) else {
                continue;
            };
            if !budget.count_pods(store, &key.0, work) {
                self.enqueue(&key.0, &key.1);
                return DueBudget::Later;
            }
            return DueBudget::Budget(key.0, key.1);
        }
        DueBudget::None
    }

    /// Reads changes of pods; returns true if all were read.
    fn follow_pods(&mut self, store: &Store, work: &mut usize) -> bool {
        if self.by_namespace.is_empty() {
            self.pod_changes.skip(store);
            return true;
        }
        loop {
            if *work == 0 {
                return false;
            }
            match self.pod_changes.next(store) {
                Ok(None) => return true,
                Ok(Some(change)) => {
                    self.apply_pod(change.previous.as_deref(), change.after(), work);
                }
                Err(_) => self.count_again(),
            }
        }
    }

    fn apply_pod(&mut self, before: Option<&Object>, after: Option<&Object>, work: &mut usize) {
        let Some(pod) = after.or(before) else { return };
        *work = work.saturating_sub(1);
        let Some((namespace, _)) = self.by_namespace.get_key_value(pod.namespace()) else {
            return;
        };
        let states = (before.map(PodState::of), after.map(PodState::of));
        let has_same_labels =
            before.zip(after).is_some_and(|(before, after)| before.has_labels_of(after));
        if has_same_labels && states.0 == states.1 {
            return;
        }
        let namespace = Arc::clone(namespace);
        let mut changed = Vec::new();
        let Some(budgets) = self.by_namespace.get_mut(&namespace) else { return };
        for (name, budget) in budgets {
            *work = work.saturating_sub(budget.requirements());
            if budget.apply_pod((before, &states.0), (after, &states.1)) {
                changed.push(Arc::clone(name));
            }
        }
        changed.iter().for_each(|name| self.enqueue(&namespace, name));
    }

    /// Changes of pods were missed.
    fn count_again(&mut self) {
        let mut all = Vec::new();
        for (namespace, budgets) in &mut self.by_namespace {
            for (name, budget) in budgets {
                *budget = Budget::new(budget.version.clone(), budget.selector.take());
                all.push((Arc::clone(namespace), Arc::clone(name)));
            }
        }
        all.iter().for_each(|(namespace, name)| self.enqueue(namespace, name));
    }
}

impl Budget {
    fn new(version: SpecVersion, selector: Option<LabelSelector>) -> Self {
        Self { version, selector, count: PodCount::default(), uncounted_after: Some("".into()) }
    }

    /// An empty selector matches all pods of the namespace, an absent one none.
    pub(super) fn selects(&self, pod: &Object) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(|key| pod.label(key)))
    }

    /// The work of matching a pod.
    fn requirements(&self) -> usize {
        1 + self.selector.as_ref().map_or(0, LabelSelector::len)
    }

    /// Counts pods while work is left; returns whether all are counted.
    fn count_pods(&mut self, store: &Store, namespace: &str, work: &mut usize) -> bool {
        let Some(mut last) = self.uncounted_after.take() else { return true };
        for pod in store.iter_after(&POD, namespace, &last.clone()) {
            if *work == 0 {
                self.uncounted_after = Some(last);
                return false;
            }
            *work = work.saturating_sub(self.requirements());
            if self.selects(pod) {
                *work = work.saturating_sub(pod.bytes() / BYTES_PER_REQUIREMENT);
                self.count.add(&PodState::of(pod), 1);
            }
            last = pod.name().into();
        }
        true
    }

    /// Counts a changed pod; returns whether a count may have changed.
    fn apply_pod(
        &mut self,
        before: (Option<&Object>, &Option<PodState>),
        after: (Option<&Object>, &Option<PodState>),
    ) -> bool {
        let mut changed = false;
        for ((pod, state), sign) in [(before, -1), (after, 1)] {
            let (Some(pod), Some(state)) = (pod, state) else { continue };
            let is_counted =
                self.uncounted_after.as_deref().is_none_or(|after| pod.name() <= after);
            if is_counted && self.selects(pod) {
                self.count.add(state, sign);
                changed = true;
            }
        }
        changed
    }
}

impl SpecVersion {
    fn of(budget: &Object) -> Self {
        let generation = integer(&budget.read(), "/metadata/generation");
        Self { uid: budget.uid().into(), generation }
    }
}

impl PodCount {
    /// Adds a pod with 1, removes it with -1.
    fn add(&mut self, pod: &PodState, sign: i64) {
        self.pods += sign;
        if pod.is_healthy() {
            self.healthy += sign;
        }
        if let Some(controller) = &pod.controller {
            self.controlled += sign;
            self.controller.get_or_insert_with(|| controller.clone());
        }
        if self.controlled == 0 {
            self.controller = None;
        }
    }

    /// The resource of the controller of one of the pods that have one: `daemonsets.apps`.
    pub(super) fn controller(&self) -> Option<&str> {
        self.controller.as_deref()
    }
}

impl PodState {
    fn of(pod: &Object) -> Self {
        let owner = pod.owner_references().find(|owner| owner.controller);
        Self {
            is_ready: is_ready(&pod.read()),
            is_terminating: pod.is_terminating(),
            controller: owner.map(|owner| {
                let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
                let dot = if group.is_empty() { "" } else { "." };
                let resource = format!("{}s{dot}{group}", owner.kind.to_lowercase());
                resource.chars().take(CONTROLLER_LENGTH_MAX).collect::<String>().into()
            }),
        }
    }

    fn is_healthy(&self) -> bool {
        self.is_ready && !self.is_terminating
    }
}
