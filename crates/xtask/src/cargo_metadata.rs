//! The packages of the workspace, their targets and their dependencies, as Cargo reports them.
//! Nothing is read from the network.

use std::path::Path;

use anyhow::ensure;
use serde::Deserialize;

use crate::cargo;

/// The output of `cargo metadata`, as far as the checks read it.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_root: String,
    pub target_directory: String,
}

/// A crate of the workspace, or a crate that it depends on.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    /// `None` for a member of the workspace.
    pub source: Option<String>,
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A library, program, test or bench of a package.
#[derive(Deserialize)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test`, `bench`, `example` or `custom-build`.
    pub kind: Vec<String>,
    /// The absolute path of the root file.
    pub src_path: String,
}

/// Runs `cargo metadata` with these arguments. Fails if `Cargo.lock` would have to change.
pub(crate) fn read(root: &Path, arguments: &[&str]) -> anyhow::Result<Metadata> {
    let mut command = cargo::command(root);
    command.args(["metadata", "--format-version=1", "--locked"]).args(arguments);
    let output = command.output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
