//! Checks against servers that are slow, lie, redirect or never stop, and against an API server
//! with CronJobs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use everynode_core::api::{CheckKind, CheckVerdict, Decimal, JobPresence};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::job::tests::question;
use super::*;
use crate::api::Error;

mod credentials;

/// An API server with these objects, which creates Jobs.
#[derive(Clone, Default)]
struct Objects(Arc<Mutex<BTreeMap<String, Value>>>);

impl Objects {
    fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().insert(path.to_owned(), object);
    }

    fn jobs(&self) -> Vec<Value> {
        let objects = self.0.lock().unwrap();
        let jobs = objects.iter().filter(|(path, _)| path.contains("/jobs/"));
        jobs.map(|(_, job)| job.clone()).collect()
    }
}

fn refusal_of(code: u16, reason: &str) -> Error {
    let (reason, message) = (reason.to_owned(), format!("refused with {code}"));
    Error::Refused { code, reason, message, causes: Vec::new() }
}

impl Server for Objects {
    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        match self.0.lock().unwrap().get(path) {
            Some(Value::Null) => Err(refusal_of(403, "Forbidden")),
            Some(object) => Ok(object.to_string().into()),
            None => Err(refusal_of(404, "NotFound")),
        }
    }

    async fn write(
        &self,
        _method: Method,
        path: &str,
        _content: Content,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        let job: Value = serde_json::from_slice(&body).unwrap();
        let path = format!("{path}/{}", job["metadata"]["name"].as_str().unwrap());
        self.put(&path, job);
        Ok(body)
    }
}

/// A server that answers each connection with this text, and then holds it open or closes it.
async fn serve(answer: impl Fn() -> Vec<u8> + Send + 'static, closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held: Vec<TcpStream> = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            // The client may be gone.
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(&answer()).await;
            if !closes {
                held.push(stream);
            }
        }
    });
    address
}

fn allowing(address: SocketAddr) -> Runner<Objects> {
    let host = address.to_string().parse().expect("an address is a host");
    Runner::new(
        Hosts::Allowed(vec![host]),
        Tls::default(),
        Credentials::default(),
        Objects::default(),
    )
}

async fn http_says(answer: &'static str, closes: bool) -> CheckAnswer {
    let address = serve(move || answer.as_bytes().to_vec(), closes).await;
    let url = format!("http://{address}/gate?a=b").into();
    allowing(address).answer(&question(CheckKind::Http { url })).await
}

fn prometheus(url: String) -> CheckQuestion {
    let max = Decimal::parse("1");
    question(CheckKind::Prometheus { url: url.into(), query: "up".into(), min: None, max })
}

async fn prometheus_says(answer: impl Fn() -> Vec<u8> + Send + 'static) -> CheckAnswer {
    let address = serve(answer, true).await;
    allowing(address).answer(&prometheus(format!("http://{address}/prefix/"))).await
}

/// G24: a server that sends answers 1xx without an end is not read without an end.
#[tokio::test]
async fn informational_answers_are_read_up_to_a_limit() {
    let sent = Arc::new(Mutex::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = sent.clone();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let answers = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(1000);
        while stream.write_all(&answers).await.is_ok() {
            *count.lock().unwrap() += answers.len();
        }
    });
    let url = format!("http://{address}/").into();
    let said = allowing(address).answer(&question(CheckKind::Http { url })).await;
    assert_eq!(said.verdict, CheckVerdict::Unknown, "{}", said.text);
    server.await.unwrap();
    // The rest is in the buffers of the system.
    let sent = *sent.lock().unwrap();
    assert!(sent < 32 << 20, "{sent} bytes");
}

/// G5, G24, G46: the status counts, whatever the rest of the answer is; the body is not read, so
/// that one which never ends, or is shorter than its length says, makes no difference.
#[tokio::test]
async fn a_status_counts_whatever_follows() {
    use CheckVerdict::{Failed, Passed, Unknown};
    for (answer, closes, verdict, text) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true, Passed, "200 OK"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\nx", false, Passed, "200 OK"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz", true, Passed, "200 OK"),
        ("HTTP/1.0 204 No Content\r\n\r\n", true, Passed, "204 No Content"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", true, Failed, "404 Not Found"),
        (
            "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n",
            true,
            Unknown,
            "429 Too Many Requests",
        ),
        ("HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n", true, Unknown, "503 Service Unavailable"),
        (
            "HTTP/1.1 307 x\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
            true,
            Unknown,
            "307 Temporary Redirect, and redirects are not followed: http://169.254.169.254/",
        ),
    ] {
        let said = http_says(answer, closes).await;
        assert_eq!((said.verdict, &*said.text), (verdict, text));
    }
    for (answer, closes) in
        [("", true), ("hello\r\n\r\n", true), ("HTTP/1.1 two hundred\r\n\r\n", true)]
    {
        let said = http_says(answer, closes).await;
        assert_eq!(said.verdict, Unknown, "{answer:?}: {}", said.text);
    }
    let head: &str = Box::leak(format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 20)).into());
    assert_eq!(http_says(head, true).await.verdict, Unknown);
}

/// G24: a server that answers nothing, or slowly, costs some seconds.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_has_a_timeout() {
    for answer in ["", "HTTP/1.1 200 OK\r\n"] {
        let started = tokio::time::Instant::now();
        let said = http_says(answer, false).await;
        assert_eq!((said.verdict, &*said.text), (CheckVerdict::Unknown, "no answer within 10s"));
        assert!(started.elapsed() < Duration::from_secs(11));
    }
}

/// G5, G24: the value of a query counts; an answer that is too long is not read to its end, and one
/// that is cut off does not count.
#[tokio::test]
async fn the_value_of_a_query_counts() {
    let body = |value: &str| {
        let data = json!({ "resultType": "vector", "result": [{ "value": [1, value] }] });
        json!({ "status": "success", "data": data }).to_string()
    };
    let answer = |body: String, length: usize| {
        move || format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
    };
    for (value, verdict) in [("0.5", CheckVerdict::Passed), ("2", CheckVerdict::Failed)] {
        let body = body(value);
        let length = body.len();
        assert_eq!(prometheus_says(answer(body, length)).await.verdict, verdict);
    }
    let cut = prometheus_says(answer(body("2"), 10_000)).await;
    assert_eq!(cut.verdict, CheckVerdict::Unknown);
    assert!(cut.text.starts_with("the answer cannot be read: "), "{}", cut.text);
    let garbage = prometheus_says(answer("fine".to_owned(), 4)).await;
    assert_eq!(&*garbage.text, "the answer is not that of a Prometheus server");

    let started = Instant::now();
    let endless = || {
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n".to_vec();
        answer.resize(8 << 20, b' ');
        answer
    };
    let said = prometheus_says(endless).await;
    assert_eq!(&*said.text, "the answer cannot be read: length limit exceeded");
    assert!(started.elapsed() < Duration::from_secs(5), "it was read to its end");
}

/// G5: the query is a form at the path of the API below that of the URL.
#[tokio::test]
async fn a_query_is_sent_as_a_form() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asking = tokio::spawn(async move {
        allowing(address).answer(&prometheus(format!("http://{address}/prefix/"))).await
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"query=up&timeout=10s") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "{request:?}");
    }
    drop(stream);
    let request = String::from_utf8(request).unwrap();
    assert!(request.starts_with("POST /prefix/api/v1/query HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {address}\r\n")), "{request}");
    assert_eq!(asking.await.unwrap().verdict, CheckVerdict::Unknown);
}

/// G24: nothing is sent to a host that is not allowed, nor to an address of metadata or of the
/// machine itself, in whatever form the URL has it.
#[tokio::test]
async fn nothing_is_sent_to_hosts_that_are_not_allowed() {
    let address = serve(|| b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), true).await;
    let port = address.port();
    let ask = async |hosts: &[String], url: String| {
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let runner = Runner::new(
            Hosts::Allowed(hosts),
            Tls::default(),
            Credentials::default(),
            Objects::default(),
        );
        let said = runner.answer(&question(CheckKind::Http { url: url.into() })).await;
        (said.verdict, said.text.to_string())
    };
    let url = format!("http://127.0.0.1:{port}/");
    let (verdict, text) = ask(&[], url.clone()).await;
    assert_eq!(verdict, CheckVerdict::Unknown);
    let hint = format!("everynode run --check-hosts 127.0.0.1:{port} would allow it");
    assert!(text.ends_with(&hint), "{text}");
    assert_eq!(ask(&["127.0.0.1".to_owned()], url.clone()).await.0, CheckVerdict::Unknown);
    assert_eq!(ask(&[address.to_string()], url).await.0, CheckVerdict::Passed);
    // Resolvers take these for 127.0.0.1 and 169.254.169.254.
    for host in ["2130706433", "0x7f000001", "2852039166", "0xa9fea9fe", "169.254.169.254"] {
        let allowed = format!("{host}:{port}");
        let (verdict, text) =
            ask(std::slice::from_ref(&allowed), format!("http://{allowed}/")).await;
        assert_eq!(verdict, CheckVerdict::Unknown, "{host}: {text}");
        let is_refused = text.contains("credentials") || text.contains("the machine itself");
        assert!(is_refused || text.starts_with("look up"), "{host}: {text}");
    }
    let mapped = format!("[::ffff:169.254.169.254]:{port}");
    let (_, text) = ask(std::slice::from_ref(&mapped), format!("http://{mapped}/")).await;
    assert!(text.contains("at which clouds have credentials"), "{text}");
}

/// A server of HTTPS that answers each request with this text, and its certificate.
async fn serve_tls(
    answer: impl Fn(&str) -> String + Send + 'static,
) -> (SocketAddr, rcgen::Certificate) {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, secret) = (key.cert.der().clone(), key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], secret.try_into().unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = [0; 4096];
            let length = stream.read(&mut head).await.unwrap_or_default();
            let answer = answer(&String::from_utf8_lossy(&head[..length]));
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, key.cert)
}

fn trusting(certificate: Option<&rcgen::Certificate>) -> Tls {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(certificate.map(|it| it.der().clone()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Tls::with_config(tls)
}

/// G24: a certificate that nobody vouches for is refused.
#[tokio::test]
async fn certificates_are_verified() {
    let (address, certificate) =
        serve_tls(|_| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let ask = async |tls: Tls| {
        let host = address.to_string().parse().unwrap();
        let hosts = Hosts::Allowed(vec![host]);
        let runner = Runner::new(hosts, tls, Credentials::default(), Objects::default());
        let url = format!("https://{address}/").into();
        runner.answer(&question(CheckKind::Http { url })).await
    };
    assert_eq!(ask(trusting(Some(&certificate))).await.verdict, CheckVerdict::Passed);
    let refused = ask(trusting(None)).await;
    assert_eq!(refused.verdict, CheckVerdict::Unknown);
    assert!(refused.text.starts_with("TLS: "), "{}", refused.text);
}

fn smoke() -> CheckQuestion {
    question(CheckKind::CronJob("smoke-test".into()))
}

/// G5: a Job is created once for each attempt; a controller that starts finds it.
#[tokio::test]
async fn a_job_is_created_once() {
    let objects = Objects::default();
    let runner = Runner::new(
        Hosts::Allowed(Vec::new()),
        Tls::default(),
        Credentials::default(),
        objects.clone(),
    );
    let missing = runner.answer(&smoke()).await;
    assert_eq!(&*missing.text, "cronjob logging/smoke-test does not exist");
    let cron_job = json!({ "metadata": { "name": "smoke-test", "uid": "u" },
        "spec": { "jobTemplate": { "spec": { "backoffLimit": 0 } } } });
    objects.put("/apis/batch/v1/namespaces/logging/cronjobs/smoke-test", cron_job);
    let created = runner.answer(&smoke()).await;
    assert_eq!((created.verdict, created.job), (CheckVerdict::Unknown, JobPresence::Exists));
    for _ in 0..2 {
        let running = runner.answer(&smoke()).await;
        assert_eq!((running.verdict, running.job), (CheckVerdict::Unknown, JobPresence::Exists));
    }
    let [mut job] = <[Value; 1]>::try_from(objects.jobs()).expect("one job");
    let name = job["metadata"]["name"].as_str().expect("a name").to_owned();
    job["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    objects.put(&job::path(&smoke().daemon_set, &name), job);
    assert_eq!(runner.answer(&smoke()).await.verdict, CheckVerdict::Passed);

    // Somebody deletes it: that is said, and nothing is created by that answer.
    objects.0.lock().unwrap().retain(|path, _| !path.contains("/jobs/"));
    let gone = runner.answer(&CheckQuestion { has_job: true, ..smoke() }).await;
    assert_eq!((gone.verdict, gone.job), (CheckVerdict::Unknown, JobPresence::Gone));
    assert_eq!(objects.jobs(), Vec::<Value>::new());

    // The second Job is there: a controller that starts does not create the first one again (G46).
    let second = CheckQuestion { job_number: 2, ..smoke() };
    assert_eq!(runner.answer(&second).await.job, JobPresence::Exists);
    let gone = runner.answer(&smoke()).await;
    assert_eq!((gone.verdict, gone.job), (CheckVerdict::Unknown, JobPresence::Gone));
    assert_eq!(objects.jobs().len(), 1);
}

/// G5, G20: a right that is missing is named, and where it is granted.
#[tokio::test]
async fn a_missing_right_is_named() {
    let objects = Objects::default();
    objects.put("/apis/batch/v1/namespaces/logging/cronjobs/smoke-test", Value::Null);
    let runner = Runner::new(Hosts::Any, Tls::default(), Credentials::default(), objects);
    let refused = runner.answer(&smoke()).await;
    assert_eq!(refused.verdict, CheckVerdict::Unknown);
    let hint = "no right to read cronjob smoke-test, which deploy/components/check-jobs (or \
                check-jobs-beside) grants: refused with 403";
    assert_eq!(&*refused.text, hint);
    assert!(runner.find_cron_job(&smoke().daemon_set, "other").await.is_err());
}
