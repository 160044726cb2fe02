//! Why the controller refused or failed: a stable code for machines and a sentence for people.

use goblin_keys::KeyError;
use goblin_keys::certificate::CertificateError;
use goblin_keys::tls::TlsError;
use goblin_ports::PortError;

/// Why a call of the façade failed.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The home refused or failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The certificate or its key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The TLS configuration.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The controller's own key pair could not be made.
    #[error("the controller's pairing key: {0}")]
    Key(#[from] KeyError),
    /// The stored key pair cannot be read. Gateways have pinned it, so no other is made.
    #[error("the stored pairing identity cannot be read; restore the store from a backup")]
    PairingIdentityInvalid,
    /// Only one of key and certificate is there, and an operator supplied it.
    #[error("the configured certificate lacks its key, or the key its certificate")]
    TlsCredentialsRequired,
    /// The listener's host is blank or too long.
    #[error("a host to listen on is 1 to 255 characters")]
    HostInvalid,
    /// The listener's port is 0.
    #[error("a port to listen on is 1 to 65535")]
    PortInvalid,
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The gateway's id breaks the grammar of ids.
    #[error(
        "a gateway id is 1 to 255 letters, digits, dots, underscores and hyphens, and begins with a letter or digit"
    )]
    TargetIdInvalid,
    /// The operation's id breaks the grammar of ids.
    #[error("an operation id is 1 to 256 letters, digits, dots, underscores, colons and hyphens")]
    OperationIdInvalid,
    /// The controller's id is blank or too long.
    #[error("a controller id is 1 to 255 characters")]
    ControllerIdInvalid,
    /// An enrolment without a secret.
    #[error("an enrolment needs a secret")]
    GatewaySecretRequired,
    /// No gateway of this id asked for approval.
    #[error("no gateway of this id waits for approval")]
    PairingNotFound,
    /// The gateway's request is no longer live: it has to connect again.
    #[error("the gateway is not connected any more; it gets a new code when it connects again")]
    PairingNotLive,
    /// The code that the operator compared is not that of the live request.
    #[error("the code is not the one of the connection that waits now")]
    PairingCodeMismatch,
    /// Nothing is known of this gateway.
    #[error("no gateway of this id is known")]
    NotFound,
    /// A target's or an agent's name is blank.
    #[error("a name is needed")]
    NameRequired(Named),
    /// A target's or an agent's name is too long.
    #[error("a name is at most 255 characters")]
    NameTooLong(Named),
    /// A target's URL breaks a rule.
    #[error("a base URL is http(s), without credentials, query and fragment, and at most 2048 bytes")]
    TargetBaseUrlInvalid,
    /// A target cannot change its id.
    #[error("the id of a target cannot be changed")]
    TargetIdImmutable,
    /// There is a target of this id.
    #[error("there is a target of this id already")]
    TargetExists,
    /// There is no target of this id.
    #[error("there is no target of this id")]
    TargetNotFound,
    /// The agent's id breaks the grammar of ids.
    #[error(
        "an agent id is 1 to 255 letters, digits, dots, underscores and hyphens, and begins with a letter or digit"
    )]
    AgentIdInvalid,
    /// There is an agent of this id.
    #[error("there is an agent of this id already")]
    AgentExists,
    /// There is no agent of this id.
    #[error("there is no agent of this id")]
    AgentNotFound,
    /// The agent's work is not carried out on a gateway.
    #[error("the agent is not assigned to a gateway")]
    AgentNotRemote,
    /// A remote environment names another provider.
    #[error("the provider of a remote environment is node-goblin")]
    ProviderInvalid,
    /// A workspace root is not absolute.
    #[error("a workspace root is an absolute path of at most 4096 bytes")]
    WorkspaceRootInvalid,
    /// The gateway of a remote environment is not approved.
    #[error("the gateway is not approved")]
    GatewayNotApproved,
    /// An operator's note is blank or too long.
    #[error("a note is needed, of at most 4096 bytes")]
    NoteInvalid,
}

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A target.
    Target,
    /// An agent.
    Agent,
}

impl ControllerError {
    /// The stable snake_case code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Port(error) => error.code(),
            Self::Certificate(error) => error.code(),
            Self::Tls(error) => error.code(),
            Self::Key(error) => error.code(),
            Self::PairingIdentityInvalid => "pairing_identity_invalid",
            Self::TlsCredentialsRequired => "controller_tls_credentials_required",
            Self::HostInvalid => "controller_host_invalid",
            Self::PortInvalid => "controller_port_invalid",
            Self::Bind { .. } => "controller_listen_failed",
            Self::TargetIdInvalid => "target_id_invalid",
            Self::OperationIdInvalid => goblin_protocol::Code::OperationIdInvalid.as_str(),
            Self::ControllerIdInvalid => "controller_id_invalid",
            Self::GatewaySecretRequired => "gateway_secret_required",
            Self::PairingNotFound => "pairing_not_found",
            Self::PairingNotLive => "pairing_not_live",
            Self::PairingCodeMismatch => "pairing_code_mismatch",
            Self::NotFound => "not_found",
            Self::NameRequired(Named::Target) => "target_name_required",
            Self::NameRequired(Named::Agent) => "agent_name_required",
            Self::NameTooLong(Named::Target) => "target_name_invalid",
            Self::NameTooLong(Named::Agent) => "agent_name_invalid",
            Self::TargetBaseUrlInvalid => "target_base_url_invalid",
            Self::TargetIdImmutable => "target_id_immutable",
            Self::TargetExists => "api_target_exists",
            Self::TargetNotFound => "api_target_not_found",
            Self::AgentIdInvalid => "agent_id_invalid",
            Self::AgentExists => "agent_exists",
            Self::AgentNotFound => "agent_not_found",
            Self::AgentNotRemote => "agent_not_remote",
            Self::ProviderInvalid => "provider_id_invalid",
            Self::WorkspaceRootInvalid => "workspace_root_invalid",
            Self::GatewayNotApproved => "gateway_not_approved",
            Self::NoteInvalid => "note_invalid",
        }
    }
}
