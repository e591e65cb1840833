//! Logging to standard error.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::args::{ColorWhen, LogArguments, LogFormat, LogLevel};
use crate::output::{escape, shows_color};

/// The maximum number of characters of an event in the text format.
const EVENT_CHARACTERS_MAX: usize = 10_000;
/// The maximum number of lines of an event in the text format.
const EVENT_LINES_MAX: usize = 100;

/// Installs the global logger. A command calls this once, at its start.
pub(crate) fn start(arguments: &LogArguments, default: LogLevel) {
    let level = level(arguments.log_level.unwrap_or(default));
    // Libraries log only warnings and errors, except at level `trace`.
    let library = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    let filter = tracing_subscriber::filter::Targets::new()
        .with_default(library)
        // Its warnings and traces have the text of answers that it can't read, with templates and
        // environment variables, and one for an unverified certificate at every handshake, of
        // which `run` warns once.
        .with_target("kube_client", LevelFilter::ERROR)
        .with_target("everynode", level)
        .with_target("everynode_controller", level)
        .with_target("everynode_sandbox", level)
        .with_target("everynode_k8s", level);
    let registry = tracing_subscriber::registry().with(filter);
    match arguments.log_format {
        LogFormat::Text => {
            let color = shows_color(ColorWhen::Auto, io::stderr().is_terminal());
            let layer = fmt::layer().with_writer(|| EventWriter::Text).with_ansi(color);
            registry.with(layer).init();
        }
        LogFormat::Json => {
            let layer = fmt::layer().json().flatten_event(true);
            registry.with(layer.with_writer(|| EventWriter::Json)).init();
        }
    }
}

/// Writes events, which contain texts of objects and servers, to standard error. Errors are
/// ignored, since there is nowhere to report them: the controller works on with a full disk.
#[derive(Clone, Copy, Debug)]
enum EventWriter {
    Text,
    Json,
}

impl EventWriter {
    /// The event without control characters. Further lines of a text are indented, so that none
    /// looks like another event, and a very long text is cut.
    fn shown(self, event: &str) -> String {
        let event = event.strip_suffix('\n').unwrap_or(event);
        let shown = match self {
            Self::Text => {
                let (event, end) = match cut(event) {
                    // A colour may have been cut off from its end.
                    Some(event) if event.contains('\u{1b}') => (event, "…\u{1b}[0m"),
                    Some(event) => (event, "…"),
                    None => (event, ""),
                };
                let shown = escape::text(event).replace('\t', " ").replace('\n', "\n    ");
                shown + end
            }
            Self::Json => escape::json(event).into_owned(),
        };
        shown + "\n"
    }
}

/// The beginning of an event that is very long, or has very many lines.
fn cut(event: &str) -> Option<&str> {
    let short = escape::cut(event, EVENT_CHARACTERS_MAX);
    let mut ends = short.unwrap_or(event).match_indices('\n').map(|(end, _)| end);
    ends.nth(EVENT_LINES_MAX - 1).map(|end| &event[..end]).or(short)
}

impl Write for EventWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let shown = self.shown(&String::from_utf8_lossy(event));
        let _ = io::stderr().write_all(shown.as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_controls_no_terminal_and_forges_no_other_event() {
        let event =
            "12:00 \u{1b}[31mERROR\u{1b}[0m pods: a\u{1b}[2J\u{202e}\n12:01 INFO all is well\n";
        assert_eq!(
            EventWriter::Text.shown(event),
            "12:00 \u{1b}[31mERROR\u{1b}[0m pods: a^[[2J<U+202E>\n    12:01 INFO all is well\n"
        );
        let long = format!("12:00 ERROR {}\n", "a\tb".repeat(1 << 20));
        let shown = EventWriter::Text.shown(&long);
        assert_eq!(shown.chars().count(), EVENT_CHARACTERS_MAX + 2);
        assert!(shown.ends_with("…\n") && !shown.contains('\t'));
        let lines = format!("12:00 ERROR {}", "a\n".repeat(100_000));
        let shown = EventWriter::Text.shown(&lines);
        assert_eq!(shown.lines().count(), EVENT_LINES_MAX);
        assert!(shown.ends_with("    a…\n"), "{shown}");
        let json = "{\"message\":\"a\u{202e}\u{9b}\"}\n";
        assert_eq!(EventWriter::Json.shown(json), "{\"message\":\"a\\u202e\\u009b\"}\n");
    }
}
