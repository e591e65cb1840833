//! The codes of docs/rules.md (`C26`, `S7`) in comments and documents: each names a rule that the
//! page defines, and no doc comment consists of codes alone, which would mean nothing in rustdoc.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::is_comment;
use crate::rules;
use crate::source::Source;

static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[CGS]\d{1,3}[a-z]?\b").expect("a constant pattern"));
static CODES_ALONE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[CGS]\d+[a-z]?(\s*(,|-|–|and)\s*[CGS]\d+[a-z]?)*[.:]?$")
        .expect("a constant pattern")
});

pub(super) fn check(rules_page: &str, sources: &[Source], pages: &[Source]) -> Vec<String> {
    let known = rules::codes(rules_page);
    let mut problems = Vec::new();
    for source in sources {
        let comments = source.lines().filter_map(|(number, line)| Some((number, comment(line)?)));
        problems.extend(unknown(source, comments, &known));
        problems.extend(bare_doc_comments(source));
    }
    for page in pages {
        problems.extend(unknown(page, prose(page).into_iter(), &known));
    }
    problems
}

/// The comment of a line of Rust.
fn comment(line: &str) -> Option<&str> {
    if is_comment(line) {
        return Some(line);
    }
    line.find(" // ").map(|start| &line[start..])
}

/// The lines of a document outside fenced code blocks.
fn prose(page: &Source) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((number, line));
        }
    }
    lines
}

fn unknown<'a>(
    source: &Source,
    lines: impl Iterator<Item = (usize, &'a str)>,
    known: &BTreeSet<String>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in lines {
        for code in codes(line).filter(|code| !known.contains(*code)) {
            let path = &source.path;
            problems.push(format!("{path}:{number}: docs/rules.md defines no rule {code}"));
        }
    }
    problems
}

/// The words of a line that have the form of a code. Parts of other words, of URLs, of percent
/// escapes and of commit hashes are none.
fn codes(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| matches!(c, '%' | '/' | '-' | '.' | '#' | '_' | '\'' | '"');
    let found = CODE.find_iter(line).filter(move |found| !line[..found.start()].ends_with(is_part));
    found.map(|found| found.as_str())
}

/// Doc comments that consist of rule codes alone.
fn bare_doc_comments(source: &Source) -> Vec<String> {
    doc_comments(source)
        .into_iter()
        .filter(|(_, text)| CODES_ALONE.is_match(text.trim()))
        .map(|(number, text)| {
            let text = text.trim();
            format!("{}:{number}: a doc comment that is only a rule code ({text})", source.path)
        })
        .collect()
}

/// The text of each doc comment, its lines joined by spaces, with the number of its first line.
fn doc_comments(source: &Source) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut last_line = 0;
    for (number, line) in source.lines() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            continue;
        };
        match comments.last_mut().filter(|_| last_line + 1 == number) {
            Some((_, comment)) => *comment += &format!(" {}", text.trim()),
            None => comments.push((number, text.trim().to_owned())),
        }
        last_line = number;
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "- **C26** One rule.\n- **C27** Another.\n- **S7** A third.\n";

    fn in_rust(text: &str) -> Vec<String> {
        check(RULES, &[Source::new("a.rs", text)], &[])
    }

    #[test]
    fn a_code_that_the_page_does_not_define_is_reported() {
        for text in ["// see C28", "/// Also so (C26a).", "let a = 1; // S8, C26", "//! C26–C29: x"]
        {
            assert_eq!(in_rust(text).len(), 1, "{text}");
        }
        let page = Source::new("docs/a.md", "A rule (C26).\nNo rule (C99).\n");
        let problems = check(RULES, &[], &[page]);
        assert_eq!(problems, ["docs/a.md:2: docs/rules.md defines no rule C99"]);
    }

    #[test]
    fn known_codes_and_words_that_only_look_like_codes_may_stay() {
        for text in [
            "/// The old pod goes (C26, S7).",
            "let escaped = \"%C3%A4\"; let code = \"C99\";",
            "// the byte %C3, the file docs/C99, the name pod-C99, SC99, C9999",
        ] {
            assert_eq!(in_rust(text), Vec::<String>::new(), "{text}");
        }
        let page = Source::new("docs/a.md", "Text.\n```\nC99\n```\nC26\n");
        assert_eq!(check(RULES, &[], &[page]), Vec::<String>::new());
    }

    #[test]
    fn a_doc_comment_that_is_only_a_code_is_reported() {
        for text in ["/// C26", "    /// C26, C27.", "/// C26–C27\nfn f() {}", "/// C26,\n/// S7"]
        {
            assert_eq!(in_rust(text).len(), 1, "{text}");
        }
        for text in ["/// Why. C26", "/// C26: the old pod goes.", "/// Why,\n/// C26"] {
            assert_eq!(in_rust(text), Vec::<String>::new(), "{text}");
        }
    }
}
