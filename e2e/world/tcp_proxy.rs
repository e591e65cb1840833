//! A TCP proxy between a client and the API server that tests can make fail.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How the proxy treats a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The connection works.
    Normal,
    /// The connection is reset.
    Reset,
    /// The connection stays open and transfers nothing any more.
    Stalled,
    /// The client sees the end of the server's stream; the server's side stays open.
    HalfClosed,
}

#[derive(Clone, Copy)]
struct State {
    changes: u64,
    /// The condition of the connections that existed at the last change.
    existing: Condition,
    new: Condition,
}

pub struct TcpProxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl TcpProxy {
    /// Starts a proxy to the server of a kubeconfig.
    pub async fn to(kubeconfig: &Path) -> Result<TcpProxy> {
        let server = server_of(&read(kubeconfig)?)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let normal = Condition::Normal;
        let state = watch::Sender::new(State { changes: 0, existing: normal, new: normal });
        let states = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (address, state) = (server.clone(), states.subscribe());
                // Broken connections are expected.
                tokio::spawn(async move { _ = transfer(client, &address, state).await });
            }
        });
        Ok(TcpProxy { address, state, task })
    }

    /// The same kubeconfig with the proxy as its server.
    pub fn kubeconfig(&self, of: &Path) -> Result<PathBuf> {
        let mut document = read(of)?;
        let server = format!("https://{}", self.address);
        document["clusters"][0]["cluster"]["server"] = server.into();
        let path = of.with_extension("proxy");
        std::fs::write(&path, document.to_string())?;
        Ok(path)
    }

    /// Applies a condition to the existing connections only.
    pub fn break_existing(&self, condition: Condition) {
        self.change(condition, Condition::Normal);
    }

    /// Applies a condition to all connections until [`restore`](Self::restore).
    pub fn break_all(&self, condition: Condition) {
        self.change(condition, condition);
    }

    pub fn restore(&self) {
        self.state.send_modify(|state| state.new = Condition::Normal);
    }

    fn change(&self, existing: Condition, new: Condition) {
        self.state
            .send_modify(|state| *state = State { changes: state.changes + 1, existing, new });
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn read(kubeconfig: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(kubeconfig)?)?)
}

fn server_of(document: &Value) -> Result<String> {
    let server = document["clusters"][0]["cluster"]["server"].as_str().context("no server")?;
    Ok(server.trim_start_matches("https://").to_owned())
}

async fn transfer(
    mut client: TcpStream,
    address: &str,
    mut state: watch::Receiver<State>,
) -> Result<()> {
    let changes_at_start = state.borrow().changes;
    let mut server = TcpStream::connect(address).await?;
    loop {
        let State { changes, existing, new } = *state.borrow_and_update();
        match if changes > changes_at_start { existing } else { new } {
            Condition::Normal => tokio::select! {
                result = tokio::io::copy_bidirectional(&mut client, &mut server) => {
                    result?;
                    return Ok(());
                }
                changed = state.changed() => changed?,
            },
            Condition::Reset => {
                client.set_zero_linger()?;
                server.set_zero_linger()?;
                return Ok(());
            }
            // Both ends stay open until the proxy is dropped.
            Condition::Stalled => {
                while state.changed().await.is_ok() {}
                return Ok(());
            }
            Condition::HalfClosed => {
                client.shutdown().await?;
                tokio::io::copy(&mut client, &mut server).await?;
                return Ok(());
            }
        }
    }
}
