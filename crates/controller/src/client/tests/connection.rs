//! Connections that are open but dead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use tower::ServiceExt;

use super::*;
use crate::client::connection::tcp;

/// C64: pings detect a connection that is open but dead before a request times out, and the next
/// request uses a new one.
#[tokio::test]
async fn a_dead_connection_is_detected_and_replaced() {
    let hello = |_: &Request<Incoming>, _: Option<&[u8]>| Response::new("hello".to_owned());
    let server = server(tls(&["h2"], None), hello).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Connections with a lower number are dead.
    let (died, dead) = watch::channel(0);
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let mut dead = dead.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.unwrap();
                let is_dead = tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => false,
                    changed = dead.wait_for(|dead| *dead > number) => changed.is_ok(),
                };
                if is_dead {
                    // Both ends stay open.
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    for while_idle in [false, true] {
        let (interval, timeout) = (Duration::from_millis(200), Duration::from_millis(200));
        let config = config_for(&format!("https://{address}"), None);
        let client = client(&config, Pings { interval, timeout, while_idle }).unwrap();
        assert_eq!(get(&client).await.unwrap(), "hello");
        died.send_replace(made.load(Ordering::Relaxed));
        let lost = tokio::time::timeout(Duration::from_secs(20), get(&client)).await;
        assert!(lost.expect("the dead connection is not detected").is_err());
        assert_eq!(get(&client).await.unwrap(), "hello");
    }
    assert_eq!(made.load(Ordering::Relaxed), 4);
}

/// C64: HTTP/1.1 has no pings. TCP's keepalive probes start as early as pings would,
/// and a dead connection is closed as early.
#[tokio::test]
async fn tcp_keepalive_replaces_pings_for_http_1() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seconds = Duration::from_secs;
    let lease = Duration::from_millis(500);
    for (interval, timeout, expected) in [
        (seconds(10), seconds(5), (seconds(10), seconds(1), 3)),
        (seconds(30), seconds(15), (seconds(30), seconds(5), 3)),
        // TCP counts whole seconds, at least one.
        (lease, lease, (seconds(1), seconds(1), 3)),
    ] {
        let tcp = tcp(Pings { interval, timeout, while_idle: false });
        let stream = tcp.oneshot(format!("http://{address}").parse().unwrap()).await.unwrap();
        let stream = stream.into_inner();
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let keepalive = (
            socket.tcp_keepalive_time().unwrap(),
            socket.tcp_keepalive_interval().unwrap(),
            socket.tcp_keepalive_retries().unwrap(),
        );
        assert_eq!(keepalive, expected, "interval {interval:?}, timeout {timeout:?}");
    }
}

/// C64: pings detect a dead connection before a request times out; other options are refused.
#[test]
fn pings_are_faster_than_the_timeout_of_a_request() {
    let pings = Pings::default();
    assert_eq!(pings.check(), Ok(()));
    assert!(pings.interval + pings.timeout < crate::client::REQUEST_TIMEOUT);
    let late = Pings { interval: Duration::from_secs(25), ..pings };
    assert!(late.check().unwrap_err().contains("--http2-ping-interval (25s)"));
    assert!(Pings { timeout: Duration::ZERO, ..pings }.check().is_err());
}
