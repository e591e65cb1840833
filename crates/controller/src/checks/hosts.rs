//! Which hosts and addresses checks may ask (G24). Sans-IO.
//!
//! A check calls what its policy names from a privileged program: nothing is asked that the
//! operator has not allowed, nor an address that no check needs, such as that of a cloud's
//! metadata.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;

/// Which hosts may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Any: the person who asks has written or read the policy.
    Any,
    /// These.
    Allowed(Vec<AllowedHost>),
}

/// One of `--check-hosts`, or the host of an entry of `--check-credentials`: `HOST[:PORT]`, or
/// `*.DOMAIN[:PORT]` for all names below a domain. Without a port, only the default port of a URL's
/// scheme is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    name: Name,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Exact(String),
    /// All names that end with this, which begins with a dot.
    Below(String),
}

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// True if the connection is encrypted.
    pub is_https: bool,
    /// The name or the address, in lower case and without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// True if the scheme has this port by default.
    is_default_port: bool,
}

/// The forms that an [`AllowedHost`] may have.
pub(super) const HOST_FORMS: &str = "HOST, HOST:PORT, *.DOMAIN nor *.DOMAIN:PORT";

/// A value of `--check-hosts` that is no host.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is neither {HOST_FORMS}")]
pub struct MalformedHost(String);

impl FromStr for AllowedHost {
    type Err = MalformedHost;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedHost(text.to_owned());
        let (host, port) = match text.rsplit_once(':') {
            // Of an IPv6 address without brackets it is not known where it ends.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => {
                let _: Ipv6Addr = unbracketed(text).parse().map_err(|_| malformed())?;
                (text, None)
            }
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(malformed)?;
                (host, Some(port))
            }
            Some(_) | None => (text, None),
        };
        let host = unbracketed(host).to_ascii_lowercase();
        let (name, plain) = match host.strip_prefix('*') {
            Some(domain) => (Name::Below(domain.to_owned()), domain.strip_prefix('.')),
            None => (Name::Exact(host.clone()), Some(&*host)),
        };
        let is_name = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let ends = name.bytes().next().zip(name.bytes().next_back());
            ends.is_some_and(|(a, z)| a.is_ascii_alphanumeric() && z.is_ascii_alphanumeric())
                && name.bytes().all(is_part)
        };
        let is_host =
            plain.is_some_and(|plain| is_name(plain) || plain.parse::<Ipv6Addr>().is_ok());
        is_host.then_some(Self { name, port }).ok_or_else(malformed)
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Exact(name) if name.contains(':') => write!(f, "[{name}]")?,
            Name::Exact(name) => f.write_str(name)?,
            Name::Below(domain) => write!(f, "*{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl Name {
    fn has(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name == host,
            Self::Below(domain) => host.strip_suffix(domain.as_str()).is_some_and(|below| {
                // An address has no names below it.
                !below.is_empty() && host.parse::<IpAddr>().is_err()
            }),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(host)) => self.has(host),
            (Self::Exact(host), _) => other.has(host),
            (Self::Below(a), Self::Below(b)) => a.ends_with(b) || b.ends_with(a),
        }
    }
}

impl AllowedHost {
    pub(super) fn allows(&self, target: &Target) -> bool {
        let has_port = match self.port {
            Some(port) => port == target.port,
            None => target.is_default_port,
        };
        has_port && self.name.has(&target.host)
    }

    /// True if there is a URL that both allow.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let has_port = match (self.port, other.port) {
            (Some(a), Some(b)) => a == b,
            (Some(port), None) | (None, Some(port)) => port == HTTP_PORT || port == HTTPS_PORT,
            (None, None) => true,
        };
        has_port && self.name.overlaps(&other.name)
    }
}

impl Hosts {
    /// Refuses a URL that may not be asked.
    ///
    /// # Errors
    /// What to do about it.
    pub fn check(&self, target: &Target) -> Result<(), String> {
        match self {
            Self::Any => Ok(()),
            Self::Allowed(hosts) if hosts.iter().any(|host| host.allows(target)) => Ok(()),
            Self::Allowed(_) => Err(format!(
                "host {target} is not allowed: everynode run --check-hosts {target} would allow it"
            )),
        }
    }
}

impl Target {
    /// Where a URL leads.
    ///
    /// # Errors
    /// If it is none, or none of http or https, or has credentials.
    pub fn from_url(url: &Uri) -> Result<Self, String> {
        let is_https = match url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err("the URL is neither http nor https".to_owned()),
        };
        let authority = url.authority().ok_or("the URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("the URL has credentials".to_owned());
        }
        let host = unbracketed(authority.host()).to_ascii_lowercase();
        let default_port = if is_https { HTTPS_PORT } else { HTTP_PORT };
        let port = authority.port_u16().unwrap_or(default_port);
        Ok(Self { is_https, host, port, is_default_port: port == default_port })
    }

    /// The address, if the URL has one instead of a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Refuses an address of the host that may not be connected to.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check_address(&self, address: IpAddr) -> Result<(), String> {
        let embedded = embedded(address);
        let Some(why) = refusal(address).or_else(|| refusal(embedded)) else { return Ok(()) };
        // Its own services listen there, which whoever allows the machine by name means.
        let is_meant = self.host == "localhost" || self.address() == Some(address);
        match why == LOOPBACK && is_meant {
            true => Ok(()),
            false => Err(format!("{} has the address {address}, {why}", self.host)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Some(IpAddr::V4(_)) | None => f.write_str(&self.host)?,
        }
        if self.is_default_port { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

const LOOPBACK: &str =
    "that of the machine itself, which must be allowed as an address or localhost";
const METADATA: &str = "at which clouds have credentials";
const NO_HOST: &str = "which is not that of a host";

/// Addresses of clouds' metadata outside the link-local ones.
const METADATA_V4: [Ipv4Addr; 3] = [
    // Alibaba.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure.
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle.
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 2] = [
    // Amazon.
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    // Google.
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) if v4.is_link_local() || METADATA_V4.contains(&v4) => Some(METADATA),
        IpAddr::V6(v6) if v6.is_unicast_link_local() || METADATA_V6.contains(&v6) => Some(METADATA),
        IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.is_broadcast() => Some(NO_HOST),
        _ if address.is_unspecified() || address.is_multicast() => Some(NO_HOST),
        _ if address.is_loopback() => Some(LOOPBACK),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// The IPv4 address in an IPv6 one that leads to it: mapped, compatible, by NAT64 or by 6to4.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            of(high, low)
        }
        [0x2002, high, low, ..] => of(high, low),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::from_url(&url.parse().expect("a URI")).expect("a target")
    }

    fn allows(hosts: &[&str], url: &str) -> bool {
        let hosts = hosts.iter().map(|host| host.parse().expect("a host")).collect();
        Hosts::Allowed(hosts).check(&target(url)).is_ok()
    }

    /// G24: a host is allowed by its name and port, or by its domain; without a port, by the port
    /// of the scheme.
    #[test]
    fn only_what_is_named_is_allowed() {
        let named =
            ["prometheus.monitoring:9090", "gate.example", "[fd00::1]:80", "*.obs.svc:9090"];
        for url in [
            "http://prometheus.monitoring:9090/x",
            "http://PROMETHEUS.monitoring:9090",
            "http://gate.example/a",
            "https://gate.example:443/a",
            "http://[fd00:0::1]/",
            "http://a.obs.svc:9090",
            "http://b.a.obs.svc:9090",
        ] {
            assert_eq!(allows(&named, url), !url.contains("fd00:0"), "{url}");
        }
        for url in [
            "http://prometheus.monitoring/",
            "https://prometheus.monitoring/",
            "http://prometheus.monitoring.evil:9090",
            "http://gate.example:8080",
            "https://gate.example.:443",
            "http://[fd00::2]",
            "http://obs.svc:9090",
            "http://xobs.svc:9090",
            "http://a.obs.svc",
        ] {
            assert!(!allows(&named, url), "{url}");
        }
        assert!(!allows(&[], "http://a"));
        assert!(!allows(&["*.0.0.1"], "http://127.0.0.1"), "an address has no domain");
        let why = Hosts::Allowed(Vec::new()).check(&target("http://p.m:9090/a?b")).unwrap_err();
        let hint =
            "host p.m:9090 is not allowed: everynode run --check-hosts p.m:9090 would allow it";
        assert_eq!(why, hint);
        assert_eq!(target("http://[fd00::1]:81").to_string(), "[fd00::1]:81");
        assert_eq!(target("https://a:443").to_string(), "a");
    }

    /// G46: two hosts overlap if one URL can have both.
    #[test]
    fn hosts_of_the_same_urls_overlap() {
        let overlap = |a: &str, b: &str| {
            let (a, b): (AllowedHost, AllowedHost) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(a.overlaps(&b), b.overlaps(&a), "{a} {b}");
            a.overlaps(&b)
        };
        for (a, b) in [
            ("a.b", "A.b"),
            ("a.b", "a.b:443"),
            ("a.b", "a.b:80"),
            ("a.b:1", "*.b:1"),
            ("*.b", "*.a.b"),
            ("*.b", "*.b"),
            ("[fd00::1]", "fd00::1"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("a.b", "b.b"),
            ("a.b", "a.b:8443"),
            ("a.b:1", "a.b:2"),
            ("b", "*.b"),
            ("xb", "*.b"),
            ("*.b", "*.xb"),
            ("1.2.3.4", "*.3.4"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }

    /// G24: what names no host is refused, and what is allowed is shown as it was written.
    #[test]
    fn an_option_that_names_no_host_is_refused() {
        for text in ["a", "a:80", "1.2.3.4:80", "[fd00::1]:80", "*.a.b", "*.a:1", "localhost:65535"]
        {
            let host: AllowedHost = text.parse().unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(host.to_string(), text);
        }
        assert_eq!("fd00::1".parse::<AllowedHost>().unwrap().to_string(), "[fd00::1]");
        for text in [
            "", "*", "*:80", "*.", "*a", "a.*", "http://a", "a/b", "a:0", "a:65536", "a:b", ":80",
            "a b", "u@a", "[::1", "a,b", "-a", "a.", "[a]:b:c", "fd00::g",
        ] {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }

    /// G24: no name leads to an address of metadata, whatever form the address has, nor to one that
    /// no host has; to the machine itself only if that was named.
    #[test]
    fn addresses_that_no_check_needs_are_refused() {
        let prometheus = target("http://prometheus.monitoring:9090");
        for address in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:169.254.169.254",
            "::ffff:100.100.100.200",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.0.1",
            "::",
            "::ffff:0.0.0.0",
            "ff02::1",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            let address = address.parse().expect("an address");
            let why = prometheus.check_address(address).expect_err("it is refused");
            assert!(why.starts_with("prometheus.monitoring has the address "), "{why}");
            // Nor if the policy has the address itself, unless it is that of the machine.
            let literal = match address {
                IpAddr::V4(v4) => target(&format!("http://{v4}")),
                IpAddr::V6(v6) => target(&format!("http://[{v6}]")),
            };
            let is_loopback = address.is_loopback() || embedded(address).is_loopback();
            assert_eq!(literal.check_address(address).is_ok(), is_loopback, "{address}");
        }
        for address in
            ["10.0.0.1", "192.168.1.1", "172.16.0.9", "fd00::1", "2001:db8::1", "8.8.8.8"]
        {
            assert_eq!(prometheus.check_address(address.parse().unwrap()), Ok(()));
        }
        let localhost = target("http://localhost:9090");
        assert!(localhost.check_address("127.0.0.1".parse().unwrap()).is_ok());
        assert!(localhost.check_address("::1".parse().unwrap()).is_ok());
        assert!(localhost.check_address("169.254.169.254".parse().unwrap()).is_err());
        // Numbers that some resolvers take for addresses are names here.
        for name in ["2130706433", "0x7f000001", "127.1"] {
            let target = target(&format!("http://{name}"));
            assert_eq!(target.address(), None);
            assert!(target.check_address("127.0.0.1".parse().unwrap()).is_err(), "{name}");
        }
    }

    /// G24: only http and https, and no credentials.
    #[test]
    fn other_urls_have_no_target() {
        for url in ["ftp://a", "a", "/a", "http://u:p@a/", "http://u@a"] {
            assert!(Target::from_url(&url.parse().expect("a URI")).is_err(), "{url}");
        }
    }
}
