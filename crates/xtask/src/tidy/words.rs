//! Words that a file must not contain: I/O and clocks in sans-IO files (the table "sans-IO |
//! except" of ARCHITECTURE.md), sleeps in tests, constructs that are against the style everywhere,
//! and names that have been replaced (the table "not | but" of docs/glossary.md).

use anyhow::ensure;
use regex::Regex;

use super::imports::table;
use super::is_comment;
use crate::source::Source;

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

pub(super) fn check(
    architecture: &str,
    glossary: &str,
    sources: &[Source],
) -> anyhow::Result<Vec<String>> {
    let sans_io: Vec<SansIo> = table(architecture, "| sans-IO | except |")?
        .into_iter()
        .map(|(prefix, except)| SansIo { prefix: prefix.join(""), except })
        .collect();
    let (io, banned, sleep) = (io_words(), banned_words(), sleep_words());
    let replaced = replaced_words(glossary)?;
    let mut problems = Vec::new();
    for source in sources {
        for (number, line) in source.lines() {
            problems.extend(replaced.find(line).map(|found| {
                let (path, word) = (&source.path, found.as_str());
                format!("{path}:{number}: `{word}` has another name by now: docs/glossary.md")
            }));
        }
        if sans_io.iter().any(|area| area.covers(&source.path)) {
            let what = "does I/O in a sans-IO file";
            problems.extend(matches(source.product(), source, &io, what));
        }
        problems.extend(matches(source.lines(), source, &banned, "is not our style"));
        // A bench may wait: it measures time.
        if !source.path.starts_with("benches/") {
            let what = "sleeps in a test: poll with a deadline";
            problems.extend(matches(source.tests(), source, &sleep, what));
        }
    }
    Ok(problems)
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
    let crates = r"\b(tokio|hyper|axum|reqwest)(::|\b)|\bkube::";
    let std = r"\bstd::(fs|thread|process|env)\b|\b(Tcp|Udp)(Stream|Listener|Socket)\b";
    let clock = r"\b(SystemTime|Instant|Zoned|Timestamp)::now\b";
    let random = r"\brand::rng\b|\bthread_rng\b";
    Regex::new(&[crates, std, clock, random].join("|")).expect("a constant pattern")
}

fn banned_words() -> Regex {
    // `get_mut` beside `get` is the standard library's own name.
    let getter = r"\bfn get_([a-ln-z]\w*|m[a-tv-z]\w*|mu[a-su-z]\w*|mut\w+)";
    Regex::new(&format!(r"{getter}|^\s*#\[ignore|\b(todo|unimplemented|dbg)!"))
        .expect("a constant pattern")
}

/// The names of the first column of the table "not | but".
fn replaced_words(glossary: &str) -> anyhow::Result<Regex> {
    let rows = glossary.lines().skip_while(|line| *line != "| not | but |").skip(2);
    let cells = rows.map_while(|row| Some(row.strip_prefix('|')?.split_once('|')?.0));
    let words: Vec<&str> = cells.flat_map(|cell| cell.split(',')).map(str::trim).collect();
    ensure!(!words.is_empty(), "docs/glossary.md lacks the table \"not | but\"");
    Ok(Regex::new(&format!(r"\b(?:{})\b", words.join("|")))?)
}

fn sleep_words() -> Regex {
    Regex::new(r"\bsleep(_until)?\(").expect("a constant pattern")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_sockets_are_reported_and_comments_are_not() {
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

    #[test]
    fn replaced_names_are_reported_in_comments_too() {
        let glossary = "a\n| not | but |\n|---|---|\n| OldName, old_name | `NewName` |\n\nb\n";
        let replaced = replaced_words(glossary).unwrap();
        for (line, seen) in [("// see old_name", true), ("OldName::new()", true), ("names", false)]
        {
            assert_eq!(replaced.is_match(line), seen, "{line}");
        }
        assert!(replaced_words("no table").is_err());
    }
}
