//! `everynode completion SHELL`.

use clap::CommandFactory;

use crate::args::Arguments;
use crate::output;

pub fn execute(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "everynode", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
