//! YAML with comments, line by line.

use std::fmt::Write;

use textwrap::Options;

use crate::escape;

/// The width of comments.
const WIDTH: usize = 100;

/// Words that YAML 1.1 reads as no string.
const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// A document that is being written.
#[derive(Debug, Default)]
pub(super) struct Document {
    text: String,
}

impl Document {
    /// Adds lines that begin with so many spaces.
    pub(super) fn lines(&mut self, indent: usize, lines: &str) {
        for line in lines.lines() {
            let _ = writeln!(self.text, "{:indent$}{line}", "");
        }
    }

    /// Adds a comment that begins with so many spaces.
    pub(super) fn comment(&mut self, indent: usize, text: &str) {
        let margin = format!("{:indent$}# ", "");
        let options = Options::new(WIDTH).initial_indent(&margin).subsequent_indent(&margin);
        self.text += &textwrap::fill(&escape::line(text), options.break_words(false));
        self.text.push('\n');
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A string between quotation marks, as JSON and YAML write it.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The name of an object, between quotation marks if it might be read as something else.
pub(super) fn name(text: &str) -> String {
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
        && !WORDS.contains(&text);
    if is_plain { text.to_owned() } else { quoted(text) }
}
