//! The files of `--apply`, `--nodes-from` and `--faults`. They are read before the sandbox starts,
//! so that an invalid path is reported at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use everynode_sandbox::{AppliedObject, ApplyError, ApplyOutcome, Sandbox, fault};

use super::report::Report;
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
        apply: input::read_all(apply)?,
        faults: faults.map(read_faults).transpose()?.unwrap_or_default(),
    })
}

/// Applies each document of the files, and reports the results. Objects that a controller creates,
/// and those of kinds that the sandbox does not serve are skipped with a note, unless there is
/// nothing else.
///
/// # Errors
/// If another object is rejected.
pub(crate) fn apply(files: &[InputFile], sandbox: &Sandbox, report: Report) -> anyhow::Result<()> {
    let mut is_any_applied = false;
    let mut skipped = Vec::new();
    for file in files {
        let all = sandbox.apply_manifest(&file.text);
        if all.is_empty() {
            bail!("{}: the file contains no object", file.name);
        }
        let warnings: BTreeSet<&String> = all.iter().filter_map(|o| o.warning.as_ref()).collect();
        for warning in warnings {
            output::note(format_args!("Warning: {warning}"));
        }
        note_left_out(file, &all);
        let mut failed = None;
        for applied in &all {
            match &applied.result {
                Ok(outcome) => {
                    is_any_applied = true;
                    report.line(format_args!("{} {}", applied.object, verb(*outcome)))?;
                }
                Err(ApplyError::NotServed { .. } | ApplyError::Owned(_)) => {
                    skipped.push(format!("{}: {applied}", file.name));
                }
                Err(
                    ApplyError::Syntax(_)
                    | ApplyError::NoObject
                    | ApplyError::Missing(_)
                    | ApplyError::Refused(_),
                ) => failed = failed.or(Some(applied)),
            }
        }
        if let Some(applied) = failed {
            bail!("{}: {applied}", file.name);
        }
    }
    if let (false, Some(first)) = (is_any_applied, skipped.first()) {
        bail!("{first}");
    }
    for skipped in skipped {
        output::note(format_args!("skipped: {skipped}"));
    }
    Ok(())
}

/// Names the fields of exported objects that were not applied.
fn note_left_out(file: &InputFile, all: &[AppliedObject]) {
    let objects = all.iter().filter(|applied| !applied.left_out.is_empty());
    let fields: BTreeSet<&str> = objects.clone().flat_map(|it| it.left_out.clone()).collect();
    if fields.is_empty() {
        return;
    }
    let fields: Vec<&str> = fields.into_iter().collect();
    output::note(format_args!(
        "{}: not applied, since servers set these fields: {} (of {} objects)",
        file.name,
        fields.join(", "),
        objects.count()
    ));
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
