//! The krew manifest of a release: deploy/krew/everynode.yaml with the release's version, address
//! and checksums.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use regex::Regex;
use sha2::{Digest, Sha256};

const TEMPLATE: &str = "deploy/krew/everynode.yaml";

/// The manifest. The archives are called `everynode-OS-ARCH.tar.gz`; users download them from
/// `HOMEPAGE/releases/download/VERSION/`.
pub(crate) fn manifest_of(
    root: &Path,
    version: &str,
    homepage: &str,
    archives: &[PathBuf],
) -> anyhow::Result<String> {
    let template = std::fs::read_to_string(root.join(TEMPLATE)).context(TEMPLATE)?;
    let mut contents = Vec::new();
    for archive in archives {
        let bytes =
            std::fs::read(archive).with_context(|| format!("read {}", archive.display()))?;
        let name = archive.file_name().and_then(|name| name.to_str());
        contents.push((name.context("an archive has a name")?.to_owned(), bytes));
    }
    manifest(&template, version, homepage, &contents)
}

fn manifest(
    template: &str,
    version: &str,
    homepage: &str,
    archives: &[(String, Vec<u8>)],
) -> anyhow::Result<String> {
    ensure!(
        Regex::new(r"^v\d+\.\d+\.\d+")?.is_match(version),
        "a version is v1.2.3, not {version}"
    );
    ensure!(!archives.is_empty(), "there is no archive");
    let name = Regex::new(r"^everynode-([a-z]+)-([a-z0-9]+)\.tar\.gz$")?;
    let homepage = homepage.trim_end_matches('/');
    let mut platforms = "  platforms:\n".to_owned();
    for (archive, bytes) in archives {
        let found = name.captures(archive);
        let found =
            found.with_context(|| format!("{archive} is not called everynode-OS-ARCH.tar.gz"))?;
        let digest = sha256(bytes);
        writeln!(
            platforms,
            "  - selector:
      matchLabels: {{os: {}, arch: {}}}
    uri: {homepage}/releases/download/{version}/{archive}
    sha256: {digest}
    bin: everynode",
            &found[1], &found[2]
        )?;
    }
    // The comment above the manifest is about the template.
    let lines = template.lines().filter(|line| !line.starts_with('#'));
    let text = lines.map(|line| format!("{line}\n")).collect::<String>();
    let text = text.replace("VERSION", version).replace("HOMEPAGE", homepage);
    Ok(text.replace("  platforms: []\n", &platforms))
}

/// The digest in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: &str, archive: &str) -> anyhow::Result<String> {
        let template = std::fs::read_to_string(crate::source::root().join(TEMPLATE))?;
        manifest(
            &template,
            version,
            "https://example.com/everynode/",
            &[(archive.to_owned(), b"abc".to_vec())],
        )
    }

    #[test]
    fn a_release_has_a_manifest_with_its_checksums() {
        let text = of("v1.2.3", "everynode-linux-amd64.tar.gz").unwrap();
        assert!(
            text.starts_with("apiVersion: krew.googlecontainertools.github.com/v1alpha2\n"),
            "{text}"
        );
        assert!(text.ends_with(
            "  platforms:
  - selector:
      matchLabels: {os: linux, arch: amd64}
    uri: https://example.com/everynode/releases/download/v1.2.3/everynode-linux-amd64.tar.gz
    sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
    bin: everynode
"
        ));
        assert!(!text.contains("VERSION") && !text.contains("HOMEPAGE"), "{text}");
    }

    #[test]
    fn a_version_or_archive_that_krew_would_refuse_is_refused() {
        assert!(of("1.2", "everynode-linux-amd64.tar.gz").is_err());
        assert!(of("v1.2.3", "everynode.zip").is_err());
    }
}
