//! The kubeconfig of the sandbox (S1).

use base64::prelude::{BASE64_STANDARD, Engine};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::json::{Value, json};

/// The name of the cluster, the user and the context.
const NAME: &str = "everynode-sandbox";

/// No kubeconfig of a sandbox is larger.
const BYTES_MAX: u64 = 1 << 20;

/// A kubeconfig with one cluster, one user and one context, all named `everynode-sandbox`. It is
/// JSON, which every YAML parser reads.
pub(super) fn render(server_url: &str, ca_pem: &str, token: &str) -> String {
    let name = NAME;
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": server_url,
            "certificate-authority-data": BASE64_STANDARD.encode(ca_pem),
        }}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {
            "cluster": name, "user": name, "namespace": "default",
        }}],
        "current-context": name,
    });
    format!("{document:#}\n")
}

/// A path to which the kubeconfig is not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refuses it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A device, a pipe or a directory; or a link to one, or to no file.
    #[error("it is not a regular file; name one that the sandbox can write and read again")]
    NotAFile,
    /// A kubeconfig with clusters other than a sandbox.
    #[error(
        "it is the kubeconfig of {}, which would be lost; name another file, or remove this one",
        clusters.join(", ")
    )]
    OtherClusters {
        /// The names of the clusters.
        clusters: Vec<String>,
    },
    /// The kubeconfig of a sandbox that runs.
    #[error("it is the kubeconfig of a sandbox that runs; name another file, or end that one")]
    OfRunningSandbox,
    /// A file with something else.
    #[error("it is not the kubeconfig of a sandbox; name another file, or remove this one")]
    OtherContent,
}

/// A kubeconfig that was written. It is locked, so that no other sandbox takes it over, and removed
/// when this is dropped.
pub(super) struct Kubeconfig {
    pub path: PathBuf,
    _locked: File,
}

/// Writes `text` to `path` atomically, readable by the owner only. If the path is a link to a file,
/// the file is replaced and the link stays.
pub(super) fn write(path: PathBuf, text: &str) -> Result<Kubeconfig, WriteError> {
    let destination = destination(&path)?;
    let directory = match destination.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // NamedTempFile creates files with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.as_file().lock()?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    let locked = file.persist(&destination).map_err(|error| error.error)?;
    Ok(Kubeconfig { path, _locked: locked })
}

/// Removes the file, unless it is a link, or somebody has added other clusters to it.
impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let is_ours = || std::fs::read(&self.path).is_ok_and(|text| check_content(&text).is_ok());
        if !self.path.is_symlink() && is_ours() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The file to create or replace for a path: an absent file, an empty one, or the kubeconfig of an
/// earlier sandbox.
fn destination(path: &Path) -> Result<PathBuf, WriteError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path.to_owned()),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    // Links such as /dev/stdout lead to whatever a stream of this process is, even a regular file.
    let is_stream = |path: &Path| ["/dev", "/proc"].iter().any(|root| path.starts_with(root));
    let is_link_to_stream = std::fs::read_link(path).is_ok_and(|to| is_stream(&to));
    if is_stream(path) || is_link_to_stream {
        return Err(WriteError::NotAFile);
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > BYTES_MAX => {
            return Err(WriteError::OtherContent);
        }
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(WriteError::NotAFile),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(WriteError::NotAFile),
        Err(error) => return Err(error.into()),
    }
    check_content(&std::fs::read(path)?)?;
    match File::open(path)?.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(WriteError::OfRunningSandbox),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    Ok(std::fs::canonicalize(path)?)
}

/// Refuses to lose what is not from a sandbox.
fn check_content(content: &[u8]) -> Result<(), WriteError> {
    if content.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let document: Option<Value> =
        std::str::from_utf8(content).ok().and_then(|text| crate::yaml::document(text).ok());
    let Some(document) = document.filter(|document| document["kind"] == "Config") else {
        return Err(WriteError::OtherContent);
    };
    let names = |list: &str| -> Vec<String> {
        let entries = document[list].as_array().into_iter().flatten();
        let names = entries.map(|entry| entry["name"].as_str().unwrap_or_default().to_owned());
        names.filter(|name| name != NAME).collect()
    };
    let clusters = names("clusters");
    if !clusters.is_empty() {
        return Err(WriteError::OtherClusters { clusters });
    }
    if names("users").is_empty() && names("contexts").is_empty() {
        return Ok(());
    }
    Err(WriteError::OtherContent)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// S1: the kubeconfig replaces that of an earlier sandbox and an empty file, also through a
    /// link, which stays; nothing else is lost. It is that of one sandbox, which removes it.
    #[test]
    fn only_a_kubeconfig_of_a_sandbox_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let ours = render("https://127.0.0.1:1", "a certificate", "a token");
        let other = "kind: Config\nclusters: [{name: prod}, {name: everynode-sandbox}]\n";
        let merged = "kind: Config\ncontexts: [{name: prod}]\n";
        let mended = "name another file, or remove this one";
        for (content, refusal) in [
            (None, None),
            (Some(""), None),
            (Some(ours.as_str()), None),
            (
                Some(other),
                Some(format!("it is the kubeconfig of prod, which would be lost; {mended}")),
            ),
            (Some(merged), Some(format!("it is not the kubeconfig of a sandbox; {mended}"))),
            (Some("a diary"), Some(format!("it is not the kubeconfig of a sandbox; {mended}"))),
        ] {
            let (path, link) = (at("config"), at("link"));
            for to in [&path, &link] {
                let _ = std::fs::remove_file(&path);
                let _ = std::fs::remove_file(&link);
                let Some(content) = content else {
                    let written = write(to.clone(), &ours).expect("an absent file is made");
                    let again = write(to.clone(), &ours).err().map(|error| error.to_string());
                    let refusal = "it is the kubeconfig of a sandbox that runs; name another \
                                   file, or end that one";
                    assert_eq!(again.as_deref(), Some(refusal));
                    drop(written);
                    assert!(!to.exists(), "it is removed");
                    continue;
                };
                std::fs::write(&path, content).expect("a file");
                symlink(&path, &link).expect("a link");
                let result = write(to.clone(), &ours).map_err(|error| error.to_string());
                assert_eq!(result.as_ref().err(), refusal.as_ref(), "{content:?}");
                let expected = if refusal.is_none() { &ours } else { content };
                assert_eq!(std::fs::read_to_string(&path).expect("a file"), expected);
                assert!(link.is_symlink(), "the link stays");
            }
        }
    }

    /// S1: devices, pipes, directories and links to them or to nothing are refused and stay.
    #[test]
    fn what_is_not_a_file_is_refused_and_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        symlink("/proc/self/fd/0", at("stream")).expect("a link");
        symlink(at("nothing"), at("dangling")).expect("a link");
        symlink(directory.path(), at("directory")).expect("a link");
        for path in [
            "/dev/null".into(),
            "/dev/stdout".into(),
            at("stream"),
            at("dangling"),
            at("directory"),
            directory.path().to_owned(),
        ] {
            let before = std::fs::symlink_metadata(&path).expect("it exists").file_type();
            let error = write(path.clone(), "text").err().expect("it is refused");
            assert!(matches!(error, WriteError::NotAFile), "{}: {error}", path.display());
            let after = std::fs::symlink_metadata(&path).expect("it exists").file_type();
            assert_eq!(before, after, "{}", path.display());
        }
    }
}
