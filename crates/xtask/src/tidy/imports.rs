//! Which crate may import which: the table "crate | may import" of ARCHITECTURE.md.

use std::sync::LazyLock;

use anyhow::ensure;
use regex::Regex;

use crate::source::Source;

/// A crate of the workspace.
static CRATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\beverynode_([a-z0-9]+)\b").expect("a constant pattern"));

/// One row of the table: a crate and the crates of the workspace that it may import.
struct Row {
    krate: String,
    may_import: Vec<String>,
}

pub(super) fn check(architecture: &str, sources: &[Source]) -> anyhow::Result<Vec<String>> {
    let rows = rows(architecture)?;
    Ok(sources.iter().flat_map(|source| forbidden_imports(source, &rows)).collect())
}

/// The words in backquotes of both columns of the table under a heading row.
pub(super) fn table(text: &str, heading: &str) -> anyhow::Result<Vec<(Vec<String>, Vec<String>)>> {
    let word = Regex::new("`([^`]+)`")?;
    let words = |cell: &str| word.captures_iter(cell).map(|found| found[1].to_owned()).collect();
    let rows: Vec<_> = text
        .lines()
        .skip_while(|line| *line != heading)
        .skip(2)
        .map_while(|line| line.strip_prefix('|')?.strip_suffix('|')?.split_once('|'))
        .map(|(left, right)| (words(left), words(right)))
        .collect();
    ensure!(!rows.is_empty(), "ARCHITECTURE.md lacks the table {heading:?}");
    Ok(rows)
}

fn rows(architecture: &str) -> anyhow::Result<Vec<Row>> {
    let rows = table(architecture, "| crate | may import |")?;
    Ok(rows
        .into_iter()
        .map(|(krate, may_import)| Row { krate: krate.join(""), may_import })
        .collect())
}

fn forbidden_imports(source: &Source, table: &[Row]) -> Vec<String> {
    let krate = source.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    let Some(krate) = krate else { return Vec::new() };
    let Some(row) = table.iter().find(|row| row.krate == krate) else {
        return vec![format!("{}: crate {krate} is not in the import table", source.path)];
    };
    let mut problems = Vec::new();
    for (number, line) in source.product() {
        for found in CRATE.captures_iter(line) {
            let is_crate = table.iter().any(|row| row.krate == found[1]);
            let is_allowed = row.may_import.iter().any(|krate| *krate == found[1]);
            if is_crate && !is_allowed && &found[1] != krate {
                let path = &source.path;
                problems.push(format!("{path}:{number}: {krate} must not import {}", &found[1]));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_against_the_table_is_reported() {
        let table =
            rows("| crate | may import |\n|---|---|\n| `core` | |\n| `k8s` | `core` |\n").unwrap();
        let source = |path: &str, text: &str| Source::new(path, text);
        let allowed = "use everynode_core::name;\n";
        assert!(forbidden_imports(&source("crates/k8s/src/lib.rs", allowed), &table).is_empty());
        assert_eq!(forbidden_imports(&source("crates/core/src/lib.rs", allowed), &table).len(), 0);
        assert_eq!(forbidden_imports(&source("crates/new/src/lib.rs", allowed), &table).len(), 1);
        let upwards = source("crates/core/src/a.rs", "use everynode_k8s as k;");
        let problems = forbidden_imports(&upwards, &table);
        assert_eq!(problems, ["crates/core/src/a.rs:1: core must not import k8s"]);
    }
}
