//! The copies of ConfigMaps that revisions need, and those that nothing needs (G58).

use super::{Draft, SyncInput};

/// Plans the writes of copies that are due.
pub(in crate::daemon_set) fn plan_copies(input: &SyncInput<'_>, draft: &mut Draft) {
    if input.copying.is_idle() {
        return;
    }
    // A revision that another client has deleted or taken is written again with its copies.
    let target = input.history.copies_of_target(input.daemon_set);
    let needed = input.history.copies().chain(&input.daemon_set.copies).chain(&target);
    let is_known = |tag: &str| needed.clone().any(|copies| *copies.tag == *tag);
    // The built-in controller has merged the revision of such pods with another one.
    let keeps_others = !input.labels.copies_in_use().all(is_known);
    for write in input.copying.writes(needed.clone(), keeps_others, input.now.steady) {
        draft.write(write);
    }
}
