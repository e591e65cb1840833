//! The regular expressions of schemas, which are Go's.
//!
//! Our engine has nearly the same syntax. What it reads otherwise is rewritten: its classes have
//! all of Unicode, and brackets, `-`, `&&` and `~~` have a meaning within its classes.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// A regular expression, which is compiled when it is first used.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub text: Box<str>,
    compiled: OnceLock<Option<CompiledPattern>>,
}

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct CompiledPattern {
    pub regex: Regex,
    /// Whether it is so large that it may have to be followed state by state.
    is_large: bool,
}

/// Maximum size in bytes of a compiled regular expression.
const BYTES_MAX: usize = 1024 * 1024;
/// Size in bytes of a compiled regular expression above which it is a large one.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Compiles a regular expression.
///
/// # Errors
/// Why the text is none.
pub(crate) fn compile(text: &str) -> Result<CompiledPattern, String> {
    let text = rewritten(text);
    let within = |bytes| RegexBuilder::new(&text).size_limit(bytes).build();
    let large = || Ok(CompiledPattern { regex: within(BYTES_MAX)?, is_large: true });
    let small = within(SMALL_BYTES_MAX).map(|regex| CompiledPattern { regex, is_large: false });
    small.or_else(|_| large()).map_err(|error: regex::Error| error.to_string())
}

impl CompiledPattern {
    /// The steps that a large one takes to compile, which also bounds how many of them a definition
    /// has.
    pub(crate) const LARGE_STEPS: usize = 50_000;

    /// The steps that it takes to compile it.
    pub(crate) fn steps_to_compile(&self) -> usize {
        if self.is_large { Self::LARGE_STEPS } else { 500 }
    }
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.into(), compiled: OnceLock::new() }
    }

    /// Whether the pattern matches a part of a text. One that is none matches everything.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.compiled().is_none_or(|pattern| pattern.regex.is_match(text))
    }

    /// The steps that it takes to find out whether it matches a text.
    pub(crate) fn steps(&self, text: &str) -> usize {
        let is_large = self.compiled().is_some_and(|pattern| pattern.is_large);
        if is_large { text.len() * 32 } else { text.len() / 64 }
    }

    fn compiled(&self) -> Option<&CompiledPattern> {
        self.compiled.get_or_init(|| compile(&self.text).ok()).as_ref()
    }
}

/// The expression in our engine's syntax.
fn rewritten(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(&mut rest, false, &mut out),
            '[' => class(&mut rest, &mut out),
            other => out.push(other),
        }
    }
    out
}

/// What follows a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) {
    let Some(character) = rest.next() else { return out.push('\\') };
    let (class, is_negated) = match character {
        'd' | 'D' => ("0-9", character == 'D'),
        'w' | 'W' => ("0-9A-Za-z_", character == 'W'),
        's' | 'S' => (r"\t\n\x0c\r ", character == 'S'),
        'b' | 'B' if !in_class => return out.push_str(&format!(r"(?-u:\{character})")),
        '<' | '>' => return out.push(character),
        other => {
            out.push('\\');
            return out.push(other);
        }
    };
    match (in_class, is_negated) {
        (true, false) => out.push_str(class),
        (_, true) => out.push_str(&format!("[^{class}]")),
        (false, false) => out.push_str(&format!("[{class}]")),
    }
}

/// What follows an opening bracket, up to the one that closes the class.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    // A bracket in the first place does not close the class.
    if rest.next_if_eq(&']').is_some() {
        out.push_str(r"\]");
    }
    let mut after_class = true;
    while let Some(character) = rest.next() {
        match character {
            ']' => return out.push(']'),
            '\\' => {
                let is_class = matches!(rest.peek(), Some('d' | 'D' | 'w' | 'W' | 's' | 'S'));
                escape(rest, true, out);
                after_class = is_class;
                continue;
            }
            '[' if rest.peek() == Some(&':') => {
                // A POSIX class: `[:alpha:]`.
                out.push('[');
                for character in rest.by_ref() {
                    out.push(character);
                    if character == ']' {
                        break;
                    }
                }
            }
            '-' if after_class || rest.peek() == Some(&']') => out.push_str(r"\-"),
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
        after_class = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S15: patterns mean what they mean in Go.
    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, matching, other) in [
            (r"^[\w-_./]+$", "a-_./b", "a b"),
            (r"^\d+$", "12", "१"),
            (r"^[[a]+$", "[a", "b"),
            (r"^[a&&b~~c-]+$", "&~-c", "d"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[^\s]+$", "ab", "a b"),
            (r"^a\/\-\.b$", "a/-.b", "a/--b"),
            (r"^[[:alpha:]-]+$", "a-b", "1"),
            (r"^\<a\>$", "<a>", "a"),
            (r"^\W\S$", "-a", "aa"),
        ] {
            let compiled = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            let compiled = compiled.regex;
            assert!(compiled.is_match(matching), "{pattern} {matching} {}", rewritten(pattern));
            assert!(!compiled.is_match(other), "{pattern} {other}");
        }
        for wrong in ["(", "[a", r"(?=a)"] {
            assert!(compile(wrong).is_err(), "{wrong}");
        }
    }
}
