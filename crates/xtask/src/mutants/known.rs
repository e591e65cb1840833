//! Mutants written by hand, `mutants/known.toml`: bugs that the tests once failed to notice. Each
//! replaces one text of a file, and the tests of its package, or random schedules of the
//! simulation, must notice it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

const PATH: &str = "mutants/known.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutants: Vec<Mutant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// The behaviour of the program then.
    bug: String,
    file: String,
    /// A text that the file has once.
    replace: String,
    with: String,
    #[serde(default)]
    noticed_by: Tests,
}

/// The tests that must notice a mutant.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Tests {
    /// Those of the package that the file belongs to.
    #[default]
    Package,
    /// Random schedules of the simulation.
    Schedules,
}

/// Number of random schedules that a mutant gets.
const SCHEDULES: &str = "3000";

impl Mutant {
    /// The file with the change.
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        let Self { bug, file, replace, with, .. } = self;
        let found = text.matches(replace).count();
        ensure!(found == 1, "{bug}: {file} has this text {found} times, not once:\n{replace}");
        Ok(text.replacen(replace, with, 1))
    }

    /// The package that the file belongs to.
    fn package(&self) -> anyhow::Result<String> {
        let rest = self.file.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        let (folder, _) = rest.with_context(|| format!("{} is in no package", self.file))?;
        Ok(format!("everynode-{folder}"))
    }

    /// The arguments of `cargo test` for the tests that must notice it.
    fn tests(&self) -> anyhow::Result<Vec<String>> {
        let package = self.package()?;
        let arguments = match self.noticed_by {
            Tests::Package => vec!["--package", &package, "--tests"],
            Tests::Schedules => {
                vec!["--profile=sim", "--package=everynode-sim", "--test=sim", "schedules::"]
            }
        };
        Ok(arguments.into_iter().map(str::to_owned).collect())
    }
}

/// Applies each mutant to a copy of the workspace and runs the tests that must notice it. Returns a
/// line for each that they don't notice.
///
/// # Errors
/// If a mutant can't be applied or does not compile, or if the tests fail without any mutant.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mutants = read(root)?;
    let folder = super::folder(root)?;
    let tree = super::tree::copy(root, &folder)?;
    let all_tests = mutants.iter().map(Mutant::tests).collect::<anyhow::Result<BTreeSet<_>>>()?;
    for tests in all_tests {
        let fails = is_noticed(&folder, &tree, &tests)?;
        ensure!(!fails, "without any mutant, these tests fail: {}", tests.join(" "));
    }
    let mut problems = Vec::new();
    for mutant in &mutants {
        let path = tree.join(&mutant.file);
        let original = std::fs::read_to_string(&path).with_context(|| mutant.file.clone())?;
        std::fs::write(&path, mutant.apply(&original)?)?;
        let is_noticed = is_noticed(&folder, &tree, &mutant.tests()?);
        std::fs::write(&path, original)?;
        let is_noticed = is_noticed.with_context(|| mutant.bug.clone())?;
        println!("{} {}", if is_noticed { "noticed" } else { "MISSED " }, mutant.bug);
        if !is_noticed {
            problems.push(format!("no test notices: {}", mutant.bug));
        }
    }
    Ok(problems)
}

/// True if one of the tests fails.
fn is_noticed(folder: &Path, tree: &Path, tests: &[String]) -> anyhow::Result<bool> {
    let test = |arguments: &[&str]| {
        let mut cargo = super::cargo(folder);
        cargo.args(["test", "--quiet"]).args(tests).args(arguments);
        cargo.env("EVERYNODE_SCHEDULES", SCHEDULES).current_dir(tree).output()
    };
    let built = test(&["--no-run"])?;
    let errors = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "it does not build: {errors}");
    Ok(!test(&[])?.status.success())
}

fn read(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let text = std::fs::read_to_string(root.join(PATH)).context(PATH)?;
    let List { mutants } = toml::from_str(&text).context(PATH)?;
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(replace: &str) -> Mutant {
        Mutant {
            bug: "a bug".to_owned(),
            file: "crates/core/src/plan.rs".to_owned(),
            replace: replace.to_owned(),
            with: "c".to_owned(),
            noticed_by: Tests::Package,
        }
    }

    #[test]
    fn a_mutant_replaces_a_text_that_occurs_once() {
        assert_eq!(mutant("a").apply("a b b").unwrap(), "c b b");
        assert!(mutant("b").apply("a b b").is_err());
        assert!(mutant("d").apply("a b b").is_err());
        assert_eq!(mutant("a").package().unwrap(), "everynode-core");
    }

    #[test]
    fn every_known_mutant_can_be_applied() {
        let root = crate::source::root();
        for mutant in read(&root).unwrap() {
            let text = std::fs::read_to_string(root.join(&mutant.file)).unwrap();
            assert_ne!(mutant.apply(&text).unwrap(), text, "{}", mutant.bug);
            mutant.tests().unwrap();
        }
    }
}
