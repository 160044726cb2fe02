//! The stable error codes of the wire. Their texts are a contract: they never change once released.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// An error code of the wire protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The text that crosses the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    // Frames and envelopes.
    /// The line is no JSON, no UTF-8, or nested too deeply.
    InvalidJson = "invalid_json",
    /// The JSON is no request: no object, an odd id, or odd params.
    InvalidMessage = "invalid_message",
    /// No such method.
    UnknownMethod = "unknown_method",
    /// A frame over the cap came in.
    FrameTooLarge = "frame_too_large",
    /// A frame over the cap would have to go out.
    OutputFrameTooLarge = "output_frame_too_large",
    /// A request over the cap would have to go out.
    RequestFrameTooLarge = "request_frame_too_large",

    // Requests.
    /// The operation id is no text, or too long.
    OperationIdInvalid = "operation_id_invalid",
    /// The command is no non-blank text.
    CommandInvalid = "command_invalid",
    /// The executable is no non-blank text.
    ExecutableInvalid = "executable_invalid",
    /// The arguments are no array of texts.
    ArgsInvalid = "args_invalid",
    /// Both execution forms at once.
    CommandAndExecutableMutuallyExclusive = "command_and_executable_mutually_exclusive",
    /// Neither execution form.
    CommandOrExecutableRequired = "command_or_executable_required",
    /// Arguments beside a command.
    ArgsWithCommandInvalid = "args_with_command_invalid",
    /// The environment additions cannot be an environment.
    EnvInvalid = "env_invalid",
    /// The working directory cannot be a path.
    CwdInvalid = "cwd_invalid",
    /// The trace context breaks a rule of W3C Trace Context.
    TraceContextInvalid = "trace_context_invalid",
    /// The telemetry configuration breaks a rule.
    TelemetryConfigInvalid = "telemetry_config_invalid",
    /// Protected values that are not bound to this connection and request.
    ProtectedDeliveryBindingInvalid = "protected_delivery_binding_invalid",
    /// Protected values for an operation that has already completed.
    ProtectedRedeliveryForbidden = "protected_redelivery_forbidden",

    // Decisions.
    /// The operation id belongs to another request.
    OperationIdConflict = "operation_id_conflict",
    /// The operation is running.
    OperationInProgress = "operation_in_progress",
    /// The operation had started before the daemon crashed; nobody knows how it ended.
    OperationOutcomeUnknown = "operation_outcome_unknown",
    /// Too many operations run.
    OperationLimitReached = "operation_limit_reached",
    /// The daemon is stopping.
    DaemonStopping = "daemon_stopping",
    /// A fault of the daemon itself.
    InternalError = "internal_error",

    // Authentication, told by the controller.
    /// A message before authentication.
    Unauthenticated = "unauthenticated",
    /// The authentication message lacks an id.
    InvalidAuthMessage = "invalid_auth_message",
    /// Not registered, and no valid pairing signature.
    UnknownNode = "unknown_node",
    /// Another controller is meant.
    ControllerIdentityMismatch = "controller_identity_mismatch",
    /// The HMAC proof is wrong.
    AuthFailed = "auth_failed",
    /// The key or the signature is wrong.
    IdentityMismatch = "identity_mismatch",
    /// Another key is pending under this id.
    GatewayIdentityConflict = "gateway_identity_conflict",
    /// The id has a live connection.
    GatewayAlreadyConnected = "gateway_already_connected",
    /// The operator rejected the pairing.
    PairingRejected = "pairing_rejected",
    /// Authentication, approval included, took too long.
    AuthTimeout = "auth_timeout",
    /// Too many connections wait for authentication.
    TooManyPending = "too_many_pending",

    // Authentication, told by the gateway.
    /// The challenge brings no controller key where one is needed.
    ControllerIdentityMissing = "controller_identity_missing",
    /// The certificate is not the pinned one.
    ControllerTlsIdentityMismatch = "controller_tls_identity_mismatch",
    /// The controller did not prove that its key and its certificate belong together.
    ControllerProofInvalid = "controller_proof_invalid",
    /// An authentication message at the wrong time.
    UnexpectedAuthMessage = "unexpected_auth_message",

    // Dispatch.
    /// The connection was lost before the answer.
    GatewayDisconnected = "gateway_disconnected",
    /// No live connection.
    GatewayNotConnected = "gateway_not_connected",
    /// Connected, not yet approved.
    GatewayNotReady = "gateway_not_ready",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_snake_case() {
        let mut texts: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(
            texts
                .iter()
                .all(|text| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        );
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Code::ALL.len());
    }
}
