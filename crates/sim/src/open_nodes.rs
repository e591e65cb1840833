//! Which nodes a replica has opened to the rollout of each DaemonSet. No object says so, so the
//! replica states it, and the checkers judge it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

thread_local! {
    static OPEN_NODES: RefCell<BTreeMap<String, Arc<BTreeSet<String>>>> = RefCell::default();
}

/// Forgets all that was noted on this thread.
pub(crate) fn start() {
    OPEN_NODES.take();
}

/// Notes which nodes the last replica that has planned has opened to the rollout of a DaemonSet.
pub(crate) fn note(daemon_set: &str, nodes: BTreeSet<String>) {
    OPEN_NODES.with_borrow_mut(|all| match all.get_mut(daemon_set) {
        Some(known) if **known == nodes => {}
        Some(known) => *known = nodes.into(),
        None => drop(all.insert(daemon_set.to_owned(), nodes.into())),
    });
}

/// The nodes that were noted last for the DaemonSet with this UID.
pub(crate) fn noted(daemon_set: &str) -> Arc<BTreeSet<String>> {
    OPEN_NODES.with_borrow(|all| all.get(daemon_set).cloned()).unwrap_or_default()
}
