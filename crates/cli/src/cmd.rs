//! The commands, one module each.

pub(crate) mod completion;
pub(crate) mod dashboard;
pub(crate) mod diff;
pub(crate) mod explain;
mod first_wave;
pub(crate) mod history;
pub(crate) mod plan;
pub(crate) mod restart;
pub(crate) mod rollout;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod undo;
pub(crate) mod version;
pub(crate) mod watch;
