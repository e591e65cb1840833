//! Short forms of long lists of node names: `node-0001..0004, node-0007`.

use std::fmt::Write as _;

/// Joins names with consecutive numbers into ranges; keeps the order.
pub fn compressed<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for name in names {
        let next = Numbered::new(name);
        match (runs.last_mut(), next) {
            (Some(run), Some(next)) if run.last.is_some_and(|last| last.is_before(&next)) => {
                run.last = Some(next);
                run.length += 1;
            }
            _ => runs.push(Run { first: name, last: next, length: 1 }),
        }
    }
    runs.iter().flat_map(Run::texts).collect()
}

/// The list of names in at most `width` characters: [`compressed`], then cut, with the number of
/// names that are left out. The first name always appears.
pub fn shortened<'a>(names: impl IntoIterator<Item = &'a str> + Clone, width: usize) -> String {
    let all = compressed(names.clone()).join(", ");
    if all.chars().count() <= width {
        return all;
    }
    let total = names.clone().into_iter().count();
    let mut kept = String::new();
    for count in 1..total {
        let head = compressed(names.clone().into_iter().take(count)).join(", ");
        let mut text = head;
        let _ = write!(text, " and {} more", total - count);
        if count > 1 && text.chars().count() > width {
            break;
        }
        kept = text;
        if count >= NAMES_MAX {
            break;
        }
    }
    kept
}

/// The maximum number of names in a shortened list.
const NAMES_MAX: usize = 64;

struct Run<'a> {
    first: &'a str,
    last: Option<Numbered<'a>>,
    length: usize,
}

impl Run<'_> {
    /// A range of two names is shorter as two names.
    fn texts(&self) -> Vec<String> {
        match self.last {
            Some(last) if self.length > 2 => vec![format!("{}..{}", self.first, last.digits)],
            Some(last) if self.length == 2 => vec![self.first.to_owned(), last.name.to_owned()],
            Some(_) | None => vec![self.first.to_owned()],
        }
    }
}

/// A name that ends in a number.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    name: &'a str,
    stem: &'a str,
    digits: &'a str,
    number: u64,
}

impl<'a> Numbered<'a> {
    fn new(name: &'a str) -> Option<Self> {
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let digits = &name[stem.len()..];
        Some(Self { name, stem, digits, number: digits.parse().ok()? })
    }

    fn is_before(&self, other: &Self) -> bool {
        self.stem == other.stem
            && self.digits.len() == other.digits.len()
            && self.number + 1 == other.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_names_are_one_run() {
        for (names, expected) in [
            (&["n-1", "n-2", "n-3", "n-5"][..], "n-1..3, n-5"),
            (&["n-1", "n-2", "m-3"], "n-1, n-2, m-3"),
            (&["n-09", "n-10", "n-11"], "n-09..11"),
            (&["n-9", "n-10", "n-11"], "n-9, n-10, n-11"),
            (&["master", "worker"], "master, worker"),
            (
                &["ip-10-0-0-1.internal", "ip-10-0-0-2.internal"],
                "ip-10-0-0-1.internal, ip-10-0-0-2.internal",
            ),
            (&[], ""),
        ] {
            assert_eq!(compressed(names.iter().copied()).join(", "), expected);
        }
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let names: Vec<String> = (0..5000).map(|i| format!("node-{:04}", i * 2)).collect();
        let text = shortened(names.iter().map(String::as_str), 50);
        assert_eq!(text, "node-0000, node-0002, node-0004 and 4997 more");
        let run: Vec<String> = (0..5000).map(|i| format!("node-{i:04}")).collect();
        assert_eq!(shortened(run.iter().map(String::as_str), 20), "node-0000..4999");
        assert_eq!(shortened(["a-name-that-is-long", "b"], 5), "a-name-that-is-long and 1 more");
    }
}
