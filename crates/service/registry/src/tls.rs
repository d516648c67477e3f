//! TLS 1.3, authenticated by the registry's own key, which its clients pin, or by public
//! certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manyway_wire::relay::RelayId;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::RegistryKey;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificate or key.
    #[error("can't use {path}: {error}; it has to be PEM, readable by this program")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// They don't fit.
    #[error("the certificate can't be used with its key: {0}")]
    Config(String),
    /// No certificates to trust.
    #[error(
        "this system has no certificates that could vouch for a registry: install ca-certificates, \
         or use the URL that the registry prints, with its key after #"
    )]
    NoRoots,
}

/// By a certificate for the registry's own key, made now: what clients look at is the key.
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

/// By a certificate (with its chain) and its key from PEM files.
///
/// # Errors
/// They can't be read or don't fit.
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
    // A relay that comes again resumes: no signature, and nothing kept for it here.
    server.ticketer = aws_lc_rs::Ticketer::new().map_err(config)?;
    server.send_tls13_tickets = 1;
    Ok(Arc::new(server))
}

/// For registries that have this key.
///
/// # Errors
/// Never with the provider that is built in.
pub fn pinned_client(pin: RelayId) -> Result<Arc<ClientConfig>, TlsError> {
    let verifier = Pinned {
        pin,
        provider: provider(),
    };
    let client = client_builder()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(client))
}

/// For registries whose certificates this system trusts.
///
/// # Errors
/// It trusts none.
pub fn system_client() -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let client = client_builder()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(client))
}

fn client_builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError>
{
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsError::Config(error.to_string()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Trusts exactly one key, and ignores the certificate's names and dates.
#[derive(Debug)]
struct Pinned {
    pin: RelayId,
    provider: Arc<CryptoProvider>,
}

/// How the DER of an Ed25519 public key begins (RFC 8410, section 4).
const ED25519_DER: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let key = certificate.subject_public_key_info();
        match key.as_ref().strip_prefix(&ED25519_DER) {
            Some(key) if key == self.pin.0 => Ok(ServerCertVerified::assertion()),
            _ => Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 isn't used".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
