//! Credentials for the hosts that checks ask, from the file of `--check-credentials` (G46).
//!
//! The files that it names are read anew for each question, since tokens and passwords change. No
//! message has a value of the file or the content of another one: somebody may have written a
//! secret in the wrong place.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};
use http::HeaderValue;
use memchr::memmem;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Map, Value};

use super::answer::Reply;
use super::hosts::{AllowedHost, HOST_FORMS, Target};
use super::tls::Tls;

/// Maximum size of the file, and of a bundle of certificates: that of a Secret.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a token, and of a user with a password.
const SECRET_BYTES_MAX: u64 = 16 << 10;

const HOST: &str = "host";
const BEARER_TOKEN: &str = "bearerTokenFile";
const BASIC_AUTH: &str = "basicAuthFile";
const CA: &str = "caFile";
const FIELDS: [&str; 4] = [HOST, BEARER_TOKEN, BASIC_AUTH, CA];

/// The credentials of all hosts that have some.
#[derive(Clone, Debug, Default)]
pub struct Credentials(Arc<[HostCredentials]>);

/// The credentials of the hosts that one entry of the file names.
#[derive(Debug)]
pub(super) struct HostCredentials {
    host: AllowedHost,
    secret: Option<Secret>,
    /// Instead of the certificate authorities of the machine.
    pub(super) tls: Option<Tls>,
}

/// The file with a secret.
#[derive(Clone, Debug)]
enum Secret {
    BearerToken(PathBuf),
    /// It has `user:password`.
    BasicAuth(PathBuf),
}

/// A header with a secret.
pub(super) struct Authorization {
    pub(super) header: HeaderValue,
    /// The parts of it that must not be stated.
    secrets: Vec<Vec<u8>>,
}

/// A file of `--check-credentials` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--check-credentials {}: {problem}", path.display())]
pub struct InvalidCredentials {
    path: PathBuf,
    problem: String,
}

impl Credentials {
    /// Reads the file, and those that it names, whose paths are relative to its directory.
    ///
    /// # Errors
    /// If one of them cannot be read, or has not the form that it must have.
    pub fn read(path: &Path) -> Result<Self, InvalidCredentials> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let read = content(path, FILE_BYTES_MAX).and_then(|yaml| parse(&yaml, directory));
        let invalid = |problem| InvalidCredentials { path: path.to_owned(), problem };
        Ok(Self(read.map_err(invalid)?.into()))
    }

    /// Those of a host, if it has some.
    pub(super) fn for_host(&self, target: &Target) -> Option<&HostCredentials> {
        self.0.iter().find(|credentials| credentials.host.allows(target))
    }
}

impl HostCredentials {
    /// The header that is sent to the host, if any is.
    ///
    /// # Errors
    /// If it would not be encrypted, or the file cannot be read.
    pub(super) async fn authorization(
        &self,
        target: &Target,
    ) -> Result<Option<Authorization>, String> {
        let Some(secret) = self.secret.clone() else { return Ok(None) };
        if !target.is_https {
            return Err(format!(
                "host {target} has credentials (--check-credentials), which are sent by https only"
            ));
        }
        let (field, path) = (secret.field(), secret.path().display().to_string());
        let read = tokio::task::spawn_blocking(move || secret.read()).await;
        let read = read.unwrap_or_else(|_| Err("it was not read".to_owned()));
        read.map(Some).map_err(|problem| format!("{field} {path}: {problem}"))
    }
}

fn parse(yaml: &[u8], directory: &Path) -> Result<Vec<HostCredentials>, String> {
    let yaml = str::from_utf8(yaml).map_err(|_| "it is not UTF-8")?;
    // The message of the error may have a part of the text.
    let entries: Value = serde_saphyr::from_str(yaml).map_err(|error| match error.location() {
        Some(at) => format!("it is no valid YAML: line {}, column {}", at.line(), at.column()),
        None => "it is no valid YAML".to_owned(),
    })?;
    let Value::Array(entries) = entries else { return Err("it must be a list".to_owned()) };
    let mut read: Vec<HostCredentials> = Vec::new();
    for (number, entry) in (1..).zip(&entries) {
        let next = entry_of(entry, directory).map_err(|why| format!("entry {number}: {why}"))?;
        let mut before = (1..).zip(&read);
        if let Some((first, other)) = before.find(|(_, it)| it.host.overlaps(&next.host)) {
            let (host, other) = (&next.host, &other.host);
            return Err(format!(
                "entry {number}: host {host} and host {other} of entry {first} match the same URLs"
            ));
        }
        read.push(next);
    }
    Ok(read)
}

fn entry_of(entry: &Value, directory: &Path) -> Result<HostCredentials, String> {
    let fields = entry.as_object().ok_or("it must be a mapping")?;
    if let Some(field) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        let (field, known) = (field.escape_debug().to_string(), FIELDS.join(", "));
        return Err(format!("\"{field:.40}\" is an unknown field: known are {known}"));
    }
    let host = text(fields, HOST)?.ok_or("host is missing")?;
    let host: AllowedHost = host.parse().map_err(|_| format!("host is neither {HOST_FORMS}"))?;
    let of_host = |why| format!("host {host}: {why}");
    let (secret, tls) = files(fields, directory).map_err(of_host)?;
    Ok(HostCredentials { host, secret, tls })
}

/// The contents of the files of an entry.
fn files(
    fields: &Map<String, Value>,
    directory: &Path,
) -> Result<(Option<Secret>, Option<Tls>), String> {
    let path = |field| text(fields, field).map(|path| path.map(|path| directory.join(path)));
    let secret = match (path(BEARER_TOKEN)?, path(BASIC_AUTH)?) {
        (Some(_), Some(_)) => return Err(format!("it has both {BEARER_TOKEN} and {BASIC_AUTH}")),
        (Some(path), None) => Some(Secret::BearerToken(path)),
        (None, Some(path)) => Some(Secret::BasicAuth(path)),
        (None, None) => None,
    };
    let ca = path(CA)?;
    if secret.is_none() && ca.is_none() {
        return Err(format!("it has none of {BEARER_TOKEN}, {BASIC_AUTH} and {CA}"));
    }
    if let Some(secret) = &secret {
        secret.read().map_err(|why| format!("{}: {why}", secret.field()))?;
    }
    let tls = ca.map(|path| authorities(&path)).transpose();
    Ok((secret, tls.map_err(|why| format!("{CA}: {why}"))?))
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, String> {
    match fields.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(format!("{field} must be text")),
    }
}

fn authorities(path: &Path) -> Result<Tls, String> {
    let pem = content(path, FILE_BYTES_MAX)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| "it is no valid PEM")?;
        let number = roots.len() + 1;
        roots.add(certificate).map_err(|_| format!("certificate {number} is malformed"))?;
    }
    match roots.is_empty() {
        true => Err("it has no certificate in PEM".to_owned()),
        false => Ok(Tls::trusting(roots)),
    }
}

impl Secret {
    const fn field(&self) -> &'static str {
        match self {
            Self::BearerToken(_) => BEARER_TOKEN,
            Self::BasicAuth(_) => BASIC_AUTH,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::BearerToken(path) | Self::BasicAuth(path) => path,
        }
    }

    fn read(&self) -> Result<Authorization, String> {
        let content = content(self.path(), SECRET_BYTES_MAX)?;
        let (scheme, secrets) = match self {
            Self::BearerToken(_) => ("Bearer", bearer_token(&content)?),
            Self::BasicAuth(_) => ("Basic", basic_auth(&content)?),
        };
        let header = [scheme.as_bytes(), &secrets[0]].join(&b' ');
        let mut header = HeaderValue::from_bytes(&header).map_err(|_| "it fits no header")?;
        header.set_sensitive(true);
        Ok(Authorization { header, secrets })
    }
}

fn bearer_token(content: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let token = content.trim_ascii();
    match token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        true => Err("it must have one token of ASCII characters".to_owned()),
        false => Ok(vec![token.to_vec()]),
    }
}

/// The form that is sent, and the password.
fn basic_auth(content: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let colon = line.iter().position(|byte| *byte == b':');
    let colon = colon.filter(|_| !line.iter().any(u8::is_ascii_control));
    let colon = colon.ok_or("it must have one line with USER:PASSWORD")?;
    let mut secrets = vec![BASE64_STANDARD.encode(line).into_bytes()];
    secrets.extend(Some(line[colon + 1..].to_vec()).filter(|password| !password.is_empty()));
    Ok(secrets)
}

impl Authorization {
    /// True if a server sends what was sent to it, which would then be stated.
    pub(super) fn is_repeated_in(&self, reply: &Reply) -> bool {
        let location = reply.location.as_deref().unwrap_or_default().as_bytes();
        let has = |text: &[u8], secret| memmem::find(text, secret).is_some();
        self.secrets.iter().any(|secret| has(&reply.body, secret) || has(location, secret))
    }
}

/// The content of a file of at most so many bytes.
fn content(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| error.to_string();
    // A pipe or a device may have no end.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut content = Vec::new();
    File::open(path).map_err(io)?.take(bytes_max + 1).read_to_end(&mut content).map_err(io)?;
    match u64::try_from(content.len()).is_ok_and(|length| length <= bytes_max) {
        true => Ok(content),
        false => Err(format!("it is larger than {} KiB", bytes_max >> 10)),
    }
}
