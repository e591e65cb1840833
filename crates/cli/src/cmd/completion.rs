//! `everynode completion SHELL`: the script that has the shell ask this program.

use crate::complete;
use crate::invocation::Invocation;

pub fn execute(shell: clap_complete::Shell, invocation: Invocation) -> anyhow::Result<()> {
    complete::write_script(shell, invocation.program())
}
