//! The policy of a rollout, its record, and its condition.

mod check;
mod condition;
mod course;
mod overrides;
mod policy;
mod record;
mod statement;
mod variables;
mod wave_name;
mod window;

pub use check::{
    CheckAnswer, CheckKind, CheckStatement, CheckVerdict, Decimal, JobPresence, RolloutCheck,
    StatedAnswer,
};
pub use condition::{ReasonClass, RolloutCondition, RolloutReason};
pub use course::{Attribution, Course, CourseEvent, CourseEventKind};
pub use overrides::{
    Amount, ContainerAmounts, ContainerOverride, EnvOverride, MayOverride, NodeOverride,
    OVERRIDES_ANNOTATION, OverriddenNodes, Overrides, ResourceOverride,
};
pub use policy::{
    Absent, Agree, ConfigMapRule, ConfigRequirement, ConfigRule, FINALLY, FailureRule, GroupLimit,
    HOLD_LABEL, POLICY_ANNOTATION, PolicySource, Prepare, PrepareImages, RolloutPolicy,
    RolloutStep, UpdateMethod, Wait,
};
pub(crate) use record::NAMED_NODES;
pub use record::{
    FAILED_NODES_MAX, FailedNode, FailedNodes, FailureCause, GroupValue, ORDER_ANNOTATION,
    ORDER_REASON_ANNOTATION, Order, OrderVerb, PAUSE_REASON_ANNOTATION, Position,
    RECORD_ANNOTATION, RecordReason, RecordState, RolloutPhase, RolloutRecord, WavePosition,
};
pub use statement::{
    CANNOT_CHANGE, CANNOT_PULL, StatedCheck, is_about_wave, is_pulling_stated, stated_after,
    stated_checks, stated_wave, stated_without_override, statements_of_checks, with_statements,
};
pub(crate) use statement::{
    PAUSES_ROLLOUT, PULLING, is_updated, must_be_approved, nodes_of, without_override,
};
pub use variables::CheckSubject;
pub use wave_name::WaveName;
pub(crate) use window::utc_text;
pub use window::{Days, Opening, TimeOfDay, Window, WindowState, Windows, time_zone};
