//! The links of the documents: each leads to a file that exists, and to a heading that the file
//! has. Links to the web are not followed. The table of contents of the site has each page of docs.

use std::path::Path;

use anyhow::Context;
use regex::Regex;

use crate::source;

/// The table of contents of the site.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Returns one line for each link that leads nowhere.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a constant pattern");
    let mut problems = Vec::new();
    let contents = std::fs::read_to_string(root.join(CONTENTS)).context(CONTENTS)?;
    for page in source::read_pages(root)? {
        let name = page.path.strip_prefix("docs/").filter(|_| page.path != CONTENTS);
        if name.is_some_and(|name| !contents.contains(&format!("({name})"))) {
            problems.push(format!("{CONTENTS} has no link to {}", page.path));
        }
        let path_of_page = root.join(&page.path);
        for found in link.captures_iter(&page.text).filter(|found| !found[1].contains("://")) {
            let (path, heading) = found[1].split_once('#').unwrap_or((&found[1], ""));
            let target = match path {
                "" => path_of_page.clone(),
                path => path_of_page.parent().unwrap_or(root).join(path),
            };
            if !leads_somewhere(&target, heading)? {
                problems.push(format!("{}: the link {} is broken", page.path, &found[1]));
            }
        }
    }
    Ok(problems)
}

fn leads_somewhere(target: &Path, heading: &str) -> anyhow::Result<bool> {
    if heading.is_empty() {
        return Ok(target.exists());
    }
    if !target.is_file() {
        return Ok(false);
    }
    let text = std::fs::read_to_string(target)?;
    let is_there =
        text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    Ok(is_there)
}

/// The name that a heading goes by in links.
fn anchor(line: &str) -> String {
    let title = line.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_of_the_documents_is_broken() {
        let problems = check(&source::root()).unwrap();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }

    #[test]
    fn a_missing_file_heading_and_entry_are_reported() {
        let directory =
            std::env::temp_dir().join(format!("everynode-links-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("docs")).unwrap();
        std::fs::write(directory.join("docs/a.md"), "# The `way` back\n[b](b.md) [up](../R.md#x)")
            .unwrap();
        std::fs::write(directory.join("R.md"), "[a](docs/a.md#the-way-back) [web](https://a.b/c)")
            .unwrap();
        std::fs::write(directory.join(CONTENTS), "- [B](b.md)").unwrap();
        let problems = check(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        let mut problems = problems.unwrap();
        problems.sort();
        let expected = [
            "docs/SUMMARY.md has no link to docs/a.md",
            "docs/SUMMARY.md: the link b.md is broken",
            "docs/a.md: the link ../R.md#x is broken",
            "docs/a.md: the link b.md is broken",
        ];
        assert_eq!(problems, expected);
    }
}
