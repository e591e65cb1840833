//! Checks of hosts that have credentials.

use std::fs::write;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use tempfile::TempDir;

use super::*;

const TOKEN: &str = "eyJhbGciOi.s3cr3t";

/// A server of HTTPS that passes requests with this header, and the files of its credentials.
struct Guarded {
    address: SocketAddr,
    directory: TempDir,
}

impl Guarded {
    /// A server that passes requests with this header, and answers those without it as is said.
    async fn start(authorization: String, otherwise: fn(&str) -> String) -> Self {
        let (address, certificate) = serve_tls(move |request| {
            let is_it = request.lines().any(|line| line == authorization);
            let passed = "HTTP/1.1 204 No Content\r\n\r\n";
            if is_it { passed.to_owned() } else { otherwise(request) }
        })
        .await;
        let guarded = Self { address, directory: TempDir::new().unwrap() };
        guarded.put("ca.pem", &certificate.pem());
        guarded
    }

    fn put(&self, name: &str, content: &str) {
        write(self.directory.path().join(name), content).unwrap();
    }

    /// A runner with these credentials for the server.
    fn runner(&self, fields: &str) -> Runner<Objects> {
        let yaml = format!("- {{host: '{}', {fields}}}", self.address);
        self.put("credentials.yaml", &yaml);
        let credentials = Credentials::read(&self.directory.path().join("credentials.yaml"));
        Runner::new(Hosts::Any, trusting(None), credentials.unwrap(), Objects::default())
    }

    async fn status(&self, runner: &Runner<Objects>, scheme: &str) -> (CheckVerdict, String) {
        let url = format!("{scheme}://{}/", self.address).into();
        let said = runner.answer(&question(CheckKind::Http { url })).await;
        (said.verdict, said.text.to_string())
    }
}

fn forbidden(_request: &str) -> String {
    "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned()
}

/// G46: a token is sent to its host, by https alone, and read anew for each question. One that is
/// missing says nothing but where it should be.
#[tokio::test]
async fn a_token_is_read_for_each_question() {
    let guarded = Guarded::start(format!("authorization: Bearer {TOKEN}"), forbidden).await;
    guarded.put("token", "another");
    let runner = guarded.runner("bearerTokenFile: token, caFile: ca.pem");
    let unauthorized = (CheckVerdict::Unknown, "401 Unauthorized".to_owned());
    assert_eq!(guarded.status(&runner, "https").await, unauthorized);
    guarded.put("token", &format!("{TOKEN}\n"));
    let passed = (CheckVerdict::Passed, "204 No Content".to_owned());
    assert_eq!(guarded.status(&runner, "https").await, passed);

    let plain = format!(
        "host {} has credentials (--check-credentials), which are sent by https only",
        guarded.address
    );
    assert_eq!(guarded.status(&runner, "http").await, (CheckVerdict::Unknown, plain));

    let path = guarded.directory.path().join("token");
    let large = format!("{TOKEN}{}", "x".repeat(16 << 10));
    let (empty, spaces) = (" \n", format!("{TOKEN} {TOKEN}"));
    for (content, problem) in [
        (&*large, "it is larger than 16 KiB"),
        (empty, "it must have one token of ASCII characters"),
        (&*spaces, "it must have one token of ASCII characters"),
    ] {
        guarded.put("token", content);
        let text = format!("bearerTokenFile {}: {problem}", path.display());
        assert_eq!(guarded.status(&runner, "https").await, (CheckVerdict::Unknown, text));
    }
    std::fs::remove_file(&path).unwrap();
    let (verdict, text) = guarded.status(&runner, "https").await;
    assert_eq!(verdict, CheckVerdict::Unknown);
    let missing = format!("bearerTokenFile {}: No such file", path.display());
    assert!(text.starts_with(&missing), "{text}");
}

/// G46: a user and a password are sent as HTTP has them.
#[tokio::test]
async fn a_user_and_a_password_are_sent() {
    let header = format!("authorization: Basic {}", BASE64_STANDARD.encode("me:a:s3cr3t "));
    let guarded = Guarded::start(header, forbidden).await;
    guarded.put("auth", "me:a:s3cr3t \r\n");
    let runner = guarded.runner("basicAuthFile: auth, caFile: ca.pem");
    assert_eq!(guarded.status(&runner, "https").await.0, CheckVerdict::Passed);
}

/// G46: the authorities of a host count instead of those of the machine, and other hosts keep
/// theirs and get nothing.
#[tokio::test]
async fn a_host_has_its_own_authorities() {
    let guarded = Guarded::start(String::new(), forbidden).await;
    let (verdict, text) = guarded.status(&guarded.runner("caFile: ca.pem"), "https").await;
    assert_eq!((verdict, &*text), (CheckVerdict::Passed, "204 No Content"));
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    guarded.put("other.pem", &other.cert.pem());
    let (_, text) = guarded.status(&guarded.runner("caFile: other.pem"), "https").await;
    assert!(text.starts_with("TLS: "), "{text}");

    let seen = Arc::new(Mutex::new(String::new()));
    let heard = seen.clone();
    let (address, certificate) = serve_tls(move |request| {
        heard.lock().unwrap().push_str(request);
        forbidden(request)
    })
    .await;
    guarded.put("token", TOKEN);
    let yaml = "- {host: prometheus.monitoring, bearerTokenFile: token}";
    guarded.put("credentials.yaml", yaml);
    let credentials = Credentials::read(&guarded.directory.path().join("credentials.yaml"));
    let tls = trusting(Some(&certificate));
    let runner = Runner::new(Hosts::Any, tls, credentials.unwrap(), Objects::default());
    let url = format!("https://{address}/").into();
    let said = runner.answer(&question(CheckKind::Http { url })).await;
    assert_eq!(&*said.text, "401 Unauthorized");
    let seen = seen.lock().unwrap().to_lowercase();
    assert!(seen.starts_with("get / ") && !seen.contains("authorization"), "{seen}");
}

fn redirect(request: &str) -> String {
    let sent = request.lines().find_map(|line| line.strip_prefix("authorization: "));
    let secret = sent.and_then(|sent| sent.split_once(' ')).map_or("", |(_, secret)| secret);
    format!("HTTP/1.1 302 Found\r\nlocation: /?token={secret}\r\ncontent-length: 0\r\n\r\n")
}

fn error(request: &str) -> String {
    let sent = request.lines().find_map(|line| line.strip_prefix("authorization: "));
    let secret = sent.and_then(|sent| sent.split_once(' ')).map_or("", |(_, secret)| secret);
    let plain = BASE64_STANDARD.decode(secret).ok().and_then(|it| String::from_utf8(it).ok());
    let error = format!("who is {}?", plain.as_deref().unwrap_or(secret));
    let body = json!({ "status": "error", "errorType": "x", "error": error }).to_string();
    let length = body.len();
    format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// G46: nothing of what was sent is stated, even if the server sends it back.
#[tokio::test]
async fn credentials_that_a_server_repeats_are_not_stated() {
    for otherwise in [redirect, error] {
        let guarded = Guarded::start("nobody".to_owned(), otherwise).await;
        guarded.put("token", TOKEN);
        guarded.put("auth", "me:s3cr3t");
        for field in ["bearerTokenFile: token", "basicAuthFile: auth"] {
            let runner = guarded.runner(&format!("{field}, caFile: ca.pem"));
            let url = format!("https://{}/", guarded.address);
            let query = runner.answer(&prometheus(url)).await;
            let (verdict, text) = guarded.status(&runner, "https").await;
            assert_eq!((verdict, query.verdict), (CheckVerdict::Unknown, CheckVerdict::Unknown));
            let (says, repeats) =
                (format!("{text} {}", query.text), "the answer has the credential");
            assert!(says.contains(repeats), "{says}");
            for secret in ["s3cr3t", &BASE64_STANDARD.encode("me:s3cr3t")] {
                assert!(!says.contains(secret), "{says}");
                let shown = format!("{:?}", runner.http);
                assert!(!shown.contains(secret), "{shown}");
            }
        }
    }
}

fn refusal_of_yaml(directory: &Path, yaml: &str) -> String {
    let path = directory.join("credentials.yaml");
    write(&path, yaml).unwrap();
    let why = Credentials::read(&path).expect_err(yaml).to_string();
    let file = format!("--check-credentials {}: ", path.display());
    why.strip_prefix(&file).unwrap_or_else(|| panic!("{why}")).to_owned()
}

/// G46: a file that cannot be used is refused at start, with the entry and the field, and without
/// any value, which may be a secret in the wrong place.
#[test]
fn a_malformed_file_is_refused() {
    let directory = TempDir::new().unwrap();
    let put = |name: &str, content: &str| write(directory.path().join(name), content).unwrap();
    put("token", TOKEN);
    put("s3cr3t-auth", "s3cr3t");
    put("s3cr3t-pem", "-----BEGIN CERTIFICATE-----\ns3cr3t!\n-----END CERTIFICATE-----\n");
    put("s3cr3t-der", "-----BEGIN CERTIFICATE-----\nczNjcjN0\n-----END CERTIFICATE-----\n");
    for (yaml, expected) in [
        (TOKEN, "it must be a list"),
        ("host: s3cr3t", "it must be a list"),
        ("- {host: a, host: s3cr3t}", "it is no valid YAML: line 1, column 13"),
        ("- host: [s3cr3t", "it is no valid YAML: line "),
        ("- s3cr3t", "entry 1: it must be a mapping"),
        ("- {bearerTokenFile: token}", "entry 1: host is missing"),
        ("- {host: ''}", "entry 1: host must be text"),
        (
            "- {host: 'https://u:s3cr3t@a'}",
            "entry 1: host is neither HOST, HOST:PORT, *.DOMAIN nor *.DOMAIN:PORT",
        ),
        (
            "- {host: a, bearerToken: s3cr3t}",
            "entry 1: \"bearerToken\" is an unknown field: known are host, bearerTokenFile, \
             basicAuthFile, caFile",
        ),
        (
            "- {0123456789012345678901234567890123456789s3cr3t: a}",
            "entry 1: \"0123456789012345678901234567890123456789\" is an unknown field: ",
        ),
        (
            "- {host: a}",
            "entry 1: host a: it has none of bearerTokenFile, basicAuthFile and caFile",
        ),
        ("- {host: a, bearerTokenFile: 5}", "entry 1: host a: bearerTokenFile must be text"),
        (
            "- {host: a, bearerTokenFile: token, basicAuthFile: s3cr3t}",
            "entry 1: host a: it has both bearerTokenFile and basicAuthFile",
        ),
        (
            "- {host: b, bearerTokenFile: token}\n- {host: 'a:1', bearerTokenFile: s3cr3t}",
            "entry 2: host a:1: bearerTokenFile: No such file",
        ),
        ("- {host: a, bearerTokenFile: /}", "entry 1: host a: bearerTokenFile: it is not a"),
        (
            "- {host: a, basicAuthFile: s3cr3t-auth}",
            "entry 1: host a: basicAuthFile: it must have one line with USER:PASSWORD",
        ),
        ("- {host: a, caFile: s3cr3t}", "entry 1: host a: caFile: No such file"),
        ("- {host: a, caFile: token}", "entry 1: host a: caFile: it has no certificate in PEM"),
        ("- {host: a, caFile: s3cr3t-pem}", "entry 1: host a: caFile: it is no valid PEM"),
        ("- {host: a, caFile: s3cr3t-der}", "entry 1: host a: caFile: certificate 1 is malformed"),
        (
            "- {host: '*.b', bearerTokenFile: token}\n- {host: 'a.b:443', bearerTokenFile: token}",
            "entry 2: host a.b:443 and host *.b of entry 1 match the same URLs",
        ),
    ] {
        let why = refusal_of_yaml(directory.path(), yaml);
        assert!(why.starts_with(expected), "{yaml}: {why}");
        assert!(!why.contains("s3cr3t"), "{why}");
    }
    let missing = Credentials::read(&directory.path().join("none")).expect_err("it is missing");
    assert!(missing.to_string().contains("/none: No such file"), "{missing}");
    write(directory.path().join("credentials.yaml"), "[]").unwrap();
    assert!(Credentials::read(&directory.path().join("credentials.yaml")).is_ok());
}
