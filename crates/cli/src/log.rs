//! Logging to standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::args::{ColorWhen, LogArguments, LogFormat, LogLevel};
use crate::output::shows_color;

/// Installs the global logger. A command calls this once, at its start.
pub(crate) fn start(arguments: &LogArguments, default: LogLevel) {
    let level = level(arguments.log_level.unwrap_or(default));
    // Libraries log only warnings and errors, except at level `trace`.
    let library = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    let filter = tracing_subscriber::filter::Targets::new()
        .with_default(library)
        // This target warns of an unverified certificate at every handshake; `run` warns once.
        .with_target("kube_client::client::tls", library.min(LevelFilter::ERROR))
        .with_target("everynode", level)
        .with_target("everynode_controller", level)
        .with_target("everynode_sandbox", level)
        .with_target("everynode_k8s", level);
    let registry = tracing_subscriber::registry().with(filter);
    match arguments.log_format {
        LogFormat::Text => {
            let color = shows_color(ColorWhen::Auto, std::io::stderr().is_terminal());
            let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(color);
            registry.with(layer).init();
        }
        LogFormat::Json => {
            registry
                .with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr))
                .init();
        }
    }
}

fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
