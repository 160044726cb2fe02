//! The TLS configurations of both ends: versions 1.2 and 1.3, one provider, one configuration per trust. It must never
//! know a socket, nor decide what an authenticated peer may do.
//!
//! A resumed session skips the certificate verifier, so configurations of different trusts are never shared: every
//! call makes its own, with its own session store.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};

use crate::certificate::{CertificateError, Part, certificates, private_key};
use crate::fingerprint::Fingerprint;

mod anchors;
mod verifier;

use anchors::Anchors;
use verifier::{ClientVerifier, ServerVerifier};

/// Why a TLS configuration could not be made or a peer's certificate not be judged. Never holds key material.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A configured certificate, key or CA text.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The system has no certificates of public authorities that can be used.
    #[error("the system's root certificates can't be used: {0}")]
    SystemRoots(String),
    /// A host that is neither a DNS name nor an IP address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    ServerName(String),
    /// The handshake is not over, or the peer presented no certificate.
    #[error("the peer presented no certificate")]
    NoPeerCertificate,
    /// The TLS library refused the configuration.
    #[error("TLS can't be configured: {0}")]
    Configuration(String),
}

impl TlsError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Certificate(error) => error.code(),
            Self::SystemRoots(_) => "tls_system_roots_unavailable",
            Self::ServerName(_) => "tls_server_name_invalid",
            Self::NoPeerCertificate => "tls_peer_certificate_missing",
            Self::Configuration(_) => "tls_configuration_failed",
        }
    }
}

/// What a client goes by when it meets a server's certificate. In every mode the signatures of the handshake are
/// verified: the server holds the private key of the certificate that it shows.
#[derive(Clone, Debug)]
pub enum ClientTrust {
    /// Bootstrap: any certificate is taken, and the connection proves nothing by itself. Good for the pairing
    /// transcript only. Sessions are not resumed.
    Unverified,
    /// The certificate must be valid now, name the host, and chain to one of the certificates of this PEM text or be
    /// one of them itself (a self-signed certificate given as its own CA).
    Ca {
        /// One or more certificates.
        pem: String,
    },
    /// The leaf's fingerprint decides; dates and names do not matter. With `ca_pem` the certificate must *also* pass as
    /// under [`ClientTrust::Ca`], or the handshake fails.
    ///
    /// A leaf with another fingerprint does not fail the handshake, because a renewed certificate is admitted when the
    /// controller proves it with its pinned key. [`ClientTls::judge`] reports it as [`Standing::Changed`], and until
    /// such a proof has been verified nothing may be sent or believed on that connection.
    Pinned {
        /// The fingerprint that was stored after the first approval.
        fingerprint: Fingerprint,
        /// What the certificate must also pass, if anything.
        ca_pem: Option<String>,
    },
    /// As [`ClientTrust::Ca`] with the system's public authorities. A text is never given, so a self-signed leaf never
    /// passes.
    SystemRoots,
}

/// How a peer's leaf certificate stands after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Under [`ClientTrust::Unverified`]: the certificate proves nothing. Continue with the pairing transcript only, and
    /// only as the rules for an unproven controller allow.
    Unproven,
    /// Under [`ClientTrust::Ca`] or [`ClientTrust::SystemRoots`]: it was verified during the handshake.
    Verified,
    /// It is the pinned one (and passed the CA, where one was given).
    Pinned,
    /// It is not the pinned one. Nothing counts before a valid proof by the pinned controller key over this leaf.
    Changed,
}

/// The leaf certificate of a peer after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// SHA-256 of its DER.
    pub fingerprint: Fingerprint,
    /// How it stands.
    pub standing: Standing,
}

/// A client's TLS configuration together with the judgement that its trust asks for after the handshake.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    judgement: Judgement,
}

#[derive(Clone, Copy, Debug)]
enum Judgement {
    Unproven,
    Verified,
    Pin(Fingerprint),
}

impl ClientTls {
    /// Makes the configuration for a trust, with a client certificate (chain and key, PEM) when the server may ask for
    /// one. Every call makes a separate configuration; keep the result as long as the trust is the same.
    pub fn new(trust: &ClientTrust, client_certificate: Option<(&str, &str)>) -> Result<Self, TlsError> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(configuration)?
            .dangerous();
        let builder = match trust {
            ClientTrust::Unverified | ClientTrust::Pinned { ca_pem: None, .. } => {
                builder.with_custom_certificate_verifier(Arc::new(ServerVerifier::any_leaf(&provider)))
            }
            ClientTrust::Ca { pem } | ClientTrust::Pinned { ca_pem: Some(pem), .. } => {
                let anchors = Anchors::new(certificates(pem, Part::Ca)?)?;
                builder.with_custom_certificate_verifier(Arc::new(ServerVerifier::anchored(anchors, &provider)?))
            }
            ClientTrust::SystemRoots => {
                let verifier = rustls_platform_verifier::Verifier::new(provider.clone())
                    .map_err(|error| TlsError::SystemRoots(error.to_string()))?;
                builder.with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match client_certificate {
            None => builder.with_no_client_auth(),
            Some((cert_pem, key_pem)) => builder
                .with_client_auth_cert(certificates(cert_pem, Part::Certificate)?, private_key(key_pem)?)
                .map_err(own_certificate)?,
        };
        let judgement = match trust {
            ClientTrust::Unverified => {
                config.resumption = Resumption::disabled();
                Judgement::Unproven
            }
            ClientTrust::Ca { .. } | ClientTrust::SystemRoots => Judgement::Verified,
            ClientTrust::Pinned { fingerprint, .. } => Judgement::Pin(*fingerprint),
        };
        Ok(Self {
            config: Arc::new(config),
            judgement,
        })
    }

    /// The configuration to connect with.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Judges the certificates of a peer right after the handshake, as the connection's `peer_certificates()` gives
    /// them. Call it before anything that the peer sent is looked at.
    pub fn judge(&self, peer_certificates: Option<&[CertificateDer<'_>]>) -> Result<Leaf, TlsError> {
        let fingerprint = leaf_fingerprint(peer_certificates)?;
        let standing = match self.judgement {
            Judgement::Unproven => Standing::Unproven,
            Judgement::Verified => Standing::Verified,
            Judgement::Pin(pinned) if pinned == fingerprint => Standing::Pinned,
            Judgement::Pin(_) => Standing::Changed,
        };
        Ok(Leaf { fingerprint, standing })
    }
}

/// A server's configuration from its certificate (followed by its chain, where there is one) and key. With `ca_pem`,
/// clients are asked for a certificate; one that is presented must be valid now and chain to, or be, one of these; a
/// client may present none.
///
/// Every call makes new ticket keys: sessions begun under another certificate are not resumed.
pub fn server_config(cert_pem: &str, key_pem: &str, ca_pem: Option<&str>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(configuration)?;
    let builder = match ca_pem {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let anchors = Anchors::new(certificates(pem, Part::Ca)?)?;
            builder.with_client_cert_verifier(Arc::new(ClientVerifier::new(anchors, &provider)?))
        }
    };
    let mut config = builder
        .with_single_cert(certificates(cert_pem, Part::Certificate)?, private_key(key_pem)?)
        .map_err(own_certificate)?;
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(configuration)?;
    Ok(Arc::new(config))
}

/// A server's configuration for HTTP, version 2 or 1.1 as the client likes; it asks for no client certificate.
pub fn web_server_config(cert_pem: &str, key_pem: &str) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::clone(&*server_config(cert_pem, key_pem, None)?);
    config.alpn_protocols = [b"h2".as_slice(), b"http/1.1"].map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

/// The name to connect to: a DNS name, an IPv4 address, or an IPv6 address with or without brackets. Server name
/// indication is sent for names only.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    match ServerName::try_from(bare) {
        Ok(name) if bare.len() == host.len() || bare.contains(':') => Ok(name.to_owned()),
        _ => Err(TlsError::ServerName(host.to_owned())),
    }
}

/// The fingerprint of the leaf among a peer's certificates.
pub fn leaf_fingerprint(peer_certificates: Option<&[CertificateDer<'_>]>) -> Result<Fingerprint, TlsError> {
    let leaf = peer_certificates
        .and_then(|certificates| certificates.first())
        .ok_or(TlsError::NoPeerCertificate)?;
    Ok(Fingerprint::of_der(leaf))
}

/// The fingerprint of the first certificate of a PEM text: that of a server's own leaf.
pub fn pem_fingerprint(cert_pem: &str) -> Result<Fingerprint, TlsError> {
    leaf_fingerprint(Some(&certificates(cert_pem, Part::Certificate)?))
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn configuration(error: rustls::Error) -> TlsError {
    TlsError::Configuration(error.to_string())
}

/// The library's complaint about our own certificate and key. Its texts speak of structure, never of content.
fn own_certificate(error: rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => CertificateError::KeyMismatch.into(),
        rustls::Error::InvalidCertificate(reason) => CertificateError::Unusable(reason.to_string()).into(),
        rustls::Error::General(_) => CertificateError::KeyInvalid.into(),
        other => configuration(other),
    }
}
