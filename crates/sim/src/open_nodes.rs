//! Which nodes a replica has opened to the rollout of each DaemonSet. No object says so, so the
//! replica states it, and the checkers judge it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::api::Uid;

/// The names of the open nodes, by the UID of the DaemonSet.
pub(crate) type OpenNodes = BTreeMap<Uid, Arc<BTreeSet<String>>>;

thread_local! {
    static LAST: RefCell<OpenNodes> = RefCell::default();
}

/// Forgets all that was published on this thread.
pub(crate) fn start() {
    LAST.take();
}

/// Publishes the open nodes of the last replica that has planned.
pub(crate) fn publish(open_nodes: &OpenNodes) {
    LAST.with_borrow_mut(|last| last.clone_from(open_nodes));
}

/// The nodes that were published last for the DaemonSet with this UID.
pub(crate) fn published(daemon_set: &str) -> Arc<BTreeSet<String>> {
    LAST.with_borrow(|last| last.get(&Uid::new(daemon_set)).cloned()).unwrap_or_default()
}
