//! `everynode completion SHELL`: prints the completion script of a shell.

use crate::invocation::Invocation;
use crate::shell_completion;

/// Executes the command.
pub(crate) fn execute(shell: clap_complete::Shell, invocation: Invocation) -> anyhow::Result<()> {
    shell_completion::write_script(shell, invocation.program())
}
