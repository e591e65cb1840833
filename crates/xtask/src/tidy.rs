//! The house rules as a test. The tables of imports and of sans-IO files come from ARCHITECTURE.md,
//! the rule codes from docs/rules.md, the names that are gone from docs/glossary.md, the line width
//! from rustfmt.toml. clippy checks what it can see: length of functions, unwrap, clocks in whole
//! crates.

mod cycles;
mod declared;
mod imports;
mod module_tree;
mod named_tests;
mod openers;
mod places;
mod rule_codes;
mod shape;
mod structs;
mod uses;
mod width;
mod words;

use std::path::Path;

use crate::source;

/// Returns one line for each violation of a house rule.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let rules = std::fs::read_to_string(root.join("docs/rules.md"))?;
    let glossary = std::fs::read_to_string(root.join("docs/glossary.md"))?;
    let width_max = width::width_max(&std::fs::read_to_string(root.join("rustfmt.toml"))?)?;
    let mut sources = source::read(root, &["crates", "e2e", "benches"])?;
    sources.retain(source::Source::is_rust);
    let pages = source::read_pages(root)?;
    let trees = module_tree::read(root, &sources)?;

    let mut problems = imports::check(&architecture, &sources)?;
    problems.extend(words::check(&architecture, &glossary, &sources)?);
    problems.extend(shape::check(&sources));
    problems.extend(structs::check(&sources));
    problems.extend(width::check(&sources, width_max));
    problems.extend(openers::check(&sources));
    problems.extend(rule_codes::check(&rules, &sources, &pages));
    problems.extend(declared::check(&sources, &trees));
    problems.extend(named_tests::check(&pages, &sources, &data_files(root)?));
    problems.extend(places::check(root, &pages, &sources));
    problems.extend(cycles::check(&trees));
    Ok(problems)
}

/// The names of the transcripts that tests read.
fn data_files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for folder in ["crates/sim/tests/regressions", "crates/core/tests/transcripts"] {
        for file in std::fs::read_dir(root.join(folder))? {
            names.push(file?.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// True if the whole line is a comment.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}
