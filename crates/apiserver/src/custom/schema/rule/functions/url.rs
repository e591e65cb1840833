//! URLs (upstream's `library/urls.go`, with the rules of Go's `url.ParseRequestURI`).

use std::collections::{BTreeMap, HashMap};

use cel::common::types::{CelBool, CelMap, CelMapKey, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::{failed, getters, list_of_texts, opaque};

/// A URL in its parts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Url {
    scheme: String,
    /// The host with its port, unescaped.
    host: String,
    path: String,
    query: String,
}

opaque!(Url, "kubernetes.URL");

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn url: (CelString) -> Result<Url>, name = "url")?;
    add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    getters!(env, Url => CelString<'static>:
        "getScheme" = |url| url.scheme.clone().into();
        "getHost" = |url| url.host.clone().into();
        "getHostname" = |url| parts(url).0.to_owned().into();
        "getPort" = |url| parts(url).1.to_owned().into();
        "getEscapedPath" = |url| url.path.clone().into();
    );
    add_member_overload!(env, fn query_of: (Url) -> CelMap, name = "getQuery")?;
    Ok(())
}

/// Fails unless a text is an absolute URL or an absolute path.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}

fn parse(text: &str) -> Result<Url, String> {
    let wrong = |cause: &str| format!("parse {text:?}: {cause}");
    if text.is_empty() {
        return Err(wrong("empty url"));
    }
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(wrong("net/url: invalid control character in URL"));
    }
    let (scheme, rest) = scheme(text).map_err(wrong)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, query) = (scheme.to_ascii_lowercase(), query.to_owned());
    if !rest.starts_with('/') {
        if scheme.is_empty() {
            return Err(wrong("invalid URI for request"));
        }
        return Ok(Url { scheme, query, ..Url::default() });
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() => after.split_at(after.find('/').unwrap_or(after.len())),
        Some(_) | None => ("", rest),
    };
    let host = host(authority).map_err(|cause| wrong(&cause))?;
    check_escapes(path).map_err(|cause| wrong(&cause))?;
    Ok(Url { scheme, host, path: path.to_owned(), query })
}

/// The scheme and the rest.
fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index > 0 => return Ok((&text[..index], &text[index + 1..])),
            b':' => return Err("missing protocol scheme"),
            _ => break,
        }
    }
    Ok(("", text))
}

/// The host in an authority, which can have a user before it and a port after it.
fn host(authority: &str) -> Result<String, String> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.find(':').map_or("", |colon| &host[colon..])
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(format!("invalid port {port:?} after host"));
    }
    if let Some(wrong) = host
        .chars()
        .find(|it| matches!(it, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(format!("invalid character {:?} in host name", wrong.to_string()));
    }
    check_escapes(host)?;
    Ok(host.to_owned())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let mut parts = text.split('%');
    parts.next();
    for part in parts {
        let is_hex = |byte: &u8| byte.is_ascii_hexdigit();
        if part.len() < 2 || !part.as_bytes()[..2].iter().all(is_hex) {
            let shown: String = part.chars().take(2).collect();
            return Err(format!("invalid URL escape {:?}", format!("%{shown}")));
        }
    }
    Ok(())
}

fn url(text: &CelString<'_>) -> Result<Url, ExecutionError> {
    parse(text.inner()).map_err(|error| {
        failed("url", format!("URL parse error during conversion from string: {error}"))
    })
}

fn is_url(text: &CelString<'_>) -> CelBool {
    parse(text.inner()).is_ok().into()
}

/// The host without brackets, and its port.
fn parts(url: &Url) -> (&str, &str) {
    let after_brackets = url.host.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match url.host[after_brackets..].find(':') {
        Some(colon) => {
            let (host, port) = url.host.split_at(after_brackets + colon);
            (host, &port[1..])
        }
        None => (url.host.as_str(), ""),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    (inner.unwrap_or(host), port)
}

/// The values of each parameter. What can't be unescaped is left out, as Go does.
fn query_of(url: &Url) -> CelMap<'static> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) {
            found.entry(name).or_default().push(value);
        }
    }
    let entry = |(name, values): (String, Vec<String>)| {
        (CelMapKey::from(name), Box::new(list_of_texts(values)) as Box<dyn Val>)
    };
    found.into_iter().map(entry).collect::<HashMap<_, _>>().into()
}

fn unescaped(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let text = text.replace('+', " ");
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}
