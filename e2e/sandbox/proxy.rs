//! A cluster that is reachable only through a proxy, proxies that do not apply to the cluster, and
//! a machine that has no certificates of authorities, as the image of a container.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::separate_process::bare;
use crate::world::World;
use crate::world::command::{Output, finish};
use crate::world::manifest::daemon_set;
use crate::world::process::{Process, everynode_program};

/// A name that no resolver knows.
const NAME: &str = "cluster.invalid";
/// The challenge of the proxy, and `user:s3cret` in encoded form.
const CREDENTIALS: &str = "user:s3cret";
const CREDENTIALS_SENT: &str = "dXNlcjpzM2NyZXQ=";

/// Starts a proxy that forwards requests for `NAME` with the right credentials to the API server.
struct Proxy {
    address: SocketAddr,
    tunnels: Arc<AtomicUsize>,
}

impl Proxy {
    async fn to(world: &World) -> Result<Proxy> {
        let server = cluster(&kubeconfig(&world.kubeconfig)?)["server"].as_str().map(str::to_owned);
        let server = server.context("no server")?.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let tunnels = Arc::new(AtomicUsize::new(0));
        let count = tunnels.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(carry(stream, server.clone(), count.clone()));
            }
        });
        Ok(Proxy { address, tunnels })
    }

    fn url(&self) -> String {
        format!("http://{CREDENTIALS}@{}", self.address)
    }

    fn tunnels(&self) -> usize {
        self.tunnels.load(Ordering::Relaxed)
    }
}

async fn carry(mut near: TcpStream, server: String, tunnels: Arc<AtomicUsize>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    if !head.starts_with(&format!("CONNECT {NAME}:6443 ")) || !head.contains(CREDENTIALS_SENT) {
        return Ok(near.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await?);
    }
    tunnels.fetch_add(1, Ordering::Relaxed);
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let mut far = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

fn kubeconfig(path: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

fn cluster(kubeconfig: &Value) -> &Value {
    &kubeconfig["clusters"][0]["cluster"]
}

/// The kubeconfig with the name that the proxy knows, and an optional `proxy-url`.
fn remote(world: &World, proxy_url: Option<&str>) -> Result<PathBuf> {
    let mut document = kubeconfig(&world.kubeconfig)?;
    let cluster = &mut document["clusters"][0]["cluster"];
    cluster["server"] = format!("https://{NAME}:6443").into();
    cluster["tls-server-name"] = "127.0.0.1".into();
    if let Some(url) = proxy_url {
        cluster["proxy-url"] = url.into();
    }
    let path = world.kubeconfig.with_extension("remote");
    std::fs::write(&path, document.to_string())?;
    Ok(path)
}

async fn everynode(
    world: &World,
    arguments: &[&str],
    kubeconfig: &Path,
    variables: &[(&str, &str)],
) -> Result<Output> {
    let mut command = Command::new(everynode_program());
    command.args(arguments).env("KUBECONFIG", kubeconfig).envs(variables.iter().copied());
    finish(command, world.directory.path(), "").await
}

/// C83: the controller works through the proxy of HTTPS_PROXY, and does not log its password
#[tokio::test]
async fn the_controller_works_through_a_proxy_and_does_not_log_its_password() -> Result<()> {
    let world = bare(3).await?;
    let proxy = Proxy::to(&world).await?;
    let (kubeconfig, url) = (remote(&world, None)?, proxy.url());
    let variables = [("KUBECONFIG", kubeconfig.as_os_str()), ("HTTPS_PROXY", OsStr::new(&url))];
    let arguments = ["run", "--log-level=trace"];
    let mut controller =
        Process::everynode_in(world.directory.path(), "run", &arguments, &variables)?;
    world.roll_out(&daemon_set("a")).await.with_context(|| controller.output())?;
    ensure!(controller.terminate().await?.0.success(), "{}", controller.output());
    ensure!(proxy.tunnels() >= 2, "{} connections, and not one for the lease", proxy.tunnels());
    for secret in ["s3cret", CREDENTIALS_SENT] {
        let line =
            controller.output().lines().find(|line| line.contains(secret)).map(str::to_owned);
        ensure!(line.is_none(), "{line:?}");
    }
    Ok(())
}

/// C83: the commands use the kubeconfig's proxy-url and HTTPS_PROXY; NO_PROXY and loopback
/// addresses bypass the proxy
#[tokio::test]
async fn commands_use_a_proxy_only_where_configured() -> Result<()> {
    let world = bare(1).await?;
    let proxy = Proxy::to(&world).await?;
    let top = async |kubeconfig: &Path, variables: &[(&str, &str)]| {
        everynode(&world, &["top"], kubeconfig, variables).await
    };
    let url = proxy.url();
    top(&remote(&world, Some(&url))?, &[("NO_PROXY", "*")]).await?.ok()?;
    ensure!(proxy.tunnels() == 1);
    let remote = remote(&world, None)?;
    top(&remote, &[("https_proxy", &url)]).await?.ok()?;
    ensure!(proxy.tunnels() == 2);
    let direct = top(&remote, &[("HTTPS_PROXY", &url), ("NO_PROXY", ".invalid")]).await?;
    ensure!(direct.code != 0 && direct.stderr.contains(NAME), "{}", direct.stderr);
    ensure!(proxy.tunnels() == 2, "NO_PROXY is not honored");
    // The sandbox's own kubeconfig has a loopback address.
    let nobody = ("HTTPS_PROXY", "http://127.0.0.1:1");
    top(&world.kubeconfig, &[nobody]).await?.ok()?;
    let arguments = ["sandbox", "--nodes=1", "--exit-when-settled"];
    everynode(&world, &arguments, &world.kubeconfig, &[nobody]).await?.ok()?;
    let refused = top(&remote, &[("HTTPS_PROXY", "ftp://user:s3cret@127.0.0.1")]).await?;
    ensure!(refused.stderr.contains("HTTPS_PROXY names a proxy by ftp"), "{}", refused.stderr);
    ensure!(refused.code != 0 && !refused.stderr.contains("s3cret"), "{}", refused.stderr);
    Ok(())
}

/// C83: as with kubectl, no authority is needed for a certificate that is not verified
#[tokio::test]
async fn a_certificate_that_is_not_verified_needs_no_authorities() -> Result<()> {
    let world = bare(1).await?;
    let mut document = kubeconfig(&world.kubeconfig)?;
    let cluster = &mut document["clusters"][0]["cluster"];
    cluster["certificate-authority-data"] = Value::Null;
    let path = world.kubeconfig.with_extension("unverified");
    let none = [("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", "/nonexistent")];
    std::fs::write(&path, document.to_string())?;
    let verified = everynode(&world, &["top"], &path, &none).await?;
    ensure!(verified.code != 0 && verified.stderr.contains("certificate"), "{}", verified.stderr);
    document["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = true.into();
    std::fs::write(&path, document.to_string())?;
    everynode(&world, &["top"], &path, &none).await?.ok().map(drop)
}
