//! One request under way: its envelopes as they arrive, in bounded memory.

use crate::ClientError;
use crate::collected::Collected;
use crate::inbound::{Body, Envelope};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes of events that may wait for a slow consumer of one dispatch. Beyond them the connection itself waits.
pub const LIVE_BYTES: usize = 8 * 1024 * 1024;

/// How long the connection waits for a consumer that reads nothing, before it goes on without it.
const STUCK_AFTER: Duration = Duration::from_secs(2);

struct Queued {
    envelope: Envelope,
    _room: Option<OwnedSemaphorePermit>,
}

/// Where the connection puts envelopes.
pub(crate) struct Inlet {
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    lagging: Arc<AtomicBool>,
}

/// A request that was sent. Dropping it gives up its answer; the operation goes on.
pub struct Dispatch {
    queue: mpsc::UnboundedReceiver<Queued>,
    lagging: Arc<AtomicBool>,
    on_drop: Option<Box<dyn FnOnce() + Send + Sync>>,
}

pub(crate) fn channel(on_drop: Box<dyn FnOnce() + Send + Sync>) -> (Inlet, Dispatch) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let lagging = Arc::new(AtomicBool::new(false));
    let inlet = Inlet {
        queue: sender,
        room: Arc::new(Semaphore::new(LIVE_BYTES)),
        lagging: lagging.clone(),
    };
    (
        inlet,
        Dispatch {
            queue: receiver,
            lagging,
            on_drop: Some(on_drop),
        },
    )
}

impl Inlet {
    /// Delivers an envelope. Output waits for room, which slows the whole connection down; a consumer that takes
    /// nothing for [`STUCK_AFTER`] is given up: its output is dropped from then on, the answer still comes.
    pub(crate) async fn deliver(&self, envelope: Envelope) {
        let mut room = None;
        if matches!(envelope.body, Body::Stream { .. }) {
            if self.lagging.load(Ordering::Relaxed) {
                return;
            }
            // A frame is far smaller than `u32::MAX` and than the room.
            let wanted = self.room.clone().acquire_many_owned(envelope.text.len() as u32);
            tokio::select! {
                () = self.queue.closed() => return,
                acquired = tokio::time::timeout(STUCK_AFTER, wanted) => match acquired {
                    Ok(acquired) => room = acquired.ok(),
                    Err(_) => return self.lagging.store(true, Ordering::Relaxed),
                },
            }
        }
        // A consumer that is gone misses nothing.
        let _ = self.queue.send(Queued { envelope, _room: room });
    }
}

impl Dispatch {
    /// The next envelope: at most one `accepted`, events, and one answer as the last. `None` when the connection was
    /// lost before the answer, and after the answer.
    pub async fn next(&mut self) -> Option<Envelope> {
        self.queue.recv().await.map(|queued| queued.envelope)
    }

    /// True when output was dropped because nobody took it.
    pub fn events_dropped(&self) -> bool {
        self.lagging.load(Ordering::Relaxed)
    }

    /// Takes all envelopes up to the answer, keeping a bounded amount of events.
    pub async fn collect(mut self) -> Result<Collected, ClientError> {
        let mut collected = Collected::default();
        while let Some(envelope) = self.next().await {
            collected.add(envelope);
            if collected.response.is_some() {
                collected.events_truncated |= self.events_dropped();
                return Ok(collected);
            }
        }
        Err(ClientError::Disconnected)
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
    }
}
