//! `everynode version`.

use crate::output;

pub fn execute() -> anyhow::Result<()> {
    output::print(concat!("everynode ", env!("CARGO_PKG_VERSION"), " (follows Kubernetes 1.36)\n"))
}
