//! Pages of other origins, other names of the server, and requests without its secrets.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use everynode_core::api::PAUSED_ANNOTATION;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Dashboard, opened};
use crate::world::manifest::daemon_set;
use crate::world::{Setup, World, eventually};

/// Sends a request as it is; returns status and head.
async fn request(dashboard: &Dashboard, head: &[&str], body: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(dashboard.host()).await?;
    let length = format!("Content-Length: {}", body.len());
    let lines = [head, &["Connection: close", &length]].concat().join("\r\n");
    stream.write_all(format!("{lines}\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, answer))
}

async fn is_paused(world: &World) -> Result<bool> {
    let annotations = world.daemon_sets().get("agent").await?.metadata.annotations;
    Ok(annotations.unwrap_or_default().contains_key(PAUSED_ANNOTATION))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_the_secrets_are_refused() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let dashboard = Dashboard::start(&world).await?;
    let host = format!("Host: {}", dashboard.host());
    let (_, token) = dashboard.url.split_once('?').context("a token")?;
    let enter = format!("GET /?{token} HTTP/1.1");
    let (status, answer) = request(&dashboard, &[&enter, &host], "").await?;
    ensure!(status == 200, "{answer}");
    let header = |name: &str| {
        let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let cookie = header("set-cookie").context("a cookie")?;
    ensure!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let csp = header("content-security-policy").context("a policy")?;
    ensure!(csp.starts_with("default-src 'none';") && !csp.contains("unsafe"), "{csp}");
    for (name, value) in [("referrer-policy", "same-origin"), ("x-content-type-options", "nosniff")]
    {
        ensure!(header(name).as_deref() == Some(value), "{name}: {answer}");
    }
    let base = header("refresh").context("where to")?.replace("0; url=", "");
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap_or_default());
    let action = format!("{base}ds/{}/agent/do/pause", world.namespace);
    let page = format!("GET {base} HTTP/1.1");
    let post = format!("POST {action} HTTP/1.1");
    let own = format!("Origin: http://{}", dashboard.host());
    let port = dashboard.host().split(':').nth(1).context("a port")?;
    let rebound = format!("Host: evil.example:{port}");
    let of_evil = format!("Origin: http://evil.example:{port}");
    let form = "Content-Type: application/x-www-form-urlencoded";
    for (expected, head) in [
        (200, vec![&*page, &host, &cookie]),
        (401, vec!["GET / HTTP/1.1", &host]),
        (401, vec!["GET /?token=0123 HTTP/1.1", &host, &cookie]),
        (401, vec![&page, &host]),
        (401, vec![&page, &host, "Cookie: everynode=0123"]),
        (421, vec![&page, &rebound, &cookie]),
        (421, vec![&enter, &rebound]),
        (403, vec![&page, &host, &cookie, &of_evil]),
        (403, vec![&page, &host, &cookie, "Sec-Fetch-Site: cross-site"]),
        (403, vec![&page, &host, &cookie, "Sec-Fetch-Site: same-site"]),
        (403, vec![&post, &host, &cookie, form]),
        (403, vec![&post, &host, &cookie, form, &of_evil]),
        (403, vec![&post, &host, &cookie, form, "Origin: null"]),
        // The form's own secret is missing.
        (401, vec![&post, &host, &cookie, form, &own]),
        (401, vec![&post, &host, form, &own]),
        (405, vec!["DELETE / HTTP/1.1", &host, &cookie, &own]),
    ] {
        let (status, answer) = request(&dashboard, &head, "secret=0123&basis=x").await?;
        ensure!(status == expected, "{head:?}: {answer}");
    }
    // A GET asks, and does nothing.
    let get = format!("GET {action} HTTP/1.1");
    let (status, question) = request(&dashboard, &[&get, &host, &cookie], "").await?;
    ensure!(status == 200 && question.contains("No more pods are replaced"), "{question}");
    ensure!(!is_paused(&world).await?, "it is paused");
    secrets_are_nowhere(&world, &dashboard, token).await
}

/// The token is in what the program prints once, and in nothing else that others can read.
async fn secrets_are_nowhere(world: &World, dashboard: &Dashboard, token: &str) -> Result<()> {
    let secret = token.trim_start_matches("token=");
    ensure!(secret.len() == 64, "{secret}");
    ensure!(dashboard.process.output().matches(secret).count() == 1, "it is printed once");
    let processes =
        tokio::process::Command::new("ps").args(["-eww", "-o", "args"]).output().await?;
    let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
    ensure!(processes.contains("dashboard") && !processes.contains(secret), "it is in ps");
    let log = world.sandbox.as_ref().context("a sandbox")?.output();
    ensure!(!log.contains(secret), "the API server has seen it");
    Ok(())
}

/// A page of another origin on the same machine, which tries all that pages can.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_gets_nothing_and_does_nothing() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().context("a base")?.to_owned();
    let action = format!("{base}ds/{}/agent/do/pause", world.namespace);
    // It even knows the path of all pages, which is random.
    let page = format!(
        "<!doctype html><title>evil</title>\
         <iframe name=frame onload='window.loads = (window.loads ?? 0) + 1' src='{base}'></iframe>\
         <form target=frame method=post action='{action}'><input name=secret value=x></form>\
         <script>window.results = []; const note = (name) => (result) => results.push([name, \
         String(result)]); \
         for (const mode of ['cors', 'no-cors']) fetch('{base}', {{mode, credentials: 'include'}}) \
         .then(it => it.text()).then(note('read ' + mode), note('refused')); \
         fetch('{action}', {{method: 'POST', mode: 'no-cors', credentials: 'include', \
         body: new URLSearchParams({{secret: 'x'}})}}).then(note('posted'), \
         note('refused')); \
         const events = new EventSource('{base}live', {{withCredentials: true}}); \
         events.addEventListener('sections', note('read events')); \
         events.onerror = note('refused'); \
         document.forms[0].submit();</script>"
    );
    let (address, cookies) = serve(page).await?;
    // The same host with another port, and another name of it.
    for name in ["127.0.0.1", "localhost"] {
        browser.open(&format!("http://{name}:{}/", address.port())).await?;
        browser.holds("document.title == 'evil' && results.length >= 4 && loads >= 1").await?;
        let results = browser.value("results").await?;
        for result in results.as_array().context("results")? {
            let text = result[1].as_str().unwrap_or_default();
            ensure!(!text.contains("agent"), "it has read {result}");
            ensure!(result[0] != "read cors" && result[0] != "read events", "{result}");
        }
        let framed = browser
            .value(
                "(() => { try { return frames[0].document.body.innerText } \
                 catch { return '' } })()",
            )
            .await?;
        ensure!(!framed.to_string().contains("agent"), "it has framed {framed}");
        ensure!(!is_paused(&world).await?, "it has paused the rollout");
    }
    let cookies = cookies.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(!cookies.contains("everynode="), "another server has got the cookie: {cookies}");
    browser.open(&dashboard.url).await?;
    browser.shows("1 done").await?;
    Ok(())
}

/// Serves a page; records the heads of all requests.
async fn serve(page: String) -> Result<(std::net::SocketAddr, Arc<Mutex<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let heads = Arc::new(Mutex::new(String::new()));
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (page, seen) = (page.clone(), seen.clone());
            tokio::spawn(async move {
                let mut head = vec![0; 16 * 1024];
                let Ok(count) = stream.read(&mut head).await else { return };
                let head = String::from_utf8_lossy(&head[..count]).into_owned();
                seen.lock().unwrap_or_else(PoisonError::into_inner).push_str(&head);
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{page}",
                    page.len()
                );
                // The browser may have closed it.
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    eventually("it listens", async || Ok(TcpStream::connect(address).await.map(drop)?)).await?;
    Ok((address, heads))
}

/// A port in use is an error that names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_an_error() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port().to_string();
    let output = world.everynode(&["dashboard", "--port", &port]).await?;
    ensure!(output.code == 1 && output.stderr.contains(&format!("127.0.0.1:{port}")), "{output:?}");
    Ok(())
}
