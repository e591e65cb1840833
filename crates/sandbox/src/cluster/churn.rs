//! A fleet in motion (S23): at all times about the same share of the nodes reboots, is dead, or is
//! removed and replaced by a new node.
//!
//! It acts as people do, by annotations. Its own random numbers decide which nodes, how and how
//! long, so that the same seed moves the same nodes at the same times, whatever the pods do (S24).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use everynode_core::api::Timestamp;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::component_context::ComponentContext;
use super::node_annotation::{DOWN_ANNOTATION, SCALE_DOWN_ANNOTATION, SHUTDOWN_ANNOTATION};
use super::timer::Timer;
use crate::nodes;
use crate::object::Object;

/// The annotations that move a node, and for how many seconds.
const MOTIONS: [(&str, RangeInclusive<i64>); 3] =
    [(SHUTDOWN_ANNOTATION, 20..=60), (DOWN_ANNOTATION, 30..=120), (SCALE_DOWN_ANNOTATION, 10..=60)];

/// The time after a motion in which the node's pods become ready, or until a new node joins.
const AFTERWARDS_MS: i64 = 5_000;

const INTERVAL_MS: i64 = 1_000;

#[derive(Debug)]
pub(super) struct Churn {
    percent: u8,
    rng: Pcg64Mcg,
    moving: BTreeMap<Arc<str>, Motion>,
    /// The number in the name of the last node.
    named: u32,
}

#[derive(Debug)]
struct Motion {
    /// The node as it was before.
    node: Arc<Object>,
    until: Timestamp,
}

impl Churn {
    pub(super) fn new(percent: u8, seed: u64, nodes: u32) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed.wrapping_add(1));
        Self { percent, rng, moving: BTreeMap::new(), named: nodes }
    }

    /// Ends the motions that are over at `at`, and begins as many others.
    pub(super) fn fire(
        &mut self,
        context: &mut ComponentContext<'_>,
        at: Timestamp,
        nodes: &BTreeSet<Arc<str>>,
    ) {
        let over: Vec<Arc<str>> = self
            .moving
            .iter()
            .filter(|(_, m)| m.until <= at)
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            if let Some(motion) = self.moving.remove(&name)
                && context.node_version(&name).is_none()
            {
                self.join(context, &motion.node);
            }
        }
        let share = (nodes.len() * usize::from(self.percent)).div_ceil(100);
        for _ in self.moving.len()..share {
            self.begin(context, at, nodes);
        }
        context.timers.set(Timestamp(at.0 + INTERVAL_MS), Timer::Churn);
    }

    /// Draws a node and moves it, unless it moves already.
    fn begin(
        &mut self,
        context: &mut ComponentContext<'_>,
        at: Timestamp,
        nodes: &BTreeSet<Arc<str>>,
    ) {
        let drawn = self.rng.random_range(0..nodes.len());
        let (annotation, seconds) = &MOTIONS[self.rng.random_range(0..MOTIONS.len())];
        let seconds = self.rng.random_range(seconds.clone());
        let Some(node) = nodes.iter().nth(drawn).and_then(|name| context.node(name)) else {
            return;
        };
        let is_annotated = MOTIONS.iter().any(|(key, _)| node.annotation(key).is_some());
        if is_annotated || self.moving.contains_key(node.name()) {
            return;
        }
        context.annotate_node(node.name(), annotation, Some(&format!("{seconds}s")));
        let until = Timestamp(at.0 + seconds * 1000 + AFTERWARDS_MS);
        self.moving.insert(node.name().into(), Motion { node, until });
    }

    /// Creates a node in the place of one that is gone.
    fn join(&mut self, context: &mut ComponentContext<'_>, gone: &Object) {
        let name = loop {
            self.named += 1;
            let name = nodes::generated_name(self.named);
            if context.node_version(&name).is_none() {
                break name;
            }
        };
        context.create_node(nodes::successor(gone.value(), &name));
    }
}
