//! The registry's side of TLS: its certificates.

use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use rustls::{Error, ServerConfig};

use super::{TlsError, provider};
use crate::RegistryKey;

/// A certificate for the registry's own key, made now: clients only check the key.
///
/// # Errors
/// It can't be made.
pub fn pinned_server(key: &RegistryKey) -> Result<Arc<ServerConfig>, TlsError> {
    let config = |error: rcgen::Error| TlsError::Config(error.to_string());
    let pkcs8 = key.to_pkcs8();
    let der = PrivatePkcs8KeyDer::from(pkcs8.as_slice());
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).map_err(config)?;
    let params = CertificateParams::new(vec!["manyway-registry".to_owned()]).map_err(config)?;
    let certificate = params.self_signed(&pair).map_err(config)?;
    server(
        vec![certificate.der().clone()],
        PrivateKeyDer::Pkcs8(der.clone_key()),
    )
}

/// A certificate (with its chain) and its key from PEM files.
///
/// # Errors
/// The files can't be read, or don't match.
pub fn file_server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| TlsError::Pem {
        path: path.to_owned(),
        error: error.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(certificate, &error))?;
    if chain.is_empty() {
        return Err(failed(certificate, &"there is no certificate in it"));
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    server(chain, key_der)
}

fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let config = |error: Error| TlsError::Config(error.to_string());
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(config)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(config)?;
    // A returning relay resumes: no signature, and the registry stores nothing for it.
    server.ticketer = aws_lc_rs::Ticketer::new().map_err(config)?;
    server.send_tls13_tickets = 1;
    Ok(Arc::new(server))
}
