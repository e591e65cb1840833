//! The counts of the status (C70).

use everynode_core::api::{Status, Timestamp};

use crate::{Effect, Objects, pods, revisions};

/// The fields of a status that a sync writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counts {
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `desiredNumberScheduled`.
    pub desired: u32,
    /// `currentNumberScheduled`.
    pub current: u32,
    /// `numberMisscheduled`.
    pub misscheduled: u32,
    /// `numberReady`.
    pub ready: u32,
    /// `numberAvailable`.
    pub available: u32,
    /// `numberUnavailable`.
    pub unavailable: u32,
    /// `updatedNumberScheduled`.
    pub updated: u32,
}

/// The status that the objects lead to. Of a node's pods only the oldest is counted, also if it is
/// terminating. While writes have not been seen, the observed generation stays (C56, C70).
fn counts(objects: &Objects, now: Timestamp) -> Counts {
    let daemon_set = &objects.daemon_set;
    let mut counts = Counts {
        observed_generation: if objects.memory.awaits_writes {
            daemon_set.status.observed_generation
        } else {
            daemon_set.generation
        },
        ..Counts::default()
    };
    for node in &objects.nodes {
        let oldest = pods::on_node(objects, &node.name).first().copied();
        match (pods::answer(objects, node).create, oldest) {
            (true, None) => counts.desired += 1,
            (true, Some(pod)) => {
                counts.desired += 1;
                counts.current += 1;
                counts.ready += u32::from(pods::is_ready(pod));
                counts.available += u32::from(pods::is_available(objects, pod, now));
                counts.updated += u32::from(revisions::is_current(objects, pod));
            }
            (false, None) => {}
            (false, Some(_)) => counts.misscheduled += 1,
        }
    }
    counts.unavailable = counts.desired - counts.available;
    counts
}

/// The write of the status, if the stored one differs (C70).
pub(crate) fn update(objects: &Objects, now: Timestamp) -> Option<Effect> {
    let counts = counts(objects, now);
    (counts != Counts::from(&objects.daemon_set.status)).then_some(Effect::UpdateStatus(counts))
}

impl From<&Status> for Counts {
    fn from(status: &Status) -> Self {
        Self {
            observed_generation: status.observed_generation,
            desired: status.desired_number_scheduled,
            current: status.current_number_scheduled,
            misscheduled: status.number_misscheduled,
            ready: status.number_ready,
            available: status.number_available,
            unavailable: status.number_unavailable,
            updated: status.updated_number_scheduled,
        }
    }
}
