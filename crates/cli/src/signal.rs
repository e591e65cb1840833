//! Shutdown on Ctrl-C, SIGTERM or a closed terminal.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that the first signal cancels. The second signal ends the process at once.
///
/// # Errors
/// If signals can't be handled.
pub(crate) fn shutdown() -> anyhow::Result<CancellationToken> {
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
                () = received(&mut hangup) => SignalKind::hangup(),
            };
            if cancelled.is_cancelled() {
                // The exit code that a shell reports for a process killed by the signal.
                std::process::exit(128 + signal.as_raw_value());
            }
            cancelled.cancel();
        }
    });
    Ok(token)
}

fn listen(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).with_context(|| format!("listen for signal {}", kind.as_raw_value()))
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// True if the parent ignores SIGHUP, as nohup does, so that the process outlives the terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
