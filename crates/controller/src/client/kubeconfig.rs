//! Finds and reads kubeconfigs. No plugin is run and no request is sent here.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};

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
        return Kubeconfig::read_from(path);
    }
    let paths = std::env::var_os(VARIABLE).map(|paths| split_paths(&paths)).unwrap_or_default();
    if paths.is_empty() { Kubeconfig::read() } else { merged(&paths) }
}

const VARIABLE: &str = "KUBECONFIG";

fn split_paths(paths: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Merges files as kubectl does: the first value of a field counts, and missing files are skipped.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = None;
    for path in paths {
        match Kubeconfig::read_from(path) {
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
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()
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
}
