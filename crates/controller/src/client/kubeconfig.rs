//! Finds and reads kubeconfigs. No plugin is run and no request is sent here.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use http::HeaderValue;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret;

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
    if !paths.is_empty() {
        return merged(&paths);
    }
    let home = std::env::home_dir().ok_or(KubeconfigError::FindPath)?;
    read_file(&home.join(".kube").join("config"))
}

const VARIABLE: &str = "KUBECONFIG";

fn split_paths(paths: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Maximum size of a kubeconfig, and of each file that it names.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn read_file(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let failed = |error| KubeconfigError::ReadConfig(error, path.to_owned());
    let file = NamedFile::read(path).map_err(failed)?;
    let is_utf16 = file.content.starts_with(b"\xff\xfe") || file.content.starts_with(b"\xfe\xff");
    // On an odd number of bytes kube would panic.
    if is_utf16 && file.content.len() % 2 == 1 {
        return Err(failed(io::Error::new(ErrorKind::InvalidData, "invalid UTF-16")));
    }
    if file.can_be_read_again {
        // It also finds the files that are named relative to this one.
        return Kubeconfig::read_from(path);
    }
    let text = String::from_utf8(file.content);
    let text = text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "invalid UTF-8"));
    Kubeconfig::from_yaml(&text.map_err(failed)?)
}

/// A file that was read within the limit.
struct NamedFile {
    content: Vec<u8>,
    /// True if it is a regular file. A pipe has its content once.
    can_be_read_again: bool,
}

impl NamedFile {
    /// Refuses what is read without end, or fills the memory. The size that the system states does
    /// not count: it is 0 for pipes and for files of /proc.
    fn read(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Err(io::Error::other("it is a device"));
        }
        let mut content = Vec::new();
        let read = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
        if read as u64 > FILE_BYTES_MAX {
            let limit = FILE_BYTES_MAX >> 20;
            return Err(io::Error::other(format!("it is larger than {limit} MiB")));
        }
        Ok(Self { content, can_be_read_again: kind.is_file() })
    }
}

/// Checks the credentials of the current context, and the files that it names, before kube uses
/// them. The content of a pipe replaces its name, since nobody could read it again.
///
/// # Errors
/// A sentence that names the field and the file, without the credentials.
pub(super) fn check_credentials(kubeconfig: &mut Kubeconfig) -> Result<(), String> {
    if let Some(cluster) = cluster_mut(kubeconfig) {
        let Cluster { certificate_authority, certificate_authority_data, .. } = cluster;
        if let Some(pipe) = checked_file("certificate-authority", certificate_authority)? {
            certificate_authority_data.get_or_insert(BASE64_STANDARD.encode(pipe));
        }
        if let Some(data) = certificate_authority_data {
            check_data("certificate-authority-data", data, Content::Certificate)?;
        }
    }
    let Some(user) = user_mut(kubeconfig) else { return Ok(()) };
    if let Some(pipe) = checked_file("client-certificate", &mut user.client_certificate)? {
        user.client_certificate_data.get_or_insert(BASE64_STANDARD.encode(pipe));
    }
    if let Some(pipe) = checked_file("client-key", &mut user.client_key)? {
        user.client_key_data.get_or_insert(BASE64_STANDARD.encode(pipe).into());
    }
    if let Some(pipe) = checked_file("tokenFile", &mut user.token_file)? {
        let token = String::from_utf8(pipe).map_err(|_| "tokenFile: it is not UTF-8".to_owned())?;
        user.token.get_or_insert(token.trim().into());
    }
    if let Some(data) = &user.client_certificate_data {
        check_data("client-certificate-data", data, Content::Certificate)?;
    }
    if let Some(data) = &user.client_key_data {
        check_data("client-key-data", data.expose_secret(), Content::PrivateKey)?;
    }
    if let Some(token) = &user.token {
        check_token("token", token.expose_secret())?;
    }
    for field in ["id-token", "access-token"] {
        let provider = user.auth_provider.as_ref();
        if let Some(token) = provider.and_then(|provider| provider.config.get(field)) {
            check_token(field, token)?;
        }
    }
    Ok(())
}

/// Checks a file that a field names. Returns the content of a pipe, whose name it removes.
fn checked_file(field: &str, name: &mut Option<String>) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = name else { return Ok(None) };
    match NamedFile::read(Path::new(path)) {
        Ok(file) if file.can_be_read_again => Ok(None),
        Ok(file) => {
            *name = None;
            Ok(Some(file.content))
        }
        // Whoever reads it reports that.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{field} {path}: {error}")),
    }
}

/// The content of a field, in PEM and base64.
#[derive(Clone, Copy)]
enum Content {
    Certificate,
    PrivateKey,
}

/// Refuses data of which a client could not be made, by the name of the field. Empty data counts as
/// none.
fn check_data(field: &str, data: &str, content: Content) -> Result<(), String> {
    if data.is_empty() {
        return Ok(());
    }
    let pem = BASE64_STANDARD.decode(data).map_err(|error| format!("{field}: {error}"))?;
    let (is_valid, name) = match content {
        Content::Certificate => (CertificateDer::from_pem_slice(&pem).is_ok(), "certificate"),
        Content::PrivateKey => (PrivateKeyDer::from_pem_slice(&pem).is_ok(), "private key"),
    };
    if is_valid { Ok(()) } else { Err(format!("{field}: it has no {name} in PEM")) }
}

/// Refuses a token on which kube would panic.
pub(super) fn check_token(field: &str, token: &str) -> Result<(), String> {
    match HeaderValue::from_bytes(token.as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{field}: it has a line break, or another character of no token")),
    }
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
    Error::Kubeconfig { path: path(location, error), cause }
}

/// The path of the file that the error is about.
pub(super) fn path(location: &Location, error: &KubeconfigError) -> String {
    match error {
        // Of several files, this is the one that can't be read.
        KubeconfigError::ReadConfig(_, path) => display_path(path),
        _ => display_name(location),
    }
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

fn cluster_mut(kubeconfig: &mut Kubeconfig) -> Option<&mut Cluster> {
    let name = context(kubeconfig)?.cluster.clone();
    kubeconfig.clusters.iter_mut().find(|cluster| cluster.name == name)?.cluster.as_mut()
}

/// The user that the current context names.
fn user_mut(kubeconfig: &mut Kubeconfig) -> Option<&mut AuthInfo> {
    let name = context(kubeconfig)?.user.clone()?;
    kubeconfig.auth_infos.iter_mut().find(|user| user.name == name)?.auth_info.as_mut()
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
    use std::os::fd::AsRawFd;

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
            let mut kubeconfig = with(&named("cluster"), &named("user"));
            let expected = Err(format!("{field} /dev/zero: it is a device"));
            assert_eq!(check_credentials(&mut kubeconfig), expected);
        }
    }

    /// A kubeconfig with these fields of its cluster and its user.
    fn with(cluster: &str, user: &str) -> Kubeconfig {
        let text = format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {cluster}}}]\nusers: [{{name: a, user: {user}}}]\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    /// C83: data that no client can be made of is an error that names the field.
    #[test]
    fn data_that_is_no_certificate_is_named() {
        for (field, owner, content) in [
            ("certificate-authority-data", "cluster", "certificate"),
            ("client-certificate-data", "user", "certificate"),
            ("client-key-data", "user", "private key"),
        ] {
            let checked = |data: &str| {
                let named = |kind: &str| match owner == kind {
                    true => format!("{{{field}: '{data}'}}"),
                    false => "{}".to_owned(),
                };
                check_credentials(&mut with(&named("cluster"), &named("user")))
            };
            assert_eq!(checked(""), Ok(()));
            assert_eq!(
                checked("Z2FyYmFnZQ=="),
                Err(format!("{field}: it has no {content} in PEM"))
            );
            let error = checked("%").unwrap_err();
            assert!(error.starts_with(&format!("{field}: ")), "{error}");
        }
    }

    fn of_user(user: &str) -> Kubeconfig {
        let text = format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{}}}}]\nusers: [{{name: a, user: {user}}}]\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    /// C83: a token that no header can have is an error that names the field, not the token.
    #[test]
    fn a_token_with_a_line_break_is_refused() {
        for (user, field) in [
            (r#"{token: "secret\nX-Remote-User: admin"}"#, "token"),
            (r#"{token: "secret\r"}"#, "token"),
            (r#"{auth-provider: {name: oidc, config: {id-token: "secret\n"}}}"#, "id-token"),
        ] {
            let error = check_credentials(&mut of_user(user)).unwrap_err();
            assert!(error.starts_with(field) && !error.contains("secret"), "{error}");
        }
        assert_eq!(check_credentials(&mut of_user("{token: abc.def}")), Ok(()));
    }

    /// C83: a pipe is read once and up to the limit, whoever writes into it.
    #[test]
    fn a_pipe_is_read_once_and_up_to_its_limit() {
        let write = |bytes: u64| {
            let (reader, mut writer) = io::pipe().unwrap();
            // The reader may be gone before all is written.
            std::thread::spawn(move || {
                let _ = io::copy(&mut io::repeat(b'x').take(bytes), &mut writer);
            });
            let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
            (path, reader)
        };
        let (path, _reader) = write(3);
        let mut kubeconfig = of_user(&format!("{{tokenFile: {path}}}"));
        check_credentials(&mut kubeconfig).unwrap();
        let user = user_mut(&mut kubeconfig).unwrap();
        assert_eq!(user.token.as_ref().map(|token| token.expose_secret()), Some("xxx"));
        assert_eq!(user.token_file, None);
        let (path, _reader) = write(u64::MAX);
        let error = check_credentials(&mut of_user(&format!("{{client-key: {path}}}")));
        assert_eq!(error, Err(format!("client-key {path}: it is larger than 16 MiB")));
    }
}
