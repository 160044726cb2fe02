//! Certificates as PEM texts: what they say, the generated one, and the check of configured ones. It must never know
//! where they are kept nor who presents them.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::{OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_SIG_ED25519};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

use crate::fingerprint::Fingerprint;

mod check;
mod generate;

pub use check::{check, check_ca};
pub use generate::{GeneratedCertificate, VALIDITY, generate};

/// Longest PEM text that is looked at, in bytes: far above a bundle of all public authorities' certificates.
pub const MAX_PEM: usize = 4 << 20;

/// Which of the configured texts an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The certificate that this end presents.
    Certificate,
    /// The private key of that certificate.
    Key,
    /// The certificates that the other end is checked against.
    Ca,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
            Self::Ca => "CA",
        })
    }
}

/// Why a certificate could not be made, read or used. Never holds key material.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The text is longer than [`MAX_PEM`].
    #[error("the {0} text is longer than {MAX_PEM} bytes")]
    TooLarge(Part),
    /// There is no certificate in the text, or its PEM is broken.
    #[error("the {0} text holds no certificate in PEM form")]
    NotPem(Part),
    /// A certificate of the text can't be parsed.
    #[error("a certificate of the {0} text can't be parsed")]
    Unparsable(Part),
    /// The certificate can be parsed, but TLS peers will not take it (for example one of X.509 version 1).
    #[error("the certificate can't be used for TLS: {0}")]
    Unusable(String),
    /// There is no private key that can be used in the text.
    #[error("the private key text holds no usable key (unencrypted PKCS#8, PKCS#1 or SEC1 PEM is needed)")]
    KeyInvalid,
    /// Key and certificate are not of one pair.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// The certificate (of a CA text: every certificate) has expired.
    #[error("the {0} has expired")]
    Expired(Part),
    /// The certificate (of a CA text: every certificate that has not expired) is not valid yet.
    #[error("the {0} is not valid yet")]
    NotYetValid(Part),
    /// Nothing to put into the certificate.
    #[error("a certificate needs at least one name or address")]
    NoNames,
    /// A name that no TLS client could ask for.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    NameInvalid(String),
    /// The time given can't be written into a certificate.
    #[error("the time lies outside what a certificate can hold")]
    TimeOutOfRange,
    /// The environment: the cryptography library failed.
    #[error("the cryptography library could not make the certificate")]
    GenerationFailed,
}

impl CertificateError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "tls_text_too_large",
            Self::NotPem(Part::Ca) | Self::Unparsable(Part::Ca) => "tls_ca_invalid",
            Self::NotPem(_) | Self::Unparsable(_) => "tls_certificate_invalid",
            Self::Unusable(_) => "tls_certificate_unusable",
            Self::KeyInvalid => "tls_key_invalid",
            Self::KeyMismatch => "tls_key_mismatch",
            Self::Expired(Part::Ca) => "tls_ca_expired",
            Self::Expired(_) => "tls_certificate_expired",
            Self::NotYetValid(Part::Ca) => "tls_ca_not_yet_valid",
            Self::NotYetValid(_) => "tls_certificate_not_yet_valid",
            Self::NoNames => "certificate_names_required",
            Self::NameInvalid(_) => "certificate_name_invalid",
            Self::TimeOutOfRange => "certificate_time_out_of_range",
            Self::GenerationFailed => "certificate_generation_failed",
        }
    }
}

/// What a controller remembers and shows of its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateMetadata {
    /// The kind of key: `EC-P256`, `RSA-3072`, `Ed25519`…; `unknown` when it is another.
    pub algorithm: String,
    /// The host it was made for; of a configured certificate its common name, else its first alternative name.
    pub host: Option<String>,
    /// The alternative names as OpenSSL's configuration writes them, `DNS:a,IP:192.0.2.1`.
    pub subject_alt_name: Option<String>,
    /// When it was made; of a configured certificate the start of its validity.
    pub created_at: SystemTime,
    /// The end of its validity.
    pub expires_at: SystemTime,
    /// When it should be replaced, for a generated one.
    pub rotate_after: Option<SystemTime>,
    /// SHA-256 of its DER.
    pub fingerprint_sha256: Fingerprint,
}

/// Every certificate of a PEM text, at least one. Other sections of the text are passed over.
pub(crate) fn certificates(pem: &str, part: Part) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    if pem.len() > MAX_PEM {
        return Err(CertificateError::TooLarge(part));
    }
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| CertificateError::NotPem(part))?;
    if certificates.is_empty() {
        return Err(CertificateError::NotPem(part));
    }
    Ok(certificates)
}

/// The first private key of a PEM text.
pub(crate) fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, CertificateError> {
    if pem.len() > MAX_PEM {
        return Err(CertificateError::TooLarge(Part::Key));
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| CertificateError::KeyInvalid)
}

/// Where a certificate's dates stand at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dates {
    Valid,
    Expired,
    NotYetValid,
}

pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Some(certificate),
        _ => None,
    }
}

/// `now` is in seconds since 1970.
pub(crate) fn dates(certificate: &X509Certificate<'_>, now: i64) -> Dates {
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        Dates::NotYetValid
    } else if now > validity.not_after.timestamp() {
        Dates::Expired
    } else {
        Dates::Valid
    }
}

/// Seconds since 1970, negative before; saturating.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

fn system_time(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let shifted = if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    shifted.unwrap_or(UNIX_EPOCH)
}

fn describe(certificate: &X509Certificate<'_>, der: &CertificateDer<'_>) -> CertificateMetadata {
    let names = alternative_names(certificate);
    let common_name = certificate
        .subject()
        .iter_common_name()
        .find_map(|name| name.as_str().ok())
        .map(str::to_owned);
    CertificateMetadata {
        algorithm: algorithm(certificate),
        host: common_name.or_else(|| names.first().map(|(_, value)| value.clone())),
        subject_alt_name: (!names.is_empty()).then(|| alternative_names_text(&names)),
        created_at: system_time(certificate.validity().not_before),
        expires_at: system_time(certificate.validity().not_after),
        rotate_after: None,
        fingerprint_sha256: Fingerprint::of_der(der),
    }
}

fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<(&'static str, String)> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let shown = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(("DNS", (*name).to_owned())),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
                .ok()?;
            Some(("IP", address.to_string()))
        }
        _ => None,
    };
    extension.value.general_names.iter().filter_map(shown).collect()
}

fn alternative_names_text(names: &[(&'static str, String)]) -> String {
    let shown: Vec<_> = names.iter().map(|(kind, value)| format!("{kind}:{value}")).collect();
    shown.join(",")
}

fn algorithm(certificate: &X509Certificate<'_>) -> String {
    let key = certificate.public_key();
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => format!("RSA-{}", rsa.key_size()),
        Ok(PublicKey::EC(_)) => {
            let curve = key
                .algorithm
                .parameters
                .as_ref()
                .and_then(|parameters| parameters.as_oid().ok());
            match curve {
                Some(curve) if curve == OID_EC_P256 => "EC-P256".to_owned(),
                Some(curve) if curve == OID_NIST_EC_P384 => "EC-P384".to_owned(),
                Some(curve) if curve == OID_NIST_EC_P521 => "EC-P521".to_owned(),
                _ => "unknown".to_owned(),
            }
        }
        _ if key.algorithm.algorithm == OID_SIG_ED25519 => "Ed25519".to_owned(),
        _ => "unknown".to_owned(),
    }
}
