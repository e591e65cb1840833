//! The parts of Kubernetes' objects that decisions read, and nothing else (C3).

mod check;
mod daemon_set;
mod int_or_percent;
mod labels;
mod names;
mod namespace;
mod node;
mod pod;
mod policy;
mod problem;
mod record;
mod revision;
mod scheduling;
mod time;
mod window;

pub use check::{
    CheckAnswer, CheckKind, CheckStatement, CheckVerdict, Decimal, JobPresence, RolloutCheck,
    StatedAnswer, StatedCheck, stated_checks, with_statements,
};
pub use daemon_set::{
    Budget, DaemonSet, PAUSED_ANNOTATION, ROLLED_BACK_ANNOTATION, RolloutCondition, RolloutReason,
    Status, Template, UpdateStrategy,
};
pub use int_or_percent::IntOrPercent;
pub use labels::{
    HASH_LABEL, LabelOperator, LabelRequirement, LabelSelector, Labels,
    NAMESPACE_NODE_SELECTOR_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION, TEMPLATE_GENERATION_LABEL,
};
pub use names::{
    DaemonSetKey, DaemonSetName, Namespace, NodeName, PodName, ResourceVersion, RevisionHash,
    RevisionName, Uid,
};
pub use namespace::NamespaceNodeSelector;
pub use node::{Node, Taint, TaintEffect};
pub use pod::{Pod, PodPhase, Readiness};
pub use policy::{
    FailureRule, GroupLimit, HOLD_LABEL, POLICY_ANNOTATION, PolicySource, RolloutPolicy,
    RolloutStep,
};
pub use problem::{AdmissionChange, Problem};
pub use record::{
    GroupValue, ORDER_ANNOTATION, Order, OrderVerb, Position, RECORD_ANNOTATION, RecordReason,
    RecordState, RolloutPhase, RolloutRecord, WaveName, WavePosition,
};
pub use revision::Revision;
pub use scheduling::{
    NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement, Term, Toleration,
    TolerationOperator, default_tolerations,
};
pub use time::{Now, Timestamp};
pub use window::{Days, Opening, TimeOfDay, Window, WindowState, Windows};
