//! `everynode completion SHELL`.

use clap::CommandFactory;

use crate::args::Arguments;

pub fn execute(shell: clap_complete::Shell) -> anyhow::Result<()> {
    clap_complete::generate(shell, &mut Arguments::command(), "everynode", &mut std::io::stdout());
    Ok(())
}
