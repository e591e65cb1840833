//! Source mutants: small changes of the program that its tests must notice.
//!
//! cargo-mutants makes the changes in the files that `.cargo/mutants.toml` names, and runs the
//! tests of the changed package. A mutant that no test notices must be listed with a reason in
//! `mutants/survivors.toml`, and the list has no other mutants. `mutants/known.toml` has mutants
//! written by hand, which all must be noticed.

mod known;
mod survivors;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::{cargo, cargo_metadata};
pub(crate) use known::check as check_known;
use survivors::Results;

/// Other versions may make other mutants, and describe them otherwise.
const VERSION: &str = "27.1.0";

/// Runs cargo-mutants with these further arguments, such as `--shard 0/4` or `--file PATH`. Returns
/// a line for each mutant that survives and is not listed, and for each listed mutant that does not
/// survive or does not exist. Mutants that are not run prove nothing.
pub(crate) fn check(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let survivors = survivors::read(root)?;
    ensure_installed(root)?;
    let folder = folder(root)?;
    let tree = tree::copy(root, &folder)?;
    let mutants = || {
        let mut command = cargo(&folder);
        command.arg("mutants").arg("--dir").arg(&tree).args(["--colors", "never"]);
        command
    };
    // Paths in the arguments are relative to the workspace.
    let mut run = mutants();
    run.args(["--in-place", "--output"]).arg(&folder).args(arguments).current_dir(root);
    let status = run.status().context("cargo mutants")?;
    ensure!(has_results(status.code()), "cargo mutants: {status}");
    let list = mutants().args(["--list"]).output()?;
    ensure!(list.status.success(), "cargo mutants: {}", String::from_utf8_lossy(&list.stderr));
    let read = |name: &str| {
        let path = folder.join("mutants.out").join(name);
        std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))
    };
    let results = Results {
        existing: survivors::identities(&String::from_utf8(list.stdout)?),
        missed: survivors::identities(&read("missed.txt")?),
        // A timeout may be the fault of a slow machine, so it proves nothing.
        noticed: survivors::identities(&(read("caught.txt")? + &read("unviable.txt")?)),
    };
    println!("{results}");
    Ok(survivors::compare(&survivors, &results))
}

/// True if cargo-mutants ran to its end: 0 if all mutants were noticed, 2 if some were missed, 3 if
/// some timed out.
fn has_results(code: Option<i32>) -> bool {
    matches!(code, Some(0 | 2 | 3))
}

fn ensure_installed(root: &Path) -> anyhow::Result<()> {
    let output = cargo::command(root).args(["mutants", "--version"]).output()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || version != format!("cargo-mutants {VERSION}") {
        bail!("this needs cargo-mutants {VERSION}: cargo install --locked cargo-mutants@{VERSION}");
    }
    Ok(())
}

/// The folder of everything that this check writes.
fn folder(root: &Path) -> anyhow::Result<PathBuf> {
    let metadata = cargo_metadata::read(root, &["--no-deps"])?;
    let folder = Path::new(&metadata.target_directory).join("mutants");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Cargo with a target folder of its own, so that a mutant is never taken for the real program.
/// Without debug information mutants link faster.
fn cargo(folder: &Path) -> Command {
    let mut command = cargo::command(folder);
    command.env("CARGO_TARGET_DIR", folder.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "none");
    command
}
