//! One connection to a gateway, shared by any number of requests.

use crate::ClientError;
use crate::dispatch::{Dispatch, Inlet, channel};
use crate::inbound::{Answer, Body, Envelope};
use crate::params::{FileParams, ProcessParams};
use goblin_link::{FrameReader, FrameSender, Received};
use goblin_protocol::Code;
use goblin_protocol::envelope::transport_error;
use goblin_protocol::id::RequestId;
use goblin_protocol::limits::FRAME_MAX;
use goblin_protocol::request::Method;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::io::AsyncRead;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::debug;

/// Sees what a connection brings, whoever waits for it. It is called by the task that reads: it must not block.
pub trait Observer: Send + Sync + 'static {
    /// A frame arrived; called before it is delivered to whoever waits for it.
    fn arrived(&self, envelope: &Envelope) {
        let _ = envelope;
    }

    /// A frame that nobody waits for: of work that an earlier connection began, or whose dispatch was dropped.
    fn unclaimed(&self, envelope: &Envelope) {
        let _ = envelope;
    }

    /// The connection is lost; called before the waiting dispatches learn it.
    fn closed(&self) {}
}

/// Cheap to clone; all clones are one connection.
#[derive(Clone)]
pub struct Connection {
    sender: FrameSender,
    state: Arc<Mutex<State>>,
    closing: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Every request that waits for its answer.
    requests: HashMap<RequestId, Arc<Inlet>>,
    /// Which request an operation's events belong to: the one that was accepted.
    operations: HashMap<String, RequestId>,
    closed: bool,
}

/// Starts to read answers. The task ends with the stream and gives the reason why it closed, if the peer told one.
pub fn start<R>(
    reader: FrameReader<R>,
    sender: FrameSender,
    observer: Option<Arc<dyn Observer>>,
) -> (Connection, JoinHandle<Option<String>>)
where
    R: AsyncRead + Unpin + Send + 'static,
{
    let state = Arc::new(Mutex::new(State::default()));
    let closing = Arc::new(Notify::new());
    let connection = Connection {
        sender: sender.clone(),
        state: state.clone(),
        closing: closing.clone(),
    };
    let task = tokio::spawn(async move {
        let reason = tokio::select! {
            reason = read(reader, &sender, &state, observer.as_deref()) => reason,
            () = closing.notified() => None,
        };
        if let Some(observer) = observer {
            observer.closed();
        }
        let mut state = lock(&state);
        state.closed = true;
        // Dropping the inlets tells every waiting dispatch.
        state.requests.clear();
        state.operations.clear();
        reason
    });
    (connection, task)
}

async fn read<R: AsyncRead + Unpin>(
    mut reader: FrameReader<R>,
    sender: &FrameSender,
    state: &Mutex<State>,
    observer: Option<&dyn Observer>,
) -> Option<String> {
    loop {
        let frame = match reader.next().await {
            Ok(Received::Frame(frame)) => frame,
            Ok(Received::TooLarge) => {
                let _ = sender.send(transport_error(Code::FrameTooLarge.as_str())).await;
                return Some(Code::FrameTooLarge.as_str().to_owned());
            }
            Ok(Received::End) => return None,
            Err(error) => {
                debug!(%error, "the connection failed");
                return None;
            }
        };
        let Some(envelope) = Envelope::read(frame) else {
            let _ = sender.send(transport_error(Code::InvalidJson.as_str())).await;
            return Some(Code::InvalidJson.as_str().to_owned());
        };
        if let Body::Closing(reason) = &envelope.body {
            return Some(reason.clone());
        }
        if let Some(observer) = observer {
            observer.arrived(&envelope);
        }
        match (route(state, &envelope), observer) {
            (Some(inlet), _) => inlet.deliver(envelope).await,
            (None, Some(observer)) => observer.unclaimed(&envelope),
            (None, None) => {}
        }
    }
}

/// Whose envelope it is; an answer ends its request.
fn route(state: &Mutex<State>, envelope: &Envelope) -> Option<Arc<Inlet>> {
    let mut state = lock(state);
    match &envelope.body {
        Body::Accepted {
            request_id,
            operation_id,
        } => {
            let inlet = state.requests.get(request_id)?.clone();
            state.operations.insert(operation_id.clone(), request_id.clone());
            Some(inlet)
        }
        Body::Answer { request_id, .. } => {
            let inlet = state.requests.remove(request_id)?;
            state.operations.retain(|_, owner| owner != request_id);
            Some(inlet)
        }
        Body::Stream { operation_id, .. } | Body::Terminal { operation_id } => {
            let owner = state.operations.get(operation_id)?;
            state.requests.get(owner).cloned()
        }
        Body::Closing(_) | Body::Other => None,
    }
}

impl Connection {
    /// Sends a request under an id that is unique on this connection.
    pub async fn send(&self, id: RequestId, method: Method, params: &impl Serialize) -> Result<Dispatch, ClientError> {
        #[derive(Serialize)]
        struct Request<'a, P> {
            id: &'a RequestId,
            method: &'static str,
            params: &'a P,
        }
        let mut frame = serde_json::to_vec(&Request {
            id: &id,
            method: method.name(),
            params,
        })
        .map_err(ClientError::Encoding)?;
        frame.push(b'\n');
        if frame.len() > FRAME_MAX {
            return Err(ClientError::RequestTooLarge);
        }
        let (inlet, dispatch) = channel(self.forget(id.clone()));
        {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(ClientError::Disconnected);
            }
            state.requests.insert(id, Arc::new(inlet));
        }
        self.sender.send(frame).await.map_err(|_| ClientError::Disconnected)?;
        Ok(dispatch)
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, method: Method, params: &impl Serialize) -> Result<Answer, ClientError> {
        let id = RequestId::text(&uuid::Uuid::new_v4().to_string());
        let collected = self.send(id, method, params).await?.collect().await?;
        collected.answer().cloned()
    }

    /// Runs a process.
    pub async fn execute(&self, params: &ProcessParams) -> Result<Dispatch, ClientError> {
        self.send(
            RequestId::text(&uuid::Uuid::new_v4().to_string()),
            Method::ProcessExec,
            params,
        )
        .await
    }

    /// Runs a filesystem tool.
    pub async fn tool(&self, params: &FileParams) -> Result<Dispatch, ClientError> {
        self.send(
            RequestId::text(&uuid::Uuid::new_v4().to_string()),
            Method::FilesystemExecute,
            params,
        )
        .await
    }

    /// Asks an operation to stop; true when it runs. Its evidence comes to whoever dispatched it.
    pub async fn cancel(&self, operation_id: &str) -> Result<bool, ClientError> {
        #[derive(serde::Deserialize)]
        struct Cancelling {
            cancelling: bool,
        }
        let answer = self
            .request(Method::Cancel, &serde_json::json!({ "operationId": operation_id }))
            .await?;
        let result = answer.map_err(ClientError::Remote)?;
        serde_json::from_str::<Cancelling>(result.get())
            .map(|it| it.cancelling)
            .map_err(ClientError::Unreadable)
    }

    /// Asks how the gateway is.
    pub async fn health(&self) -> Result<Value, ClientError> {
        let result = self
            .request(Method::Health, &serde_json::json!({}))
            .await?
            .map_err(ClientError::Remote)?;
        serde_json::from_str(result.get()).map_err(ClientError::Unreadable)
    }

    /// Stops reading, as if the connection were lost: every waiting dispatch learns it. The sending half ends with the
    /// last clone.
    pub fn close(&self) {
        self.closing.notify_one();
    }

    /// True once the connection is lost.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// What to do when a dispatch is dropped before its answer.
    fn forget(&self, id: RequestId) -> Box<dyn FnOnce() + Send + Sync> {
        let state: Weak<Mutex<State>> = Arc::downgrade(&self.state);
        Box::new(move || {
            if let Some(state) = state.upgrade() {
                let mut state = lock(&state);
                if state.requests.remove(&id).is_some() {
                    state.operations.retain(|_, owner| *owner != id);
                }
            }
        })
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
