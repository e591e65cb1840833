//! A server that answers every query as Prometheus does, with the result that a test has set.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The server; it runs until the test ends.
pub(crate) struct Prometheus {
    pub address: SocketAddr,
    result: Arc<Mutex<Value>>,
    connections: Arc<AtomicUsize>,
}

impl Prometheus {
    /// A server whose queries return nothing.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (result, connections) = (Arc::new(Mutex::new(json!([]))), Arc::default());
        let server = Self { address, result, connections };
        let (result, connections) = (server.result.clone(), server.connections.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let mut request = [0; 4096];
                // Whoever asks may be gone.
                let _ = stream.read(&mut request).await;
                let result = result.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let data = json!({ "resultType": "vector", "result": result });
                let body = json!({ "status": "success", "data": data }).to_string();
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Ok(server)
    }

    /// Sets the value that queries return from now on.
    pub(crate) fn set(&self, value: &str) {
        let sample = json!([{ "metric": {}, "value": [1, value] }]);
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = sample;
    }

    /// How often somebody has connected.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}
