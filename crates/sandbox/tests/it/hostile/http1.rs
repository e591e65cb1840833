//! Hostile clients that speak HTTP/1.1.

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use tokio::io::AsyncWriteExt;

use super::body::{self, Request};
use super::client::{PATIENCE, Target, answer};

/// Requests that are complete, one after the other, on one connection.
pub(crate) async fn requests(target: &Target, rng: &mut Pcg64) -> (u64, u64) {
    let Some(mut stream) = target.connect().await else { return (0, 0) };
    let (mut sent, mut answered) = (0, 0);
    for _ in 0..rng.random_range(1..60) {
        let request = body::request(target, rng);
        let is_watch = request.path.contains("watch=");
        sent += 1;
        if stream.write_all(&text(&request)).await.is_err() || stream.flush().await.is_err() {
            break;
        }
        match tokio::time::timeout(PATIENCE, answer(&mut stream)).await {
            Ok(Some(_)) => answered += 1,
            Ok(None) | Err(_) => break,
        }
        // A watch goes on, and some clients leave without a word.
        if is_watch || rng.random_range(0..100) == 0 {
            break;
        }
    }
    (sent, answered)
}

fn text(request: &Request) -> Vec<u8> {
    let Request { method, path, headers, body } = request;
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n").into_bytes();
    for (name, value) in headers {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    text.extend_from_slice(body);
    text
}

/// A request that ends in the middle: the client waits for a while, and leaves.
pub(crate) async fn unfinished(target: &Target, rng: &mut Pcg64) -> (u64, u64) {
    let Some(mut stream) = target.connect().await else { return (0, 0) };
    let text = text(&body::request(target, rng));
    let end = rng.random_range(0..text.len());
    let _ = stream.write_all(&text[..end]).await;
    let _ = stream.flush().await;
    let pause = std::time::Duration::from_millis(rng.random_range(0..1_500));
    let _ = tokio::time::timeout(pause, answer(&mut stream)).await;
    (1, 0)
}

/// Bytes that are no request, or one that no server should accept.
pub(crate) async fn garbage(target: &Target, rng: &mut Pcg64) -> (u64, u64) {
    let Some(mut stream) = target.connect().await else { return (0, 0) };
    let mut noise = vec![0; rng.random_range(1..2_000)];
    rng.fill_bytes(&mut noise);
    let long = "x".repeat(rng.random_range(1..100_000));
    let token = &target.tenant;
    let text: Vec<u8> = match rng.random_range(0..10) {
        0 => noise,
        1 => [b"GET / HTTP/1.1\r\n", &noise[..], b"\r\n\r\n"].concat(),
        2 => format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n").into(),
        3 => format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n").into(),
        4 => format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(long.len() / 7)).into(),
        5 => format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n\
             Authorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n\
             ffffffffffffffff\r\n{long}"
        )
        .into(),
        6 => format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n\
             Authorization: Bearer {token}\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n{{}}   "
        )
        .into(),
        7 => format!(
            "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\n\
             Authorization: Bearer {token}\r\nContent-Length: 99999999999999999999\r\n\r\n"
        )
        .into(),
        8 => "GET / HTTP/9.9\r\n\r\nGET / HTTP/0.9\r\n\r\n".into(),
        _ => format!("{long} / HTTP/1.1\r\nHost: x\r\n\r\n").into(),
    };
    let _ = stream.write_all(&text).await;
    let _ = stream.flush().await;
    let answered = tokio::time::timeout(PATIENCE / 5, answer(&mut stream)).await;
    (1, u64::from(matches!(answered, Ok(Some(_)))))
}
