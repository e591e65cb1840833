//! Plans, notices and problems as text for logs, events and transcripts.

use std::fmt;
use std::time::Duration;

use crate::api::{
    AdmissionChange, CheckVerdict, HASH_LABEL, NodeName, ORDER_ANNOTATION, OrderVerb,
    PAUSED_ANNOTATION, PodName, Position, Problem, RECORD_ANNOTATION, RolloutCondition,
    RolloutRecord,
};
use crate::plan::{
    CheckQuestion, NewChange, Notice, Plan, PodReference, Supersession, Transition, Waiting, Write,
};

/// The beginning of the message that admission has changed a new pod.
pub const ADMISSION_CHANGED: &str = "admission changed pod";

/// The beginning of the message that pods are deleted before they are ready.
pub const OTHERS_DELETE: &str = "other clients delete the pods";

impl fmt::Display for Plan {
    /// One line for each write, question and notice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for write in &self.writes {
            writeln!(f, "{write}")?;
        }
        for question in &self.questions {
            writeln!(f, "{question}")?;
        }
        for notice in &self.notices {
            writeln!(f, "{}: {notice}", notice.reason())?;
        }
        if let Some(waiting) = &self.waiting {
            writeln!(f, "{waiting}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.verb())?;
        match self {
            Self::AdoptPod(pod)
            | Self::ReleasePod(pod)
            | Self::DeletePod(pod)
            | Self::DeletePuller(pod) => pod.fmt(f),
            Self::PullImages(new) => write!(f, "of {} on {}", new.hash, new.node),
            Self::AdoptRevision(revision)
            | Self::ReleaseRevision(revision)
            | Self::DeleteRevision(revision) => revision.name.fmt(f),
            Self::CreateRevision(new) => {
                let overrides = if new.overrides.is_some() { " with overrides" } else { "" };
                write!(f, "{} number {}{overrides}", new.name, new.number)?;
                new.copies.as_ref().map_or(Ok(()), |copies| write!(f, " with copies {copies}"))
            }
            Self::CopyConfigMap(new) => write!(f, "{} as {}", new.source, new.name()),
            Self::DeleteCopy(copy) => copy.name.fmt(f),
            Self::LabelRevision { revision, hash } => write!(f, "{} {hash}", revision.name),
            Self::RaiseRevision { revision, number, .. } => {
                write!(f, "{} to {number}", revision.name)
            }
            Self::RaiseCollisionCount { collision_count, .. } => write!(f, "to {collision_count}"),
            Self::RelabelPod { pod, hash } | Self::MarkReplaced { pod, hash } => {
                write!(f, "{pod} {hash}")
            }
            Self::ChangePod(new @ NewChange { pod, .. }) => {
                write!(f, "{pod} {}", new.hash)?;
                match &new.r#override {
                    _ if !new.changes_override() => Ok(()),
                    Some(of_node) => write!(f, " with {}", of_node.tag),
                    None => write!(f, " without override"),
                }
            }
            Self::FinishChange { pod, hash, .. } => write!(f, "{pod} {hash}"),
            Self::AskForReplacement { pod, hash, withdraws, .. } => {
                let withdraws = if *withdraws { ", anew" } else { "" };
                write!(f, "{pod} {hash}{withdraws}")
            }
            Self::CreatePod(new) => {
                write!(f, "on {} of {}", new.node, new.hash)?;
                if let Some(of_node) = &new.r#override {
                    write!(f, " with {}", of_node.tag)?;
                }
                new.name.as_ref().map_or(Ok(()), |name| write!(f, " as {name}"))
            }
            Self::WriteRecord { revision, record } => write!(f, "{}: {record}", revision.name),
            Self::UpdateStatus { status, ends_rollout, .. } => write!(
                f,
                "desired {} current {} misscheduled {} ready {} available {} unavailable {} \
                 updated {} observed {}",
                status.desired_number_scheduled,
                status.current_number_scheduled,
                status.number_misscheduled,
                status.number_ready,
                status.number_available,
                status.number_unavailable,
                status.updated_number_scheduled,
                status.observed_generation,
            )
            .and_then(|()| match &status.rollout {
                None if !*ends_rollout => Ok(()),
                rollout => f.write_str(" ").and_then(|()| write_condition(f, rollout.as_ref())),
            }),
            Self::UpdateConditions { rollout } => write_condition(f, rollout.as_ref()),
            Self::RollBack { base, .. } => write!(f, "to {}", base.name),
        }
    }
}

fn write_condition(f: &mut fmt::Formatter<'_>, rollout: Option<&RolloutCondition>) -> fmt::Result {
    match rollout {
        Some(condition) => write!(f, "{}: {}", condition.reason.as_str(), condition.message),
        None => f.write_str("no condition"),
    }
}

impl fmt::Display for PodReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{} on {node}", self.name),
            None => self.name.fmt(f),
        }
    }
}

fn write_ended(
    f: &mut fmt::Formatter<'_>,
    (pod, node): (&PodName, &NodeName),
    has: &str,
    delay: Duration,
) -> fmt::Result {
    let seconds = delay.as_secs();
    write!(f, "pod {pod} on node {node} {has}; it is deleted and then replaced; if the next one ")?;
    write!(f, "ends, too, it is replaced {seconds} s after this one at the earliest")
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailedDaemonPod { pod, node, delay } => {
                write_ended(f, (pod, node), "failed", *delay)
            }
            Self::SucceededDaemonPod { pod, node, delay } => {
                write_ended(f, (pod, node), "succeeded", *delay)
            }
            Self::SelectingAll => {
                f.write_str("the selector matches all pods, so the DaemonSet is not synced")
            }
            Self::ExpectationLapsed { creations, deletions, writes } => write!(
                f,
                "the watches did not show {creations} creations, {deletions} deletions and writes \
                 of {writes} kinds in time; no longer waiting for them",
            ),
            Self::RolloutPaused => f.write_str("no pod is replaced until the rollout is resumed"),
            Self::RolloutResumed => f.write_str("pods of older revisions are replaced again"),
            Self::OutsideWindow { message } => f.write_str(message),
            Self::WindowOpened => f.write_str("the rollout does not wait for a window any more"),
            Self::NotGuarded => f.write_str(
                "the built-in controller rolls out this DaemonSet by itself: the rollout policy \
                 counts only with the update strategy OnDelete",
            ),
            Self::RollingBack { base } => {
                write!(f, "nodes go back to revision {base}")
            }
            Self::Rollout(transition) => transition.fmt(f),
            Self::Check { check, wave, verdict, answer } => {
                let verdict = match verdict {
                    CheckVerdict::Passed => "has passed",
                    CheckVerdict::Failed => "has failed",
                    CheckVerdict::Unknown => "has neither passed nor failed",
                };
                write!(f, "check {check} of wave {wave} {verdict}: {answer}")
            }
            Self::Problem(problem) => problem.fmt(f),
        }
    }
}

impl fmt::Display for CheckQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wave, check, .. } = self;
        write!(f, "ask check {} of wave {wave}: {}", check.name, check.kind)
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adopted { revision } => {
                write!(f, "revision {revision} is in use; rollouts are guarded from now on")
            }
            Self::Begun { revision, wave: Some(wave) } => {
                write!(f, "the rollout of revision {revision} begins with wave {wave}")
            }
            Self::Begun { revision, wave: None } => {
                write!(f, "the rollout of revision {revision} to all nodes begins")
            }
            Self::WaveUpdated { wave: Some(wave) } => {
                write!(f, "all nodes of wave {wave} are updated")
            }
            Self::WaveUpdated { wave: None } => f.write_str("all nodes are updated"),
            Self::WaveBegun { wave: Some(wave) } => write!(f, "wave {wave} begins"),
            Self::WaveBegun { wave: None } => f.write_str("the update of all other nodes begins"),
            Self::NodesFailed { nodes } => {
                write!(f, "the rollout fails: nodes have failed: {nodes}")
            }
            Self::NodesLost { nodes } => write!(
                f,
                "the rollout fails: nodes went down after they got the new template: {nodes}"
            ),
            Self::NoProgress { nodes } => {
                write!(f, "the rollout fails: it makes no progress, and {nodes} nodes are left")
            }
            Self::CheckFailed { why } => write!(f, "the rollout fails: {why}"),
            Self::Completed { revision, lacking: 0 } => {
                write!(f, "all nodes have revision {revision}")
            }
            Self::Completed { revision, lacking } => {
                let nodes = if *lacking == 1 { "node" } else { "nodes" };
                write!(f, "revision {revision} is rolled out, except on {lacking} {nodes}: ")?;
                f.write_str("failed, or set aside")
            }
            Self::Superseded { revision, by } => {
                let why = match by {
                    Supersession::Template => "there is a new template",
                    Supersession::Overrides => "the policy has other overrides",
                    Supersession::ConfigMaps => "the ConfigMaps have another content",
                };
                write!(f, "the rollout of revision {revision} ends: {why}")
            }
            Self::Ordered(order) => {
                match &order.verb {
                    OrderVerb::Approve(wave) => write!(f, "wave {wave} is approved"),
                    OrderVerb::Promote(wave) => {
                        write!(f, "the rollout goes on without waiting for wave {wave}")
                    }
                    OrderVerb::PromoteFull => f.write_str("the rollout goes on to all nodes"),
                    OrderVerb::Abort => f.write_str("the rollout is aborted"),
                    OrderVerb::Retry => f.write_str("the rollout begins again"),
                }?;
                order.attribution.fmt(f)
            }
            Self::OrderIgnored { order, why } => {
                write!(f, "the order \"{}\" has no effect: {why}", order.text)
            }
        }
    }
}

impl fmt::Display for RolloutRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phase.as_str())?;
        match &self.position {
            Position::AllNodes => f.write_str(" all nodes")?,
            Position::Wave(wave) => {
                write!(f, " step {} group {} size {}", wave.step, wave.group, wave.size)?;
            }
        }
        for wave in &self.approvals {
            write!(f, " approved {wave}")?;
        }
        if self.is_rolled_back {
            f.write_str(" rolled back")?;
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " {reason}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selector { message } => {
                write!(f, "spec.selector: {message}; the DaemonSet is not synced")
            }
            Self::Paused { value } => {
                write!(
                    f,
                    "metadata.annotations[{PAUSED_ANNOTATION}]: \"{value}\" is neither \"true\" \
                     nor \"false\"; the rollout is paused"
                )
            }
            Self::Policy { message } => {
                write!(f, "{message}; no pod is replaced")
            }
            Self::Order { message } => {
                write!(f, "metadata.annotations[{ORDER_ANNOTATION}]: {message}; it is ignored")
            }
            Self::Record { name, message } => {
                write!(
                    f,
                    "controllerrevision {name}: metadata.annotations[{RECORD_ANNOTATION}]: \
                     {message}; a rollout of this revision is held"
                )
            }
            Self::ForeignRecord { name } => {
                write!(
                    f,
                    "controllerrevision {name}: metadata.annotations[{RECORD_ANNOTATION}] is a \
                     copy of another revision's; it is ignored"
                )
            }
            Self::Template { message } => {
                write!(f, "spec.template: {message}; the DaemonSet is not synced")
            }
            Self::NodeAffinity { field, message } => {
                write!(f, "{field}: {message}; the term matches no node")
            }
            Self::Toleration { field, message } => {
                write!(f, "{field}: {message}; it tolerates nothing")
            }
            Self::UpdateStrategy { field, message } => {
                write!(f, "{field}: {message}; no pod is replaced for its revision")
            }
            Self::Revision { name, message } => {
                write!(f, "controllerrevision {name}: {message}; it matches no template")
            }
            Self::PodWithoutNode { pod } => {
                write!(f, "pod {pod} neither runs on a node nor is pinned to one; it is ignored")
            }
            Self::NamespaceNodeSelector { message } => {
                write!(f, "the namespace's node selector: {message}; it is ignored")
            }
            Self::ChangedPod { pod, node, change } => write!(
                f,
                "{ADMISSION_CHANGED} {pod}, created for node {node}: {change}; the next creation \
                 is delayed",
            ),
            Self::UnchangedPod { pod, why, stays } => {
                let stays = if *stays { "; it stays" } else { "" };
                write!(f, "pod {pod} cannot be changed in place: {why}{stays}")
            }
            Self::LostPods { node, delay } => write!(
                f,
                "{OTHERS_DELETE} on node {node}, or change their labels or owner, \
                 before they are ready; the next one is created in {} s",
                delay.as_secs(),
            ),
        }
    }
}

impl fmt::Display for AdmissionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labels => f.write_str("the selector does not match its labels"),
            Self::Controller => f.write_str("it has another controller"),
            Self::Node(Some(node)) => write!(f, "it is on node {node}"),
            Self::Node(None) => f.write_str("it is not pinned to a node"),
            Self::RevisionLabels => write!(f, "it has no label {HASH_LABEL}"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "waiting for {} results, {} creations, {} deletions, {} kinds",
            self.in_flight, self.creations, self.deletions, self.stale_kinds
        )
    }
}
