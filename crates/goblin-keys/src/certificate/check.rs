//! The check of certificate texts that an operator supplies, before anything is stored or served. It must never know
//! where they came from.

use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use super::{
    CertificateError, CertificateMetadata, Dates, Part, certificates, dates, describe, parse, private_key, seconds,
};

/// Checks a certificate (with the chain that follows it) and its private key: both parse, belong together, can be used
/// for TLS, and the certificate is valid at `now`. A CA text, when given, is checked by [`check_ca`].
///
/// Returns what to remember of the certificate.
pub fn check(
    cert_pem: &str,
    key_pem: &str,
    ca_pem: Option<&str>,
    now: SystemTime,
) -> Result<CertificateMetadata, CertificateError> {
    let chain = certificates(cert_pem, Part::Certificate)?;
    let key = private_key(key_pem)?;
    for certificate in &chain {
        parse(certificate).ok_or(CertificateError::Unparsable(Part::Certificate))?;
    }
    let leaf = &chain[0];
    let parsed = parse(leaf).ok_or(CertificateError::Unparsable(Part::Certificate))?;
    ParsedCertificate::try_from(leaf).map_err(|error| CertificateError::Unusable(error.to_string()))?;
    let metadata = describe(&parsed, leaf);

    let key = crate::tls::provider()
        .key_provider
        .load_private_key(key)
        .map_err(|_| CertificateError::KeyInvalid)?;
    let dates = dates(&parsed, seconds(now));
    CertifiedKey::new(chain.clone(), key)
        .keys_match()
        .map_err(|_| CertificateError::KeyMismatch)?;
    match dates {
        Dates::Valid => {}
        Dates::Expired => return Err(CertificateError::Expired(Part::Certificate)),
        Dates::NotYetValid => return Err(CertificateError::NotYetValid(Part::Certificate)),
    }
    if let Some(ca_pem) = ca_pem {
        check_ca(ca_pem, now)?;
    }
    Ok(metadata)
}

/// Checks a CA text: every certificate parses, and at least one is valid at `now`.
pub fn check_ca(ca_pem: &str, now: SystemTime) -> Result<(), CertificateError> {
    let mut standing = Vec::new();
    for certificate in certificates(ca_pem, Part::Ca)? {
        let parsed = parse(&certificate).ok_or(CertificateError::Unparsable(Part::Ca))?;
        standing.push(dates(&parsed, seconds(now)));
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|_| CertificateError::Unparsable(Part::Ca))?;
    }
    if standing.contains(&Dates::Valid) {
        Ok(())
    } else if standing.contains(&Dates::NotYetValid) {
        Err(CertificateError::NotYetValid(Part::Ca))
    } else {
        Err(CertificateError::Expired(Part::Ca))
    }
}
