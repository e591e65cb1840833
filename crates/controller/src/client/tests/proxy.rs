//! Requests through proxies.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// The requests that proxies received.
type Requests = Arc<Mutex<Vec<String>>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connect,
    ConnectOverTls,
    /// It demands other credentials.
    Refusing,
    Socks,
}

/// A proxy that connects every request to `server`.
async fn proxy(kind: Kind, server: SocketAddr) -> (SocketAddr, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, tls) = (Requests::default(), tls(&[], None));
    let log = requests.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (log, tls) = (log.clone(), tls.clone());
            tokio::spawn(async move {
                match kind {
                    Kind::Connect => connect(stream, Some(server), &log).await,
                    Kind::Refusing => connect(stream, None, &log).await,
                    Kind::ConnectOverTls => {
                        connect(tls.accept(stream).await?, Some(server), &log).await
                    }
                    Kind::Socks => socks(stream, server, &log).await,
                }
            });
        }
    });
    (address, requests)
}

async fn connect(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    server: Option<SocketAddr>,
    log: &Requests,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    log.lock().unwrap().push(String::from_utf8(head).unwrap());
    let Some(server) = server else {
        return stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    };
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut server).await.map(|_| ())
}

/// SOCKS5 with a user, a password and a host name.
async fn socks(mut stream: TcpStream, server: SocketAddr, log: &Requests) -> std::io::Result<()> {
    let text = async |stream: &mut TcpStream| -> std::io::Result<String> {
        let mut text = vec![0; usize::from(stream.read_u8().await?)];
        stream.read_exact(&mut text).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    stream.read_u8().await?;
    text(&mut stream).await?;
    stream.write_all(&[5, 2]).await?;
    stream.read_u8().await?;
    let (user, password) = (text(&mut stream).await?, text(&mut stream).await?);
    stream.write_all(&[1, 0]).await?;
    stream.read_exact(&mut [0; 4]).await?;
    let (name, port) = (text(&mut stream).await?, stream.read_u16().await?);
    log.lock().unwrap().push(format!("{user} {password} {name}:{port}"));
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut server).await.map(|_| ())
}

/// Sends a request to a server that only the proxy can find. Returns the answer and what the
/// proxy received.
async fn send_through(kind: Kind, url: &str) -> (kube::Result<String>, Vec<String>) {
    let hello = |_: &Request<Incoming>, _: Option<&[u8]>| Response::new("hello".to_owned());
    let server = server(tls(&["h2"], None), hello).await;
    let (address, requests) = proxy(kind, server).await;
    let server = "https://cluster.invalid:6443";
    let url = url.replace("PROXY", &address.to_string());
    let environment = |name: &str| (name == "HTTPS_PROXY").then(|| url.clone());
    let proxy = Proxy::for_server(&server.parse().unwrap(), None, environment).unwrap();
    let client = client(&config_for(server, proxy), Pings::default()).unwrap();
    let answer = get(&client).await;
    let requests = requests.lock().unwrap().clone();
    (answer, requests)
}

/// C83: requests go through the proxy, which gets the credentials of its URL but not the request.
#[tokio::test]
async fn requests_go_through_the_proxy() {
    for (kind, scheme) in [(Kind::Connect, "http"), (Kind::ConnectOverTls, "https")] {
        let (answer, requests) =
            send_through(kind, &format!("{scheme}://us%40er:pass@PROXY")).await;
        assert_eq!(answer.unwrap(), "hello", "{scheme}");
        let [head] = requests.as_slice() else { panic!("{requests:?}") };
        assert!(head.starts_with("CONNECT cluster.invalid:6443 HTTP/1.1\r\n"), "{head}");
        // us@er:pass
        assert!(head.contains("\r\nProxy-Authorization: Basic dXNAZXI6cGFzcw==\r\n"), "{head}");
        assert!(!head.contains("/version"), "{head}");
    }
    let (answer, requests) = send_through(Kind::Socks, "socks5://user:pass@PROXY").await;
    assert_eq!(answer.unwrap(), "hello");
    assert_eq!(requests, ["user pass cluster.invalid:6443"]);
}

/// C83: the error of a proxy names its address and its setting, without the password.
#[tokio::test]
async fn a_proxy_that_refuses_is_named() {
    let (answer, _) = send_through(Kind::Refusing, "http://user:pass@PROXY").await;
    let error = answer.unwrap_err();
    for text in [one_line(&error), root_cause(&error)] {
        assert!(text.contains("proxy http://127.0.0.1:"), "{text}");
        assert!(text.contains(" (HTTPS_PROXY): ") && text.contains("authorization"), "{text}");
        assert!(!text.contains("pass") && !text.contains("dXNlcjpwYXNz"), "{text}");
    }
}
