//! The typed records behind the names that are the contract with other homes.
//! Their JSON is frozen; members this version does not know survive a rewrite. It must never know where they are kept.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names of the settings.
pub mod setting {
    /// List of [`crate::Target`].
    pub const TARGETS: &str = "targets";
    /// [`crate::ControllerSettings`].
    pub const CONTROLLER: &str = "controller";
    /// List of [`crate::GatewayRecord`].
    pub const GATEWAYS: &str = "controllerGateways";
    /// List of [`crate::PendingPairing`].
    pub const PENDING_PAIRINGS: &str = "pendingNodeGoblinPairings";
    /// [`crate::TlsMetadata`].
    pub const TLS_METADATA: &str = "controllerTlsMetadata";
    /// List of [`crate::OperationRecord`], where the home keeps operations as a setting.
    pub const OPERATIONS: &str = "controllerOperations";
    /// List of [`crate::Agent`], where the home has no agents of its own.
    pub const AGENTS: &str = "agents";
}

/// Names of the secrets.
pub mod secret {
    /// Private key of the listener, PEM.
    pub const TLS_KEY: &str = "controller.tls.key";
    /// Certificate chain of the listener, PEM.
    pub const TLS_CERT: &str = "controller.tls.cert";
    /// Authorities that client certificates must chain to, PEM.
    pub const TLS_CA: &str = "controller.tls.ca";
    /// Key pair that answers gateways, JSON `{publicKey, privateKey}` of PEM texts.
    pub const PAIRING_IDENTITY: &str = "controller.pairing.identity";

    /// The HMAC secret of an enrolled gateway.
    pub fn gateway(gateway_id: &str) -> String {
        format!("controller.gateway.{gateway_id}")
    }

    /// The approved public key of a gateway, PEM. No gateway id begins `publicKey.`, so this never meets
    /// [`gateway`].
    pub fn gateway_public_key(gateway_id: &str) -> String {
        format!("controller.gateway.publicKey.{gateway_id}")
    }
}

/// An API target that an operator listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Immutable id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// http(s) URL without a trailing slash.
    pub base_url: String,
    /// Whether it may be used.
    pub enabled: bool,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An agent that an operator listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Immutable id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Where its work is carried out; `None` while that is not decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_environment: Option<ExecutionEnvironment>,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Where an agent's work is carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ExecutionEnvironment {
    /// On the controller's own machine.
    Local {
        /// Absolute directory that the work begins in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace_root: Option<String>,
    },
    /// On a gateway.
    Remote {
        /// Always [`PROVIDER_ID`].
        provider_id: String,
        /// The gateway.
        target_id: String,
        /// Absolute directory that the work begins in.
        workspace_root: String,
    },
}

/// The provider of every remote [`ExecutionEnvironment`].
pub const PROVIDER_ID: &str = "node-goblin";

/// Whether and where the gateway listener listens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerSettings {
    /// Whether the listener runs.
    pub enabled: bool,
    /// Address or name to bind.
    pub host: String,
    /// TCP port, 1 to 65535.
    pub port: u16,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            host: "127.0.0.1".to_owned(),
            port: 7443,
            other: Map::new(),
        }
    }
}

/// How a gateway proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustMethod {
    /// The key that an operator approved.
    Ed25519,
    /// A shared enrolment secret.
    Hmac,
}

/// What the controller decided about a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRecord {
    /// Id of the gateway.
    pub gateway_id: String,
    /// Id under which the controller presents itself to it.
    pub controller_id: String,
    /// A word for people; decisions use `approved` and `revoked`.
    pub status: String,
    /// Whether an operator let it in.
    pub approved: bool,
    /// Whether an operator shut it out again.
    pub revoked: bool,
    /// How it proves itself; `null` once nothing is trusted.
    #[serde(default)]
    pub method: Option<TrustMethod>,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl GatewayRecord {
    /// A gateway that an operator let in.
    pub fn approved(gateway_id: &str, controller_id: &str, method: TrustMethod) -> Self {
        Self {
            gateway_id: gateway_id.to_owned(),
            controller_id: controller_id.to_owned(),
            status: "approved".to_owned(),
            approved: true,
            revoked: false,
            method: Some(method),
            other: Map::new(),
        }
    }

    /// Turns the record into that of a gateway shut out.
    pub fn revoke(&mut self) {
        self.status = "revoked".to_owned();
        self.approved = false;
        self.revoked = true;
        self.method = None;
    }

    /// Whether it may connect.
    pub fn trusted(&self) -> bool {
        self.approved && !self.revoked
    }
}

/// A gateway that waits for an operator. After a restart it informs only: approval needs the live connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPairing {
    /// Id that the gateway asked for.
    pub gateway_id: String,
    /// Id under which the controller answered.
    pub controller_id: String,
    /// The gateway's public key, PEM.
    pub public_key: String,
    /// What the gateway says about itself, already bounded.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Nonce of the challenge.
    pub nonce: String,
    /// The code that both sides show.
    pub pairing_code: String,
    /// Always `pending`.
    pub status: String,
    /// ISO 8601 time of the request.
    pub requested_at: String,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// [`TlsMetadata::source`] of a certificate that the controller made itself.
pub const TLS_SOURCE_GENERATED: &str = "generated";
/// [`TlsMetadata::source`] of a certificate that an operator supplied.
pub const TLS_SOURCE_CONFIGURED: &str = "configured";

/// What is known of the listener's certificate without opening it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsMetadata {
    /// [`TLS_SOURCE_GENERATED`] or [`TLS_SOURCE_CONFIGURED`].
    pub source: String,
    /// Key algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Host that it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its names, as OpenSSL prints them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_alt_name: Option<String>,
    /// ISO 8601 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// ISO 8601 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// ISO 8601 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_after: Option<String>,
    /// Hexadecimal SHA-256 of the certificate's DER.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint_sha256: Option<String>,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
