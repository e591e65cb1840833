//! Ctrl-C, SIGTERM and a closed terminal as one cancellation.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by the first signal; the second one ends the process at once.
pub fn shutdown() -> anyhow::Result<CancellationToken> {
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
                // As a shell reports a process that the signal has killed.
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

/// Whoever starts this with nohup wants it to outlive the terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
