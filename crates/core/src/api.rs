//! The parts of Kubernetes' objects that decisions read, and nothing else (C3).

mod config;
mod config_map;
mod daemon_set;
mod hash;
mod image_pull;
mod int_or_percent;
mod labels;
mod letter;
mod names;
mod namespace;
mod node;
mod pod;
mod problem;
mod revision;
mod rollout;
mod scheduling;
pub mod schema;
mod time;

pub use config::{ConfigObject, StoredConfig, unrestored};
pub(crate) use config_map::override_of_tag;
pub use config_map::{
    CONFIG_ANNOTATION, COPY_OF_ANNOTATION, ConfigCopies, ConfigCopy, ConfigMap, ConfigMaps,
    CopyOrigin, KnownConfigMaps, copy_hash, copy_name, parts_of_tag,
};
pub use daemon_set::{
    Budget, DaemonSet, PAUSED_ANNOTATION, RETRY_ANNOTATION, ROLLED_BACK_ANNOTATION, Status,
    Template, UpdateStrategy,
};
pub use hash::revision_hash;
pub use image_pull::{ImagePuller, PULLS_FOR_LABEL, PULLS_OF_LABEL, PullState};
pub use int_or_percent::IntOrPercent;
pub use labels::{
    CONFIG_LABEL, HASH_LABEL, LabelOperator, LabelRequirement, LabelSelector, Labels,
    NAMESPACE_NODE_SELECTOR_ANNOTATION, OVERRIDE_LABEL, TEMPLATE_GENERATION_ANNOTATION,
    TEMPLATE_GENERATION_LABEL,
};
pub use letter::is_hidden;
pub use names::{
    DaemonSetKey, DaemonSetName, Namespace, NodeName, PodName, ResourceVersion, RevisionHash,
    RevisionName, Uid,
};
pub use namespace::NamespaceNodeSelector;
pub use node::{CORDONED_TAINT, KubeletVersion, Node, NodeReadiness, Taint, TaintEffect};
pub use pod::{
    AGREED, CHANGED_ANNOTATION, CHANGING_ANNOTATION, ChangeGoal, ChangeState,
    OVERRIDDEN_ANNOTATION, Pod, PodChange, PodPhase, PodTrouble, REPLACE_ANNOTATION,
    REPLACED_ANNOTATION, REPLACING_ANNOTATION, REPLACING_SINCE_ANNOTATION, Readiness, Replacement,
};
pub use problem::{AdmissionChange, Problem};
pub use revision::{Revision, RevisionsByContent};
pub use rollout::{
    Absent, Agree, Amount, Attribution, CANNOT_CHANGE, CANNOT_PULL, CheckAnswer, CheckKind,
    CheckStatement, CheckSubject, CheckVerdict, ConfigMapRule, ConfigRequirement, ConfigRule,
    ContainerAmounts, ContainerOverride, Course, CourseEvent, CourseEventKind, Days, Decimal,
    EnvOverride, FAILED_NODES_MAX, FINALLY, FailedNode, FailedNodes, FailureCause, FailureRule,
    GroupLimit, GroupValue, HOLD_LABEL, JobPresence, MayOverride, NodeOverride, ORDER_ANNOTATION,
    ORDER_REASON_ANNOTATION, OVERRIDES_ANNOTATION, Opening, Order, OrderVerb, OverriddenNodes,
    Overrides, PAUSE_REASON_ANNOTATION, POLICY_ANNOTATION, PolicySource, Position, Prepare,
    PrepareImages, RECORD_ANNOTATION, ReasonClass, RecordReason, RecordState, ResourceOverride,
    RolloutCheck, RolloutCondition, RolloutPhase, RolloutPolicy, RolloutReason, RolloutRecord,
    RolloutStep, StatedAnswer, StatedCheck, TimeOfDay, UpdateMethod, Wait, WaveName, WavePosition,
    Window, WindowState, Windows, is_about_wave, is_pulling_stated, stated_after, stated_checks,
    stated_wave, stated_without_override, statements_of_checks, time_zone, with_statements,
};
pub(crate) use rollout::{
    NAMED_NODES, PAUSES_ROLLOUT, PULLING, is_updated, must_be_approved, nodes_of, utc_text,
    without_override,
};
pub use scheduling::{
    NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement, Term, Toleration,
    TolerationOperator, default_tolerations,
};
pub use time::{Now, Timestamp};
