//! What a replica has decided of a rollout and no object says: which nodes it has opened, and which
//! copies of ConfigMaps the target has. So the replica states it, and the checkers judge it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::api::{ConfigCopies, Timestamp, Uid};
use everynode_core::daemon_set::DaemonSetState;
use everynode_core::node_table::NodeTable;

use crate::feeds::Feeds;

/// The name of each copied ConfigMap with the hash at the end of the name of its copy (G58).
pub(crate) type Copies = BTreeMap<String, String>;

/// What a replica states of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    /// The names of the nodes whose wave the replica has opened (G1).
    pub open_nodes: Arc<BTreeSet<String>>,
    /// The copies of ConfigMaps that the target has (G58).
    pub copies: Arc<Copies>,
    /// Since when it has had them.
    pub since: Since,
    template: Arc<str>,
    /// Those for which its last plan has decided, whatever policy it has seen since.
    decided: Option<Arc<ConfigCopies>>,
}

/// When a replica first stated the copies of a target.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// The time.
    pub at: Timestamp,
    /// The versions that its watches had reached.
    pub feeds: Feeds,
    /// Whether it had stated some for another template before.
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
        let since = match before {
            Some(before) if before.template == *template && before.decided == *decided => {
                before.since
            }
            _ => Since { at, feeds, is_other_template },
        };
        let open_nodes = state.open_nodes(nodes).map(ToString::to_string).collect();
        Self {
            open_nodes: Arc::new(open_nodes),
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
