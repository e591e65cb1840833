//! How the certificates of the servers that checks ask are verified (G24, G46).

use std::sync::{Arc, OnceLock};

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;

/// How the certificates of servers are verified.
#[derive(Clone, Debug, Default)]
pub struct Tls(Arc<OnceLock<Result<Arc<ClientConfig>, String>>>);

impl Tls {
    /// By this configuration, rather than the certificate authorities of the machine.
    pub fn with_config(config: ClientConfig) -> Self {
        Self(Arc::new(OnceLock::from(Ok(Arc::new(config)))))
    }

    /// By these authorities alone.
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        let config = config(|builder| Ok(builder.with_root_certificates(roots)));
        Self(Arc::new(OnceLock::from(config)))
    }

    /// The configuration, which is made when it is first needed: the certificate authorities of the
    /// machine are hundreds of files, and there may be none.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.0.get_or_init(|| config(BuilderVerifierExt::with_platform_verifier)).clone()
    }
}

fn config(
    verified: impl FnOnce(
        ConfigBuilder<ClientConfig, WantsVerifier>,
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error>,
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.and_then(verified);
    let builder = builder.map_err(|error| format!("no certificate authorities: {error}"))?;
    Ok(Arc::new(builder.with_no_client_auth()))
}
