//! A failed run: the violation, the transcript, and instructions to repeat it.

use std::fmt;

use crate::checker::Violation;

/// A violated property, with what is needed to repeat the run.
#[derive(Debug)]
pub struct Failure {
    /// The violation.
    pub violation: Violation,
    /// Lines that record every event of the run.
    pub transcript: Vec<String>,
    /// How to repeat the run.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.transcript {
            writeln!(f, "{line}")?;
        }
        let Self { violation, replay, .. } = self;
        write!(f, "{:?}: {}\n{replay}", violation.property, violation.message)
    }
}
