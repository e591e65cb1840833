//! The nodes of a guarded rollout by their state: all of them, those of each wave, and one by one
//! (G31, G32). The core determines the states, as for the controller.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use everynode_core::api::{
    DaemonSetKey, NodeName, RolloutPhase, RolloutReason, RolloutRecord, Timestamp,
};
use everynode_core::daemon_set::{NodeStanding, NodeState, WaveStanding};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::controller_view::ControllerView;
use crate::rollout::Rollout;
use crate::snapshot::{ObjectKind, Snapshot};

pub use crate::states::States;

/// Maximum number of waves that are shown to people, and how many of them lie before the current
/// one.
const SHOWN_MAX: usize = 40;
const SHOWN_BEFORE: usize = 10;

/// The nodes of a guarded rollout by their state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutNodes {
    /// All nodes that the rollout concerns.
    pub all: States,
    /// The waves, in their order. The last one is that of all other nodes, if there are any.
    pub waves: Vec<WaveNodes>,
    /// The nodes by name; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<RolloutNode>>,
}

/// The nodes of a wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveNodes {
    /// Its name; `null` for that of all nodes which no step names.
    pub name: Option<String>,
    /// Whether the rollout has reached it.
    pub state: StepState,
    /// The number of nodes that have the new template at its end: of the nodes of its step and
    /// label, or in the last wave of all nodes.
    pub nodes: usize,
    /// These nodes by their state; absent if later waves have more of the same nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<States>,
}

/// A node of a guarded rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutNode {
    /// Its name.
    pub node: String,
    /// Its state: `waiting`, `asked`, `pulling`, `updating`, `done`, `failed` or `setAside`.
    #[serde(serialize_with = "serialize_state")]
    #[schemars(with = "String")]
    pub state: NodeState,
    /// Why it is set aside, such as `down`; absent unless it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<&'static str>,
    /// What holds its pod up; absent if nothing does, or it waits for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The wave at whose end it has the new template at the latest; `null` if only that of all
    /// other nodes is sure to have it.
    pub wave: Option<String>,
}

/// Whether a rollout has reached a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// All its waves are complete.
    Done,
    /// It is at one of its waves.
    Current,
    /// It has not reached the step.
    Ahead,
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl RolloutNodes {
    /// The nodes of the rollout of a DaemonSet of the snapshot, which are listed one by one if
    /// `are_listed`. `None` without a valid policy, or if nodes, pods or revisions were not read.
    pub fn of(
        snapshot: &Snapshot,
        key: &DaemonSetKey,
        now: Timestamp,
        are_listed: bool,
    ) -> Option<Self> {
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        daemon_set.policy.valid()?;
        let view = ControllerView::new(snapshot, daemon_set.clone(), now);
        if !view.knows_revisions_of_pods() || !view.has_read(ObjectKind::Node) {
            return None;
        }
        let status = view.rollout_status()?;
        let under_way = (status.reason == RolloutReason::Failed)
            .then(|| ControllerView::under_way(snapshot, daemon_set.clone(), now));
        let view = under_way.as_ref().unwrap_or(&view);
        let all = view.rollout_status().map_or(status.nodes, |status| status.nodes);
        let (waves, nodes) = view.standings();
        let list = are_listed.then(|| {
            let causes = causes(snapshot, key, now);
            nodes.into_iter().map(|standing| RolloutNode::of(standing, &causes)).collect()
        });
        let record = status.record.as_deref();
        let waves = waves.into_iter().map(|wave| WaveNodes::of(wave, record));
        Some(Self { all: States(all), waves: waves.collect(), list })
    }
}

impl RolloutNodes {
    /// The waves to show: of many those around the current one, and how many lie before and behind.
    pub fn shown_waves(&self) -> (usize, &[WaveNodes], usize) {
        let current = self.waves.iter().position(|wave| wave.state == StepState::Current);
        let last = self.waves.len().saturating_sub(SHOWN_MAX);
        let first = current.unwrap_or_default().saturating_sub(SHOWN_BEFORE).min(last);
        let shown = &self.waves[first..(first + SHOWN_MAX).min(self.waves.len())];
        (first, shown, self.waves.len() - first - shown.len())
    }
}

/// The nodes whose pods are held up, each with the cause, without those that wait for their turn.
fn causes(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> BTreeMap<NodeName, String> {
    let held_up = Rollout::of(snapshot, key, now).map(|rollout| rollout.held_up);
    let held_up = held_up.into_iter().flatten().filter(|it| !it.cause.awaits_turn());
    held_up.filter_map(|it| Some((it.node?, it.cause.text))).collect()
}

impl WaveNodes {
    fn of(wave: WaveStanding, record: Option<&RolloutRecord>) -> Self {
        let state = match record {
            Some(record) if record.phase == RolloutPhase::Complete => StepState::Done,
            Some(record) if record.phase != RolloutPhase::Pending => {
                let are_left = wave.states.as_ref().is_some_and(|states| states.left() > 0);
                match wave.position.cmp(&record.position) {
                    // Promoted in full, the rollout is at all of them.
                    Ordering::Less if are_left && record.is_promoted_in_full() => {
                        StepState::Current
                    }
                    Ordering::Less => StepState::Done,
                    Ordering::Equal => StepState::Current,
                    Ordering::Greater => StepState::Ahead,
                }
            }
            Some(_) | None => StepState::Ahead,
        };
        Self {
            name: wave.name.map(|name| name.to_string()),
            state,
            nodes: wave.nodes,
            states: wave.states.map(States),
        }
    }

    /// Its name in a sentence.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or("all other nodes")
    }
}

impl RolloutNode {
    fn of(standing: NodeStanding, causes: &BTreeMap<NodeName, String>) -> Self {
        let NodeStanding { node, state, wave } = standing;
        Self {
            state,
            set_aside: match state {
                NodeState::SetAside(why) => Some(why.as_str()),
                NodeState::Waiting { .. }
                | NodeState::Asked { .. }
                | NodeState::Pulling { .. }
                | NodeState::Updating { .. }
                | NodeState::Done
                | NodeState::Failed => None,
            },
            cause: causes.get(&node).cloned(),
            node: node.to_string(),
            wave: wave.map(|wave| wave.to_string()),
        }
    }
}

fn serialize_state<S: Serializer>(state: &NodeState, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.as_str())
}
