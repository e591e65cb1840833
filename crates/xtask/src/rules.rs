//! Which test covers which rule: reads the rules from docs/rules.md, and their codes from tests and
//! the data of tests. It checks that a test names the rule, never whether the test is any good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context;
use regex::Regex;

use crate::source::{self, Source};

/// Prints each rule with its tests if asked to. Returns a line for each rule without a test, and
/// for each code in a test that the page does not define.
pub(crate) fn check(root: &Path, print: bool) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("docs/rules.md")).context("docs/rules.md")?;
    let rules = rules(&text);
    let covered = covered(&source::read(root, &["crates", "e2e"])?);
    if print {
        for (rule, sentence) in &rules {
            println!("{rule}  {sentence}");
            for test in covered.get(rule).into_iter().flatten() {
                println!("      {test}");
            }
        }
    }
    let bare = rules.keys().filter(|rule| !covered.contains_key(rule));
    let unknown = covered.iter().filter(|(rule, _)| !rules.contains_key(rule));
    Ok(bare
        .map(|rule| format!("rule {rule} has no test"))
        .chain(unknown.map(|(rule, tests)| format!("{tests:?} name {rule}: no such rule")))
        .collect())
}

/// The codes that the page defines, such as `C26`.
pub(crate) fn codes(page: &str) -> BTreeSet<String> {
    rules(page).keys().map(Rule::to_string).collect()
}

static FUNCTION: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?:async )?fn (\w+)"));
static ATTRIBUTE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*#\[(?:tokio::)?test\b|^\s*#\[test_case\b"));
/// The codes before a colon.
static LIST: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^((?:[CGS]\d+)(?:\s*(?:,|-|–|and)\s*[CGS]\d+)*)\s*[:.]"));
/// One of them, with the dash of a range before it.
static ITEM: LazyLock<Regex> = LazyLock::new(|| regex(r"(-|–)?\s*([CGS])(\d+)"));

/// `C26` as (`C`, 26), so that rules sort by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule(char, u32);

impl std::fmt::Display for Rule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}{}", self.0, self.1)
    }
}

fn rules(text: &str) -> BTreeMap<Rule, String> {
    let line = regex(r"^- \*\*([CGS])(\d+)\*\* (.*)$");
    text.lines()
        .filter_map(|text| line.captures(text))
        .filter_map(|found| Some((rule(&found[1], &found[2])?, found[3].to_owned())))
        .collect()
}

fn covered(sources: &[Source]) -> BTreeMap<Rule, BTreeSet<String>> {
    let mut covered: BTreeMap<Rule, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let found = if source.is_rust() { rust_tests(source) } else { data_header(source) };
        for (rules, test) in found {
            for rule in rules {
                covered.entry(rule).or_default().insert(test.clone());
            }
        }
    }
    covered
}

/// The first line of a data file, transcript or Python test.
fn data_header(source: &Source) -> Vec<(Vec<Rule>, String)> {
    let header = source.text.lines().next().and_then(|line| line.strip_prefix("# "));
    let named = header.and_then(named_rules);
    named.map(|rules| (rules, source.path.clone())).into_iter().collect()
}

/// Functions under `#[test]` whose doc comment opens with rule numbers.
fn rust_tests(source: &Source) -> Vec<(Vec<Rule>, String)> {
    let mut found = Vec::new();
    let (mut doc, mut is_test) = (None, false);
    for line in source.text.lines() {
        if let Some(text) = line.trim_start().strip_prefix("///") {
            doc = doc.or_else(|| Some(text.trim().to_owned()));
        } else if ATTRIBUTE.is_match(line) {
            is_test = true;
        } else if let Some(name) = FUNCTION.captures(line) {
            let rules = doc.take().filter(|_| is_test).and_then(|text| named_rules(&text));
            found.extend(rules.map(|rules| (rules, format!("{} {}", source.path, &name[1]))));
            is_test = false;
        } else if !line.trim_start().starts_with("#[") {
            (doc, is_test) = (None, is_test && !line.trim().is_empty());
        }
    }
    found
}

/// `C26, C52: …` and `C10–C14: …`: the rules before the colon, ranges spelled out.
fn named_rules(text: &str) -> Option<Vec<Rule>> {
    let mut rules: Vec<Rule> = Vec::new();
    for found in ITEM.captures_iter(&LIST.captures(text)?[1]) {
        let end = rule(&found[2], &found[3])?;
        if let (Some(_), Some(start)) = (found.get(1), rules.last()) {
            rules.extend((start.1 + 1..end.1).map(|number| Rule(end.0, number)));
        }
        rules.push(end);
    }
    Some(rules)
}

fn rule(letter: &str, number: &str) -> Option<Rule> {
    Some(Rule(letter.chars().next()?, number.parse().ok()?))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that the tests use")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> String {
        let rules = named_rules(text).unwrap_or_default();
        rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_are_read_up_to_the_colon() {
        for (text, expected) in [
            ("C26, C52: the old pod goes", "C26 C52"),
            ("C10–C12: placement, but not C13", "C10 C11 C12"),
            ("S7: watches", "S7"),
            ("see C26", ""),
            ("C26 is not a header without a colon", ""),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn only_functions_that_are_tests_count() {
        let text = "/// C1: a rule\n#[test]\nfn good() {\n}\n/// C2: no test\nfn helper() {}\n\
                    /// C3: also\n#[tokio::test]\nasync fn waits() {}\n";
        let found = covered(&[Source::new("a.rs", text)]);
        let found: Vec<_> = found.iter().map(|(rule, tests)| format!("{rule} {tests:?}")).collect();
        assert_eq!(found, [r#"C1 {"a.rs good"}"#, r#"C3 {"a.rs waits"}"#]);
    }

    #[test]
    fn every_rule_of_the_page_is_read() {
        let text = std::fs::read_to_string(source::root().join("docs/rules.md")).unwrap();
        let listed = text.lines().filter(|line| line.starts_with("- ")).count();
        assert!(listed > 60, "{listed} rules");
        assert_eq!(rules(&text).len(), listed);
    }
}
