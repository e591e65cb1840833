//! The nodes on which there is something to do, in the order of their names (C55).

use std::collections::BTreeMap;

use crate::api::NodeName;
use crate::nodes::NodeId;

use super::assess::{Standing, Step};

pub(super) type NodeSet = BTreeMap<NodeName, NodeId>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    pub needs_pod: NodeSet,
    pub has_surplus: NodeSet,
    pub has_ended: NodeSet,
    pub has_orphans: NodeSet,
    pub replace_now: NodeSet,
    pub replace: NodeSet,
    pub surge_now: NodeSet,
    pub surge: NodeSet,
    pub retire: NodeSet,
    pub sunset: NodeSet,
}

impl Candidates {
    pub fn change(&mut self, name: &NodeName, id: NodeId, old: &Standing, new: &Standing) {
        let memberships = [
            (&mut self.needs_pod, old.needs_pod, new.needs_pod),
            (&mut self.has_surplus, old.has_surplus, new.has_surplus),
            (&mut self.has_ended, old.has_ended, new.has_ended),
            (&mut self.has_orphans, old.has_orphans, new.has_orphans),
        ];
        for (set, was, is) in memberships {
            if was && !is {
                set.remove(name);
            } else if is && !was {
                set.insert(name.clone(), id);
            }
        }
        if old.step != new.step {
            self.step(old.step).map(|set| set.remove(name));
            self.step(new.step).map(|set| set.insert(name.clone(), id));
        }
    }

    fn step(&mut self, step: Step) -> Option<&mut NodeSet> {
        match step {
            Step::None => None,
            Step::ReplaceNow => Some(&mut self.replace_now),
            Step::Replace => Some(&mut self.replace),
            Step::SurgeNow => Some(&mut self.surge_now),
            Step::Surge => Some(&mut self.surge),
            Step::Retire => Some(&mut self.retire),
            Step::Sunset => Some(&mut self.sunset),
        }
    }
}
