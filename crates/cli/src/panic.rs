//! Panics of long-running commands: they are logged and end the process.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

/// The exit code of a Rust program whose main thread panics.
const EXIT_PANIC: i32 = 101;

/// Installs a hook that logs a panic of any task or thread and ends the process. Tokio would end
/// only the task: the process would keep its lease without working, and no other replica would take
/// over. The lease is not released but expires, since writes may be in flight.
///
/// The logger must be installed before.
pub(crate) fn install_hook() {
    std::panic::set_hook(Box::new(|panic| {
        if everynode_sandbox::panics_end_only_a_request() {
            // Without its message, which may quote the request.
            let at = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(at, "a request failed because of a bug; it is answered with 500");
            return;
        }
        log(panic);
        std::process::exit(EXIT_PANIC);
    }));
}

fn log(panic: &PanicHookInfo<'_>) {
    let cause = panic.payload_as_str().unwrap_or("no message").replace('\n', " ");
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        // RUST_BACKTRACE is set.
        BacktraceStatus::Captured => {
            tracing::error!(at, %backtrace, "everynode ends because of a bug: {cause}")
        }
        _ => tracing::error!(at, "everynode ends because of a bug: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::Value;

    use super::*;
    use crate::args::{LogArguments, LogFormat, LogLevel};

    /// Set in the process that the test starts.
    const CHILD: &str = "EVERYNODE_TEST_PANIC";

    /// C65: a panic in a detached task ends the process, and the log contains its message.
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
        assert_eq!(line["message"], "everynode ends because of a bug: the disk is full");
        assert!(line["at"].as_str().unwrap().contains("panic.rs:"), "{line}");
    }

    /// Exits with 0 unless the panic ends the process.
    fn survive_a_panic() {
        let log = LogArguments { log_level: None, log_format: LogFormat::Json };
        crate::log::start(&log, LogLevel::Info);
        install_hook();
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let task = runtime.spawn(async { panic!("the disk\nis full") });
        assert!(runtime.block_on(task).is_err());
        std::process::exit(0);
    }
}
