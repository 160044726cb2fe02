//! Live changes for many watchers. One task reads the controller's changes, renders each once, and shares the text with
//! all streams; a stream costs a place in that queue. The task lives while there are streams.
//!
//! Snapshots are made by the same task, between two changes, and everything is rendered as it stands at that moment:
//! what a stream shows later is never older than what it showed before.

use crate::answer::Failure;
use crate::routes::{activity, listing, snapshot};
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use goblin_api::events::{
    GATEWAY, GatewayEvent, OPERATION, OperationEvent, PAIRING, PairingEvent, RESET, ResetEvent, SNAPSHOT, SnapshotEvent,
};
use goblin_api::{OPERATIONS_LIMIT_MAX, PairingListing};
use goblin_controller::{Change, ChangeBatch, Controller, ControllerError};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

/// Streams at once; further ones are refused.
const STREAMS_MAX: usize = 4096;

/// Pieces of text that a stream may be behind; then it is ended with a reset.
const BEHIND_MAX: usize = 256;

/// A piece of text is sent once it is this long, in bytes, so that what waits for slow streams stays bounded.
const PIECE: usize = 64 * 1024;

/// Pause between two pieces: many changes of one thing become one event, and few wake-ups serve many streams.
const PACE: Duration = Duration::from_millis(50);

/// How often a comment tells that the stream lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Streams of live changes over one controller. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Hub {
    controller: Controller,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    streams: AtomicUsize,
    /// A stream ended.
    left: Notify,
    /// The way in to the running task.
    entry: Mutex<Option<mpsc::UnboundedSender<Entry>>>,
    /// Id of the last event.
    last_id: AtomicU64,
}

/// Someone who wants a stream.
type Entry = oneshot::Sender<Result<Joined, Failure>>;

struct Joined {
    snapshot: Bytes,
    pieces: broadcast::Receiver<Bytes>,
}

/// Counts as a stream until it is dropped.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Result<Self, Failure> {
        let counted = Self(shared.clone());
        if shared.streams.fetch_add(1, Ordering::SeqCst) < STREAMS_MAX {
            Ok(counted)
        } else {
            Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams"))
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify_one();
    }
}

impl Hub {
    pub(crate) fn new(controller: Controller) -> Self {
        Self {
            controller,
            shared: Arc::default(),
        }
    }

    /// Open streams.
    pub(crate) fn streams(&self) -> usize {
        self.shared.streams.load(Ordering::SeqCst)
    }

    /// The text of a new stream. It ends when it falls behind, when the state cannot be read, and with `closing`.
    pub(crate) async fn stream(
        &self,
        closing: CancellationToken,
    ) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + use<>, Failure> {
        let counted = Counted::new(&self.shared)?;
        let joined = self.join().await?;
        let watched = Watched {
            first: Some(joined.snapshot),
            pieces: Some(joined.pieces),
            closing,
            _counted: counted,
        };
        Ok(stream::unfold(watched, async |mut watched| {
            let piece = watched.next().await?;
            Some((Ok(piece), watched))
        }))
    }

    async fn join(&self) -> Result<Joined, Failure> {
        // A task that ends just now drops the request; the next one takes it.
        for _ in 0..3 {
            let (entry, joined) = oneshot::channel();
            self.knock(entry);
            if let Ok(joined) = joined.await {
                return joined;
            }
        }
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "controller_stopping"))
    }

    fn knock(&self, mut entry: Entry) {
        let mut door = self.shared.entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = door.as_ref() {
            match open.send(entry) {
                Ok(()) => return,
                Err(refused) => entry = refused.0,
            }
        }
        let (sender, entries) = mpsc::unbounded_channel();
        // The receiver is right here.
        let _ = sender.send(entry);
        *door = Some(sender);
        let scribe = Scribe {
            controller: self.controller.clone(),
            shared: self.shared.clone(),
        };
        tokio::spawn(scribe.run(entries));
    }
}

/// One stream.
struct Watched {
    first: Option<Bytes>,
    /// `None` after the last piece.
    pieces: Option<broadcast::Receiver<Bytes>>,
    closing: CancellationToken,
    _counted: Counted,
}

impl Watched {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let received = tokio::select! {
            received = self.pieces.as_mut()?.recv() => received,
            () = self.closing.cancelled() => return None,
        };
        match received {
            Ok(piece) => Some(piece),
            Err(RecvError::Lagged(_)) => {
                self.pieces = None;
                Some(reset("slow_client"))
            }
            Err(RecvError::Closed) => None,
        }
    }
}

/// The task that renders.
struct Scribe {
    controller: Controller,
    shared: Arc<Shared>,
}

impl Scribe {
    async fn run(self, mut entries: mpsc::UnboundedReceiver<Entry>) {
        let mut feed = self.controller.changes();
        let (pieces, _) = broadcast::channel(BEHIND_MAX);
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        loop {
            tokio::select! {
                // Nobody joins a controller that stops.
                biased;
                () = self.controller.stopping() => return,
                () = self.shared.left.notified() => {
                    if self.shared.streams.load(Ordering::SeqCst) == 0 {
                        return;
                    }
                }
                Some(entry) = entries.recv() => {
                    let mut waiting = vec![entry];
                    while let Ok(entry) = entries.try_recv() {
                        waiting.push(entry);
                    }
                    let snapshot = self.snapshot().await.map_err(Failure::from);
                    for entry in waiting {
                        let joined = snapshot.clone().map(|snapshot| Joined {
                            snapshot,
                            pieces: pieces.subscribe(),
                        });
                        // One that left meanwhile counts as such already.
                        let _ = entry.send(joined);
                    }
                }
                Some(batch) = feed.next() => {
                    if let Err(error) = self.tell(batch, &pieces).await {
                        let _ = pieces.send(reset(error.code()));
                        return;
                    }
                    sleep(PACE).await;
                }
                _ = heartbeat.tick() => {
                    let _ = pieces.send(Bytes::from_static(b":\n\n"));
                }
            }
        }
    }

    async fn snapshot(&self) -> Result<Bytes, ControllerError> {
        let data = SnapshotEvent {
            gateways: self.controller.gateways().await?.into_iter().map(snapshot).collect(),
            pairings: self.controller.pairings().await?.into_iter().map(listing).collect(),
            operations: self
                .controller
                .activity(None, OPERATIONS_LIMIT_MAX as usize)
                .into_iter()
                .map(activity)
                .collect(),
        };
        // The id is that of the last event: it says up to where the state goes.
        let id = self.shared.last_id.load(Ordering::Relaxed);
        Ok(event(SNAPSHOT, id, &data).into())
    }

    /// Renders what changed, as it is now. Nobody listening is no matter.
    async fn tell(&self, batch: ChangeBatch, pieces: &broadcast::Sender<Bytes>) -> Result<(), ControllerError> {
        if batch.missed {
            let _ = pieces.send(self.snapshot().await?);
            return Ok(());
        }
        let mut pairings = HashMap::<String, PairingListing>::new();
        if batch.changes.iter().any(|change| matches!(change, Change::Pairing(_))) {
            let all = self.controller.pairings().await?.into_iter().map(listing);
            pairings.extend(all.map(|pairing| (pairing.gateway_id.clone(), pairing)));
        }
        let mut told = HashSet::new();
        let mut text = String::new();
        for change in &batch.changes {
            if let Change::Operation {
                gateway_id,
                operation_id,
            } = change
            {
                let record = self.controller.activity_on(gateway_id, operation_id);
                let data = OperationEvent {
                    gateway_id: gateway_id.to_string(),
                    operation_id: operation_id.to_string(),
                    operation: record.map(activity),
                };
                text.push_str(&event(OPERATION, self.next_id(), &data));
            }
            if let Change::Pairing(gateway_id) = change {
                let data = PairingEvent {
                    gateway_id: gateway_id.to_string(),
                    pairing: pairings.remove(&**gateway_id),
                };
                text.push_str(&event(PAIRING, self.next_id(), &data));
            }
            // An operation that begins or ends changes how many its gateway has.
            if let Change::Gateway(gateway_id) | Change::Operation { gateway_id, .. } = change
                && told.insert(gateway_id.clone())
            {
                let data = GatewayEvent {
                    gateway_id: gateway_id.to_string(),
                    gateway: self.controller.gateway(gateway_id).await?.map(snapshot),
                };
                text.push_str(&event(GATEWAY, self.next_id(), &data));
            }
            if text.len() >= PIECE {
                let _ = pieces.send(std::mem::take(&mut text).into());
            }
        }
        if !text.is_empty() {
            let _ = pieces.send(text.into());
        }
        Ok(())
    }

    fn next_id(&self) -> u64 {
        self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn event(name: &str, id: u64, data: &impl Serialize) -> String {
    // Texts, numbers and lists: encoding them cannot fail. JSON in this form is one line.
    let data = serde_json::to_string(data).unwrap_or_default();
    let mut text = String::with_capacity(data.len() + 64);
    let _ = write!(text, "event: {name}\nid: {id}\ndata: {data}\n\n");
    text
}

/// The last event of a stream. It carries no id: nothing is to be resumed after it.
fn reset(reason: &str) -> Bytes {
    let data = ResetEvent {
        reason: reason.to_owned(),
    };
    let data = serde_json::to_string(&data).unwrap_or_default();
    format!("event: {RESET}\ndata: {data}\n\n").into()
}
