//! The certificates that a configured CA text holds, and the leaf that is one of them. It must never know which end
//! presents a leaf.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError as Refusal, Error, RootCertStore};

use crate::certificate::{CertificateError, Dates, Part, dates, parse};

/// Configured trust anchors.
#[derive(Debug)]
pub(super) struct Anchors {
    certificates: Vec<CertificateDer<'static>>,
    pub(super) roots: Arc<RootCertStore>,
}

impl Anchors {
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots
                .add(certificate.clone())
                .map_err(|_| CertificateError::Unparsable(Part::Ca))?;
        }
        Ok(Self {
            certificates,
            roots: Arc::new(roots),
        })
    }

    /// Whether `leaf` is one of the anchors itself: `Ok(true)` when it is and `now` lies within its dates, `Ok(false)`
    /// when it is none of them and has to be verified by its chain.
    pub(super) fn holds(&self, leaf: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        if !self
            .certificates
            .iter()
            .any(|certificate| certificate.as_ref() == leaf.as_ref())
        {
            return Ok(false);
        }
        let refused = |reason| Err(Error::InvalidCertificate(reason));
        let Some(parsed) = parse(leaf) else {
            return refused(Refusal::BadEncoding);
        };
        match dates(&parsed, i64::try_from(now.as_secs()).unwrap_or(i64::MAX)) {
            Dates::Valid => Ok(true),
            Dates::Expired => refused(Refusal::Expired),
            Dates::NotYetValid => refused(Refusal::NotValidYet),
        }
    }
}
