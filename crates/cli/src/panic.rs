//! What a panic does to a process that others rely on: it is logged, and the process ends.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

/// As Rust ends a program whose main thread panics.
const EXIT_PANIC: i32 = 101;

/// From now on a panic ends the process, whichever task or thread it is in. Tokio would end that task alone: the rest would go on
/// looking alive, and no other replica would take over. The lease is left to expire, since writes may be under way.
///
/// Called once the log is there.
pub fn ends_the_process() {
    std::panic::set_hook(Box::new(|panic| {
        log(panic);
        std::process::exit(EXIT_PANIC);
    }));
}

fn log(panic: &PanicHookInfo<'_>) {
    let cause = panic.payload_as_str().unwrap_or("no message").replace('\n', " ");
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        // RUST_BACKTRACE asks for it.
        BacktraceStatus::Captured => {
            tracing::error!(at, %backtrace, "a bug ends everynode: {cause}")
        }
        _ => tracing::error!(at, "a bug ends everynode: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::Value;

    use super::*;
    use crate::args::{LogArguments, LogFormat, LogLevel};

    /// Set for a process that this test starts of itself.
    const CHILD: &str = "EVERYNODE_TEST_PANIC";

    /// C65: a panic in a task that nobody waits for ends the process, and its message is a line of the log, JSON if the log is.
    #[test]
    fn a_panic_in_a_task_ends_the_process_with_its_message() {
        let name = "panic::tests::a_panic_in_a_task_ends_the_process_with_its_message";
        if std::env::var_os(CHILD).is_some() {
            return survive_a_panic();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture"]).env(CHILD, "1").env_remove("RUST_BACKTRACE");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(EXIT_PANIC), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let [line] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("{stderr}") };
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["message"], "a bug ends everynode: the disk is full");
        assert!(line["at"].as_str().unwrap().contains("panic.rs:"), "{line}");
    }

    /// Ends well unless the panic ends the process.
    fn survive_a_panic() {
        let log = LogArguments { log_level: None, log_format: LogFormat::Json };
        crate::log::start(&log, LogLevel::Info);
        ends_the_process();
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let task = runtime.spawn(async { panic!("the disk\nis full") });
        assert!(runtime.block_on(task).is_err());
        std::process::exit(0);
    }
}
