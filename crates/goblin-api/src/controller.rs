//! State of the controller itself.

use crate::Success;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of GET `/controller`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControllerAnswer {
    /// Always true.
    pub ok: Success,
    /// The listener.
    pub controller: ControllerState,
}

/// The gateway listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControllerState {
    /// Whether it is meant to run.
    pub enabled: bool,
    /// Address or name that it binds.
    pub host: String,
    /// TCP port; the one that the system chose once it runs.
    pub port: u16,
    /// Whether it serves.
    pub running: bool,
    /// Its certificate.
    pub tls: TlsState,
    /// Stable code of why it does not run, when it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The listener's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsState {
    /// Key and certificate are there.
    pub configured: bool,
    /// The listener serves with them.
    pub ready: bool,
    /// There is a private key.
    pub key_configured: bool,
    /// There is a certificate.
    pub cert_configured: bool,
    /// There is an authority for client certificates.
    pub ca_configured: bool,
    /// `generated` or `configured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// ISO 8601 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// ISO 8601 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// ISO 8601 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_after: Option<String>,
    /// Host that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Hexadecimal SHA-256 of the certificate, for a gateway's `--controller-fingerprint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint_sha256: Option<String>,
}

/// Body of PUT `/controller`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"enabled": true, "host": "127.0.0.1", "port": 7443}))]
pub struct ControllerRequest {
    /// Whether the listener shall run.
    pub enabled: bool,
    /// Address or name to bind.
    #[schema(min_length = 1, max_length = 255)]
    pub host: String,
    /// TCP port, 1 to 65535.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u16,
}

/// Answer of PUT `/controller`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerChange {
    /// Always true.
    pub ok: Success,
    /// The listener as it is now.
    pub controller: ControllerState,
    /// True where the change waits for a restart of the host program.
    pub restart_required: bool,
}

/// Body of PUT `/controller/tls`. Its `Debug` shows nothing.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct TlsRequest {
    /// Private key, PEM.
    pub key: String,
    /// Certificate, followed by its chain where there is one, PEM.
    pub cert: String,
    /// Authorities that client certificates must chain to, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl std::fmt::Debug for TlsRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsRequest").finish_non_exhaustive()
    }
}

/// Answer of PUT and DELETE `/controller/tls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsAnswer {
    /// Always true.
    pub ok: Success,
    /// True where the change waits for a restart of the host program.
    pub restart_required: bool,
}

/// Answer of GET `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthAnswer {
    /// Always true.
    pub ok: Success,
}
