//! The project's own tools:
//!
//! - `cargo xtask tidy` checks the house rules of ARCHITECTURE.md, the links of the documents, the
//!   dependencies, and that generated files are as they were written.
//! - `cargo xtask rules` lists the rules of docs/rules.md with the tests that name them.
//! - `cargo xtask instructions` compares the instructions of the core's hot paths with those
//!   recorded.
//! - `cargo xtask mutants` makes source mutants and checks that the tests notice them.
//! - `cargo xtask test` and `test quick` run the tests; `night` runs what takes longer.
//! - `cargo xtask kubernetes` writes the types of a Kubernetes release for the sandbox.
//! - `cargo xtask release` makes the files of a release.
//!
//! Only `instructions --keep` and `kubernetes` change files of the repository; `mutants` changes a
//! copy.

#![forbid(unsafe_code)]

mod cargo;
mod cargo_metadata;
mod dependencies;
mod instructions;
mod krew;
mod kubernetes;
mod links;
mod mutants;
mod nightly;
mod release;
mod rules;
mod source;
mod suite;
mod tidy;

use std::process::ExitCode;

use suite::Suite;

fn main() -> anyhow::Result<ExitCode> {
    let root = source::root();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let problems = match arguments.as_slice() {
        ["tidy"] => {
            let (tidy, links) = (tidy::check(&root)?, links::check(&root)?);
            [tidy, links, dependencies::check(&root)?, kubernetes::check(&root)?].concat()
        }
        ["rules"] => rules::check(&root, true)?,
        ["rules", "--quiet"] => rules::check(&root, false)?,
        ["instructions"] => instructions::check(&root)?,
        ["instructions", "--keep"] => instructions::keep(&root)?,
        ["mutants", "--known"] => mutants::check_known(&root)?,
        ["mutants", arguments @ ..] => mutants::check(&root, arguments)?,
        ["test"] => suite::run(&root, Suite::Whole)?,
        ["test", "quick"] => suite::run(&root, Suite::Quick)?,
        ["night"] => nightly::run(&root, "")?,
        ["night", step] => nightly::run(&root, step)?,
        ["kubernetes", version, "--from", folder] => kubernetes::write(&root, version, folder)?,
        ["release", repository, homepage, archives @ ..] => {
            release::assemble(&root, repository, homepage, archives)?
        }
        _ => anyhow::bail!(
            "usage: cargo xtask test [quick] | night [BEGINNING OF A STEP] | tidy \
             | rules [--quiet] | instructions [--keep] \
             | mutants [--known | ARGUMENT OF CARGO-MUTANTS...] \
             | kubernetes VERSION --from FOLDER \
             | release REPOSITORY HOMEPAGE ARCHIVE..."
        ),
    };
    for problem in &problems {
        eprintln!("{problem}");
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
