//! How the API server is found and spoken to.
//!
//! kube's own stack speaks HTTP/1.1, which costs a connection for every write in flight. This one offers
//! HTTP/2 too, with pings, so that a dead connection under a watch is noticed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_rustls::FixedServerNameResolver;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// Where to find the API server.
#[derive(Clone, Debug, Default)]
pub struct Location {
    /// Else `$KUBECONFIG`, `~/.kube/config`, or what a pod has in a cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Else the kubeconfig's current context.
    pub context: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("kubeconfig {path}: {cause}")]
    Kubeconfig { path: String, cause: String },
    #[error(
        "no cluster: there is no kubeconfig ({kubeconfig}), and this is no pod ({in_cluster}); use --kubeconfig"
    )]
    NoConfig { kubeconfig: String, in_cluster: String },
    #[error("cluster {server}: {cause}")]
    Client { server: String, cause: String },
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// More than all watches can leave unread, so that none of them holds up another stream.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Finds out which cluster is meant.
///
/// # Errors
/// If the kubeconfig can't be read, or lacks the context, or there is none at all.
pub async fn config(location: &Location) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: location.context.clone(), ..Default::default() };
    if let Some(path) = &location.kubeconfig {
        return from_file(path, &options).await;
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        Err(error) if is_missing(&error) && location.context.is_none() => {
            let kubeconfig = error.to_string();
            Config::incluster()
                .map_err(|e| Error::NoConfig { kubeconfig, in_cluster: e.to_string() })
        }
        Err(error) => Err(kubeconfig_error(default_path(), &error)),
    }
}

async fn from_file(path: &Path, options: &KubeConfigOptions) -> Result<Config, Error> {
    let failed = |error: KubeconfigError| kubeconfig_error(path.display().to_string(), &error);
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, options).await.map_err(failed)
}

fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn kubeconfig_error(path: String, error: &KubeconfigError) -> Error {
    let cause = match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::LoadContext(context) => format!("it has no context \"{context}\""),
        other => one_line(other),
    };
    Error::Kubeconfig { path, cause }
}

fn default_path() -> String {
    std::env::var("KUBECONFIG").unwrap_or_else(|_| "~/.kube/config".to_owned())
}

/// A client with a connection of its own.
///
/// # Errors
/// If certificates, keys or credentials in the config can't be used, or it asks for a proxy.
pub fn client(config: &Config) -> Result<Client, Error> {
    let failed = |cause: String| Error::Client { server: config.cluster_url.to_string(), cause };
    if let Some(proxy) = &config.proxy_url {
        return Err(failed(format!("proxy-url {proxy} is not supported")));
    }
    let tls = config.rustls_client_config().map_err(|e| failed(one_line(&e)))?;
    let mut builder =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into();
        let name = name.map_err(|_| failed("tls-server-name is no DNS name".to_owned()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(PING_INTERVAL));
    let connector = builder.enable_http1().enable_http2().wrap_connector(tcp);
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|e| failed(one_line(&e)))?)
        .layer(config.extra_headers_layer().map_err(|e| failed(one_line(&e)))?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// The innermost cause of an error: what a user can do something about.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The whole chain of an error on one line, without what it repeats.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
