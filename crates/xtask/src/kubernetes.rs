//! The types of a Kubernetes release: the table and the OpenAPI definitions that the sandbox reads,
//! from the Go modules that declare the API. It begins with the types in roots.txt beside them, the
//! kinds and the bodies of requests and responses; the types that these refer to follow.

mod definitions;
mod go;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod types;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use regex::Regex;

use crate::krew::sha256;
use types::Root;

const ROOTS: &str = "crates/apiserver/src/schema/roots.txt";
const TABLE: &str = "crates/apiserver/src/schema/types.txt";
const DEFINITIONS: &str = "crates/apiserver/src/schema/definitions.json.gz";

/// The beginning of the line in the table with a digest of the three files.
const DIGEST: &str = "# sha256 with roots.txt and definitions.json.gz: ";

/// Writes the types of a version. The folder has the Go modules `api`, `apimachinery`,
/// `apiextensions-apiserver` and `kube-aggregator`, as `staging/src/k8s.io` of Kubernetes' source
/// does.
///
/// # Errors
/// A file cannot be read or written, or declares a type in a way that is not known here.
pub(crate) fn write(root: &Path, version: &str, folder: &str) -> anyhow::Result<Vec<String>> {
    let is_version = Regex::new(r"^v1\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$")?.is_match(version);
    ensure!(is_version, "a version is v1.37.0, not {version}");
    let roots = std::fs::read_to_string(root.join(ROOTS)).context(ROOTS)?;
    let types = types::read(Path::new(folder), &roots_of(&roots)?)?;
    let definitions = serde_json::Value::Object(definitions::definitions(&types));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(definitions.to_string().as_bytes())?;
    let definitions = encoder.finish()?;
    let table = table::table(&types, version);
    let (first, rest) = table.split_once('\n').context("the table has lines")?;
    let digest = sha256(&[table.as_bytes(), roots.as_bytes(), &definitions].concat());
    let table = format!("{first}\n{DIGEST}{digest}\n{rest}");
    std::fs::write(root.join(DEFINITIONS), &definitions).context(DEFINITIONS)?;
    std::fs::write(root.join(TABLE), &table).context(TABLE)?;
    println!("{} structs with {} fields", types.structs.len(), types.count_fields());
    Ok(Vec::new())
}

/// Returns a line if the files are not as they were written.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let table = std::fs::read_to_string(root.join(TABLE)).context(TABLE)?;
    let roots = std::fs::read(root.join(ROOTS)).context(ROOTS)?;
    let definitions = std::fs::read(root.join(DEFINITIONS)).context(DEFINITIONS)?;
    let is_digest = |line: &&str| line.starts_with(DIGEST);
    let lines = table.lines().filter(|line| !is_digest(line));
    let rest: String = lines.map(|line| format!("{line}\n")).collect();
    let digest = sha256(&[rest.as_bytes(), &roots, &definitions].concat());
    let is_unchanged = table.lines().find(is_digest).is_some_and(|line| line.ends_with(&digest));
    Ok(if is_unchanged {
        Vec::new()
    } else {
        vec![format!(
            "{TABLE}: {ROOTS} or a generated file has changed: run cargo xtask kubernetes"
        )]
    })
}

/// Reads lines of a group and a version with kinds: `apps/v1: DaemonSet Deployment`.
fn roots_of(text: &str) -> anyhow::Result<Vec<Root>> {
    let mut roots = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (group_version, kinds) =
            line.split_once(": ").with_context(|| format!("{ROOTS}: no kinds: {line}"))?;
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        roots.extend(kinds.split(' ').map(|kind| Root {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }));
    }
    Ok(roots)
}
