//! Talking to a gateway: requests out, answers and events back, each to whoever asked. This is the SDK.
//!
//! A [`Connection`] works over any link; [`GatewayProcess`] starts a gateway as a child process and is connected to its
//! standard streams. The caller owns the child's lifetime.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use goblin_client::{GatewayProcess, ProcessParams};
//!
//! let gateway = GatewayProcess::start(std::process::Command::new("node-goblin").arg("gateway"))?;
//! let run = gateway.connection().execute(&ProcessParams::exec("demo-1", "uname", ["-r"])).await?.collect().await?;
//! println!("{}", run.evidence()?.stdout);
//! gateway.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! It must never know how a gateway is authenticated, nor what an operation means to a user.

mod collected;
mod connection;
mod dispatch;
mod inbound;
mod params;
mod process;
#[cfg(test)]
mod tests;

pub use collected::{Collected, EVENT_BYTES_KEPT, OperationResult};
pub use connection::{Connection, Observer, start};
pub use dispatch::{Dispatch, LIVE_BYTES};
pub use inbound::{Answer, Body, Envelope, RemoteError, StreamEvent};
pub use params::{FileParams, ProcessParams};
pub use process::GatewayProcess;

use goblin_protocol::Code;

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection was lost. An operation may or may not have run: ask again with the same operation id.
    #[error("the gateway is disconnected")]
    Disconnected,
    /// The request does not fit a frame.
    #[error("the request is larger than a frame of 2 MiB")]
    RequestTooLarge,
    /// The params cannot be JSON.
    #[error("the request cannot be encoded: {0}")]
    Encoding(serde_json::Error),
    /// The gateway answered with an error.
    #[error("the gateway answered {0}")]
    Remote(RemoteError),
    /// The answer is not what the protocol says.
    #[error("the gateway's answer cannot be read: {0}")]
    Unreadable(serde_json::Error),
    /// The answer is about another operation than the one that was asked for.
    #[error("the gateway answered about another operation")]
    OperationIdMismatch,
    /// The child process could not be started or waited for.
    #[error("the gateway process failed: {0}")]
    Process(#[from] std::io::Error),
}

impl ClientError {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Disconnected => Code::GatewayDisconnected.as_str(),
            Self::RequestTooLarge => Code::RequestFrameTooLarge.as_str(),
            Self::Encoding(_) => Code::InvalidMessage.as_str(),
            Self::Remote(error) => &error.code,
            Self::Unreadable(_) => "gateway_answer_unreadable",
            Self::OperationIdMismatch => "gateway_operation_id_mismatch",
            Self::Process(_) => "gateway_process_failed",
        }
    }
}
