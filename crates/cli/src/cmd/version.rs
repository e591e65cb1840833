//! `everynode version`: prints the version.

use crate::output;

/// Executes the command.
pub(crate) fn execute() -> anyhow::Result<()> {
    output::print(concat!("everynode ", env!("CARGO_PKG_VERSION"), " (follows Kubernetes 1.36)\n"))
}
