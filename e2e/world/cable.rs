//! A cable between a client and the API server, to be cut, clamped and mended: bytes in, the same bytes out.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Whole,
    /// It is reset.
    Cut,
    /// It stays open and never carries anything again.
    Clamped,
    /// The client is told that the server says no more; the server is not told anything.
    HalfClosed,
}

#[derive(Clone, Copy)]
struct State {
    strikes: u64,
    /// Of connections that were there at the last strike.
    struck: Condition,
    new: Condition,
}

pub struct Cable {
    address: SocketAddr,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Cable {
    /// A cable to the server that a kubeconfig of ours names.
    pub async fn to(kubeconfig: &Path) -> Result<Cable> {
        let server = server_of(&read(kubeconfig)?)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let whole = Condition::Whole;
        let state = watch::Sender::new(State { strikes: 0, struck: whole, new: whole });
        let states = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (far, state) = (server.clone(), states.subscribe());
                // A connection that breaks is what this is for.
                tokio::spawn(async move { _ = carry(near, &far, state).await });
            }
        });
        Ok(Cable { address, state, task })
    }

    /// The same kubeconfig with this end of the cable as its server.
    pub fn kubeconfig(&self, of: &Path) -> Result<PathBuf> {
        let mut document = read(of)?;
        let server = format!("https://{}", self.address);
        document["clusters"][0]["cluster"]["server"] = server.into();
        let path = of.with_extension("cable");
        std::fs::write(&path, document.to_string())?;
        Ok(path)
    }

    /// This is what becomes of the connections that are there, once.
    pub fn strike(&self, condition: Condition) {
        self.change(condition, Condition::Whole);
    }

    /// This is what becomes of all connections until the cable is mended.
    pub fn break_for_now(&self, condition: Condition) {
        self.change(condition, condition);
    }

    pub fn mend(&self) {
        self.state.send_modify(|state| state.new = Condition::Whole);
    }

    fn change(&self, struck: Condition, new: Condition) {
        self.state.send_modify(|state| *state = State { strikes: state.strikes + 1, struck, new });
    }
}

impl Drop for Cable {
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

async fn carry(mut near: TcpStream, far: &str, mut state: watch::Receiver<State>) -> Result<()> {
    let born = state.borrow().strikes;
    let mut far = TcpStream::connect(far).await?;
    loop {
        let State { strikes, struck, new } = *state.borrow_and_update();
        match if strikes > born { struck } else { new } {
            Condition::Whole => tokio::select! {
                carried = tokio::io::copy_bidirectional(&mut near, &mut far) => {
                    carried?;
                    return Ok(());
                }
                changed = state.changed() => changed?,
            },
            Condition::Cut => {
                near.set_zero_linger()?;
                far.set_zero_linger()?;
                return Ok(());
            }
            // Both ends stay open until the cable is gone.
            Condition::Clamped => {
                while state.changed().await.is_ok() {}
                return Ok(());
            }
            Condition::HalfClosed => {
                near.shutdown().await?;
                tokio::io::copy(&mut near, &mut far).await?;
                return Ok(());
            }
        }
    }
}
