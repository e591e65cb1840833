//! The files of `--apply`, `--nodes-from` and `--faults`: read before anything starts, so that a wrong path costs nothing.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use everynode_sandbox::{AppliedObject, ApplyError, ApplyOutcome, Sandbox, fault};

use crate::output;

pub struct Manifest {
    /// As messages call it.
    pub name: String,
    pub text: String,
}

/// What a sandbox reads.
pub struct Manifests {
    pub nodes: Option<Manifest>,
    pub apply: Vec<Manifest>,
    pub faults: Vec<fault::Rule>,
}

pub fn read_all(
    nodes_from: Option<&Path>,
    apply: &[PathBuf],
    faults: Option<&Path>,
) -> anyhow::Result<Manifests> {
    let paths = nodes_from.into_iter().chain(faults).chain(apply.iter().map(PathBuf::as_path));
    if paths.filter(|path| *path == Path::new("-")).count() > 1 {
        bail!("standard input (-) can be read once: give --nodes-from, --faults or --apply a file");
    }
    Ok(Manifests {
        nodes: nodes_from.map(read).transpose()?,
        apply: apply.iter().map(|path| read(path)).collect::<anyhow::Result<_>>()?,
        faults: faults.map(read_faults).transpose()?.unwrap_or_default(),
    })
}

impl Manifest {
    /// Applies each document and prints what became of it. Kinds that the sandbox does nothing with are passed over by name, as
    /// long as the file has something else; whatever else is refused is an error.
    pub fn apply(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        let all = sandbox.apply_manifest(&self.text);
        if all.is_empty() {
            bail!("{}: there is nothing in it", self.name);
        }
        let passed_over = all.iter().filter(|applied| is_unserved(applied)).count();
        let mut failed = None;
        for applied in &all {
            match &applied.result {
                Ok(outcome) => {
                    output::print(&format!("{} {}\n", applied.object, verb(*outcome)))?;
                }
                Err(_) if is_unserved(applied) && passed_over < all.len() => {
                    output::note(format_args!("passed over: {}: {applied}", self.name));
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
    matches!(applied.result, Err(ApplyError::NotServed { .. } | ApplyError::OnlyChecked(_)))
}

fn verb(outcome: ApplyOutcome) -> &'static str {
    match outcome {
        ApplyOutcome::Created => "created",
        ApplyOutcome::Configured => "configured",
        ApplyOutcome::Unchanged => "unchanged",
    }
}

fn read_faults(path: &Path) -> anyhow::Result<Vec<fault::Rule>> {
    let Manifest { name, text } = read(path)?;
    fault::parse(&text).with_context(|| name)
}

fn read(path: &Path) -> anyhow::Result<Manifest> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("read standard input")?;
        return Ok(Manifest { name: "standard input".into(), text });
    }
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("read {name}"))?;
    Ok(Manifest { name, text })
}
