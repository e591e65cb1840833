//! Who may see the pages and act on them: a person who has the token, in a browser that shows a
//! page of this server.
//!
//! The program prints a URL with a token. The first request exchanges it for a cookie, so that the
//! token stays neither in the address bar nor in the history. The cookie applies to a path that is
//! random, too: cookies know no ports, and so a browser would send it to other programs on the
//! same machine otherwise. The server accepts no other name of itself than a loopback address,
//! which keeps out pages whose name somebody points there later (DNS rebinding).

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use subtle::ConstantTimeEq;

/// The policy of every page: content of this server alone, no inline scripts or styles, no frames.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                                       connect-src 'self'; img-src 'self'; form-action 'self'; \
                                       base-uri 'self'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer`, browsers would send no origin with a form.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The operating system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("can't read random numbers: {0}")]
pub struct NoRandomNumbers(getrandom::Error);

/// The secrets of one run of the server, and its names.
pub(super) struct Access {
    /// In the URL that the program prints.
    pub token: Secret,
    /// The value of the cookie.
    cookie: Secret,
    /// In every form.
    pub form: Secret,
    /// The path of all pages: `/3f…/`.
    pub base: String,
    /// The values of `Host` that name this server.
    hosts: Vec<String>,
}

/// A secret of 256 random bits, in hexadecimal. It is never formatted for debugging.
pub(super) struct Secret(String);

impl Secret {
    fn new(bytes: usize) -> Result<Self, NoRandomNumbers> {
        let mut random = vec![0; bytes];
        getrandom::fill(&mut random).map_err(NoRandomNumbers)?;
        Ok(Self(random.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `Host` is not a name of this server.
    Host,
    /// A page of another origin has caused the request.
    Origin,
    /// The cookie or the form's secret is missing.
    Credentials,
    /// The method is neither GET nor POST.
    Method,
}

impl Refusal {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Credentials => StatusCode::UNAUTHORIZED,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Host => "this server has no such name: use the URL that the program has printed",
            Self::Origin => "a page of another origin may not do this",
            Self::Credentials => {
                "the token is missing, or of an earlier run: use the URL that everynode dashboard \
                 has printed"
            }
            Self::Method => "only GET and POST",
        }
    }
}

impl Access {
    pub(super) fn new(port: u16) -> Result<Self, NoRandomNumbers> {
        let mut hosts: Vec<String> =
            ["127.0.0.1", "localhost"].iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            hosts.extend(["127.0.0.1", "localhost"].map(str::to_owned));
        }
        Ok(Self {
            token: Secret::new(32)?,
            cookie: Secret::new(32)?,
            form: Secret::new(32)?,
            base: format!("/{}/", Secret::new(8)?.as_str()),
            hosts,
        })
    }

    /// Checks that the browser knows this server by its own name, which it returns.
    pub(super) fn check_host<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Refusal> {
        let host = one(headers, &header::HOST).unwrap_or_default();
        if self.hosts.iter().any(|known| known == host) { Ok(host) } else { Err(Refusal::Host) }
    }

    /// Checks that no page of another origin has caused a request.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = self.check_host(headers)?;
        let origin = one(headers, &header::ORIGIN);
        let is_own = |origin: &str| origin.strip_prefix("http://") == Some(host);
        let may_act = match *method {
            Method::GET | Method::HEAD => origin.is_none_or(is_own),
            Method::POST => origin.is_some_and(is_own),
            _ => return Err(Refusal::Method),
        };
        let site = one(headers, &HeaderName::from_static("sec-fetch-site"));
        let is_direct = matches!(site, None | Some("same-origin" | "none"));
        if may_act && is_direct { Ok(()) } else { Err(Refusal::Origin) }
    }

    /// Checks that the sender has exchanged the token for the cookie.
    pub(super) fn check_cookie(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let pairs = cookies.filter_map(|value| value.to_str().ok()).flat_map(|it| it.split(';'));
        let named = pairs.filter_map(|pair| pair.trim().strip_prefix("everynode="));
        let mut values = named;
        if values.any(|value| self.cookie.is(value)) { Ok(()) } else { Err(Refusal::Credentials) }
    }

    /// The value of `Set-Cookie`.
    pub(super) fn set_cookie(&self) -> String {
        let (cookie, base) = (self.cookie.as_str(), &self.base);
        format!("everynode={cookie}; Path={base}; HttpOnly; SameSite=Strict")
    }
}

/// The value of a header that occurs once; of one that occurs several times, a value that matches
/// nothing.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return Some("several");
    }
    Some(first.to_str().unwrap_or("unreadable"))
}

/// Adds the headers that every response has.
pub(super) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn checked(method: Method, pairs: &[(&'static str, &str)]) -> Result<(), Refusal> {
        Access::new(8080).unwrap().check(&method, &headers(pairs))
    }

    #[test]
    fn only_loopback_names_of_this_port_are_names_of_the_server() {
        for host in ["127.0.0.1:8080", "localhost:8080"] {
            assert_eq!(checked(Method::GET, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["", "127.0.0.1", "127.0.0.1:8081", "example.com:8080", "localhost:8080."] {
            assert_eq!(checked(Method::GET, &[("host", host)]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(checked(Method::GET, &[]), Err(Refusal::Host));
        let twice = [("host", "127.0.0.1:8080"), ("host", "example.com")];
        let mut both = headers(&twice[..1]);
        both.append(header::HOST, HeaderValue::from_static("example.com"));
        assert_eq!(Access::new(8080).unwrap().check(&Method::GET, &both), Err(Refusal::Host));
    }

    #[test]
    fn a_form_needs_the_own_origin() {
        let host = ("host", "localhost:8080");
        let own = ("origin", "http://localhost:8080");
        assert_eq!(checked(Method::POST, &[host, own]), Ok(()));
        assert_eq!(checked(Method::POST, &[host]), Err(Refusal::Origin));
        for origin in [
            "null",
            "https://localhost:8080",
            "http://localhost:9090",
            // Another name of the same server is another origin.
            "http://127.0.0.1:8080",
            "http://example.com",
        ] {
            for method in [Method::GET, Method::POST] {
                let checked = checked(method, &[host, ("origin", origin)]);
                assert_eq!(checked, Err(Refusal::Origin), "{origin}");
            }
        }
        for (site, expected) in [
            ("same-origin", Ok(())),
            ("none", Ok(())),
            ("same-site", Err(Refusal::Origin)),
            ("cross-site", Err(Refusal::Origin)),
        ] {
            let checked = checked(Method::GET, &[host, ("sec-fetch-site", site)]);
            assert_eq!(checked, expected, "{site}");
        }
        assert_eq!(checked(Method::DELETE, &[host, own]), Err(Refusal::Method));
    }

    #[test]
    fn the_cookie_is_one_of_this_run() {
        let (access, other) = (Access::new(8080).unwrap(), Access::new(8080).unwrap());
        assert_ne!(access.base, other.base);
        let cookie = access.set_cookie();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, format!("Path={}; HttpOnly; SameSite=Strict", access.base));
        let several = format!("a=b; {pair}; c=d");
        for cookie in [pair, &several] {
            let headers = headers(&[("cookie", cookie)]);
            assert_eq!(access.check_cookie(&headers), Ok(()));
            assert_eq!(other.check_cookie(&headers), Err(Refusal::Credentials));
        }
        for cookie in ["", "everynode=", &pair[..pair.len() - 1], &pair["everynode=".len()..]] {
            let checked = access.check_cookie(&headers(&[("cookie", cookie)]));
            assert_eq!(checked, Err(Refusal::Credentials), "{cookie}");
        }
    }
}
