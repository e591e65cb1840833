//! Finds the proxy of the API server, if any, as kubectl does: the `proxy-url` of the kubeconfig's
//! cluster, or else the environment. Does not connect.

use std::fmt;
use std::net::IpAddr;

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use ipnet::IpNet;

/// A proxy and the setting that names it. Its texts never contain its credentials.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    address: Uri,
    intercept: Intercept,
    pub(super) protocol: Protocol,
    setting: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// CONNECT, over TLS if the proxy's URL is an https URL.
    Http,
    Socks5,
}

/// The field of a kubeconfig's cluster.
const FIELD: &str = "proxy-url";

/// A proxy's URL that can't be used. The URL may contain a password, so it is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("{0} is not the URL of a proxy")]
    InvalidUrl(&'static str),
    #[error(
        "{setting} names a proxy by {scheme}: only http, https, socks5 and socks5h are supported"
    )]
    Scheme { setting: &'static str, scheme: String },
}

impl Proxy {
    /// The proxy for a server. The kubeconfig's field applies to every server; the environment
    /// applies to remote servers that NO_PROXY does not exclude.
    pub(super) fn for_server(
        server: &Uri,
        field: Option<&str>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Error> {
        if let Some(url) = field.filter(|url| !url.is_empty()) {
            return Self::parse(url, FIELD).map(Some);
        }
        let first = |names: [&'static str; 2]| {
            let mut set = names.into_iter().filter_map(|name| Some((name, environment(name)?)));
            set.find(|(_, value)| !value.is_empty())
        };
        let is_https = server.scheme() == Some(&Scheme::HTTPS);
        let Some((name, url)) = first(if is_https { HTTPS_VARIABLES } else { HTTP_VARIABLES })
        else {
            return Ok(None);
        };
        let (host, port) = (server.host().unwrap_or_default(), port(server));
        let (_, exclusions) = first(NO_VARIABLES).unwrap_or_default();
        if is_excluded(&exclusions, host, port) {
            Ok(None)
        } else {
            Self::parse(&url, name).map(Some)
        }
    }

    fn parse(url: &str, setting: &'static str) -> Result<Self, Error> {
        let scheme = url.split_once("://").map_or("http", |(scheme, _)| scheme);
        let (protocol, port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Protocol::Http, 80),
            "https" => (Protocol::Http, 443),
            "socks5" | "socks5h" => (Protocol::Socks5, 1080),
            _ => return Err(Error::Scheme { setting, scheme: scheme.to_owned() }),
        };
        let anything = Uri::from_static("https://anything.invalid");
        let intercept = Matcher::builder().all(url.trim()).build().intercept(&anything);
        let intercept = intercept.ok_or(Error::InvalidUrl(setting))?;
        let address = with_port(intercept.uri().clone(), port);
        Ok(Self { address, intercept, protocol, setting })
    }

    /// The address without credentials.
    pub(super) fn address(&self) -> &Uri {
        &self.address
    }

    pub(super) fn basic_credentials(&self) -> Option<HeaderValue> {
        self.intercept.basic_auth().cloned()
    }

    pub(super) fn raw_credentials(&self) -> Option<(String, String)> {
        let (user, password) = self.intercept.raw_auth()?;
        Some((user.to_owned(), password.to_owned()))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, setting, .. } = self;
        write!(formatter, "{} ({setting})", address.to_string().trim_end_matches('/'))
    }
}

const HTTPS_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const HTTP_VARIABLES: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const NO_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The setting that kube itself reads, for its errors.
pub(super) fn setting_that_kube_reads(field: Option<&str>) -> &'static str {
    if field.is_some_and(|url| !url.is_empty()) {
        return FIELD;
    }
    let is_set = |name: &&'static str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    HTTPS_VARIABLES.iter().copied().find(|name| is_set(name)).unwrap_or(FIELD)
}

fn port(server: &Uri) -> u16 {
    let default = if server.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    server.port_u16().unwrap_or(default)
}

/// The same URI with an explicit port.
pub(super) fn with_port(uri: Uri, default: u16) -> Uri {
    let mut parts = uri.into_parts();
    if let Some(authority) = parts.authority.take_if(|authority| authority.port().is_none()) {
        let explicit: Result<Authority, _> = format!("{}:{default}", authority.host()).parse();
        parts.authority = Some(explicit.unwrap_or(authority));
    }
    Uri::from_parts(parts).expect("only the port was added")
}

/// True if NO_PROXY excludes this host and port. Loopback addresses are always excluded.
fn is_excluded(exclusions: &str, host: &str, port: u16) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok();
    let is_here = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
    let port = port.to_string();
    is_here
        || exclusions.split(',').any(|entry| {
            let entry = entry.trim().to_ascii_lowercase();
            !entry.is_empty() && matches(&entry, &host, ip, &port)
        })
}

/// True if an entry of NO_PROXY matches. An entry is `*`, a network, or a host with or without a
/// port. `.example.com` and `*.example.com` match subdomains; `example.com` also matches itself.
fn matches(entry: &str, host: &str, ip: Option<IpAddr>, port: &str) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(network) = entry.parse::<IpNet>() {
        return ip.is_some_and(|ip| network.contains(&ip));
    }
    let (name, of_port) = split_port(entry);
    if of_port.is_some_and(|of_port| of_port != port) {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip == Some(address);
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    match host.strip_suffix(name) {
        None => false,
        Some(below) if name.starts_with('.') => !below.is_empty(),
        Some(below) => !name.is_empty() && (below.is_empty() || below.ends_with('.')),
    }
}

fn split_port(entry: &str) -> (&str, Option<&str>) {
    if let Some((ip, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (ip, rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        // Several colons mean an IPv6 address.
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (entry, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(
        variables: &'a [(&'a str, &'a str)],
    ) -> impl Fn(&str) -> Option<String> + use<'a> {
        |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    fn to(server: &str, field: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        let proxy =
            Proxy::for_server(&server.parse().unwrap(), field, environment(variables)).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    /// C83: the kubeconfig's field precedes the environment and NO_PROXY. In the environment, the
    /// variable for the server's scheme counts, and loopback addresses have no proxy.
    #[test]
    fn the_field_precedes_the_environment() {
        let variables = [
            ("HTTPS_PROXY", "http://secure:3128"),
            ("https_proxy", "http://never"),
            ("http_proxy", "plain.corp:3128"),
        ];
        for (server, field, expected) in [
            ("https://a.corp:6443", None, Some("http://secure:3128 (HTTPS_PROXY)")),
            ("https://a.corp:6443", Some(""), Some("http://secure:3128 (HTTPS_PROXY)")),
            ("http://a.corp", None, Some("http://plain.corp:3128 (http_proxy)")),
            ("https://a.corp", Some("socks5://s"), Some("socks5://s:1080 (proxy-url)")),
            ("https://127.0.0.1:6443", Some("https://p"), Some("https://p:443 (proxy-url)")),
            ("https://127.0.0.1:6443", None, None),
            ("https://127.9.9.9", None, None),
            ("https://[::1]:6443", None, None),
            ("https://localhost:6443", None, None),
        ] {
            assert_eq!(to(server, field, &variables).as_deref(), expected, "{server} {field:?}");
        }
        assert_eq!(
            to("https://a.corp", None, &[("HTTPS_PROXY", ""), ("ALL_PROXY", "http://p")]),
            None
        );
    }

    /// C83: NO_PROXY has networks, addresses, domains, ports and `*`, as in kubectl.
    #[test]
    fn no_proxy_is_read_as_by_kubectl() {
        for (exclusions, host, excluded) in [
            ("", "a.corp", false),
            (" , ,", "a.corp", false),
            ("*", "a.corp", true),
            ("*", "10.0.0.1", true),
            ("x.y, *", "10.0.0.1", true),
            ("10.0.0.0/8", "10.96.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "a.corp", false),
            ("fd00::/8", "[fd00::1]", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1:6443", "10.0.0.1", true),
            ("10.0.0.1:443", "10.0.0.1", false),
            ("[fd00::1]:6443", "[fd00::1]", true),
            ("[fd00::1]:443", "[fd00::1]", false),
            ("fd00::1", "[fd00::1]", true),
            ("corp", "a.corp", true),
            ("A.Corp", "a.corP", true),
            ("a.corp", "a.corp.", true),
            ("corp", "notcorp", false),
            (".corp", "a.corp", true),
            (".a.corp", "a.corp", false),
            ("*.corp", "a.corp", true),
            ("*.a.corp", "a.corp", false),
            ("corp:6443", "a.corp", true),
            ("corp:443", "a.corp", false),
            ("b.corp,c.corp,a.corp", "a.corp", true),
        ] {
            assert_eq!(is_excluded(exclusions, host, 6443), excluded, "{exclusions:?} {host}");
            let variables = [("HTTPS_PROXY", "http://p"), ("no_proxy", exclusions)];
            let proxy = to(&format!("https://{host}:6443"), None, &variables);
            assert_eq!(proxy.is_none(), excluded, "{exclusions:?} {host}");
        }
    }

    /// C83: an error names the variable or field; neither it nor the proxy's text has the URL's
    /// password.
    #[test]
    fn a_bad_proxy_is_named_without_its_password() {
        let server = Uri::from_static("https://a.corp");
        for (field, variable, expected) in [
            (
                Some("ftp://u:secret@p"),
                "",
                "proxy-url names a proxy by ftp: \
                 only http, https, socks5 and socks5h are supported",
            ),
            (None, "http://u:sec ret@p", "HTTPS_PROXY is not the URL of a proxy"),
            (None, "http://", "HTTPS_PROXY is not the URL of a proxy"),
        ] {
            let found =
                Proxy::for_server(&server, field, environment(&[("HTTPS_PROXY", variable)]));
            assert_eq!(found.unwrap_err().to_string(), expected);
        }
        let variables = [("HTTPS_PROXY", "http://us%40er:secret@p:3128/path")];
        let proxy = Proxy::for_server(&server, None, environment(&variables)).unwrap().unwrap();
        assert!(proxy.basic_credentials().is_some());
        for text in [proxy.to_string(), format!("{proxy:?}"), proxy.address().to_string()] {
            assert!(!text.contains("secret") && !text.contains("us"), "{text}");
        }
        let proxy = Proxy::parse("socks5h://user:secret@p", FIELD).unwrap();
        assert_eq!(proxy.raw_credentials(), Some(("user".to_owned(), "secret".to_owned())));
    }
}
