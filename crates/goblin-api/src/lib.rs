//! The HTTP API as types: paths, request bodies and answers, shared by server and client so that both agree by
//! construction. It must never know a socket, a server, nor what an operation means.

pub mod routes;

mod agents;
mod controller;
mod dispatch;
mod error;
pub mod events;
mod gateways;
mod operations;
mod pairings;
mod targets;
#[cfg(test)]
mod tests;
mod tokens;
mod trust;

pub use agents::{
    Agent, AgentAnswer, AgentChange, AgentFileRequest, AgentProcessRequest, AgentRequest, AgentsAnswer,
    EnvironmentKind, ExecutionEnvironment, PROVIDER_ID,
};
pub use controller::{
    ControllerAnswer, ControllerChange, ControllerRequest, ControllerState, HealthAnswer, TlsAnswer, TlsRequest,
    TlsState,
};
pub use dispatch::{
    CancelAnswer, CollectedDispatch, DISPATCH_ERROR, DispatchAnswer, DispatchError, DispatchErrorLine, FileRequest,
    NDJSON, ProcessRequest, ProtectedValues,
};
pub use error::ErrorBody;
pub use gateways::{GatewaySnapshot, GatewayStatus, GatewaysAnswer};
pub use operations::{
    Activity, ActivityKind, ActivityState, Correlation, CorrelationState, OPERATIONS_LIMIT_DEFAULT,
    OPERATIONS_LIMIT_MAX, OperationAnswer, OperationsAnswer, ResolveAnswer, ResolveRequest, TerminalReference,
};
pub use pairings::{ApproveRequest, PairingAnswer, PairingDecision, PairingListing, PairingMetadata, PairingsAnswer};
pub use targets::{Target, TargetAnswer, TargetRequest, TargetsAnswer};
pub use tokens::{
    CSRF_HEADER, CreateToken, CreatedToken, LoginAnswer, LoginRequest, LogoutAnswer, REQUEST_ID_HEADER, RevokedToken,
    Scope, TOKEN_EXPIRY_MAX_SECONDS, TOKEN_NAME_MAX, TOKEN_PREFIX, TokenListing, TokensAnswer,
};
pub use trust::{EnrolRequest, TrustAnswer, TrustListing, TrustRecord};

/// The member `ok` of every answer that succeeded: writes `true`, reads only `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Success;

/// A body without members; those that are there are not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Nothing {}

/// An answer that tells nothing more than success.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Done {
    /// Always true.
    pub ok: Success,
}

impl serde::Serialize for Success {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> serde::Deserialize<'de> for Success {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("the answer is not a success"))
        }
    }
}

impl utoipa::PartialSchema for Success {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .enum_values(Some([true]))
            .into()
    }
}

/// Written out where it is used.
impl utoipa::ToSchema for Success {}
