//! What people want of a rollout, and what is stored and stated of it.

mod check;
mod condition;
mod policy;
mod record;
mod variables;
mod window;

pub use check::{
    CheckAnswer, CheckKind, CheckStatement, CheckVerdict, Decimal, JobPresence, RolloutCheck,
    StatedAnswer, StatedCheck, stated_checks, with_statements,
};
pub use condition::{ReasonClass, RolloutCondition, RolloutReason, statements_of_checks};
pub use policy::{
    Absent, FINALLY, FailureRule, GroupLimit, HOLD_LABEL, POLICY_ANNOTATION, PolicySource,
    RolloutPolicy, RolloutStep, Wait,
};
pub(crate) use record::NAMED_NODES;
pub use record::{
    FAILED_NODES_MAX, FailedNode, FailedNodes, FailureCause, GroupValue, ORDER_ANNOTATION, Order,
    OrderVerb, Position, RECORD_ANNOTATION, RecordReason, RecordState, RolloutPhase, RolloutRecord,
    WaveName, WavePosition,
};
pub use variables::CheckSubject;
pub use window::{Days, Opening, TimeOfDay, Window, WindowState, Windows, time_zone};
