//! The certificate authority and the server certificate (S1). Both are generated at each start and
//! kept in memory only.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The server's TLS configuration and the certificate authority for its clients.
pub struct ServerIdentity {
    /// The certificate authority in PEM.
    pub ca_pem: String,
    /// The configuration of the server.
    pub server_config: Arc<rustls::ServerConfig>,
}

/// An error that prevents encrypted connections.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificates could not be made.
    #[error("make certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificates don't fit the configuration.
    #[error("configure TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// There are no random bytes.
    #[error("read random bytes from the operating system")]
    Random,
}

/// Generates an authority and a server certificate for `localhost`, the usual in-cluster names and
/// all `addresses`. HTTP/2 is preferred to HTTP/1.1.
pub fn identity(addresses: &[IpAddr]) -> Result<ServerIdentity, Error> {
    let (ca_pem, ca_der, issuer) = authority()?;
    let (server_der, server_key) = server_certificate(addresses, &issuer)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![server_der, ca_der], server_key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(ServerIdentity { ca_pem, server_config: Arc::new(config) })
}

/// A bearer token of 256 random bits, in hexadecimal.
pub fn random_token() -> Result<String, Error> {
    let mut bytes = [0u8; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

type Authority = (String, CertificateDer<'static>, Issuer<'static, KeyPair>);

fn authority() -> Result<Authority, Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "everynode-sandbox-ca");
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), certificate.der().clone(), Issuer::new(params, key)))
}

fn server_certificate(
    addresses: &[IpAddr],
    issuer: &Issuer<'static, KeyPair>,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Error> {
    let mut names = vec![
        "localhost".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    names.extend(addresses.iter().map(ToString::to_string));
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "everynode-sandbox");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Python 3.13 and later refuse a chain without this extension.
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((certificate.der().clone(), der))
}
