//! The nodes for which a wave waits, so that no progress is expected.

use crate::api::Position;

use super::Waves;
use super::group::Group;

impl Waves {
    /// The nodes for whose outage the wave at this position waits: an earlier attempt has taken
    /// their pods, and this one is at work on no node of the wave (G14).
    pub(crate) fn awaited_outages(&self, position: &Position) -> usize {
        self.outages_of(self.group(position))
    }

    const fn outages_of(&self, group: &Group) -> usize {
        if group.open.updating == 0 { self.all.taken } else { 0 }
    }

    /// The nodes for which the wave at this position waits, so that no progress is expected: those
    /// that are down or leaving, those of which somebody is asked, outages of an earlier attempt
    /// and, if it is at work on none of its own, nodes of another wave that are down, and its own
    /// that pull images (G15, G47, G54, G55).
    pub(crate) fn awaited(&self, position: &Position, may_pull: bool) -> usize {
        let group = self.group(position);
        let Group { absent, open, pulling_in_time, .. } = group;
        let others = self.all.absent + usize::from(may_pull) * pulling_in_time;
        let others = if open.updating == 0 { others } else { 0 };
        absent + others + self.all.unanswered + self.outages_of(group)
    }
}
