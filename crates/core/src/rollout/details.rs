//! The parts of the condition's message that change with nodes: how far a wave is, and which nodes
//! hold it up (G21, G32).

use std::fmt::{self, Write};
use std::sync::Arc;

use crate::api::{CANNOT_CHANGE, CANNOT_PULL, NodeName, PodTrouble};

use super::wave::StateCounts;

/// How far a wave is (G32).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaveProgress {
    /// Its nodes by their state.
    pub states: StateCounts,
    pub starting: StartingNodes,
    /// The first nodes for which nobody has agreed in time that their old pod goes.
    pub not_agreed: Vec<NodeName>,
    /// Why nobody can be asked whether an old pod may go, if that is so.
    pub question_refusal: Option<Arc<str>>,
    /// The first nodes that have pulled the images for too long, or cannot, and why.
    pub overdue: Vec<(NodeName, Option<PodTrouble>)>,
    /// Why nodes cannot pull the images of the target, if that is so.
    pub pull_refusal: Option<Arc<str>>,
    /// Why pods cannot be changed in place, if that is so.
    pub change_failure: Option<Arc<str>>,
    /// The nodes without an available pod since an earlier attempt, for whose budget it waits.
    pub awaited_outages: usize,
}

/// The nodes that have been without an available pod for long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartingNodes {
    /// The first of them, with the reason for which a container waits there.
    pub named: Vec<(NodeName, Option<PodTrouble>)>,
    /// How many others there are.
    pub more: usize,
}

impl StartingNodes {
    pub(super) fn write(&self, text: &mut String) -> fmt::Result {
        for (index, (node, trouble)) in self.named.iter().enumerate() {
            let first = "; without an available pod for more than a minute: ";
            write!(text, "{}{node}", if index == 0 { first } else { ", " })?;
            if let Some(trouble) = trouble {
                write!(text, " ({})", trouble.as_str())?;
            }
        }
        if self.more > 0 {
            write!(text, ", {} more", self.more)?;
        }
        Ok(())
    }
}

impl WaveProgress {
    /// Writes the numbers of its nodes, and those that hold it up, if any have for long.
    pub(super) fn write(&self, text: &mut String) -> fmt::Result {
        write!(text, " ({})", self.states)?;
        self.starting.write(text)?;
        for (index, node) in self.not_agreed.iter().enumerate() {
            let separator = if index == 0 { "; nobody has agreed in time for " } else { ", " };
            write!(text, "{separator}{node}")?;
        }
        if let Some(why) = &self.question_refusal {
            write!(text, "; nobody can be asked whether an old pod may go: {why}")?;
        }
        for (index, (node, trouble)) in self.overdue.iter().enumerate() {
            let separator = if index == 0 { "; without the images in time: " } else { ", " };
            write!(text, "{separator}{node}")?;
            if let Some(trouble) = trouble {
                write!(text, " ({})", trouble.as_str())?;
            }
        }
        if let Some(why) = &self.pull_refusal {
            write!(text, "; {CANNOT_PULL}{why}")?;
        }
        if let Some(why) = &self.change_failure {
            write!(text, "; {CANNOT_CHANGE}{why}")?;
        }
        match self.awaited_outages {
            0 => {}
            1 => text.push_str(
                "; 1 node without an available pod since before this rollout uses the budget",
            ),
            nodes => write!(
                text,
                "; {nodes} nodes without an available pod since before this rollout use the budget"
            )?,
        }
        Ok(())
    }
}

/// The running pods that are without the override of their node (G57).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OverridesProgress {
    /// The first nodes whose pods cannot be changed, and why.
    pub named: Vec<(NodeName, Arc<str>)>,
    /// How many others there are.
    pub more: usize,
    /// Why others could not be changed until now.
    pub failure: Option<Arc<str>>,
}
