//! The `everynode` program.
//!
//! - [`args`] defines the command line, [`cmd`] contains one module for each command.
//! - [`cluster`] is the client that the operators' commands use, [`snapshot_source`] reads the
//!   snapshots of `explain` and `plan`, and [`output`] prints tables, JSON and YAML.
//! - `run` and `sandbox` start the libraries `everynode-controller` and `everynode-sandbox`; the
//!   answers of the other commands come from `everynode-insight`.
//!
//! `main` parses the command line, executes one command, and reports an error as one line on
//! standard error and an exit code.

#![forbid(unsafe_code)]
// `println!` panics if the stream is full or closed; `output` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod clock;
mod cluster;
mod cmd;
mod input;
mod invocation;
mod log;
mod output;
mod panic;
mod shell_completion;
mod signal;
mod snapshot_source;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use everynode_insight::program;
use tokio::runtime::Builder;

use args::{Arguments, Command};
use invocation::Invocation;

/// The exit code for invalid arguments, as in most programs.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let invocation = Invocation::of(words.first().map_or("".as_ref(), OsString::as_os_str));
    program::is_called(invocation.command_name());
    let result = match shell_completion::complete(invocation, &words) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => match parse(invocation, args::own_form(words)) {
            Ok(command) => run(command, invocation),
            Err(error) => usage(&error),
        },
        Err(error) => Err(error),
    };
    match result {
        Ok(code) => code,
        // The reader of the output has closed the pipe.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("error: {}", one_line(&causes(&error))));
            ExitCode::FAILURE
        }
    }
}

fn parse(invocation: Invocation, words: Vec<OsString>) -> Result<Command, clap::Error> {
    let matches = invocation::command(invocation).try_get_matches_from(words)?;
    Arguments::from_arg_matches(&matches)?.into_command()
}

fn run(command: Command, invocation: Invocation) -> anyhow::Result<ExitCode> {
    let done = match command {
        Command::Run(arguments) => return run_with_pauses(cmd::run::execute(*arguments)),
        Command::Sandbox(arguments) => {
            return block_on(Builder::new_multi_thread(), cmd::sandbox::execute(*arguments));
        }
        Command::Status(arguments) => return run_single_threaded(cmd::status::execute(arguments)),
        Command::Watch(arguments) => return run_single_threaded(cmd::watch::execute(arguments)),
        Command::Top(arguments) => return run_single_threaded(cmd::top::execute(arguments)),
        Command::Dashboard(arguments) => {
            block_on(Builder::new_multi_thread(), cmd::dashboard::execute(arguments))
        }
        Command::Explain(arguments) => run_single_threaded(cmd::explain::execute(arguments)),
        Command::Plan(arguments) => return run_single_threaded(cmd::plan::execute(arguments)),
        Command::History(arguments) => run_single_threaded(cmd::history::execute(arguments)),
        Command::Diff(arguments) => run_single_threaded(cmd::diff::execute(arguments)),
        Command::Undo(arguments) => run_single_threaded(cmd::undo::execute(arguments)),
        Command::Rollout(arguments) => {
            return run_single_threaded(cmd::rollout::execute(arguments));
        }
        Command::Restart(arguments) => run_single_threaded(cmd::restart::execute(arguments)),
        Command::Completion { shell } => cmd::completion::execute(shell, invocation),
        Command::Version => cmd::version::execute(),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs `future` on a runtime with one thread. Operators' commands do one thing after the other.
fn run_single_threaded<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    block_on(Builder::new_current_thread(), future)
}

/// The pause after each round of work: what arrives meanwhile is handled in one round. A round of
/// its own for each answer, event, or packet of a list would cost up to twice the CPU time, because
/// each starts with cold caches. A pod takes much longer to start.
const PAUSE: Duration = Duration::from_millis(4);

/// Runs the controller on a runtime with one thread, which pauses whenever nothing is left to do.
/// One thread handles thousands of pods per second; a second one would have to be woken for every
/// event, and would use more memory.
fn run_with_pauses<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = Builder::new_current_thread();
    // The thread sleeps, because the runtime would be woken for each packet.
    runtime.on_thread_park(|| std::thread::sleep(PAUSE));
    block_on(runtime, future)
}

/// Runs `future` on this thread until it completes.
fn block_on<T>(
    mut runtime: Builder,
    future: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let runtime = runtime.enable_all().build()?;
    let result = runtime.block_on(future);
    // Don't wait for a blocked read of standard input or for open watches.
    runtime.shutdown_background();
    result
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The error with its causes. A cause whose text is part of an outer error's text is omitted.
fn causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints help and version as clap does, and an invalid command line as one line.
///
/// # Errors
/// If standard output is closed, or its device is full.
fn usage(error: &clap::Error) -> anyhow::Result<ExitCode> {
    if !error.use_stderr() {
        error.print()?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = error.render().to_string();
    let paragraphs = text.split("\n\n").filter(|part| !part.trim_start().starts_with("Usage:"));
    let parts: Vec<String> = paragraphs.map(one_line).filter(|part| !part.is_empty()).collect();
    let is_help = text.contains("\nCommands:") || text.contains("\nOptions:");
    if is_help {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        output::note(parts.join("; "));
    }
    Ok(ExitCode::from(EXIT_USAGE))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let error =
            anyhow::anyhow!("Address already in use").context("listen: Address already in use");
        assert_eq!(causes(&error.context("start")), "start: listen: Address already in use");
    }
}
