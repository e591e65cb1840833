//! The `everynode` program: reads the command line, runs one command, and turns whatever goes wrong into one line on
//! standard error and an exit code.

#![forbid(unsafe_code)]
// They panic where the stream is full or closed; `output` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod cluster;
mod cmd;
mod complete;
mod invocation;
mod log;
mod output;
mod panic;
mod signal;
mod survey;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::FromArgMatches;
use tokio::runtime::Builder;

use args::{Arguments, Command};
use invocation::Invocation;

/// Wrong arguments, as most programs report them.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let invocation = Invocation::of(words.first().map_or("".as_ref(), OsString::as_os_str));
    let result = match complete::answer(invocation, &words) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => match parse(invocation, words) {
            Ok(arguments) => run(arguments.command, invocation),
            Err(error) => return usage(&error),
        },
        Err(error) => Err(error),
    };
    match result {
        Ok(code) => code,
        // Whoever read the output has had enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("error: {}", one_line(&causes(&error))));
            ExitCode::FAILURE
        }
    }
}

fn parse(invocation: Invocation, words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let matches = invocation::command(invocation).try_get_matches_from(words)?;
    Arguments::from_arg_matches(&matches)
}

fn run(command: Command, invocation: Invocation) -> anyhow::Result<ExitCode> {
    let done = match command {
        Command::Run(arguments) => return operate(cmd::run::execute(*arguments)),
        Command::Sandbox(arguments) => {
            block_on(Builder::new_multi_thread(), cmd::sandbox::execute(*arguments))
        }
        Command::Status(arguments) => return operate(cmd::status::execute(arguments)),
        Command::Watch(arguments) => return operate(cmd::watch::execute(arguments)),
        Command::Top(arguments) => operate(cmd::top::execute(arguments)),
        Command::Explain(arguments) => operate(cmd::explain::execute(arguments)),
        Command::Plan(arguments) => return operate(cmd::plan::execute(arguments)),
        Command::History(arguments) => operate(cmd::history::execute(arguments)),
        Command::Diff(arguments) => operate(cmd::diff::execute(arguments)),
        Command::Undo(arguments) => operate(cmd::undo::execute(arguments)),
        Command::Restart(arguments) => operate(cmd::restart::execute(arguments)),
        Command::Completion { shell } => cmd::completion::execute(shell, invocation),
        Command::Version => cmd::version::execute(),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Operators' commands do one thing after the other. The controller reads, decides and writes thousands of pods a second
/// on one thread; another one would have to be woken for every event, and have its own share of the heap.
fn operate<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    block_on(Builder::new_current_thread(), future)
}

/// Runs `future` on this thread.
fn block_on<T>(
    mut runtime: Builder,
    future: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let runtime = runtime.enable_all().build()?;
    let result = runtime.block_on(future);
    // Neither a blocked read of standard input nor watches that are still open must hold up the exit.
    runtime.shutdown_background();
    result
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The error and its causes, each told once: many an error's text holds that of its cause already.
fn causes(error: &anyhow::Error) -> String {
    let mut told = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

/// Help and the version as clap prints them; what is wrong as one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return if error.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
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
    ExitCode::from(EXIT_USAGE)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let error =
            anyhow::anyhow!("Address already in use").context("listen: Address already in use");
        assert_eq!(causes(&error.context("start")), "start: listen: Address already in use");
    }
}
