//! The rank of a node among those that a wave may open (G12).

use std::collections::BTreeSet;

use crate::api::RevisionHash;
use crate::node::{NodeState, PodView, SlotFlags};
use crate::node_table::{NodeId, NodeTable};

use super::super::agreement::Asked;
use super::super::input::RolloutInput;
use super::super::wave::{Rank, Waves};

/// The rank of a node. `bad` are the older revisions that failed or were superseded.
pub(super) fn rank(
    waves: &Waves,
    id: NodeId,
    bad: &BTreeSet<RevisionHash>,
    input: &RolloutInput<'_>,
    nodes: &NodeTable,
) -> Rank {
    let slot = &input.slots[id.index()];
    let pods = slot.pods.as_slice();
    let mut hashes = pods.iter().filter_map(|pod| input.labels.hash(pod.labels));
    let has_begun =
        |node| pods.iter().all(PodView::is_terminating) && waves.may_have_begun(id, node);
    let is_asked = pods.iter().any(|pod| Asked::about(pod, input).is_some());
    let is_set_aside = matches!(waves.state(id), NodeState::SetAside(_));
    match nodes.node(id) {
        _ if slot.flags.contains(SlotFlags::LOSES_POD) => Rank::Removed,
        Some(node) if has_begun(node) || is_asked => Rank::Begun,
        Some(_) if is_set_aside => Rank::SetAside,
        _ if hashes.any(|hash| bad.contains(hash)) => Rank::BadRevision,
        Some(node) if node.is_cordoned() => Rank::Other,
        Some(_) if slot.assessment.is_available() => Rank::Healthy,
        Some(_) | None => Rank::Other,
    }
}
