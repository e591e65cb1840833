//! Finds and reads kubeconfigs. No plugin is run and no request is sent here.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};

use super::{Error, Location, one_line};

/// Reads the kubeconfig of a location: its file, or those of `$KUBECONFIG`, or `~/.kube/config`.
///
/// # Errors
/// If a file can't be read or is not a kubeconfig, or if there is none.
pub fn kubeconfig(location: &Location) -> Result<Kubeconfig, Error> {
    read(location).map_err(|error| read_error(location, &error))
}

pub(super) fn read(location: &Location) -> Result<Kubeconfig, KubeconfigError> {
    if let Some(path) = &location.kubeconfig {
        return read_file(path);
    }
    let paths = std::env::var_os(VARIABLE).map(|paths| split_paths(&paths)).unwrap_or_default();
    if paths.is_empty() { Kubeconfig::read() } else { merged(&paths) }
}

const VARIABLE: &str = "KUBECONFIG";

fn split_paths(paths: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Maximum size of a kubeconfig, and of each file that it names.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn read_file(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    check_file(path)
        .and_then(|()| check_utf16(path))
        .map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))?;
    Kubeconfig::read_from(path)
}

/// Refuses a file that is read without end, or that fills the memory.
fn check_file(path: &Path) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    let kind = found.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::other("it is a device"));
    }
    if found.len() > FILE_BYTES_MAX {
        let limit = FILE_BYTES_MAX >> 20;
        return Err(io::Error::other(format!("it is larger than {limit} MiB")));
    }
    Ok(())
}

/// Refuses UTF-16 that lacks its last byte, on which kube panics.
fn check_utf16(path: &Path) -> io::Result<()> {
    // The content of a pipe could not be read again.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(());
    }
    let mut content = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut content)?;
    let is_utf16 = content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff");
    if is_utf16 && content.len() % 2 == 1 {
        return Err(io::Error::new(ErrorKind::InvalidData, "invalid UTF-16"));
    }
    Ok(())
}

/// Checks the files that the current context names, before kube reads them.
///
/// # Errors
/// A sentence that names the field and the file.
pub(super) fn check_named_files(kubeconfig: &Kubeconfig) -> Result<(), String> {
    let cluster = cluster(kubeconfig).and_then(|cluster| cluster.certificate_authority.as_ref());
    let user = user(kubeconfig);
    let files = [
        ("certificate-authority", cluster),
        ("client-certificate", user.and_then(|user| user.client_certificate.as_ref())),
        ("client-key", user.and_then(|user| user.client_key.as_ref())),
        ("tokenFile", user.and_then(|user| user.token_file.as_ref())),
    ];
    for (field, file) in files {
        let Some(file) = file else { continue };
        match check_file(Path::new(file)) {
            // Whoever reads it reports that.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            checked => checked.map_err(|error| format!("{field} {file}: {error}"))?,
        }
    }
    Ok(())
}

/// Merges files as kubectl does: the first value of a field counts, and missing files are skipped.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = None;
    for path in paths {
        match read_file(path) {
            Ok(next) => {
                merged = Some(match merged {
                    Some(first) => first.merge(next)?,
                    None => next,
                });
            }
            Err(error) if is_missing(&error) => missing = missing.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    merged.ok_or_else(|| missing.unwrap_or(KubeconfigError::FindPath))
}

pub(super) fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

pub(super) fn read_error(location: &Location, error: &KubeconfigError) -> Error {
    let cause = match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::LoadContext(context) => format!("it has no context \"{context}\""),
        other => one_line(other),
    };
    let path = match error {
        // Of several files, this is the one that can't be read.
        KubeconfigError::ReadConfig(_, path) => display_path(path),
        _ => display_name(location),
    };
    Error::Kubeconfig { path, cause }
}

pub(super) fn error(location: &Location, cause: String) -> Error {
    Error::Kubeconfig { path: display_name(location), cause }
}

/// The kubeconfig of a location as messages name it.
pub(super) fn display_name(location: &Location) -> String {
    match &location.kubeconfig {
        Some(path) => display_path(path),
        None => std::env::var(VARIABLE).unwrap_or_else(|_| "~/.kube/config".to_owned()),
    }
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}

/// The cluster that the current context names.
pub(super) fn cluster(kubeconfig: &Kubeconfig) -> Option<&Cluster> {
    let name = &context(kubeconfig)?.cluster;
    kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()
}

/// The user that the current context names.
fn user(kubeconfig: &Kubeconfig) -> Option<&AuthInfo> {
    let name = context(kubeconfig)?.user.as_ref()?;
    kubeconfig.auth_infos.iter().find(|user| user.name == *name)?.auth_info.as_ref()
}

fn context(kubeconfig: &Kubeconfig) -> Option<&Context> {
    let current = kubeconfig.current_context.as_ref()?;
    kubeconfig.contexts.iter().find(|context| context.name == *current)?.context.as_ref()
}

/// The kind and the source of the credentials, without the credentials themselves.
pub(super) fn credential_kind(credentials: &AuthInfo) -> String {
    let AuthInfo { exec, token_file, client_certificate, .. } = credentials;
    if credentials.auth_provider.is_some() {
        return "auth provider".to_owned();
    }
    if credentials.username.is_some() {
        return "user name and password".to_owned();
    }
    if credentials.token.is_some() {
        return "token".to_owned();
    }
    if let Some(file) = token_file {
        return format!("token file {file}");
    }
    if let Some(exec) = exec {
        return format!("exec plugin {}", exec.command.as_deref().unwrap_or("without a command"));
    }
    match client_certificate {
        Some(file) => format!("client certificate {file}"),
        None if credentials.client_certificate_data.is_some() => "client certificate".to_owned(),
        None => "no credentials".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path, name: &str, context: &str) -> PathBuf {
        let path = directory.join(name);
        let text = format!("{{apiVersion: v1, kind: Config, current-context: {context}}}\n");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// C83: missing files in KUBECONFIG are skipped, as in kubectl; if all are missing, the error
    /// means that there is no kubeconfig.
    #[test]
    fn a_missing_file_among_several_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let first = file(directory.path(), "first", "a");
        let second = file(directory.path(), "second", "b");
        let missing = directory.path().join("missing");
        for (paths, expected) in [
            (vec![first.clone(), missing.clone()], "a"),
            (vec![missing.clone(), second.clone()], "b"),
            (vec![second.clone(), missing.clone(), first.clone()], "b"),
        ] {
            let context = merged(&paths).unwrap().current_context;
            assert_eq!(context.as_deref(), Some(expected), "{paths:?}");
        }
        let error = merged(&[missing.clone(), missing.clone()]).unwrap_err();
        assert!(is_missing(&error));
        let broken = directory.path().join("broken");
        std::fs::write(&broken, "clusters: [}").unwrap();
        let error = merged(&[first, broken]).unwrap_err();
        assert!(!is_missing(&error), "{error}");
    }

    /// C83: a file that is read without end, that fills the memory, or that can't be decoded is an
    /// error that names it, also if the kubeconfig names it.
    #[test]
    fn special_and_large_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let large = directory.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(10 << 30).unwrap();
        let odd = directory.path().join("odd");
        std::fs::write(&odd, b"\xff\xfea").unwrap();
        for (path, cause) in [
            (Path::new("/dev/zero"), "it is a device"),
            (&large, "it is larger than 16 MiB"),
            (&odd, "invalid UTF-16"),
            (directory.path(), "is a directory"),
        ] {
            let location = Location { kubeconfig: Some(path.to_owned()), ..Location::default() };
            let error = kubeconfig(&location).unwrap_err().to_string();
            let expected = format!("kubeconfig {}: {cause}", path.display());
            assert!(error.to_lowercase().starts_with(&expected.to_lowercase()), "{error}");
        }
        for (field, owner) in [
            ("certificate-authority", "cluster"),
            ("client-certificate", "user"),
            ("client-key", "user"),
            ("tokenFile", "user"),
        ] {
            let named = |kind: &str| match owner == kind {
                true => format!("{{{field}: /dev/zero}}"),
                false => "{}".to_owned(),
            };
            let (cluster, user) = (named("cluster"), named("user"));
            let text = format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
                 clusters: [{{name: a, cluster: {cluster}}}]\nusers: [{{name: a, user: {user}}}]\n"
            );
            let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
            let expected = Err(format!("{field} /dev/zero: it is a device"));
            assert_eq!(check_named_files(&kubeconfig), expected);
        }
    }
}
