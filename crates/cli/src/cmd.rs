//! One command, one file.

pub mod completion;
pub mod run;
pub mod sandbox;
pub mod version;
