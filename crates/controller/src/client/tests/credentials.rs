//! Credentials that the server no longer accepts.

use std::path::PathBuf;
use std::sync::Mutex;

use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

use super::*;

/// Runs the plugins, because a file that was just written may be too busy to be executed itself.
const SHELL: &str = "/bin/sh";

/// The credential that the server accepts: a token, or the bytes of a certificate.
type Valid = Arc<Mutex<Vec<u8>>>;

fn set(valid: &Valid, what: impl Into<Vec<u8>>) {
    *valid.lock().unwrap() = what.into();
}

/// A server that accepts only the current credentials.
async fn server_accepting(
    valid: &Valid,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> SocketAddr {
    let valid = valid.clone();
    server(tls(&["h2"], clients), move |request, certificate| {
        let token = request.headers().get(header::AUTHORIZATION);
        let token = token.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if certificate.or(token) == Some(&*valid.lock().unwrap()) {
            return Response::new("hello".to_owned());
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        });
        let mut response = Response::new(status.to_string());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response
    })
    .await
}

/// A directory with a kubeconfig for a user with these credentials.
struct TestHome(tempfile::TempDir);

impl TestHome {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn kubeconfig(&self, server: SocketAddr, user: &serde_json::Value) -> PathBuf {
        let cluster =
            json!({"server": format!("https://{server}"), "insecure-skip-tls-verify": true});
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": cluster}],
            "users": [{"name": "a", "user": user}],
        });
        self.write("kubeconfig", &kubeconfig.to_string())
    }

    fn client(&self, server: SocketAddr, user: &serde_json::Value) -> Client {
        let kubeconfig = Some(self.kubeconfig(server, user));
        let config = config(&Location { kubeconfig, ..Location::default() }).unwrap();
        client(&config, Pings::default()).unwrap()
    }

    /// An exec plugin that prints the contents of the file `status` and records each run.
    fn plugin(&self) -> serde_json::Value {
        let directory = self.0.path().display();
        let kind = concat!(
            r#"{"apiVersion": "client.authentication.k8s.io/v1", "#,
            r#""kind": "ExecCredential", "status":"#,
        );
        let script = format!(
            "echo run >> {directory}/runs\n\
             printf '%s' '{kind} '\n\
             cat {directory}/status\n\
             echo '}}'\n"
        );
        let path = self.write("plugin", &script);
        json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": SHELL, "args": [path],
            "interactiveMode": "Never",
        }})
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
            status.message
        }
        other => panic!("{other:?}"),
    }
}

/// C83: an exec plugin is run again when its token expires without notice, once for all requests,
/// and the request is repeated. While the server accepts none of its tokens it is run at most every
/// ten seconds, and the error names it.
#[tokio::test]
async fn an_exec_plugin_is_run_again_when_its_token_runs_out() {
    let (home, valid) = (TestHome::new(), Valid::default());
    let server = server_accepting(&valid, None).await;
    set(&valid, "first");
    home.write("status", r#"{"token": "first"}"#);
    let client = home.client(server, &home.plugin());
    assert_eq!(get(&client).await.unwrap(), "hello");
    assert_eq!(home.runs(), 1);
    set(&valid, "second");
    home.write("status", r#"{"token": "second"}"#);
    let answers = futures::future::join_all((0..20).map(|_| get(&client))).await;
    assert!(answers.iter().all(|answer| answer.as_deref().ok() == Some("hello")), "{answers:?}");
    assert_eq!(home.runs(), 2);
    set(&valid, "third");

    let refused = format!(
        "the server does not accept the credentials of kubeconfig {} (exec plugin {SHELL})",
        home.path("kubeconfig").display()
    );
    for _ in 0..20 {
        assert_eq!(message(get(&client).await.unwrap_err()), refused);
    }
    assert!(home.runs() <= 3, "{} runs", home.runs());
}

/// C83: the error of an exec plugin has its standard error, but neither its arguments, its
/// environment nor its standard output, which may contain secrets.
#[tokio::test]
async fn a_failed_plugin_is_named_without_its_secrets() {
    let (home, valid) = (TestHome::new(), Valid::default());
    let server = server_accepting(&valid, None).await;
    set(&valid, "other");
    home.write("status", r#"{"token": "secret"}"#);
    let client = home.client(server, &home.plugin());
    home.write("plugin", "echo secret\necho log in >&2\necho again >&2\nexit 3\n");
    let message = message(get(&client).await.unwrap_err());

    let cause = format!(
        ", and they can't be renewed: exec plugin {SHELL} ended with exit status: 3: log in again"
    );
    assert!(message.ends_with(&cause), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

/// C83: the same holds when the plugin is run because its token is about to expire.
#[tokio::test]
async fn a_plugin_that_fails_before_its_token_expires_is_named_as_well() {
    let (home, valid) = (TestHome::new(), Valid::default());
    let server = server_accepting(&valid, None).await;
    home.write("status", r#"{"token": "secret", "expirationTimestamp": "2020-01-01T00:00:00Z"}"#);
    let client = home.client(server, &home.plugin());
    home.write("plugin", "echo secret\necho log in again >&2\nexit 3\n");
    let error = one_line(&get(&client).await.unwrap_err());

    let cause = format!("exec plugin {SHELL} ended with exit status: 3: log in again");
    assert!(error.ends_with(&cause) && !error.contains("secret"), "{error}");
}

/// C83: a plugin that prints a token with a line break, or does not stop printing, is an error that
/// names it and has none of its output.
#[test]
fn what_a_plugin_prints_has_limits() {
    let (home, server) = (TestHome::new(), "127.0.0.1:1".parse().unwrap());
    let failure = || {
        let kubeconfig = Some(home.kubeconfig(server, &home.plugin()));
        let config = config(&Location { kubeconfig, ..Location::default() }).unwrap();
        client(&config, Pings::default()).map(drop).unwrap_err().to_string()
    };
    home.write("status", r#"{"token": "secret\nX-Remote-User: admin"}"#);
    let line_break = failure();
    assert!(line_break.contains("exec plugin /bin/sh printed a token: it has a line break"));
    assert!(!line_break.contains("secret"), "{line_break}");
    home.write("status", &"secret ".repeat(200_000));
    let endless = failure();
    assert!(endless.ends_with("exec plugin /bin/sh printed more than 1 MiB"), "{endless}");
}

/// C83: a server's address without a scheme is an error that names the field, and not the password.
#[test]
fn a_server_without_a_scheme_is_refused() {
    let home = TestHome::new();
    for server in ["user:secret@10.0.0.1:6443", "10.0.0.1:6443"] {
        let path = home.write(
            "config",
            &json!({
                "current-context": "c", "users": [],
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
            })
            .to_string(),
        );
        let error = config(&Location { kubeconfig: Some(path), ..Location::default() });
        let error = error.map(drop).expect_err(server).to_string();
        assert!(error.contains(": server: ") && !error.contains("secret"), "{error}");
    }
}

/// C83: the client certificate of an exec plugin is renewed like a token.
#[tokio::test]
async fn an_exec_plugins_client_certificate_is_renewed() {
    let (home, valid) = (TestHome::new(), Valid::default());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
    let server = server_accepting(&valid, Some(verifier.build().unwrap())).await;
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &issuer).unwrap();
        let status = json!({
            "clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem(),
        });
        home.write("status", &status.to_string());
        set(&valid, certificate.der().to_vec());
    };
    issue("first");
    let client = home.client(server, &home.plugin());
    assert_eq!(get(&client).await.unwrap(), "hello");
    issue("second");
    assert_eq!(get(&client).await.unwrap(), "hello");
}

/// C83: a changed token file or kubeconfig is read again when the server refuses the old
/// credentials; a kubeconfig that now names another server is not used.
#[tokio::test]
async fn changed_files_are_read_again() {
    let (home, valid) = (TestHome::new(), Valid::default());
    let server = server_accepting(&valid, None).await;
    let token = home.write("token", "first");
    set(&valid, "first");
    let client = home.client(server, &json!({"tokenFile": token}));
    assert_eq!(get(&client).await.unwrap(), "hello");
    set(&valid, "second");
    home.write("token", "second");
    assert_eq!(get(&client).await.unwrap(), "hello");

    let client = home.client(server, &json!({"token": "second"}));
    assert_eq!(get(&client).await.unwrap(), "hello");
    set(&valid, "third");
    home.kubeconfig(server, &json!({"token": "third"}));
    assert_eq!(get(&client).await.unwrap(), "hello");

    let client = home.client(server, &json!({"token": "second"}));
    home.kubeconfig("127.0.0.1:1".parse().unwrap(), &json!({"token": "third"}));
    let message = message(get(&client).await.unwrap_err());
    assert!(message.ends_with(" names another server now, https://127.0.0.1:1"), "{message}");
}
