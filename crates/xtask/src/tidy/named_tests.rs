//! The tests that docs/found-bugs.md names: each exists, as a function or as a data file.

use regex::Regex;

use crate::source::Source;

const PAGE: &str = "docs/found-bugs.md";

/// `data` are the names of files that tests read.
pub(super) fn check(pages: &[Source], sources: &[Source], data: &[String]) -> Vec<String> {
    let Some(page) = pages.iter().find(|page| page.path == PAGE) else {
        return vec![format!("{PAGE}: missing")];
    };
    let name = Regex::new(r"`([a-z0-9]+(?:_[a-z0-9]+){2,}|[a-z0-9-]+\.txt)`").expect("constant");
    let mut problems = Vec::new();
    for (number, line) in page.lines() {
        for found in name.captures_iter(line) {
            let test = &found[1];
            let function = format!("fn {test}(");
            let exists = if test.ends_with(".txt") {
                data.iter().any(|file| file == test)
            } else {
                sources.iter().any(|source| source.text.contains(&function))
            };
            if !exists {
                problems.push(format!("{PAGE}:{number}: no test is named {test}"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into(), is_test: false }
    }

    #[test]
    fn a_test_that_does_not_exist_is_reported() {
        let page = source(PAGE, "*Test:* `a_pod_is_kept`, `late.txt`.\n`gone_with_the_test`\n");
        let sources = [source("a.rs", "fn a_pod_is_kept() {}")];
        let problems = check(&[page], &sources, &[]);
        assert_eq!(
            problems,
            [
                "docs/found-bugs.md:1: no test is named late.txt",
                "docs/found-bugs.md:2: no test is named gone_with_the_test",
            ]
        );
    }

    #[test]
    fn functions_and_data_files_count() {
        let page = source(PAGE, "`a_pod_is_kept`, `late.txt`, `maxUnavailable`, `world.rs`\n");
        let sources = [source("a.rs", "async fn a_pod_is_kept() {}")];
        assert!(check(&[page], &sources, &["late.txt".to_owned()]).is_empty());
    }
}
