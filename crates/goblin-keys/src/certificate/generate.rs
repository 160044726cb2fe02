//! The self-signed certificate that a controller makes for itself. It must never know how the names were found.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType};
use rustls::pki_types::ServerName;
use zeroize::Zeroizing;

use super::{CertificateError, CertificateMetadata, alternative_names_text};
use crate::fingerprint::Fingerprint;

const DAY: Duration = Duration::from_secs(86_400);

/// How long a generated certificate is valid: 3 650 days.
pub const VALIDITY: Duration = Duration::from_secs(3_650 * 86_400);

/// Nine years, after which it should be replaced.
const ROTATE_AFTER: Duration = Duration::from_secs(9 * 365 * 86_400);

/// It is valid from one day before it was made, so that a host whose clock is behind takes it.
const CLOCK_ALLOWANCE: Duration = DAY;

/// The last second of the year 9999, the last that a certificate can name.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// Longest common name that X.509 allows, in characters.
const MAX_COMMON_NAME: usize = 64;

/// A generated certificate and its key. Its `Debug` leaves the key out.
pub struct GeneratedCertificate {
    /// The private key, PKCS#8 PEM.
    pub key_pem: Zeroizing<String>,
    /// The certificate, PEM. It can be given to the other end as its CA file.
    pub cert_pem: String,
    /// What to remember of it.
    pub metadata: CertificateMetadata,
}

impl std::fmt::Debug for GeneratedCertificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("GeneratedCertificate")
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

/// Makes a P-256 key and a self-signed server certificate for `host` and the further `names`, each a DNS name or an IP
/// address (a doubled one is named once), valid for [`VALIDITY`] from `now`. The common name is `host` where it fits.
///
/// Callers leave a wildcard address such as `0.0.0.0` out of the names: no client asks for it.
pub fn generate(host: &str, names: &[String], now: SystemTime) -> Result<GeneratedCertificate, CertificateError> {
    let mut alternatives: Vec<(&'static str, String)> = Vec::new();
    let mut parameters = CertificateParams::default();
    for name in names {
        let (shown, alternative) = alternative_name(name)?;
        if !alternatives.contains(&shown) {
            alternatives.push(shown);
            parameters.subject_alt_names.push(alternative);
        }
    }
    if alternatives.is_empty() {
        return Err(CertificateError::NoNames);
    }

    let made = now
        .duration_since(UNIX_EPOCH)
        .map_err(|_| CertificateError::TimeOutOfRange)?;
    // Certificates hold whole seconds.
    let made = Duration::from_secs(made.as_secs());
    let starts = made
        .checked_sub(CLOCK_ALLOWANCE)
        .ok_or(CertificateError::TimeOutOfRange)?;
    let ends = made
        .checked_add(VALIDITY)
        .filter(|ends| *ends <= LAST_SECOND)
        .ok_or(CertificateError::TimeOutOfRange)?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + starts;
    parameters.not_after = epoch + ends;

    parameters.distinguished_name = DistinguishedName::new();
    let common_name = if host.chars().count() <= MAX_COMMON_NAME {
        host
    } else {
        "node-goblin"
    };
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

    let key =
        rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|_| CertificateError::GenerationFailed)?;
    let certificate = parameters
        .self_signed(&key)
        .map_err(|_| CertificateError::GenerationFailed)?;
    Ok(GeneratedCertificate {
        key_pem: Zeroizing::new(key.serialize_pem()),
        cert_pem: certificate.pem(),
        metadata: CertificateMetadata {
            algorithm: "EC-P256".to_owned(),
            host: Some(host.to_owned()),
            subject_alt_name: Some(alternative_names_text(&alternatives)),
            created_at: now,
            expires_at: UNIX_EPOCH + ends,
            rotate_after: Some(UNIX_EPOCH + made + ROTATE_AFTER),
            fingerprint_sha256: Fingerprint::of_der(certificate.der()),
        },
    })
}

fn alternative_name(name: &str) -> Result<((&'static str, String), SanType), CertificateError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok((("IP", address.to_string()), SanType::IpAddress(address)));
    }
    let invalid = || CertificateError::NameInvalid(name.to_owned());
    let lower = name.to_ascii_lowercase();
    match ServerName::try_from(lower.as_str()) {
        Ok(ServerName::DnsName(_)) if !lower.ends_with('.') => {
            let text = lower.as_str().try_into().map_err(|_| invalid())?;
            Ok((("DNS", lower), SanType::DnsName(text)))
        }
        _ => Err(invalid()),
    }
}
