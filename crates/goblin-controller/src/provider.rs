//! The execution provider: what a Core calls to run a process or a filesystem tool on a gateway, with results in the
//! shapes that it hands on to an agent. It must never decide whether a call is permitted.

mod filesystem;
mod process;

use crate::dispatch::{self, DispatchError, DispatchRequest, LiveDispatch};
use crate::service::{Controller, Shared};
use goblin_client::{Body, Envelope, OperationResult, RemoteError};
use goblin_protocol::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub use filesystem::{FilesystemCall, FilesystemOperation, FilesystemResult};
pub use process::{ProcessCall, ProcessForm, ShellExecResult};

/// Why a call brought no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It did not go out, or the connection was lost.
    #[error(transparent)]
    Dispatch(#[from] DispatchError),
    /// It was aborted before it went out.
    #[error("the call was aborted before it was sent")]
    Aborted,
    /// The gateway refused it, or could not begin it.
    #[error("the gateway answered {0}")]
    Refused(RemoteError),
    /// The answer holds no evidence of an end.
    #[error("the gateway's answer holds no terminal evidence")]
    EvidenceMissing,
    /// The answer is about another operation.
    #[error("the gateway's answer is about another operation")]
    OperationIdMismatch,
}

impl ProviderError {
    /// The stable code: the gateway's own where it refused.
    pub fn code(&self) -> &str {
        match self {
            Self::Dispatch(error) => error.code(),
            Self::Aborted => "operation_aborted",
            Self::Refused(error) => &error.code,
            Self::EvidenceMissing => "gateway_terminal_evidence_missing",
            Self::OperationIdMismatch => "gateway_operation_id_mismatch",
        }
    }
}

impl Controller {
    /// Runs a process and waits for its end. `abort` asks the gateway once to cancel it; the result then says so, or how
    /// it ended first. Dropping the future gives up the result, never the operation.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn execute_process(
        &self,
        call: ProcessCall,
        abort: CancellationToken,
    ) -> Result<ShellExecResult, ProviderError> {
        process::execute(self.shared(), call, &abort).await
    }

    /// Runs a filesystem tool and waits for its outcome. `abort` works as for a process.
    ///
    /// # Errors
    /// See [`ProviderError`]. A tool that failed is no error: its outcome says so.
    pub async fn execute_native_filesystem(
        &self,
        call: FilesystemCall,
        abort: CancellationToken,
    ) -> Result<FilesystemResult, ProviderError> {
        filesystem::execute(self.shared(), call, &abort).await
    }
}

/// Sends a request and gives its result; `seen` sees every event before it.
async fn execute(
    shared: &Arc<Shared>,
    request: DispatchRequest,
    abort: &CancellationToken,
    seen: impl FnMut(Envelope),
) -> Result<OperationResult, ProviderError> {
    if abort.is_cancelled() {
        return Err(ProviderError::Aborted);
    }
    let gateway_id = request.gateway_id.clone();
    let mut live = dispatch::dispatch(shared, request).await?;
    let operation_id = live.operation_id().to_owned();
    let mut answer = std::pin::pin!(answer(&mut live, seen));
    tokio::select! {
        // An answer that is there already needs no cancel.
        biased;
        result = &mut answer => result,
        () = abort.cancelled() => {
            cancel(shared, gateway_id, operation_id);
            answer.await
        }
    }
}

/// A task of its own: the end may come before the gateway's answer to this, which tells nothing that the end does not.
fn cancel(shared: &Arc<Shared>, gateway_id: String, operation_id: String) {
    let (tasks, shared) = (shared.tasks.clone(), shared.clone());
    tasks.spawn(async move {
        if let Err(error) = dispatch::cancel(&shared, &gateway_id, &operation_id).await {
            debug!(
                gateway_id,
                code = error.code(),
                "an aborted operation was not cancelled"
            );
        }
    });
}

async fn answer(live: &mut LiveDispatch, mut seen: impl FnMut(Envelope)) -> Result<OperationResult, ProviderError> {
    while let Some(envelope) = live.next().await {
        let envelope = envelope?;
        match &envelope.body {
            Body::Accepted { operation_id, .. } if operation_id != live.operation_id() => {
                return Err(ProviderError::OperationIdMismatch);
            }
            Body::Answer { answer, .. } => {
                let result = answer.as_ref().map_err(|error| ProviderError::Refused(error.clone()))?;
                let result: OperationResult =
                    json::from_text(result.get()).map_err(|_| ProviderError::EvidenceMissing)?;
                if result.operation_id != live.operation_id() {
                    return Err(ProviderError::OperationIdMismatch);
                }
                return Ok(result);
            }
            Body::Stream { .. } => seen(envelope),
            _ => {}
        }
    }
    Err(ProviderError::EvidenceMissing)
}
