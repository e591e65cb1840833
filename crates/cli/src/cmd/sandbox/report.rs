//! Where a sandbox says how far it is.

use std::fmt::Display;

use crate::args::Then;
use crate::output;

/// The stream for lines about the sandbox.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    Output,
    /// Standard error, where standard output is that of a command.
    ErrorOutput,
}

impl Report {
    /// The stream for a sandbox after which this follows.
    pub(crate) const fn before(then: Then<'_>) -> Self {
        match then {
            Then::KeepRunning | Then::Exit => Self::Output,
            Then::Run(_) => Self::ErrorOutput,
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// If standard output is closed, or its device is full.
    pub(crate) fn line(self, line: impl Display) -> anyhow::Result<()> {
        match self {
            Self::Output => output::print(&format!("{line}\n")),
            Self::ErrorOutput => {
                output::note(line);
                Ok(())
            }
        }
    }
}
