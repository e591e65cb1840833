//! Finds the API server and connects to it: kubeconfigs, credentials, proxies, TLS and HTTP/2.

mod auth_error;
mod buffered;
mod connection;
mod credentials;
mod exec;
mod kubeconfig;
mod limit;
mod measured;
mod proxy;

use std::path::PathBuf;
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderValue, Uri};
use kube::Client;
use kube::config::{Kubeconfig, KubeconfigError};

pub use connection::Pings;
use credentials::RenewingClient;
pub use kubeconfig::kubeconfig;
use measured::Measured;
use proxy::Proxy;

use crate::metrics::RequestMetrics;

/// Timeout of a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How to find the API server.
#[derive(Clone, Debug, Default)]
pub struct Location {
    /// The kubeconfig; by default `$KUBECONFIG`, `~/.kube/config`, or a pod's ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current one.
    pub context: Option<String>,
    /// The user to impersonate.
    pub impersonate: Option<String>,
}

/// The address of a cluster, and the credentials for it.
#[derive(Clone)]
pub struct Config {
    location: Location,
    kube: kube::Config,
    /// The context of the kubeconfig.
    context: Option<String>,
    proxy: Option<Proxy>,
    user_agent: HeaderValue,
    /// The source of the configuration, for messages.
    source: String,
}

/// Why a client can't be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig can't be used.
    #[error("kubeconfig {path}: {cause}")]
    Kubeconfig {
        /// Its path.
        path: String,
        /// The cause.
        cause: String,
    },
    /// There is neither a kubeconfig nor a pod's ServiceAccount.
    #[error(
        "no cluster: there is no kubeconfig {kubeconfig}, and this is no pod ({in_cluster}); use \
         --kubeconfig"
    )]
    NoConfig {
        /// The path at which there is none.
        kubeconfig: String,
        /// Why there is no ServiceAccount.
        in_cluster: String,
    },
    /// Certificates, keys, credentials or the proxy of a cluster can't be used.
    #[error("cluster {server}: {cause}")]
    Client {
        /// The address of the API server.
        server: String,
        /// The cause.
        cause: String,
    },
}

/// Reads the configuration of a cluster.
///
/// # Errors
/// If the kubeconfig can't be read, lacks the context or names an unusable proxy, or if there is
/// no configuration.
pub fn config(location: &Location) -> Result<Config, Error> {
    let mut config = match kubeconfig::read(location) {
        Ok(found) => Config::from_kubeconfig(location, found)?,
        Err(error) if location.allows_in_cluster() && kubeconfig::is_missing(&error) => {
            Config::in_cluster(location, &error)?
        }
        Err(error) => return Err(kubeconfig::read_error(location, &error)),
    };
    if let Some(user) = &location.impersonate {
        config.kube.auth_info.impersonate = Some(user.clone());
    }
    Ok(config)
}

impl Location {
    /// True if a pod's ServiceAccount may be used: the user named neither a file nor a context.
    fn allows_in_cluster(&self) -> bool {
        self.kubeconfig.is_none() && self.context.is_none()
    }
}

impl Config {
    fn from_kubeconfig(location: &Location, mut found: Kubeconfig) -> Result<Self, Error> {
        found.current_context = location.context.clone().or(found.current_context);
        kubeconfig::check_credentials(&mut found)
            .map_err(|cause| kubeconfig::error(location, cause))?;
        let context = found.current_context.clone();
        let field = kubeconfig::cluster(&found).and_then(|cluster| cluster.proxy_url.clone());
        let kube = kube::Config::try_from(found).map_err(|error| match error {
            // kube reads the environment itself, but does not name the variable.
            KubeconfigError::ParseProxyUrl(_) => {
                let cause =
                    proxy::Error::InvalidUrl(proxy::setting_that_kube_reads(field.as_deref()));
                kubeconfig::error(location, cause.to_string())
            }
            other => kubeconfig::read_error(location, &other),
        })?;
        let source = format!("kubeconfig {}", kubeconfig::display_name(location));
        Ok(Self { context, ..Self::new(location, kube, field.as_deref(), source)? })
    }

    fn in_cluster(location: &Location, missing: &KubeconfigError) -> Result<Self, Error> {
        let kube = kube::Config::incluster().map_err(|error| Error::NoConfig {
            kubeconfig: kubeconfig::path(location, missing),
            in_cluster: error.to_string(),
        })?;
        Self::new(location, kube, None, "the pod's ServiceAccount".to_owned())
    }

    fn new(
        location: &Location,
        mut kube: kube::Config,
        proxy_url: Option<&str>,
        source: String,
    ) -> Result<Self, Error> {
        if !matches!(kube.cluster_url.scheme_str(), Some("https" | "http")) {
            let cause = "server: it begins with neither https:// nor http://".to_owned();
            return Err(kubeconfig::error(location, cause));
        }
        let environment = |name: &str| std::env::var(name).ok();
        if kube.accept_invalid_certs {
            // Otherwise the system's authorities are read, of which an image may have none.
            kube.root_cert.get_or_insert_default();
        }
        let proxy =
            Proxy::for_server(&kube.cluster_url, proxy_url, environment).map_err(|error| {
                Error::Client { server: address(&kube.cluster_url), cause: error.to_string() }
            })?;
        let (location, user_agent) = (location.clone(), user_agent());
        Ok(Self { location, kube, context: None, proxy, user_agent, source })
    }

    /// The same cluster, with its configuration read again.
    fn reload(&self) -> Result<Self, String> {
        let reloaded = config(&self.location).map_err(|error| error.to_string())?;
        if reloaded.kube.cluster_url == self.kube.cluster_url {
            return Ok(Self { user_agent: self.user_agent.clone(), ..reloaded });
        }
        // The controller's state describes the first cluster and must not be applied to another.
        Err(format!("{} names another server now, {}", self.source, reloaded.server()))
    }

    /// Describes the source and the kind of the credentials.
    fn credentials(&self) -> String {
        format!("{} ({})", self.source, kubeconfig::credential_kind(&self.kube.auth_info))
    }

    /// The same cluster with another User-Agent.
    #[must_use]
    pub fn with_user_agent(self, name: &'static str) -> Self {
        Self { user_agent: HeaderValue::from_static(name), ..self }
    }

    /// The address of the API server, without a user and password.
    pub fn server(&self) -> String {
        address(&self.kube.cluster_url)
    }

    /// The cluster for people: the context, if there is one, and the server.
    pub fn cluster(&self) -> String {
        match &self.context {
            Some(context) => format!("{context} ({})", self.server()),
            None => self.server(),
        }
    }

    /// True if the server's certificate is not verified (`insecure-skip-tls-verify`).
    pub fn skips_verification(&self) -> bool {
        self.kube.accept_invalid_certs
    }

    /// The namespace of the context, or else `default`.
    pub fn default_namespace(&self) -> &str {
        &self.kube.default_namespace
    }
}

#[cfg(test)]
impl Config {
    /// A server that needs no credentials and whose certificate is not verified.
    pub(crate) fn for_test(url: &str) -> Self {
        let mut kube = kube::Config::new(url.parse().expect("tests name URLs"));
        kube.accept_invalid_certs = true;
        let (location, source) = (Location::default(), "a test".to_owned());
        Self { location, kube, context: None, proxy: None, user_agent: user_agent(), source }
    }
}

/// A client with its own connection. Runs the exec plugin, if there is one, and waits for it.
///
/// # Errors
/// If certificates, keys or credentials can't be used.
pub fn client(config: &Config, pings: Pings) -> Result<Client, Error> {
    let namespace = config.kube.default_namespace.clone();
    Ok(Client::new(service(config, pings)?, namespace))
}

/// A [`client`] whose requests are counted.
///
/// # Errors
/// If certificates, keys or credentials can't be used.
pub fn measured_client(
    config: &Config,
    pings: Pings,
    metrics: RequestMetrics,
) -> Result<Client, Error> {
    let service = service(config, pings)?;
    let host = config.kube.cluster_url.authority().map(host_and_port).unwrap_or_default();
    let namespace = config.kube.default_namespace.clone();
    Ok(Client::new(Measured { service, metrics, host }, namespace))
}

fn service(config: &Config, pings: Pings) -> Result<RenewingClient, Error> {
    let opened = connection::open(config, pings)
        .map_err(|cause| Error::Client { server: config.server(), cause })?;
    if let Some(proxy) = &config.proxy {
        tracing::debug!(server = config.server(), %proxy, "requests go through a proxy");
    }
    Ok(RenewingClient::new(config.clone(), pings, opened))
}

/// A URL without its user and password, which messages and logs must not have.
fn address(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let host = url.authority().map(host_and_port).unwrap_or_default();
    format!("{scheme}://{host}{}", url.path().trim_end_matches('/'))
}

fn host_and_port(authority: &Authority) -> String {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host).to_owned()
}

/// The User-Agent of every request, in the form of Kubernetes' own programs.
pub(crate) fn user_agent() -> HeaderValue {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (version, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let text = format!("everynode/{version} ({system}/{architecture})");
    HeaderValue::try_from(text).expect("it is made of letters, digits and dots")
}

/// The innermost cause of an error, which a user can act on.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The whole chain of an error on one line, without repetitions.
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
