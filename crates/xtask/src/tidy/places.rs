//! The paths and the names of types in backticks, in the documents for people who change the code
//! or look something up there: each exists.

use std::path::Path;

use regex::Regex;

use crate::source::Source;

/// Documents that tell of earlier states of the code.
const OF_THE_PAST: [&str; 3] = ["CHANGELOG.md", "docs/found-bugs.md", "docs/measurements/"];
/// Documents whose CamelCase words are types of the code; elsewhere they are often those of
/// Kubernetes.
const WITH_TYPES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

pub(super) fn check(root: &Path, pages: &[Source], sources: &[Source]) -> Vec<String> {
    let quoted = Regex::new("`([^`\\s]+)`").expect("a constant pattern");
    let folder = Regex::new(r"^(crates|e2e|benches|deploy|docs|examples|mutants|\.ci|\.github)/")
        .expect("a constant pattern");
    let a_type = Regex::new("^[A-Z][a-z]+(?:[A-Z][a-z]+)+$").expect("a constant pattern");
    let is_current = |page: &&Source| !OF_THE_PAST.iter().any(|past| page.path.starts_with(past));
    let mut problems = Vec::new();
    for page in pages.iter().filter(is_current) {
        let has_types = WITH_TYPES.contains(&page.path.as_str());
        for (number, line) in page.lines() {
            for found in quoted.captures_iter(line) {
                let name = &found[1];
                let exists = if folder.is_match(name) {
                    root.join(name).exists() || root.join(format!("{name}.rs")).exists()
                } else if name.ends_with(".rs") {
                    sources.iter().any(|source| ends_with(&source.path, name))
                } else if has_types && a_type.is_match(name) {
                    sources.iter().any(|source| source.text.contains(name))
                } else {
                    true
                };
                if !exists {
                    problems.push(format!("{}:{number}: there is no {name}", page.path));
                }
            }
        }
    }
    problems
}

/// Whether the path ends with these whole parts.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_do_not_exist_are_reported() {
        let page = "`wave.rs`, `old.rs`, `crates/gone`, `NodeSlot`, `SlotOfNode`, `apps/v1`\n";
        let pages = [
            Source::new("ARCHITECTURE.md", page),
            Source::new("docs/faq.md", "`DaemonSet` and `NetworkPolicy` of `e2e/no.rs`"),
            Source::new("CHANGELOG.md", "`old.rs`"),
        ];
        let sources = [Source::new("crates/a/src/rollout/wave.rs", "struct NodeSlot;")];
        assert_eq!(
            check(Path::new("/nowhere"), &pages, &sources),
            [
                "ARCHITECTURE.md:1: there is no old.rs",
                "ARCHITECTURE.md:1: there is no crates/gone",
                "ARCHITECTURE.md:1: there is no SlotOfNode",
                "docs/faq.md:1: there is no e2e/no.rs",
            ]
        );
    }
}
