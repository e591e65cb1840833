//! How many waves a rollout has, and how far it is. Nothing is decided by it, except that a policy
//! with too many waves cannot be followed.

use std::sync::Arc;

use crate::api::{Position, RolloutStep, WavePosition};

use super::steps::Steps;

/// The waves of a rollout at a position. The last one is that of all other nodes, if there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaveCount {
    /// The waves before the position.
    pub done: usize,
    pub total: usize,
    /// True if nodes are left after the last step.
    pub has_others: bool,
}

/// Maximum number of waves of a rollout (G50).
const WAVES_MAX: usize = 1_000;

impl Steps {
    /// Why the policy cannot be followed because it makes too many waves, if that is so.
    pub(super) fn find_excess(&self) -> Option<Arc<str>> {
        // The values of a step's `each` cost as much as waves.
        let parts =
            |step: usize| self.parts_of_step(step).count() * self.policy.steps[step].up_to.len();
        let waves = |step: usize| self.waves_of_step(step).max(parts(step));
        let total: usize = (0..self.policy.steps.len()).map(waves).sum();
        if total <= WAVES_MAX {
            return None;
        }
        let step = (0..self.policy.steps.len()).max_by_key(|step| waves(*step))?;
        let RolloutStep { name, by, each, .. } = &self.policy.steps[step];
        let by = by.as_ref().map(|by| format!(" by {by}"));
        let by = by.or_else(|| each.as_ref().map(|each| format!(" with each {each}")));
        let by = by.unwrap_or_default();
        let text = format!(
            "steps: they make {total} waves, and at most {WAVES_MAX} are possible: step {name}{by} \
             makes {}",
            waves(step)
        );
        Some(text.into())
    }

    fn waves_of_step(&self, index: usize) -> usize {
        // A step without nodes still bakes and awaits its approval.
        self.groups_of_step(index).count().max(1) * self.policy.steps[index].up_to.len()
    }

    /// The waves at a position. It visits all groups.
    pub(super) fn count_at(&self, position: &Position) -> WaveCount {
        let waves_of_step = |index: usize| self.waves_of_step(index);
        let steps = 0..self.policy.steps.len();
        let of_steps: usize = steps.clone().map(waves_of_step).sum();
        let done = match position {
            Position::AllNodes => of_steps,
            Position::Wave(WavePosition { step, group, size }) => {
                let of_groups = self.groups_of_step(*step).filter(|value| *value < group).count();
                let sizes = self.policy.steps.get(*step).map_or(0, |step| step.up_to.len());
                let before: usize = steps.take(*step).map(waves_of_step).sum();
                before + of_groups * sizes + size
            }
        };
        let has_others = self.has_other_nodes();
        let total = of_steps + usize::from(of_steps == 0 || has_others);
        WaveCount { done: done.min(total - 1), total, has_others }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::state::Holding;
    use super::super::{Target, Waves};
    use super::*;
    use crate::api::{IntOrPercent, LabelSelector, Labels, RolloutPolicy, RolloutStep, Wait};
    use crate::node_table::NodeId;

    fn step(by: Option<&str>, up_to: &[u32]) -> RolloutStep {
        RolloutStep {
            name: "step".into(),
            nodes: LabelSelector::default(),
            by: by.map(Into::into),
            each: None,
            up_to: up_to.iter().map(|nodes| IntOrPercent::Int(*nodes)).collect(),
            wait: Wait::default(),
        }
    }

    fn waves(steps: Vec<RolloutStep>) -> Waves {
        let policy = RolloutPolicy { steps, ..RolloutPolicy::default() };
        Waves::new(Arc::new(policy), Target::default())
    }

    fn add(waves: &mut Waves, index: usize, zone: Option<&str>) {
        let id = NodeId::from_index(index);
        let labels: Labels = zone.map(|zone| ("zone", zone)).into_iter().collect();
        waves.apply_node(id, &"n".into(), Some(&labels));
        waves.change(id, |node| node.holding = Holding::Outdated);
    }

    /// The number before each position, from the first one on, and the total.
    fn numbers(waves: &mut Waves) -> (Vec<usize>, usize) {
        let mut position = waves.steps.first();
        let mut before = Vec::new();
        loop {
            waves.recount(&position);
            let count = waves.counted(&position).expect("it was counted");
            before.push(count.done);
            if position == Position::AllNodes {
                return (before, count.total);
            }
            position = waves.steps.after(&position);
        }
    }

    /// G22: each wave has its number, also in steps by zone and in steps without a node
    #[test]
    fn waves_are_numbered_in_their_order() {
        let mut waves = waves(vec![step(None, &[1]), step(Some("zone"), &[1, 2])]);
        assert_eq!(numbers(&mut waves), (vec![0, 1, 2, 2], 3), "without nodes");
        for (index, zone) in [Some("a"), Some("b"), Some("b"), None].into_iter().enumerate() {
            add(&mut waves, index, zone);
        }
        assert_eq!(numbers(&mut waves), (vec![0, 1, 2, 3, 4, 5, 6, 6], 7), "no other nodes");
        for index in 4..6 {
            add(&mut waves, index, None);
        }
        assert_eq!(numbers(&mut waves), ((0..8).collect(), 8), "one is left of those without");
    }

    /// G22: the first node of a zone adds the waves of that zone, and the last one removes them
    #[test]
    fn a_zone_that_comes_or_goes_changes_the_number_of_waves() {
        let mut waves = waves(vec![step(Some("zone"), &[1])]);
        add(&mut waves, 0, Some("a"));
        assert_eq!(numbers(&mut waves).1, 1);
        add(&mut waves, 1, Some("a"));
        assert_eq!(numbers(&mut waves).1, 2);
        add(&mut waves, 2, Some("b"));
        assert_eq!(waves.counted(&Position::AllNodes), None);
        assert_eq!(numbers(&mut waves).1, 3);
        waves.apply_node(NodeId::from_index(2), &"n".into(), None);
        assert_eq!(numbers(&mut waves).1, 2);
    }
}
