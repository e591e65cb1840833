//! The house rules as a test: who may import whom, which files do no I/O, how long a file may grow, how tests behave.
//! The tables are those that ARCHITECTURE.md prints. What clippy can see (length of functions, unwrap, clocks in whole
//! crates) is left to clippy.

use std::path::Path;

use anyhow::ensure;
use regex::Regex;

use crate::source::{self, Source};

const LINES_OF_CODE_MAX: usize = 500;

/// A line for each place that breaks a rule.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let imports = imports(&architecture)?;
    let sans_io = sans_io(&architecture)?;
    let sources = source::read(root, &["crates", "e2e"])?;
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        problems.extend(forbidden_imports(source, &imports));
        if sans_io.iter().any(|area| area.covers(&source.path)) {
            problems.extend(matches(
                source.product(),
                source,
                &io_words(),
                "does I/O in a sans-IO file",
            ));
        }
        problems.extend(shape(source));
        problems.extend(matches(source.lines(), source, &banned_words(), "is not our style"));
        problems.extend(matches(
            source.tests(),
            source,
            &sleep_words(),
            "sleeps in a test: poll with a deadline",
        ));
    }
    Ok(problems)
}

/// One row of the import table: a crate and the crates of ours that it may use.
struct Imports {
    krate: String,
    may: Vec<String>,
}

/// A part of the tree that does no I/O.
struct SansIo {
    prefix: String,
    except: Vec<String>,
}

impl SansIo {
    fn covers(&self, path: &str) -> bool {
        path.starts_with(&self.prefix) && !self.except.iter().any(|except| path.starts_with(except))
    }
}

fn imports(architecture: &str) -> anyhow::Result<Vec<Imports>> {
    let rows = table(architecture, "| crate | may import |")?;
    Ok(rows.into_iter().map(|(krate, may)| Imports { krate: krate.join(""), may }).collect())
}

fn sans_io(architecture: &str) -> anyhow::Result<Vec<SansIo>> {
    let rows = table(architecture, "| sans-IO | except |")?;
    Ok(rows
        .into_iter()
        .map(|(prefix, except)| SansIo { prefix: prefix.join(""), except })
        .collect())
}

/// The code words of both columns of the table under a heading row.
fn table(text: &str, heading: &str) -> anyhow::Result<Vec<(Vec<String>, Vec<String>)>> {
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

fn forbidden_imports(source: &Source, table: &[Imports]) -> Vec<String> {
    let word = Regex::new(r"\beverynode_([a-z0-9]+)\b").expect("a constant pattern");
    let krate = source.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    let Some(krate) = krate else { return Vec::new() };
    let Some(row) = table.iter().find(|row| row.krate == krate) else {
        return vec![format!("{}: crate {krate} is not in the import table", source.path)];
    };
    let mut problems = Vec::new();
    for (number, line) in source.product() {
        for found in word.captures_iter(line) {
            let is_crate = table.iter().any(|row| row.krate == found[1]);
            if is_crate && !row.may.iter().any(|may| *may == found[1]) && &found[1] != krate {
                problems.push(format!(
                    "{}:{number}: {krate} must not import {}",
                    source.path, &found[1]
                ));
            }
        }
    }
    problems
}

fn matches<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    source: &Source,
    words: &Regex,
    what: &str,
) -> Vec<String> {
    lines
        .filter(|(_, line)| !is_comment(line))
        .filter_map(|(number, line)| Some((number, words.find(line)?.as_str().trim())))
        .map(|(number, found)| format!("{}:{number}: `{found}` {what}", source.path))
        .collect()
}

fn io_words() -> Regex {
    let io = r"\b(tokio|hyper|axum|reqwest)(::|\b)|\bkube::|\bstd::(fs|thread|process|env)\b|\b(Tcp|Udp)(Stream|Listener|Socket)\b";
    let clock = r"\b(SystemTime|Instant|Zoned|Timestamp)::now\b|\brand::rng\b|\bthread_rng\b";
    Regex::new(&format!("{io}|{clock}")).expect("a constant pattern")
}

fn banned_words() -> Regex {
    Regex::new(r"\bfn get_\w+|^\s*#\[ignore|\b(todo|unimplemented|dbg)!")
        .expect("a constant pattern")
}

fn sleep_words() -> Regex {
    Regex::new(r"\bsleep(_until)?\(").expect("a constant pattern")
}

/// Length and opening of a file.
fn shape(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    let code = |lines: &mut dyn Iterator<Item = (usize, &str)>| {
        lines.filter(|(_, line)| !line.trim().is_empty() && !is_comment(line)).count()
    };
    for (what, count) in
        [("code", code(&mut source.product())), ("tests", code(&mut source.tests()))]
    {
        if count > LINES_OF_CODE_MAX {
            problems.push(format!(
                "{}: {count} lines of {what}, at most {LINES_OF_CODE_MAX}",
                source.path
            ));
        }
    }
    let first = source.text.lines().find(|line| !line.starts_with("#!") && !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        problems.push(format!("{}: opens without saying what it decides (`//!`)", source.path));
    }
    problems
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let problems = check(&source::root()).unwrap();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }

    #[test]
    fn an_import_against_the_table_is_seen() {
        let table =
            imports("| crate | may import |\n|---|---|\n| `core` | |\n| `k8s` | `core` |\n")
                .unwrap();
        let source = |path: &str| Source {
            path: path.into(),
            text: "use everynode_core::name;\n".into(),
            is_test: false,
        };
        assert!(forbidden_imports(&source("crates/k8s/src/lib.rs"), &table).is_empty());
        assert_eq!(forbidden_imports(&source("crates/core/src/lib.rs"), &table).len(), 0);
        assert_eq!(forbidden_imports(&source("crates/new/src/lib.rs"), &table).len(), 1);
        let upwards = Source {
            path: "crates/core/src/a.rs".into(),
            text: "use everynode_k8s as k;".into(),
            is_test: false,
        };
        let problems = forbidden_imports(&upwards, &table);
        assert_eq!(problems, ["crates/core/src/a.rs:1: core must not import k8s"]);
    }

    #[test]
    fn clocks_and_sockets_are_seen_and_comments_are_not() {
        for (line, seen) in [
            ("let now = Instant::now();", true),
            ("use tokio::sync::mpsc;", true),
            ("use kube::Client;", true),
            ("let kubelet = 1;", false),
            ("let a = crate::kube_proxy::name();", false),
        ] {
            assert_eq!(io_words().is_match(line), seen, "{line}");
        }
        assert!(is_comment("  // tokio is not used here"));
    }
}
