//! The width of lines in Rust files: code, comments and strings. rustfmt wraps code only.
//!
//! Two kinds of line may be longer: a line that holds one word, such as a URL, beside its comment
//! marker or quotes; and a line inside a raw string that spans several lines, since a line break
//! there would change the text.

use std::collections::BTreeSet;

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};

use crate::source::Source;

/// `max_width` of rustfmt.toml.
pub(super) fn width_max(rustfmt: &str) -> anyhow::Result<usize> {
    let table: toml::Table = rustfmt.parse().context("rustfmt.toml")?;
    let width = table.get("max_width").and_then(toml::Value::as_integer);
    Ok(width.context("rustfmt.toml lacks max_width")?.try_into()?)
}

pub(super) fn check(sources: &[Source], width_max: usize) -> Vec<String> {
    sources.iter().flat_map(|source| of_file(source, width_max)).collect()
}

fn of_file(source: &Source, width_max: usize) -> Vec<String> {
    let is_long = |line: &str| line.chars().count() > width_max;
    if !source.text.lines().any(is_long) {
        return Vec::new();
    }
    let raw = raw_string_lines(&source.text);
    source
        .lines()
        .filter(|(number, line)| is_long(line) && !is_one_word(line) && !raw.contains(number))
        .map(|(number, line)| {
            let width = line.chars().count();
            format!("{}:{number}: {width} characters wide, at most {width_max}", source.path)
        })
        .collect()
}

/// True if the line has nothing at which it could be wrapped.
fn is_one_word(line: &str) -> bool {
    let text = line.trim().trim_start_matches(['/', '!']).trim();
    !text.contains(char::is_whitespace)
}

/// The lines of raw strings that span several lines.
fn raw_string_lines(text: &str) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    if let Ok(tokens) = text.parse() {
        collect_raw_strings(tokens, &mut lines);
    }
    lines
}

fn collect_raw_strings(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_raw_strings(group.stream(), lines),
            TokenTree::Literal(literal) => {
                let (start, end) = (literal.span().start().line, literal.span().end().line);
                let text = literal.to_string();
                let is_raw = ["r\"", "r#", "br"].iter().any(|prefix| text.starts_with(prefix));
                if is_raw && end > start {
                    lines.extend(start..=end);
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> Vec<String> {
        of_file(&Source::new("a.rs", text), 20)
    }

    #[test]
    fn long_code_comments_and_strings_are_reported() {
        for text in [
            "let a = b + c + d + e;",
            "// a comment that is too long",
            "fn f() {\n    g(\"a string that is too long\");\n}",
            "const A: &str = r\"a raw string of one line\";",
        ] {
            assert_eq!(reported(text).len(), 1, "{text}");
        }
        let problem = reported("\n// twenty-one chars....\n");
        assert_eq!(problem, ["a.rs:2: 23 characters wide, at most 20"]);
    }

    #[test]
    fn short_lines_single_words_and_raw_text_may_stay() {
        for text in [
            "// exactly 20 chars.",
            "// äöüäöüäöüäöüäöüäö",
            "//! https://example.com/a/long/path",
            "    \"https://example.com/a/long/path\",",
            "const A: &str = r#\"\n  a line of text inside a raw string\n\"#;",
        ] {
            assert_eq!(reported(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn the_width_is_that_of_rustfmt() {
        assert_eq!(width_max("max_width = 90\n").unwrap(), 90);
        assert!(width_max("").is_err());
    }
}
