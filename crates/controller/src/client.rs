//! How the API server is found and spoken to.

mod auth_error;
mod connection;
mod credentials;
mod kubeconfig;
mod proxy;

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use kube::Client;
use kube::config::{Kubeconfig, KubeconfigError};

pub use connection::Pings;
use credentials::Renewing;
pub use kubeconfig::kubeconfig;
use proxy::Proxy;

/// How long a request may take before it is given up.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Where to find the API server.
#[derive(Clone, Debug, Default)]
pub struct Location {
    /// Else `$KUBECONFIG`, `~/.kube/config`, or what a pod has in a cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Else the kubeconfig's current context.
    pub context: Option<String>,
    /// User to impersonate.
    pub impersonate: Option<String>,
}

/// A cluster, and what a client of it needs.
#[derive(Clone)]
pub struct Config {
    location: Location,
    kube: kube::Config,
    proxy: Option<Proxy>,
    user_agent: HeaderValue,
    /// What it was read from, for messages.
    source: String,
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

/// Finds out which cluster is meant.
///
/// # Errors
/// If the kubeconfig can't be read, or lacks the context, or names a proxy that can't be used, or there is none at all.
pub fn config(location: &Location) -> Result<Config, Error> {
    let mut config = match kubeconfig::read(location) {
        Ok(found) => Config::of(location, found)?,
        Err(error) if location.may_be_a_pod() && kubeconfig::is_missing(&error) => {
            Config::of_pod(location, &error)?
        }
        Err(error) => return Err(kubeconfig::explained(location, &error)),
    };
    if let Some(user) = &location.impersonate {
        config.kube.auth_info.impersonate = Some(user.clone());
    }
    Ok(config)
}

impl Location {
    /// Whoever names a file or a context means no other.
    fn may_be_a_pod(&self) -> bool {
        self.kubeconfig.is_none() && self.context.is_none()
    }
}

impl Config {
    fn of(location: &Location, mut found: Kubeconfig) -> Result<Self, Error> {
        found.current_context = location.context.clone().or(found.current_context);
        let field = kubeconfig::cluster(&found).and_then(|cluster| cluster.proxy_url.clone());
        let kube = kube::Config::try_from(found).map_err(|error| match error {
            // It reads the environment itself, but does not say so.
            KubeconfigError::ParseProxyUrl(_) => {
                let cause = proxy::Error::NoUrl(proxy::name_of_what_kube_reads(field.as_deref()));
                kubeconfig::failed(location, cause.to_string())
            }
            other => kubeconfig::explained(location, &other),
        })?;
        let source = format!("kubeconfig {}", kubeconfig::name(location));
        Self::new(location, kube, field.as_deref(), source)
    }

    fn of_pod(location: &Location, missing: &KubeconfigError) -> Result<Self, Error> {
        let kube = kube::Config::incluster().map_err(|error| Error::NoConfig {
            kubeconfig: missing.to_string(),
            in_cluster: error.to_string(),
        })?;
        Self::new(location, kube, None, "the pod's ServiceAccount".to_owned())
    }

    fn new(
        location: &Location,
        kube: kube::Config,
        proxy_url: Option<&str>,
        source: String,
    ) -> Result<Self, Error> {
        let environment = |name: &str| std::env::var(name).ok();
        let proxy = Proxy::to(&kube.cluster_url, proxy_url, environment).map_err(|error| {
            Error::Client { server: kube.cluster_url.to_string(), cause: error.to_string() }
        })?;
        Ok(Self { location: location.clone(), kube, proxy, user_agent: user_agent(), source })
    }

    /// The same cluster with what its kubeconfig or pod says of it now.
    fn again(&self) -> Result<Self, String> {
        let again = config(&self.location).map_err(|error| error.to_string())?;
        if again.kube.cluster_url == self.kube.cluster_url {
            return Ok(Self { user_agent: self.user_agent.clone(), ..again });
        }
        // What is known is known of the one, and must not be done to the other.
        Err(format!("{} names another server now, {}", self.source, again.server()))
    }

    /// Whose credentials these are, and of which kind.
    fn credentials(&self) -> String {
        format!("{} ({})", self.source, kubeconfig::kind_of_credentials(&self.kube.auth_info))
    }

    /// The same cluster, asked under another name.
    #[must_use]
    pub fn with_user_agent(self, name: &'static str) -> Self {
        Self { user_agent: HeaderValue::from_static(name), ..self }
    }

    /// The address of the API server.
    pub fn server(&self) -> String {
        self.kube.cluster_url.to_string().trim_end_matches('/').to_owned()
    }

    /// Whether anybody could pretend to be the API server: `insecure-skip-tls-verify`.
    pub fn skips_verification(&self) -> bool {
        self.kube.accept_invalid_certs
    }

    /// That of the context, else `default`.
    pub fn default_namespace(&self) -> &str {
        &self.kube.default_namespace
    }
}

#[cfg(test)]
impl Config {
    /// A server that needs no credentials, and whose certificate proves nothing.
    pub(crate) fn of_test(url: &str) -> Self {
        let mut kube = kube::Config::new(url.parse().expect("tests name URLs"));
        kube.accept_invalid_certs = true;
        let (location, source) = (Location::default(), "a test".to_owned());
        Self { location, kube, proxy: None, user_agent: user_agent(), source }
    }
}

/// A client with a connection of its own. An exec plugin is run, and waited for.
///
/// # Errors
/// If certificates, keys or credentials in the config can't be used.
pub fn client(config: &Config, pings: Pings) -> Result<Client, Error> {
    let http = connection::http(config, pings)
        .map_err(|cause| Error::Client { server: config.server(), cause })?;
    if let Some(proxy) = &config.proxy {
        tracing::debug!(server = config.server(), %proxy, "requests go through a proxy");
    }
    let service = Renewing::new(config.clone(), pings, http);
    Ok(Client::new(service, config.kube.default_namespace.clone()))
}

/// What every request says of its sender, as Kubernetes' own programs do.
fn user_agent() -> HeaderValue {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (version, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let text = format!("everynode/{version} ({system}/{architecture})");
    HeaderValue::try_from(text).expect("it is made of letters, digits and dots")
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
