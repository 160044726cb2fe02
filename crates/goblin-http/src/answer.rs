//! Answers: a success as JSON, a failure as its code with the status that belongs to it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goblin_api::{Done, ErrorBody, Success};
use goblin_controller::{ControllerError, DispatchError};
use goblin_ports::PortError;
use serde::Serialize;

/// What a handler gives.
pub(crate) type Answer = Result<Response, Failure>;

/// A success with status 200.
pub(crate) fn success(body: impl Serialize) -> Answer {
    Ok(Json(body).into_response())
}

/// A success with status 201.
pub(crate) fn created(body: impl Serialize) -> Answer {
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// A success that tells nothing more.
pub(crate) fn done() -> Answer {
    success(Done { ok: Success })
}

/// The code of a failure, as an extension of its response.
#[derive(Clone)]
pub(crate) struct Code(pub(crate) String);

/// An answer that is no success.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    body: Box<ErrorBody>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &str) -> Self {
        Self {
            status,
            body: Box::new(ErrorBody::new(code)),
        }
    }

    /// The request is at fault.
    pub(crate) fn invalid(code: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found")
    }

    /// The caller has not proved who it is.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error")
    }

    /// A dispatch that brought no answer.
    pub(crate) fn of_dispatch(error: &DispatchError, gateway_id: &str, operation_id: &str) -> Self {
        let status = match error {
            DispatchError::NotConnected
            | DispatchError::NotReady
            | DispatchError::Disconnected { .. }
            | DispatchError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            DispatchError::Port(error) => port_status(error),
            _ => StatusCode::BAD_REQUEST,
        };
        let mut failure = Self::new(status, error.code());
        if let Some(action) = error.action() {
            failure.body.gateway_id = Some(gateway_id.to_owned());
            failure.body.operation_id = Some(operation_id.to_owned());
            failure.body.retryable = Some(true);
            failure.body.action = Some(action.to_owned());
        }
        failure
    }
}

fn port_status(error: &PortError) -> StatusCode {
    match error {
        PortError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        PortError::Corrupt(_) | PortError::SecretTampered { .. } | PortError::SettingInvalid { .. } => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        PortError::OperationNotFound { .. } => StatusCode::NOT_FOUND,
        PortError::OperationAlreadyTerminal { .. } => StatusCode::CONFLICT,
        PortError::NameInvalid | PortError::ValueInvalid { .. } | PortError::OperationConflict { .. } => {
            StatusCode::BAD_REQUEST
        }
    }
}

impl From<ControllerError> for Failure {
    fn from(error: ControllerError) -> Self {
        let status = match &error {
            ControllerError::Port(error) => port_status(error),
            ControllerError::PairingNotFound
            | ControllerError::NotFound
            | ControllerError::TargetNotFound
            | ControllerError::AgentNotFound => StatusCode::NOT_FOUND,
            ControllerError::PairingNotLive
            | ControllerError::PairingCodeMismatch
            | ControllerError::TargetExists
            | ControllerError::AgentExists
            | ControllerError::AgentNotRemote
            | ControllerError::GatewayNotApproved => StatusCode::CONFLICT,
            ControllerError::PairingIdentityInvalid | ControllerError::Key(_) | ControllerError::Bind { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ => StatusCode::BAD_REQUEST,
        };
        let mut failure = Self::new(status, error.code());
        if matches!(error, ControllerError::Certificate(_) | ControllerError::Tls(_)) {
            failure.body.reason = Some(error.to_string());
        }
        failure
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = Code(self.body.error.clone());
        let mut response = (self.status, Json(*self.body)).into_response();
        response.extensions_mut().insert(code);
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"node-goblin\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
