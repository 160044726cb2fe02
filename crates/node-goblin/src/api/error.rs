//! Why the controller's API gave no answer, in sentences that say what to do.

use crate::api::ReachError;
use crate::terminal::safe;
use goblin_api::ErrorBody;
use goblin_client::RemoteError;
use std::error::Error;
use std::path::PathBuf;

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody serves the socket.
    #[error("no controller is running on {}: start one with `node-goblin controller --state-dir {}`, or name another with --state-dir", directory.display(), directory.display())]
    NotRunning {
        /// The state directory.
        directory: PathBuf,
    },
    /// The socket belongs to somebody else.
    #[error("the controller on {} belongs to another account: use that account, or root", directory.display())]
    Denied {
        /// The state directory.
        directory: PathBuf,
    },
    /// The system did not let us connect.
    #[error("cannot reach the controller on {}: {source}", directory.display())]
    Unreachable {
        /// The state directory.
        directory: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// There is no connection to the URL.
    #[error(transparent)]
    Reach(Box<ReachError>),
    /// The connection was lost before the answer began.
    #[error("the connection to the controller was lost before it answered: {0}")]
    Broken(#[source] hyper::Error),
    /// The answer did not come whole.
    #[error("the connection to the controller was lost in the middle of its answer: {0}")]
    Cut(Box<dyn Error + Send + Sync>),
    /// The request can't be expressed.
    #[error("the request cannot be sent: {0}")]
    Request(#[source] hyper::http::Error),
    /// The request can't be JSON.
    #[error("the request cannot be written: {0}")]
    Unwritable(#[source] serde_json::Error),
    /// The controller refused.
    #[error("{}", refusal(*status, body))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        body: Box<ErrorBody>,
    },
    /// The answer is not what the API says.
    #[error("the controller's answer cannot be read: {0}; is it another version?")]
    Unreadable(#[source] serde_json::Error),
    /// The answer is no text.
    #[error("the controller's answer is not UTF-8; is something else listening there?")]
    NotText,
    /// A line of the answer is no envelope.
    #[error("the controller sent a line that is no part of the protocol; is it another version?")]
    OddLine,
}

impl From<ReachError> for ApiError {
    fn from(error: ReachError) -> Self {
        Self::Reach(Box::new(error))
    }
}

impl ApiError {
    /// The controller's stable code; empty when it gave none.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { body, .. } => &body.error,
            _ => "",
        }
    }

    /// True for what may pass by itself: the controller restarts, the way to it is cut, or the gateway is away.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NotRunning { .. } | Self::Unreachable { .. } | Self::Broken(_) | Self::Cut(_) => true,
            Self::Reach(error) => error.may_pass(),
            Self::Refused { status, .. } => matches!(status, 429 | 500 | 502..=504),
            _ => false,
        }
    }

    /// The error of a request about a gateway; what the controller refused is said to be about that.
    pub fn about(self, gateway: &str) -> anyhow::Error {
        match self {
            Self::Refused { .. } => anyhow::Error::from(self).context(gateway.to_owned()),
            other => other.into(),
        }
    }
}

fn refusal(status: u16, body: &ErrorBody) -> String {
    let text = explained(&body.error);
    match (&body.reason, sentence(&body.error)) {
        (Some(reason), _) => format!("{}: {text}", safe(reason)),
        (None, Some(_)) => text,
        (None, None) if (300..400).contains(&status) => {
            format!(
                "the server sends us elsewhere (HTTP status {status}), which is not followed: use the URL of the API itself"
            )
        }
        (None, None) => format!("the controller answered {text}, HTTP status {status}"),
    }
}

/// A stable code with a sentence about what it means, where there is one.
pub fn explained(code: &str) -> String {
    match sentence(code) {
        Some(sentence) => format!("{sentence} ({code})"),
        None => safe(code),
    }
}

/// The same with the name of the system's error, where there is one.
pub fn explained_remote(error: &RemoteError) -> String {
    match (sentence(&error.code), &error.errno) {
        (Some(sentence), Some(errno)) => format!("{sentence} ({}, {})", error.code, safe(errno)),
        (None, Some(errno)) => format!("{} ({})", safe(&error.code), safe(errno)),
        (_, None) => explained(&error.code),
    }
}

fn sentence(code: &str) -> Option<&'static str> {
    Some(match code {
        "unauthorized" => {
            "the controller does not take the token: it is wrong, revoked or expired; log in anew with `node-goblin login URL`"
        }
        "forbidden" => "the token's scope does not allow this; `node-goblin tokens create --scope` makes one that does",
        "rate_limited" => "too many tokens were wrong lately; try again in a minute",
        "token_not_found" => "there is no such token; `node-goblin tokens` shows which there are",
        "api_target_exists" => "there is a target of this id already",
        "api_target_not_found" => "there is no such target; `node-goblin targets` shows which there are",
        "target_id_invalid" => "an id has letters, digits, '.', '_' and '-', a letter or digit first, at most 255",
        "target_base_url_invalid" => "a target's URL is http or https, without credentials, query and fragment",
        "agent_not_found" => "there is no such agent; `node-goblin agents` shows which there are",
        "agent_exists" => "there is an agent of this id already",
        "operation_already_terminal" => "the operation's end is on record already; there is nothing to close",
        "operation_not_found" => "the controller has no record of such an operation",
        "gateway_not_connected" => "the gateway is not connected; `node-goblin gateways` shows which are",
        "gateway_not_ready" => "the gateway waits for approval; see `node-goblin pairings`",
        "gateway_disconnected" => "the connection to the gateway was lost",
        "gateway_not_found" => "the controller knows no such gateway; `node-goblin gateways` shows which it knows",
        "pairing_not_found" => "no gateway of that id waits for approval",
        "pairing_not_live" => "the gateway is not connected any more; it comes again with a new code",
        "pairing_code_mismatch" => "the gateway has connected anew in the meantime and has another code now",
        "operation_in_progress" => "the operation is still running",
        "operation_id_conflict" | "operation_correlation_conflict" => {
            "the operation id belongs to another request; the same id goes only with exactly the same request"
        }
        "operation_outcome_unknown" => {
            "the gateway crashed while the operation ran, so nobody knows how far it got; look at the host before you run it again"
        }
        "operation_limit_reached" => "as many operations run on the gateway as it allows",
        "daemon_stopping" => "the gateway is stopping",
        "protected_redelivery_forbidden" => {
            "the operation has already ended, and secrets are delivered once; ask again without --secret for its outcome"
        }
        "protected_delivery_binding_invalid" => "the gateway did not take the secrets",
        "executable_not_found" => "there is no such program on the host",
        "interpreter_not_found" => "the program is there, but the interpreter that its first line names is not",
        "cwd_not_found" => "there is no such working directory on the host",
        "permission_denied" => "the host does not allow it",
        "spawn_failed" => "the host could not start it",
        "exec_format_error" => "the file is no program for the host",
        "argument_list_too_long" => "arguments and environment are longer than the host takes",
        "request_frame_too_large" | "payload_too_large" => "the request is larger than 2 MiB",
        "output_frame_too_large" => "the result is larger than 2 MiB; ask for less",
        "store_unavailable" => "the controller cannot write its state; see its log",
        "native_filesystem_tool_unsupported" => "the gateway has no such tool",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_code_or_reason_steers_nothing() {
        let mut body = ErrorBody::new("x\u{1b}[2J");
        assert!(!refusal(400, &body).contains('\u{1b}'));
        body.reason = Some("because\r\u{7}".into());
        assert_eq!(refusal(400, &body), "because\\r\\x07: x\\x1b[2J");
    }
}
