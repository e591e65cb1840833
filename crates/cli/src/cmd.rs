//! One command, one file.

pub mod completion;
pub mod diff;
pub mod explain;
pub mod history;
pub mod plan;
pub mod restart;
pub mod run;
pub mod sandbox;
pub mod status;
pub mod top;
pub mod undo;
pub mod version;
pub mod watch;
