//! The files of a release: one image for all machines, archives of its programs, manifests that
//! name the image by its digest, the plugin manifest, and the checksums of all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use regex::Regex;
use serde_json::{Value, json};

use crate::krew::{self, sha256};

/// The folder of the files, below the root.
const FOLDER: &str = "target/release-files";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// The installations, by the names of their manifests.
const INSTALLATIONS: [(&str, &str); 2] =
    [("install.yaml", "deploy/base"), ("install-beside.yaml", "deploy/beside")];
/// Where the version of the image stands beside Cargo.toml.
const PLACES: [&str; 7] = [
    "deploy/base/deployment.yaml",
    "deploy/beside/deployment.yaml",
    "deploy/static-pod.yaml",
    "deploy/everynode.yaml",
    "docs/managed-clusters.md",
    "docs/replace-the-built-in-controller.md",
    "README.md",
];

/// Makes the files in [`FOLDER`]. The repository is that of the image, without a tag; the homepage
/// is that of the project, below which the files of the release are. The archives are those that
/// `make image` writes, and programs for other systems, `everynode-OS-ARCH.tar.gz`.
///
/// # Errors
/// If the version stands otherwise somewhere, or an archive can't be read.
pub(crate) fn assemble(
    root: &Path,
    repository: &str,
    homepage: &str,
    archives: &[&str],
) -> anyhow::Result<Vec<String>> {
    let version = version(root)?;
    let problems = misplaced(root, &version)?;
    if !problems.is_empty() {
        return Ok(problems);
    }
    let folder = root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let layout = folder.join("layout");
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    let mut images = Vec::new();
    let mut programs = Vec::new();
    for archive in archives {
        let archive = root.join(archive);
        let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tar.gz") {
            let copy = folder.join(name);
            fs::copy(&archive, &copy).with_context(|| archive.display().to_string())?;
            programs.push(copy);
            continue;
        }
        let image = Image::unpack(&archive, name, &version, &layout)?;
        programs.push(image.program(root, &layout, &folder)?);
        images.push(image);
    }
    ensure!(!images.is_empty(), "there is no archive of an image: make image");
    let digest = write_index(&layout, &images, &version)?;
    pack(
        &layout,
        &folder.join(format!("everynode-{version}.tar")),
        &["oci-layout", "index.json", "blobs"],
    )?;
    fs::remove_dir_all(&layout)?;
    for (name, deployed) in INSTALLATIONS {
        let manifest = manifest(root, deployed, &version, &format!("{repository}@{digest}"))?;
        fs::write(folder.join(name), manifest)?;
    }
    let plugin = krew::manifest_of(root, &format!("v{version}"), homepage, &programs)?;
    fs::write(folder.join("krew.yaml"), plugin)?;
    fs::write(folder.join("SHA256SUMS"), checksums(&folder)?)?;
    println!("{FOLDER}: everynode {version}, {repository}@{digest}");
    Ok(Vec::new())
}

/// An image of one architecture, whose blobs are in the layout of all.
struct Image {
    architecture: String,
    /// Its descriptor: media type, digest and size.
    descriptor: Value,
}

impl Image {
    /// Adds the blobs of the archive to the layout.
    fn unpack(archive: &Path, name: &str, version: &str, layout: &Path) -> anyhow::Result<Self> {
        let pattern =
            Regex::new(&format!(r"^everynode-{}-linux-([a-z0-9]+)\.tar$", regex::escape(version)))?;
        let found = pattern.captures(name);
        let found = found.with_context(|| {
            format!("{name} is not called everynode-{version}-linux-ARCHITECTURE.tar")
        })?;
        run(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("-C").arg(layout))?;
        let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
        let descriptor = index["manifests"].get(0).context("index.json names no image")?;
        let descriptor = json!({"mediaType": descriptor["mediaType"],
            "digest": descriptor["digest"], "size": descriptor["size"]});
        Ok(Self { architecture: found[1].to_owned(), descriptor })
    }

    /// Packs the image's program, with the licence, as `everynode-linux-ARCHITECTURE.tar.gz`.
    fn program(&self, root: &Path, layout: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
        let manifest: Value = serde_json::from_slice(&fs::read(blob(layout, &self.descriptor)?)?)?;
        let layers = manifest["layers"].as_array().context("the image has layers")?;
        ensure!(layers.len() == 1, "the image has {} layers, not one", layers.len());
        let content = folder.join(format!("program-{}", self.architecture));
        fs::create_dir_all(&content)?;
        let mut extract = Command::new("tar");
        extract.args(["--extract", "--gzip", "--strip-components=3", "--file"]);
        extract.arg(blob(layout, &layers[0])?).arg("-C").arg(&content);
        run(extract.arg("usr/local/bin/everynode"))?;
        fs::copy(root.join("LICENSE"), content.join("LICENSE"))?;
        let archive = folder.join(format!("everynode-linux-{}.tar.gz", self.architecture));
        pack(&content, &archive, &["everynode", "LICENSE"])?;
        fs::remove_dir_all(&content)?;
        Ok(archive)
    }
}

/// Writes the index of all images. Returns its digest, which a registry keeps if the index is
/// copied as it is: `skopeo copy --all`.
fn write_index(layout: &Path, images: &[Image], version: &str) -> anyhow::Result<String> {
    let of_machine = |image: &Image| {
        let mut descriptor = image.descriptor.clone();
        descriptor["platform"] = json!({"os": "linux", "architecture": image.architecture});
        descriptor
    };
    let manifests: Vec<Value> = images.iter().map(of_machine).collect();
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
    let index = serde_json::to_vec(&index)?;
    let digest = sha256(&index);
    fs::write(layout.join("blobs/sha256").join(&digest), &index)?;
    let digest = format!("sha256:{digest}");
    let named = json!({"mediaType": INDEX_TYPE, "digest": digest, "size": index.len(),
        "annotations": {"org.opencontainers.image.ref.name": version}});
    let top = json!({"schemaVersion": 2, "manifests": [named]});
    fs::write(layout.join("index.json"), serde_json::to_vec(&top)?)?;
    Ok(digest)
}

/// The manifest of an installation with this image instead of `everynode:VERSION`.
fn manifest(root: &Path, deployed: &str, version: &str, image: &str) -> anyhow::Result<String> {
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let output = Command::new(kubectl).args(["kustomize", deployed]).current_dir(root).output()?;
    ensure!(output.status.success(), "{deployed}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let built = format!("image: everynode:{version}\n");
    ensure!(text.matches(&built).count() == 1, "{deployed} does not name {}", built.trim());
    Ok(text.replace(&built, &format!("image: {image}\n")))
}

/// The places where another version of the image stands, or none.
fn misplaced(root: &Path, version: &str) -> anyhow::Result<Vec<String>> {
    let stated = Regex::new(r"(?:everynode[:-]|newTag: )(\d+\.\d+\.\d+)")?;
    let mut problems = Vec::new();
    for place in PLACES {
        let text = fs::read_to_string(root.join(place)).context(place)?;
        let versions: Vec<&str> =
            stated.captures_iter(&text).filter_map(|it| it.get(1)).map(|it| it.as_str()).collect();
        if versions.is_empty() {
            problems.push(format!("{place} names no version of the image"));
        }
        let others = versions.iter().filter(|stated| **stated != version);
        problems.extend(others.map(|it| format!("{place} names {it}, Cargo.toml {version}")));
    }
    Ok(problems)
}

fn version(root: &Path) -> anyhow::Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = &manifest["workspace"]["package"]["version"];
    Ok(version.as_str().context("workspace.package.version is a text")?.to_owned())
}

fn blob(layout: &Path, descriptor: &Value) -> anyhow::Result<PathBuf> {
    let digest = descriptor["digest"].as_str().and_then(|it| it.strip_prefix("sha256:"));
    Ok(layout.join("blobs/sha256").join(digest.context("a descriptor has a digest")?))
}

/// Packs files of the folder, always into the same bytes.
fn pack(folder: &Path, archive: &Path, names: &[&str]) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", "--mtime=@0", "--file"]).arg(archive);
    if archive.extension().is_some_and(|extension| extension == "gz") {
        tar.arg("--use-compress-program=gzip --no-name");
    }
    run(tar.arg("-C").arg(folder).args(names))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The checksums of all files of the folder, as `sha256sum --check` reads them.
fn checksums(folder: &Path) -> anyhow::Result<String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?.to_owned();
        files.insert(name, sha256(&fs::read(path)?));
    }
    Ok(files.into_iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::root;

    #[test]
    fn every_place_names_the_version_of_the_workspace() {
        let version = version(&root()).unwrap();
        assert_eq!(misplaced(&root(), &version).unwrap(), [""; 0]);
        let problems = misplaced(&root(), "99.0.0").unwrap();
        for place in PLACES {
            assert!(problems.iter().any(|it| it.starts_with(place)), "{place}: {problems:?}");
        }
    }

    /// A registry that copies the index as it is keeps its digest.
    #[test]
    fn an_index_names_the_image_of_each_machine() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        let image = |architecture: &str| Image {
            architecture: architecture.to_owned(),
            descriptor: json!({"mediaType": "m", "digest": "sha256:abc", "size": 3}),
        };
        let images = [image("amd64"), image("arm64")];
        let digest = write_index(folder.path(), &images, "1.2.3").unwrap();
        let top = fs::read(folder.path().join("index.json")).unwrap();
        let top: Value = serde_json::from_slice(&top).unwrap();
        assert_eq!(top["manifests"][0]["digest"], digest);
        let index = fs::read(blob(folder.path(), &top["manifests"][0]).unwrap()).unwrap();
        assert_eq!(format!("sha256:{}", sha256(&index)), digest);
        let index: Value = serde_json::from_slice(&index).unwrap();
        assert_eq!(index["manifests"][0]["platform"]["architecture"], "amd64");
        assert_eq!(index["manifests"][1]["platform"]["architecture"], "arm64");
    }
}
