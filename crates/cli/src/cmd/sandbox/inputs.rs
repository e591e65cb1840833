//! The files of `--apply`, `--nodes-from` and `--faults`. They are read before the sandbox starts,
//! so that an invalid path is reported at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use everynode_sandbox::{AppliedObject, ApplyError, ApplyOutcome, Sandbox, fault};

use crate::input::{self, InputFile};
use crate::output;

/// All files of the command line.
pub(crate) struct Inputs {
    pub nodes: Option<InputFile>,
    pub apply: Vec<InputFile>,
    pub faults: Vec<fault::Rule>,
}

/// Reads all files.
///
/// # Errors
/// If a file can't be read, the faults can't be parsed, or standard input is used twice.
pub(crate) fn read_all(
    nodes_from: Option<&Path>,
    apply: &[PathBuf],
    faults: Option<&Path>,
) -> anyhow::Result<Inputs> {
    let paths = nodes_from.into_iter().chain(faults).chain(apply.iter().map(PathBuf::as_path));
    if paths.filter(|path| *path == Path::new("-")).count() > 1 {
        bail!(
            "standard input (-) can be read only once: give --nodes-from, --faults or --apply a \
             file"
        );
    }
    Ok(Inputs {
        nodes: nodes_from.map(input::read).transpose()?,
        apply: apply.iter().map(|path| input::read(path)).collect::<anyhow::Result<_>>()?,
        faults: faults.map(read_faults).transpose()?.unwrap_or_default(),
    })
}

impl InputFile {
    /// Applies each document and prints the result. Objects of kinds that the sandbox does not
    /// serve are skipped with a note, unless the file contains nothing else.
    ///
    /// # Errors
    /// If another object is rejected.
    pub(crate) fn apply(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        let all = sandbox.apply_manifest(&self.text);
        if all.is_empty() {
            bail!("{}: the file contains no object", self.name);
        }
        let skipped = all.iter().filter(|applied| is_unserved(applied)).count();
        let mut failed = None;
        let warnings: BTreeSet<&String> = all.iter().filter_map(|o| o.warning.as_ref()).collect();
        for warning in warnings {
            output::note(format_args!("Warning: {warning}"));
        }
        for applied in &all {
            match &applied.result {
                Ok(outcome) => {
                    output::print(&format!("{} {}\n", applied.object, verb(*outcome)))?;
                }
                Err(_) if is_unserved(applied) && skipped < all.len() => {
                    output::note(format_args!("skipped: {}: {applied}", self.name));
                }
                Err(_) => failed = failed.or(Some(applied)),
            }
        }
        match failed {
            Some(applied) => bail!("{}: {applied}", self.name),
            None => Ok(()),
        }
    }
}

fn is_unserved(applied: &AppliedObject) -> bool {
    matches!(applied.result, Err(ApplyError::NotServed { .. }))
}

fn verb(outcome: ApplyOutcome) -> &'static str {
    match outcome {
        ApplyOutcome::Created => "created",
        ApplyOutcome::Configured => "configured",
        ApplyOutcome::Unchanged => "unchanged",
    }
}

fn read_faults(path: &Path) -> anyhow::Result<Vec<fault::Rule>> {
    let InputFile { name, text } = input::read(path)?;
    fault::parse(&text).with_context(|| name)
}
