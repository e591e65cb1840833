//! The knowledge and the decisions of a replica that no object shows: which orphan pods it knows,
//! which hashes the target has, which nodes a rollout has opened, in which states they are, and
//! which copies of ConfigMaps the target has. So the replica states it, and the checkers judge it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::api::{ConfigCopies, Timestamp, Uid};
use everynode_core::daemon_set::{DaemonSetState, NodeState, SetAside, Target};
use everynode_core::node_table::NodeTable;

use crate::feeds::Feeds;

/// The name of each copied ConfigMap with the hash at the end of the name of its copy (G58).
pub(crate) type Copies = BTreeMap<String, String>;

/// The statement of a replica about a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    /// The UIDs of the orphan pods that it knows (C3, C21).
    pub orphans: Arc<BTreeSet<String>>,
    /// The hashes of pods that are up to date (C42, C43, C45).
    pub current_hashes: Arc<BTreeSet<String>>,
    /// The names of the nodes whose wave the replica has opened (G1).
    pub open_nodes: Arc<BTreeSet<String>>,
    /// All nodes by name, while a valid policy guards the rollout, or the replica remembers how
    /// they were when one did (G33).
    pub nodes: Arc<BTreeMap<String, StatedNode>>,
    /// The target that their states are about, whatever template it has seen since.
    target: Option<Target>,
    /// The copies of ConfigMaps that the target has (G58).
    pub copies: Arc<Copies>,
    /// Since when it has had them.
    pub since: Since,
    /// Since when the replica has followed the rollout's nodes; `None` without a valid policy.
    known_since: Option<Timestamp>,
    template: Arc<str>,
    /// Those for which its last plan has decided, whatever policy it has seen since.
    decided: Option<Arc<ConfigCopies>>,
}

/// A node of a guarded rollout, as a replica states it.
#[derive(Clone, Copy, Debug)]
pub struct StatedNode {
    /// Its state (G31).
    pub state: NodeState,
    /// Since when it has had this state, whatever the details.
    pub since: Timestamp,
    /// Since when it has been at this stage: the rollout has yet to begin on it, is at work there,
    /// is done, or leaves it alone.
    pub at_stage_since: Timestamp,
    /// Since when the replica has followed the rollout's nodes.
    pub known_since: Timestamp,
    /// The part that it has had in the waves of this target.
    pub in_waves: InWaves,
}

/// The part of a node in the waves.
#[derive(Clone, Copy, Debug, Default)]
pub struct InWaves {
    /// True if its wave is open, or was when a valid policy last guarded the rollout.
    pub is_open: bool,
    /// The version that the watch of nodes had reached when its wave was last opened.
    pub opened: Option<u64>,
    /// The same when the rollout had begun there, its wave being open; `None` once it has yet to.
    pub begun: Option<u64>,
}

impl InWaves {
    /// Its part in this state, at this version of the nodes.
    fn next(self, is_open: bool, state: NodeState, version: u64) -> Self {
        let opened = self.opened.filter(|_| self.is_open || !is_open);
        let begun = match NodeStage::of(state) {
            NodeStage::Ahead => None,
            NodeStage::AtWork if is_open => self.begun.or(Some(version)),
            NodeStage::AtWork | NodeStage::Done | NodeStage::Aside => self.begun,
        };
        Self { is_open, opened: opened.or(is_open.then_some(version)), begun }
    }
}

impl StatedNode {
    /// `before` is its last statement.
    fn new(
        state: NodeState,
        (now, known_since): (Timestamp, Timestamp),
        before: Option<&Self>,
        is_same_target: bool,
    ) -> Self {
        let new = Self {
            state,
            since: now,
            at_stage_since: now,
            known_since,
            in_waves: InWaves::default(),
        };
        let Some(before) = before else { return new };
        let is_at_stage = is_same_target && NodeStage::of(state) == NodeStage::of(before.state);
        Self {
            since: if kind(state) == kind(before.state) { before.since } else { now },
            at_stage_since: if is_at_stage { before.at_stage_since } else { now },
            in_waves: if is_same_target { before.in_waves } else { new.in_waves },
            ..new
        }
    }
}

fn kind(state: NodeState) -> (&'static str, Option<SetAside>) {
    match state {
        NodeState::SetAside(reason) => (state.as_str(), Some(reason)),
        _ => (state.as_str(), None),
    }
}

/// How far a rollout is on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeStage {
    /// It has yet to begin there.
    Ahead,
    /// It has begun there, and is not done.
    AtWork,
    Done,
    /// It leaves the node alone.
    Aside,
}

impl NodeStage {
    const fn of(state: NodeState) -> Self {
        match state {
            NodeState::Waiting { .. } | NodeState::Asked { .. } | NodeState::Pulling { .. } => {
                Self::Ahead
            }
            NodeState::Updating { .. }
            | NodeState::Failed
            | NodeState::SetAside(SetAside::BrokenBefore | SetAside::Lost) => Self::AtWork,
            NodeState::Done => Self::Done,
            NodeState::SetAside(_) => Self::Aside,
        }
    }
}

/// When a replica first stated the copies of a target.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// The time.
    pub at: Timestamp,
    /// The versions that its watches had reached.
    pub feeds: Feeds,
    /// True if it had stated some for another template before.
    pub is_other_template: bool,
}

impl Default for Since {
    fn default() -> Self {
        Self { at: Timestamp(0), feeds: Feeds::default(), is_other_template: false }
    }
}

/// The statements by the UIDs of the DaemonSets.
pub(crate) type Statements = BTreeMap<Uid, Statement>;

impl Statement {
    /// The statement of a replica whose watches have reached these versions. `before` is its last
    /// one.
    pub(crate) fn of(
        state: &DaemonSetState,
        nodes: &NodeTable,
        before: Option<&Self>,
        (at, feeds): (Timestamp, Feeds),
    ) -> Self {
        let copies = state.target_copies();
        let hashes = copies.iter().flat_map(|copies| &copies.hashes);
        let copies: Copies =
            hashes.map(|(name, hash)| (name.to_string(), hash.to_string())).collect();
        let template = &state.daemon_set().template.canonical;
        let decided = &state.daemon_set().copies;
        // Whether the copies are still those for the template before is decided with the next plan.
        let is_other_template = before.is_some_and(|Self { since, template: known, .. }| {
            let is_recent = at.0 - since.at.0 < DECIDED_WITHIN_MS;
            known != template || since.is_other_template && is_recent
        });
        let same = before.filter(|it| it.template == *template && it.decided == *decided);
        let since = same.map_or(Since { at, feeds, is_other_template }, |same| same.since);
        let target = state.rollout_target();
        let is_same_target = before.is_some_and(|before| before.target.as_ref() == target);
        let follows = state.nodes_by_state().is_some();
        let known_since = before.and_then(|before| before.known_since).or(Some(at));
        let known_since = known_since.filter(|_| follows);
        let times = (at, known_since.unwrap_or(at));
        let open_nodes: BTreeSet<String> =
            state.open_nodes(nodes).map(ToString::to_string).collect();
        let stated = state.node_states(nodes).map(|(name, state)| {
            let before = before.and_then(|before| before.nodes.get(name.as_str()));
            let mut node = StatedNode::new(state, times, before, is_same_target);
            if follows {
                let is_open = open_nodes.contains(name.as_str());
                node.in_waves = node.in_waves.next(is_open, state, feeds.nodes);
            }
            (name.to_string(), node)
        });
        let stated = Arc::new(stated.collect());
        Self {
            orphans: Arc::new(state.orphans().map(ToString::to_string).collect()),
            current_hashes: Arc::new(state.current_hashes().map(ToString::to_string).collect()),
            open_nodes: Arc::new(open_nodes),
            nodes: stated,
            target: target.cloned(),
            known_since,
            copies: Arc::new(copies),
            since,
            template: template.clone(),
            decided: decided.clone(),
        }
    }
}

/// Longer than a plan is executed.
const DECIDED_WITHIN_MS: i64 = 90_000;

thread_local! {
    static LAST: RefCell<Statements> = RefCell::default();
}

/// Forgets all that was published on this thread.
pub(crate) fn start() {
    LAST.take();
}

/// Publishes the statements of the last replica that has planned.
pub(crate) fn publish(statements: &Statements) {
    LAST.with_borrow_mut(|last| last.clone_from(statements));
}

/// The statement that was published last of the DaemonSet with this UID.
pub(crate) fn published(daemon_set: &str) -> Statement {
    LAST.with_borrow(|last| last.get(&Uid::new(daemon_set)).cloned()).unwrap_or_default()
}
