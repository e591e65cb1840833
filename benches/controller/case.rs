//! A benchmark case, parsed from a text such as `5000x1+30@10%,1`.

use std::fmt;

use anyhow::Context;

pub struct Case {
    pub nodes: u32,
    pub daemon_sets: u32,
    /// The number of pods on every node that belong to no DaemonSet.
    pub foreign_per_node: u32,
    /// The values of maxUnavailable, one for each successive rollout.
    pub rollouts: Vec<String>,
}

impl Case {
    pub fn parse(text: &str) -> anyhow::Result<Case> {
        let (size, rollouts) = text.split_once('@').unwrap_or((text, ""));
        let (size, foreign) = size.split_once('+').unwrap_or((size, "0"));
        let (nodes, daemon_sets) = size.split_once('x').context("a case is NODESxDAEMONSETS")?;
        let number = |text: &str| text.parse().with_context(|| format!("no number: {text}"));
        Ok(Case {
            nodes: number(nodes)?,
            daemon_sets: number(daemon_sets)?,
            foreign_per_node: number(foreign)?,
            rollouts: rollouts.split(',').filter(|r| !r.is_empty()).map(str::to_owned).collect(),
        })
    }

    /// The number of pods of DaemonSets.
    pub fn pods(&self) -> u32 {
        self.nodes * self.daemon_sets
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.nodes, self.daemon_sets)?;
        match self.foreign_per_node {
            0 => Ok(()),
            foreign => write!(f, " + {} foreign", foreign * self.nodes),
        }
    }
}
