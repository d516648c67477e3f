//! TLS 1.3, authenticated by the registry's own key, which its clients pin, or by public
//! certificates.

#[cfg(feature = "server")]
mod server;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use manyway_wire::relay::RelayId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};

#[cfg(feature = "server")]
pub use server::{file_server, pinned_server};

/// Why TLS can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file with the certificate or the key can't be used.
    #[error("can't use {path}: {error}; it has to be PEM, readable by this program")]
    Pem {
        /// The file.
        path: PathBuf,
        /// The error.
        error: String,
    },
    /// Certificate and key don't match.
    #[error("the certificate can't be used with its key: {0}")]
    Config(String),
    /// The system trusts no certificates.
    #[error(
        "this system has no certificates that could vouch for a registry: install ca-certificates, \
         or use the URL that the registry prints, with its key after #"
    )]
    NoRoots,
}

/// For registries with this key.
///
/// # Errors
/// Never with the built-in provider.
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
/// The system trusts none.
pub(crate) fn system_client() -> Result<Arc<ClientConfig>, TlsError> {
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

/// The server isn't the one of the URL.
#[derive(Debug, thiserror::Error)]
#[error("the server has another key")]
struct OtherKey;

/// What an error says of the server's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It isn't the one that is [pinned](pinned_client).
    OtherKey,
    /// None is pinned, and no authority that this host trusts has signed it.
    Unknown,
    /// Nothing.
    Unasked,
}

pub(crate) fn trust(error: &io::Error) -> Trust {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(Error::InvalidCertificate(why)) = inner else {
        return Trust::Unasked;
    };
    match why {
        CertificateError::Other(OtherError(why)) if why.is::<OtherKey>() => Trust::OtherKey,
        CertificateError::UnknownIssuer => Trust::Unknown,
        _ => Trust::Unasked,
    }
}

/// Trusts exactly one key, and ignores the certificate's names and dates.
#[derive(Debug)]
struct Pinned {
    pin: RelayId,
    provider: Arc<CryptoProvider>,
}

/// The first bytes of an Ed25519 public key in DER (RFC 8410, section 4).
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
            _ => Err(Error::InvalidCertificate(CertificateError::Other(
                OtherError(Arc::new(OtherKey)),
            ))),
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
