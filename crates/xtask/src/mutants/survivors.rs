//! The mutants that no test notices, compared with those listed in `mutants/survivors.toml`.
//!
//! A mutant is identified by its file, its function and its change, such as
//! `crates/core/src/backoff.rs: replace + with - in Backoff::next`. Lines don't matter. Several
//! changes of a function may have the same identity, so that identities are counted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

const PATH: &str = "mutants/survivors.toml";

/// Identities of mutants, and how often each occurs.
pub(super) type Identities = BTreeMap<String, usize>;

/// The listed survivors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    survivors: Vec<Group>,
}

/// Mutants that survive for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    mutants: Vec<String>,
}

/// The results of a run of cargo-mutants.
pub(super) struct Results {
    /// All mutants of the files that are examined, run or not.
    pub existing: Identities,
    /// Those that were run, and that no test noticed.
    pub missed: Identities,
    /// Those that were run, and that a test or the compiler noticed.
    pub noticed: Identities,
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |identities: &Identities| identities.values().sum::<usize>();
        let (missed, noticed) = (count(&self.missed), count(&self.noticed));
        write!(f, "{} mutants: {noticed} noticed, {missed} not", count(&self.existing))
    }
}

/// The survivors that are listed.
pub(super) fn read(root: &Path) -> anyhow::Result<Identities> {
    let text = std::fs::read_to_string(root.join(PATH)).context(PATH)?;
    parse(&text).context(PATH)
}

fn parse(text: &str) -> anyhow::Result<Identities> {
    let List { survivors } = toml::from_str(text)?;
    let mut listed = Identities::new();
    for Group { reason, mutants } in survivors {
        ensure!(!reason.trim().is_empty(), "no reason is given for {mutants:?}");
        for mutant in mutants {
            *listed.entry(mutant).or_default() += 1;
        }
    }
    Ok(listed)
}

/// Counts the mutants of a list that cargo-mutants wrote, one in each line:
/// `FILE:LINE:COLUMN: CHANGE`.
pub(super) fn identities(list: &str) -> Identities {
    let mut identities = Identities::new();
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        *identities.entry(identity(line)).or_default() += 1;
    }
    identities
}

fn identity(line: &str) -> String {
    let Some((place, change)) = line.split_once(": ") else { return line.to_owned() };
    let file = place.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
    format!("{file}: {change}")
}

/// Returns a line for each difference between the listed survivors and the results.
pub(super) fn compare(listed: &Identities, results: &Results) -> Vec<String> {
    let count = |identities: &Identities, mutant: &str| identities.get(mutant).copied();
    let of = |identities: &Identities, mutant: &str| count(identities, mutant).unwrap_or(0);
    let mut problems = Vec::new();
    for (mutant, missed) in &results.missed {
        let listed = of(listed, mutant);
        if *missed > listed {
            problems.push(format!(
                "{mutant}: no test notices it ({missed} times, {listed} listed): add a test, or \
                 list it in {PATH} with a reason"
            ));
        }
    }
    for (mutant, listed) in listed {
        let (missed, noticed) = (of(&results.missed, mutant), of(&results.noticed, mutant));
        let Some(existing) = count(&results.existing, mutant) else {
            problems.push(format!("{mutant}: no such mutant: remove it from {PATH}"));
            continue;
        };
        // Those that were not run may survive.
        let survivors_max = existing.saturating_sub(noticed);
        if *listed > survivors_max {
            problems.push(format!(
                "{mutant}: a test notices it now ({missed} survive, {listed} listed): remove it \
                 from {PATH}"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mutants: &[(&str, usize)]) -> Identities {
        mutants.iter().map(|(mutant, count)| ((*mutant).to_owned(), *count)).collect()
    }

    fn results(
        existing: &[(&str, usize)],
        missed: &[(&str, usize)],
        noticed: &[(&str, usize)],
    ) -> Results {
        Results { existing: of(existing), missed: of(missed), noticed: of(noticed) }
    }

    #[test]
    fn lines_and_columns_do_not_matter() {
        let list = "crates/a/src/b.rs:3:14: replace + with - in f\n\
                    crates/a/src/b.rs:30:1: replace + with - in f\n\
                    crates/a/src/v2.rs:7:1: replace a::g -> Result<u8> with Ok(0)\n";
        let expected = [
            ("crates/a/src/b.rs: replace + with - in f", 2),
            ("crates/a/src/v2.rs: replace a::g -> Result<u8> with Ok(0)", 1),
        ];
        assert_eq!(identities(list), of(&expected));
    }

    #[test]
    fn a_survivor_must_be_listed() {
        let found = results(&[("a", 3), ("b", 1)], &[("a", 2), ("b", 1)], &[("a", 1)]);
        assert_eq!(compare(&of(&[("a", 2), ("b", 1)]), &found), [""; 0]);
        let problems = compare(&of(&[("a", 1)]), &found);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("a: no test notices it (2 times, 1 listed)"));
        assert!(problems[1].starts_with("b: no test notices it (1 times, 0 listed)"));
    }

    #[test]
    fn a_listed_mutant_must_exist_and_survive() {
        let listed = of(&[("noticed", 1), ("gone", 1), ("one of two", 1), ("both", 2)]);
        let existing = [("noticed", 1), ("one of two", 2), ("both", 2)];
        let missed = [("one of two", 1), ("both", 1)];
        let noticed = [("noticed", 1), ("one of two", 1), ("both", 1)];
        let problems = compare(&listed, &results(&existing, &missed, &noticed));
        let expected = ["both: a test notices it now", "gone: no such", "noticed: a test notices"];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    #[test]
    fn a_mutant_that_is_not_run_proves_nothing() {
        let listed = of(&[("a", 1), ("b", 2)]);
        let found = results(&[("a", 1), ("b", 2), ("c", 1)], &[("b", 1)], &[]);
        assert_eq!(compare(&listed, &found), [""; 0]);
    }

    #[test]
    fn a_survivor_is_listed_with_a_reason() {
        let group = |reason: &str| {
            format!("[[survivors]]\nreason = '{reason}'\nmutants = ['a', 'a', 'b']\n")
        };
        assert_eq!(parse(&group("none can see it")).unwrap(), of(&[("a", 2), ("b", 1)]));
        assert!(parse(&group(" ")).is_err());
        assert!(parse("[[survivors]]\nmutants = ['a']\n").is_err());
        assert_eq!(parse("").unwrap(), of(&[]));
    }

    #[test]
    fn every_listed_mutant_is_in_a_file_of_the_workspace() {
        let root = crate::source::root();
        for mutant in read(&root).unwrap().keys() {
            let (file, _) = mutant.split_once(": ").expect("FILE: CHANGE");
            assert!(root.join(file).is_file(), "{mutant}");
        }
    }
}
