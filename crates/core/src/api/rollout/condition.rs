//! The condition `Progressing` of a DaemonSet.

use std::sync::Arc;

use crate::api::{NodeName, Timestamp};

use super::wave_name::WaveName;

/// Separates the parts of a message.
pub(super) const PART_SEPARATOR: &str = "; ";

/// The beginning of the statement that no pod that pulls images can be created (G55).
pub const CANNOT_PULL: &str = "nodes cannot pull the images ahead: ";

/// The beginning of the statement that a request to change a pod in place failed (G56).
pub const CANNOT_CHANGE: &str = "pods cannot be changed in place: ";

/// The rest of the part of a message that begins so, such as why nodes [cannot pull](CANNOT_PULL).
pub fn stated_after<'a>(message: &'a str, beginning: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(beginning)?;
    rest.split(PART_SEPARATOR).next()
}

/// The state of nodes that pull images, as a message numbers them.
pub(crate) const PULLING: &str = "pulling images";

/// True if a message states that nodes pull images.
pub fn is_pulling_stated(message: &str) -> bool {
    message.contains(&format!(" {PULLING}"))
}

/// How the condition begins to name the nodes whose running pods cannot get their override (G57).
const WITHOUT_OVERRIDE: &str = "without the resources of their override: ";

/// The statement that the running pods of nodes cannot get their override, and why.
pub(crate) fn without_override<'a>(
    nodes: impl IntoIterator<Item = (&'a NodeName, &'a str)>,
) -> String {
    let named = nodes.into_iter().map(|(node, why)| format!("{node} ({why})"));
    format!("{WITHOUT_OVERRIDE}{}", named.collect::<Vec<_>>().join(", "))
}

/// Why the running pod of a node cannot get its override, as a message states it.
pub fn stated_without_override<'a>(message: &'a str, node: &NodeName) -> Option<&'a str> {
    let (_, named) = message.split_once(WITHOUT_OVERRIDE)?;
    let rest = match named.strip_prefix(&format!("{node} (")) {
        Some(rest) => rest,
        None => named.split_once(&format!("), {node} ("))?.1,
    };
    let end = rest.find("), ").or_else(|| rest.find("); ")).or_else(|| rest.rfind(')'));
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// The condition `Progressing` of a guarded or paused rollout (G21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutCondition {
    /// `reason`.
    pub reason: RolloutReason,
    /// `message`.
    pub message: Arc<str>,
    /// `lastTransitionTime`, in whole seconds of the wall clock.
    pub since: Timestamp,
}

impl RolloutCondition {
    /// True if the message is about the wave of this name that is updated; about that of all nodes
    /// without one.
    pub fn is_about_wave(&self, name: Option<&str>) -> bool {
        let about = match name {
            Some(name) => self.message.strip_prefix(WAVE).and_then(|it| it.strip_prefix(name)),
            None => self.message.strip_prefix(ALL_NODES),
        };
        about.is_some_and(|rest| rest.starts_with(' '))
    }
}

const WAVE: &str = "wave ";
const ALL_NODES: &str = "all nodes";
const IS_UPDATED: &str = " is updated";
const MUST_BE_APPROVED: &str = " must be approved";

/// The nodes of the wave of this name; all nodes without one.
pub(crate) fn nodes_of(wave: Option<&WaveName>) -> String {
    wave.map_or_else(|| ALL_NODES.to_owned(), |name| format!("{WAVE}{name}"))
}

/// The statement that the nodes of a wave are updated; all nodes without one.
pub(crate) fn is_updated(wave: Option<&WaveName>) -> String {
    match wave {
        Some(name) => format!("{WAVE}{name}{IS_UPDATED}"),
        None => format!("{ALL_NODES} are updated"),
    }
}

/// The statement that a wave awaits its approval; after all nodes without one.
pub(crate) fn must_be_approved(wave: Option<&WaveName>) -> String {
    match wave {
        Some(name) => format!("{WAVE}{name}{MUST_BE_APPROVED}"),
        None => format!("{}: the rollout{MUST_BE_APPROVED}", is_updated(None)),
    }
}

/// The wave that a condition's message says to be updated, or to await its approval.
pub fn stated_wave(message: &str) -> Option<&str> {
    let rest = message.strip_prefix(WAVE)?;
    let ends = [IS_UPDATED, MUST_BE_APPROVED];
    ends.iter().find_map(|end| rest.split_once(end)).map(|(name, _)| name)
}

/// The end of a condition's message that states the answers to checks, from its separator on; empty
/// if it states none. Nothing else that is stored has the answers.
pub fn statements_of_checks(message: &str) -> &str {
    message.find("; check ").map_or("", |at| &message[at..])
}

/// The reasons of the condition `Progressing` (G21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutReason {
    /// The rollout is paused (G6).
    Paused,
    /// The policy is invalid, or was deleted before the rollout was complete (G7).
    InvalidPolicy,
    /// The record of the rollout cannot be read (G44).
    InvalidRecord,
    /// The built-in controller rolls out by itself, because the update strategy is not `OnDelete`
    /// (G18).
    NotGuarded,
    /// The nodes of a wave get the new template.
    Updating,
    /// The bake time of a wave is not over.
    Baking,
    /// The bake time of a wave is over, and a check has not passed since (G5).
    AwaitingChecks,
    /// A wave must be approved.
    AwaitingApproval,
    /// No pod is replaced, and no wave begins, before a window of the policy opens.
    OutsideWindow,
    /// All nodes of a wave are set aside, so that the template was not tried (G39).
    WaveNotTried,
    /// The template's placement would remove more pods than the policy allows (G42).
    RemovesNodes,
    /// Going back would not restore the template's configuration, as the policy requires (G53).
    MutableConfig,
    /// The ConfigMaps of the template cannot be copied, as the policy wants it (G58).
    ConfigNotReady,
    /// The template differs in more than pods can be changed in, and the policy lets nothing else
    /// happen (G56).
    NotInPlace,
    /// The rollout was done with no node for too long (G47).
    ProgressDeadlineExceeded,
    /// Nodes go back to the base after a failure.
    RollingBack,
    /// The rollout has failed, and nothing is left to do.
    Failed,
    /// All nodes have the template.
    Complete,
    /// The rollout is complete, and so many nodes failed that got the template later that no
    /// further one gets it (G40).
    LateNodesFail,
}

impl RolloutReason {
    /// All reasons.
    pub const ALL: [Self; 19] = [
        Self::Paused,
        Self::InvalidPolicy,
        Self::InvalidRecord,
        Self::NotGuarded,
        Self::Updating,
        Self::Baking,
        Self::AwaitingChecks,
        Self::AwaitingApproval,
        Self::OutsideWindow,
        Self::WaveNotTried,
        Self::RemovesNodes,
        Self::MutableConfig,
        Self::ConfigNotReady,
        Self::NotInPlace,
        Self::ProgressDeadlineExceeded,
        Self::RollingBack,
        Self::Failed,
        Self::Complete,
        Self::LateNodesFail,
    ];

    /// The `reason` of the condition, and its class.
    const fn row(self) -> (&'static str, ReasonClass) {
        match self {
            Self::Paused => ("Paused", ReasonClass::NotGuarded),
            Self::InvalidPolicy => ("InvalidPolicy", ReasonClass::Invalid),
            Self::InvalidRecord => ("InvalidRecord", ReasonClass::Invalid),
            Self::NotGuarded => ("NotGuarded", ReasonClass::NotGuarded),
            Self::Updating => ("Updating", ReasonClass::WaitsForNodes),
            Self::Baking => ("Baking", ReasonClass::WaitsForTime),
            Self::AwaitingChecks => ("AwaitingChecks", ReasonClass::WaitsForChecks),
            Self::AwaitingApproval => ("AwaitingApproval", ReasonClass::WaitsForApproval),
            Self::OutsideWindow => ("OutsideWindow", ReasonClass::WaitsForWindow),
            Self::WaveNotTried => ("WaveNotTried", ReasonClass::WaitsForNodes),
            Self::RemovesNodes => ("RemovesNodes", ReasonClass::WaitsForPerson),
            Self::MutableConfig => ("MutableConfig", ReasonClass::WaitsForPerson),
            Self::ConfigNotReady => ("ConfigNotReady", ReasonClass::WaitsForPerson),
            Self::NotInPlace => ("NotInPlace", ReasonClass::WaitsForPerson),
            Self::ProgressDeadlineExceeded => ("ProgressDeadlineExceeded", ReasonClass::Stuck),
            Self::RollingBack => ("RollingBack", ReasonClass::RollsBack),
            Self::Failed => ("Failed", ReasonClass::Failed),
            Self::Complete => ("Complete", ReasonClass::Complete),
            Self::LateNodesFail => ("LateNodesFail", ReasonClass::Failed),
        }
    }

    /// The `reason` of the condition.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The class, by which commands distinguish reasons.
    pub const fn class(self) -> ReasonClass {
        self.row().1
    }

    /// The `status` of the condition: `Unknown` while nothing happens here until somebody acts or a
    /// window opens, as Deployments have it while they are paused.
    pub const fn status(self) -> &'static str {
        match self.class() {
            ReasonClass::WaitsForNodes
            | ReasonClass::WaitsForTime
            | ReasonClass::WaitsForChecks
            | ReasonClass::RollsBack
            | ReasonClass::Complete => "True",
            ReasonClass::NotGuarded
            | ReasonClass::WaitsForApproval
            | ReasonClass::WaitsForPerson
            | ReasonClass::WaitsForWindow => "Unknown",
            ReasonClass::Invalid | ReasonClass::Failed | ReasonClass::Stuck => "False",
        }
    }

    /// True if the condition `Stalled` is true as well, at which kstatus, and so Flux, looks first.
    pub const fn is_stalled(self) -> bool {
        matches!(
            self.class(),
            ReasonClass::WaitsForPerson
                | ReasonClass::Stuck
                | ReasonClass::RollsBack
                | ReasonClass::Invalid
                | ReasonClass::Failed
        )
    }

    /// True if only the message says what nodes wait for: there may be no pods that show it.
    pub const fn explains_wait(self) -> bool {
        matches!(self, Self::WaveNotTried)
    }
}

/// The classes of reasons, by what the rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonClass {
    /// No policy is acted on: a pause needs none, and an update strategy may exclude all.
    NotGuarded,
    /// Nodes get the new template.
    WaitsForNodes,
    /// Nodes get the new template, and none was done for too long.
    Stuck,
    /// A wave is updated, and its bake time has to end.
    WaitsForTime,
    /// A wave is updated, and its checks have to pass.
    WaitsForChecks,
    /// A window has to open.
    WaitsForWindow,
    /// A wave is updated, and a person has to approve it.
    WaitsForApproval,
    /// The template is not what the policy wants, and a person has to decide.
    WaitsForPerson,
    /// Nodes go back after a failure.
    RollsBack,
    /// Nothing happens before a person corrects the policy or the record.
    Invalid,
    /// Nodes or checks have failed, and nothing happens before a person acts.
    Failed,
    /// Nothing is left to do.
    Complete,
}

impl ReasonClass {
    /// True if a policy guards the rollout (G18).
    pub const fn is_guarded(self) -> bool {
        !matches!(self, Self::NotGuarded)
    }

    /// True if the rollout is not over although all pods may be updated and available: the last
    /// wave bakes, or must be approved.
    pub const fn is_under_way(self) -> bool {
        self.is_guarded() && !matches!(self, Self::Invalid | Self::Failed | Self::Complete)
    }

    /// True if the rollout does not go on before a person acts.
    pub const fn awaits_person(self) -> bool {
        matches!(self, Self::WaitsForApproval | Self::WaitsForPerson | Self::Invalid | Self::Failed)
    }

    /// True if all nodes of the wave had the new template when this was stated.
    pub const fn is_of_updated_wave(self) -> bool {
        matches!(
            self,
            Self::WaitsForTime
                | Self::WaitsForChecks
                | Self::WaitsForApproval
                | Self::WaitsForPerson
        )
    }

    /// True if a guarded rollout replaces no old pod at present.
    pub const fn keeps_old_pods(self) -> bool {
        self.is_guarded() && !matches!(self, Self::WaitsForNodes | Self::Stuck | Self::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CheckStatement, with_statements};
    use super::*;

    /// G21: the parts of a message that only the message has are read as they are written.
    #[test]
    fn the_wave_and_the_checks_of_a_message_are_read_as_they_are_written() {
        let checks = [CheckStatement { name: "errors".into(), last: None }];
        let message: Arc<str> = with_statements("wave a-1 is updated", checks.iter()).into();
        assert_eq!(statements_of_checks(&message), "; check errors has no answer yet");
        assert_eq!(statements_of_checks("updating wave a-1"), "");
        let since = Timestamp::from_seconds(0);
        let condition = RolloutCondition { reason: RolloutReason::Baking, message, since };
        let names = [Some("a-1"), Some("a"), Some("a-11"), None];
        assert_eq!(stated_wave(&condition.message), Some("a-1"));
        assert_eq!(stated_wave("wave zones/a:10% must be approved"), Some("zones/a:10%"));
        assert_eq!(stated_wave("all nodes are updated"), None);
        let is_about = names.map(|name| condition.is_about_wave(name));
        assert_eq!(is_about, [true, false, false, false]);
    }
}
