//! The certificate verifiers of both ends. Whatever a certificate is worth, the handshake's own signatures are always
//! verified. They must never know a pin: that is judged after the handshake.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::TlsError;
use super::anchors::Anchors;

/// A client's verifier of server certificates.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    check: ServerCheck,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum ServerCheck {
    AnyLeaf,
    Anchored {
        anchors: Anchors,
        chain: Arc<WebPkiServerVerifier>,
    },
}

impl ServerVerifier {
    /// Takes every certificate whose key signs the handshake.
    pub(super) fn any_leaf(provider: &CryptoProvider) -> Self {
        Self {
            check: ServerCheck::AnyLeaf,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// Takes a valid certificate for the host that chains to, or is, one of the anchors.
    pub(super) fn anchored(anchors: Anchors, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let chain = WebPkiServerVerifier::builder_with_provider(anchors.roots.clone(), provider.clone())
            .build()
            .map_err(|error| TlsError::Configuration(error.to_string()))?;
        Ok(Self {
            check: ServerCheck::Anchored { anchors, chain },
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.check {
            ServerCheck::AnyLeaf => Ok(ServerCertVerified::assertion()),
            ServerCheck::Anchored { anchors, .. } if anchors.holds(end_entity, now)? => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            ServerCheck::Anchored { chain, .. } => chain
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
                .map_err(not_ours),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// A server's verifier of client certificates: optional, but verified when presented.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    anchors: Anchors,
    chain: Arc<dyn ClientCertVerifier>,
}

impl ClientVerifier {
    pub(super) fn new(anchors: Anchors, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let chain = WebPkiClientVerifier::builder_with_provider(anchors.roots.clone(), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| TlsError::Configuration(error.to_string()))?;
        Ok(Self { anchors, chain })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.chain.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.anchors.holds(end_entity, now)? {
            return Ok(ClientCertVerified::assertion());
        }
        self.chain
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(not_ours)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// A certificate that bears the name of one of the anchors without its signature comes from another authority. Two
/// generated certificates for the same host are the usual case, and "bad signature" would send its reader astray.
fn not_ours(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => CertificateError::UnknownIssuer.into(),
        other => other,
    }
}
