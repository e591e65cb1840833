//! One command, one file.

pub mod completion;
pub mod diff;
pub mod history;
pub mod restart;
pub mod run;
pub mod sandbox;
pub mod status;
pub mod top;
pub mod undo;
pub mod version;
pub mod watch;
