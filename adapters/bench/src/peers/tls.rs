//! Certificates of receivers.

use std::sync::Arc;

use anyhow::Context;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(super) const NAME: &str = "localhost";

/// A certificate of its own, its key, and the certificate as text.
pub(super) fn certificate()
-> anyhow::Result<(CertificateDer<'static>, PrivateKeyDer<'static>, String)> {
    let made = rcgen::generate_simple_self_signed([NAME.into()])?;
    let certificate = made.cert.der().clone();
    let text = certificate
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok((certificate, key, text))
}

/// Whom a sender trusts that was told this text.
pub(super) fn roots(text: &str) -> anyhow::Result<Arc<RootCertStore>> {
    let digits = (0..text.len()).step_by(2);
    let bytes = digits.map(|at| u8::from_str_radix(text.get(at..at + 2).unwrap_or_default(), 16));
    let bytes = bytes.collect::<Result<Vec<_>, _>>();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(bytes.context("no certificate")?))?;
    Ok(Arc::new(roots))
}
