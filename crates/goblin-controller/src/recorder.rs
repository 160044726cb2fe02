//! Writes terminal references into the operations port, one after another, apart from the connections: a slow store
//! delays an answer's record, never the reading of a gateway. It must never decide what an answer means.

use crate::clock;
use goblin_ports::{Operations, PortError, TerminalReference};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

/// Late references that may wait at once. A gateway can make them up, so further ones are dropped: the same operation
/// id asks for the outcome again.
const LATE_MAX: usize = 1024;

enum Entry {
    /// Of a dispatch under way; the sender tells it when the reference is written.
    Answered(TerminalReference, oneshot::Sender<()>),
    /// Of a dispatch on an earlier connection of this gateway.
    Late(TerminalReference, Arc<str>),
    /// Nothing comes after it.
    Stop,
}

/// Hands references to the recorder. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Recorder {
    queue: mpsc::UnboundedSender<Entry>,
    late: Arc<AtomicUsize>,
}

impl Recorder {
    /// A recorder and the future that writes, to be run as a task.
    pub(crate) fn new(operations: Arc<dyn Operations>) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, entries) = mpsc::unbounded_channel();
        let late = Arc::new(AtomicUsize::new(0));
        let recorder = Self {
            queue,
            late: late.clone(),
        };
        (recorder, write(operations, entries, late))
    }

    /// Records the end of a dispatch under way. There are never more of these than dispatches.
    pub(crate) fn answered(&self, reference: TerminalReference, recorded: oneshot::Sender<()>) {
        // Without the task the sender is dropped, which tells the dispatch not to wait.
        let _ = self.queue.send(Entry::Answered(reference, recorded));
    }

    /// Records late evidence from a gateway, if the operation is one of its own.
    pub(crate) fn late(&self, reference: TerminalReference, gateway_id: Arc<str>) {
        if self.late.fetch_add(1, Ordering::Relaxed) < LATE_MAX {
            let _ = self.queue.send(Entry::Late(reference, gateway_id));
        } else {
            self.late.fetch_sub(1, Ordering::Relaxed);
            debug!(%gateway_id, "late evidence was dropped: too much of it");
        }
    }

    /// Ends the task once everything queued so far is written.
    pub(crate) fn stop(&self) {
        let _ = self.queue.send(Entry::Stop);
    }
}

async fn write(operations: Arc<dyn Operations>, mut entries: mpsc::UnboundedReceiver<Entry>, late: Arc<AtomicUsize>) {
    while let Some(entry) = entries.recv().await {
        let written = match entry {
            Entry::Answered(reference, recorded) => {
                let written = terminal(&*operations, reference).await;
                let _ = recorded.send(());
                written
            }
            Entry::Late(reference, gateway_id) => {
                let written = match operations.get(&reference.operation_id).await {
                    Ok(Some(record)) if record.gateway_id == *gateway_id => terminal(&*operations, reference).await,
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                };
                late.fetch_sub(1, Ordering::Relaxed);
                written
            }
            Entry::Stop => return,
        };
        if let Err(error) = written {
            // The record stays unresolved, which is true: the same operation id answers it again.
            warn!(code = error.code(), "the end of an operation was not recorded");
        }
    }
}

async fn terminal(operations: &dyn Operations, reference: TerminalReference) -> Result<(), PortError> {
    let operation_id = reference.operation_id.clone();
    operations
        .terminal(&operation_id, reference, &clock::now_iso())
        .await
        .map(|_| ())
}
