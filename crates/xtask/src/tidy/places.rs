//! The paths and the names of code in backticks, in the documents for people who change the code
//! or look something up there: each exists.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use crate::source::Source;

/// Documents that tell of earlier states of the code.
const OF_THE_PAST: [&str; 3] = ["CHANGELOG.md", "docs/found-bugs.md", "docs/measurements/"];
/// Documents whose names are those of the code; elsewhere they are often those of Kubernetes.
const WITH_NAMES: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md"];
/// The folder that cargo makes.
const BUILD_FOLDER: &str = "target/";

pub(super) fn check(root: &Path, pages: &[Source], sources: &[Source]) -> Vec<String> {
    let quoted = Regex::new("`([^`\\s]+)`").expect("a constant pattern");
    let folder = Regex::new(r"^(crates|e2e|benches|deploy|docs|examples|mutants|\.ci|\.github)/")
        .expect("a constant pattern");
    let is_folder = Regex::new(r"^\w[\w/]*/$").expect("a constant pattern");
    let camel_case = "[A-Z][a-z]+(?:[A-Z][a-z]+)+";
    let snake_case = "[a-z]+(?:_[a-z]+)+";
    let path = r"\w+(?:::\w+)+";
    let of_code = Regex::new(&format!("^(?:{camel_case}|{snake_case}|{path})(?:\\(\\))?$"))
        .expect("a constant pattern");
    let known = words(sources);
    let is_current = |page: &&Source| !OF_THE_PAST.iter().any(|past| page.path.starts_with(past));
    let mut problems = Vec::new();
    for page in pages.iter().filter(is_current) {
        let has_names = WITH_NAMES.contains(&page.path.as_str());
        for (number, line) in page.lines() {
            for found in quoted.captures_iter(line) {
                let name = &found[1];
                let exists = if folder.is_match(name) {
                    root.join(name).exists() || root.join(format!("{name}.rs")).exists()
                } else if name.ends_with(".rs") {
                    sources.iter().any(|source| ends_with(&source.path, name))
                } else if is_folder.is_match(name) && name != BUILD_FOLDER {
                    sources.iter().any(|source| is_below(&source.path, name))
                } else if has_names && of_code.is_match(name) {
                    name.trim_end_matches("()").split("::").all(|part| known.contains(part))
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

/// All identifiers of the code and the words of its comments.
fn words(sources: &[Source]) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    sources.iter().flat_map(|source| source.text.split(move |c| !is_part(c))).collect()
}

/// True if the path ends with these whole parts.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('/'))
}

/// True if the path leads through these whole folders.
fn is_below(path: &str, folders: &str) -> bool {
    path.starts_with(folders) || path.contains(&format!("/{folders}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_do_not_exist_are_reported() {
        let page = "`wave.rs`, `old.rs`, `crates/gone`, `NodeSlot`, `SlotOfNode`, `apps/v1`\n\
                    `NodeSlot::is_open`, `NodeSlot::was_open`, `has_left()`\n\
                    `rollout/`, `src/rollout/`, `out/`, `rollout/wave/`, `target/`, `https://`\n";
        let pages = [
            Source::new("ARCHITECTURE.md", page),
            Source::new("docs/faq.md", "`DaemonSet` and `NetworkPolicy` of `e2e/no.rs`"),
            Source::new("CHANGELOG.md", "`old.rs`"),
        ];
        let sources =
            [Source::new("crates/a/src/rollout/wave.rs", "impl NodeSlot { fn is_open() {} }")];
        assert_eq!(
            check(Path::new("/nowhere"), &pages, &sources),
            [
                "ARCHITECTURE.md:1: there is no old.rs",
                "ARCHITECTURE.md:1: there is no crates/gone",
                "ARCHITECTURE.md:1: there is no SlotOfNode",
                "ARCHITECTURE.md:2: there is no NodeSlot::was_open",
                "ARCHITECTURE.md:2: there is no has_left()",
                "ARCHITECTURE.md:3: there is no out/",
                "ARCHITECTURE.md:3: there is no rollout/wave/",
                "docs/faq.md:1: there is no e2e/no.rs",
            ]
        );
    }
}
