//! Output: text that fits the terminal, or JSON and YAML for scripts.
//!
//! Objects of a cluster contain whatever their authors wrote. Pieces of text pass
//! [`TextLayout::paint`] or a table's cell, which make one visible line of them, and
//! [`print`] and [`note`] let no control characters through but line breaks and colours.

mod table;
mod wrap;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use everynode_core::api::Timestamp;
use everynode_dashboard::report::Report;
pub(crate) use everynode_insight::age::age;
use everynode_insight::document::{Answer, Document, DocumentList};
pub(crate) use everynode_insight::escape;
use serde::Serialize;

use crate::args::{ColorWhen, DocumentFormat};
pub(crate) use table::{Tone, has_room, table, table_with_remarks};

/// How text is laid out for standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextLayout {
    /// Colours are printed.
    pub color: bool,
    /// The width of the terminal; `None` if the output is no terminal, where lines are not broken.
    pub width: Option<u16>,
}

impl TextLayout {
    /// The layout for standard output.
    pub(crate) fn stdout(color: ColorWhen) -> Self {
        let stdout = io::stdout();
        let width = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout));
        Self {
            color: shows_color(color, stdout.is_terminal()),
            width: width.map(|size| size.map_or(80, |(width, _)| width.0)),
        }
    }

    /// The text as one line in the colour of a tone, if there are colours.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let style = style(tone);
        let text = one_line(tone, text);
        if self.color && !style.is_plain() {
            format!("{style}{text}{style:#}")
        } else {
            text.into_owned()
        }
    }
}

impl TextLayout {
    /// The text with lines that fit the terminal, as far as words do.
    pub(crate) fn fitted(self, text: String) -> String {
        match self.width {
            Some(width) => wrap::wrapped(&text, width),
            None => text,
        }
    }
}

/// A piece of text as one visible line, cut if it is very long and no list of names.
fn one_line(tone: Tone, text: &str) -> Cow<'_, str> {
    match tone {
        Tone::Names => escape::whole_line(text),
        Tone::Plain | Tone::Heading | Tone::Good | Tone::Waiting | Tone::Bad | Tone::Faint => {
            escape::line(text)
        }
    }
}

/// True if colours are printed on a stream. `Auto` prints them on terminals, unless the environment
/// contains `NO_COLOR` or `TERM=dumb`.
pub(crate) fn shows_color(when: ColorWhen, is_terminal: bool) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => {
            let is_disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            is_terminal && !is_disabled && !is_dumb
        }
    }
}

/// Writes to standard output.
///
/// # Errors
/// If standard output is closed, or its device is full.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(escape::text(text).as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes a line to standard error. Errors are ignored, since there is nowhere to report them.
pub(crate) fn note(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", escape::line(&line.to_string()));
}

/// Waits for what a live view reads first. If that takes long, a line on a terminal says so.
pub(crate) async fn while_reading<T>(reading: impl Future<Output = T>) -> T {
    const LONG: Duration = Duration::from_secs(1);
    let mut reading = pin!(reading);
    match tokio::time::timeout(LONG, &mut reading).await {
        Ok(result) => result,
        Err(_) => {
            if io::stderr().is_terminal() {
                note("reading the cluster …");
            }
            reading.await
        }
    }
}

/// Writes what a server warns of to standard error, as kubectl does.
pub(crate) fn warnings(warnings: &[String]) {
    for warning in warnings {
        note(format_args!("Warning: {warning}"));
    }
}

/// A report of this moment, on the cluster of this description if one was read.
pub(crate) fn report(cluster: Option<&str>) -> Report {
    let at = date(Timestamp(jiff::Timestamp::now().as_millisecond()));
    Report { at, cluster: cluster.map(str::to_owned) }
}

/// Date and time in UTC.
pub(crate) fn date(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// An answer as a document of JSON or YAML.
///
/// # Errors
/// As [`json`] and [`yaml`].
pub(crate) fn document<T: Answer>(answer: &T, format: DocumentFormat) -> anyhow::Result<String> {
    formatted(&Document::new(answer), format)
}

/// Several answers as one document of JSON or YAML.
///
/// # Errors
/// As [`json`] and [`yaml`].
pub(crate) fn list_document<T: Answer>(
    answers: &[T],
    format: DocumentFormat,
) -> anyhow::Result<String> {
    formatted(&DocumentList::new(answers), format)
}

fn formatted(value: &impl Serialize, format: DocumentFormat) -> anyhow::Result<String> {
    match format {
        DocumentFormat::Json => json(value),
        DocumentFormat::Yaml => yaml(value),
    }
}

/// The value as indented JSON.
///
/// # Errors
/// If it contains a map with keys that are not strings.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escape::json(&serde_json::to_string_pretty(value)?).into_owned() + "\n")
}

/// The value as YAML. If it contains characters that reverse text, which the serializer does not
/// escape, that is JSON: JSON is YAML, too.
///
/// # Errors
/// If it can't be represented as YAML.
pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(value)?;
    if escape::text(&text) != text {
        return json(value);
    }
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

fn style(tone: Tone) -> Style {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match tone {
        Tone::Plain | Tone::Names => Style::new(),
        Tone::Heading => Style::new().bold(),
        Tone::Good => color(AnsiColor::Green),
        Tone::Waiting => color(AnsiColor::Yellow),
        Tone::Bad => color(AnsiColor::Red),
        Tone::Faint => Style::new().dimmed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_printed_only_where_enabled() {
        let plain = TextLayout { color: false, width: Some(80) };
        assert_eq!(plain.paint(Tone::Bad, "x"), "x");
        let colored = TextLayout { color: true, width: None };
        assert_eq!(colored.paint(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(colored.paint(Tone::Plain, "x"), "x");
    }

    /// YAML escapes the characters that a terminal would execute, and has the same value.
    #[test]
    fn yaml_has_no_control_characters() {
        for hostile in
            ["a\u{1b}]0;t\u{7}\u{9b}2J\r\nb\0\u{7f}\u{2028}\u{85}d", "b\u{202e}c\u{2066}"]
        {
            let long = format!("{hostile}\n{hostile}\n");
            let value = serde_json::json!({ "a": hostile, "b": [long], hostile: hostile });
            let text = yaml(&value).unwrap();
            assert_eq!(escape::text(&text), text);
            let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(back, value, "{text}");
        }
    }

    #[test]
    fn yaml_parses_to_the_original_value() {
        let value = serde_json::json!({
            "a": "yes", "b": "1.0", "c": "x: y # z", "d": "two\nlines\n",
            "e": ["- a", "", "~", "0x1f", "1e3"], "f": {}, "g": [], "h": "*.log",
            "i": "{{ x }}", "j": "@a", "k": " leading",
            "l": "tab\there",
        });
        let text = yaml(&value).unwrap();
        let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, value, "{text}");
    }
}
