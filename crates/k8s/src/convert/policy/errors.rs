//! The errors of a policy, as Kubernetes words them.

use std::fmt;

use everynode_core::api::is_hidden;
use serde_json::Value;

/// Maximum number of errors that are reported, and of characters of a value in one.
const ERRORS_MAX: usize = 5;
const VALUE_LENGTH_MAX: usize = 60;
/// Maximum number of characters of a path, of which unknown keys are a part.
const PATH_LENGTH_MAX: usize = 200;

/// The errors that were found.
#[derive(Default)]
pub(in crate::convert) struct Errors {
    count: usize,
    /// The paths of the first ones and what is wrong there, one for each path.
    reported: Vec<(String, String)>,
}

impl Errors {
    /// The number of errors so far.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// A value that is not allowed.
    pub(super) fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        let text = cut(value.to_string(), VALUE_LENGTH_MAX);
        self.add(path, format!("Invalid value: {text}: {why}"));
    }

    /// A list or an object with more items than it may have.
    pub(super) fn too_many(&mut self, path: &str, items: usize, max: usize) {
        self.add(path, format!("Too many: {items}: must have at most {max}"));
    }

    /// Anything else.
    pub(super) fn add(&mut self, path: &str, why: String) {
        self.count += 1;
        let is_new = self.reported.iter().all(|(other, _)| other != path);
        if is_new && self.reported.len() < ERRORS_MAX {
            self.reported.push((cut(visible(path), PATH_LENGTH_MAX), visible(&why)));
        }
    }
}

/// The text with its control and hidden characters as `\u{202e}`.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() || is_hidden(letter) {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

fn cut(mut text: String, length_max: usize) -> String {
    if let Some((at, _)) = text.char_indices().nth(length_max) {
        text.truncate(at);
        text.push('…');
    }
    text
}

impl fmt::Display for Errors {
    /// On one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.reported.iter().map(|(path, why)| format!("{path}: {why}"));
        f.write_str(&texts.collect::<Vec<_>>().join("; "))
    }
}
