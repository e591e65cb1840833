//! Makes characters visible that a terminal would execute or hide, or a browser would hide, so that
//! no object of a cluster moves the cursor, sets the title, reorders text or looks like another
//! one, and cuts texts that are longer than anybody reads. The value of JSON and YAML stays the
//! same.
//!
//! kubectl shows an escape character as `^[`, too.

use std::borrow::Cow;
use std::fmt::Write;

use everynode_core::api::is_hidden;

/// The maximum number of characters of a piece of text from elsewhere. Kubernetes' longest messages
/// have about a thousand.
const CHARACTERS_MAX: usize = 2000;

/// A piece of text from elsewhere, as one line that is cut with `…` if it is very long: line breaks
/// become spaces, so that indentation holds, and control characters become visible.
pub fn line(text: &str) -> Cow<'_, str> {
    match cut(text, CHARACTERS_MAX) {
        Some(beginning) => Cow::Owned(whole_line(beginning).into_owned() + "…"),
        None => whole_line(text),
    }
}

/// The beginning of a text with more characters than `max`.
pub fn cut(text: &str, max: usize) -> Option<&str> {
    // No character is shorter than a byte.
    let is_short = text.len() <= max;
    let end = if is_short { None } else { text.char_indices().nth(max) };
    end.map(|(end, _)| &text[..end])
}

/// [`line`] of a list of names, which is never cut.
pub fn whole_line(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| is_space(letter) || is_unsafe(letter)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut was_space = false;
    for letter in text.chars() {
        match is_space(letter) {
            true if was_space => {}
            true => shown.push(' '),
            false => push_visible(&mut shown, letter),
        }
        was_space = is_space(letter);
    }
    Cow::Owned(shown)
}

/// A whole output: line breaks, tabs and colours stay, other control characters become visible.
pub fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| is_unsafe(letter) || is_space(letter)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = match color_length(rest) {
            0 => letter.len_utf8(),
            length => length,
        };
        let (piece, after) = rest.split_at(length);
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ if length > 1 && letter == ESCAPE => shown.push_str(piece),
            _ => push_visible(&mut shown, letter),
        }
        rest = after;
    }
    Cow::Owned(shown)
}

/// JSON in which such characters are escaped. They occur only in strings.
pub fn json(json: &str) -> Cow<'_, str> {
    let is_escaped = |letter| is_unsafe(letter) && letter != '\n';
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_escaped(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

const ESCAPE: char = '\u{1b}';

/// The length of the colour (`ESC [ … m`) at the start of the text; zero if there is none.
fn color_length(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else { return 0 };
    let end = parameters.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
    end.filter(|end| parameters[*end..].starts_with('m')).map_or(0, |end| "\u{1b}[m".len() + end)
}

fn push_visible(shown: &mut String, letter: char) {
    match letter {
        // In the caret notation, ^@ is the character 0 and ^[ the escape character.
        '\0'..='\u{1f}' => shown.extend(['^', char::from(letter as u8 + b'@')]),
        '\u{7f}' => shown.push_str("^?"),
        letter if is_unsafe(letter) => {
            let _ = write!(shown, "<U+{:04X}>", u32::from(letter));
        }
        letter => shown.push(letter),
    }
}

/// Line breaks and tabs.
fn is_space(letter: char) -> bool {
    matches!(letter, '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Control characters, characters that change the direction of the text around them, and those that
/// nobody sees.
fn is_unsafe(letter: char) -> bool {
    let is_break = matches!(letter, '\n' | '\t');
    (letter.is_control() && !is_break) || is_hidden(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets the terminal's title and erases the screen, also with one-byte controls, and reverses
    /// the rest of the line.
    const HOSTILE: &str = "a\u{1b}]0;title\u{7}\u{9b}2J\r\n\tb\u{202e}c\u{2066}\0\u{7f}\u{2028}é👍🏽";

    #[test]
    fn hostile_text_is_one_visible_line() {
        let expected = "a^[]0;title^G<U+009B>2J b<U+202E>c<U+2066>^@^? é👍🏽";
        assert_eq!(line(HOSTILE), expected);
        assert!(matches!(line("two  words"), Cow::Borrowed("two  words")));
        let hidden = "a\u{200b}b\u{feff}\u{200f}c\u{e0041}";
        assert_eq!(line(hidden), "a<U+200B>b<U+FEFF><U+200F>c<U+E0041>");
    }

    #[test]
    fn a_very_long_text_is_cut() {
        let long = "é".repeat(1 << 20);
        let shown = line(&long);
        assert_eq!(shown.chars().count(), CHARACTERS_MAX + 1);
        assert!(shown.ends_with("é…"));
        assert_eq!(whole_line(&long), long);
        assert!(matches!(line(&long[..2 * CHARACTERS_MAX]), Cow::Borrowed(_)));
    }

    #[test]
    fn an_output_keeps_its_lines_and_colours() {
        let own = "\u{1b}[31mred\u{1b}[0m\n\tand \u{1b}[38;5;9mmore\u{1b}[m\n";
        assert_eq!(text(own), own);
        let shown = text(HOSTILE);
        assert_eq!(shown, "a^[]0;title^G<U+009B>2J^M\n\tb<U+202E>c<U+2066>^@^?<U+2028>é👍🏽");
        for sequence in ["\u{1b}[2J", "\u{1b}[1", "\u{1b}[", "\u{1b}", "\u{1b}[1;é"] {
            assert_eq!(text(sequence), sequence.replace('\u{1b}', "^["));
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "a": HOSTILE, "b": ["\u{e0041}\u{200b}", HOSTILE] });
        let pretty = serde_json::to_string_pretty(&value).unwrap() + "\n";
        let escaped = json(&pretty);
        assert!(!escaped.contains(is_unsafe), "{escaped:?}");
        let back: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(back, value);
    }
}
