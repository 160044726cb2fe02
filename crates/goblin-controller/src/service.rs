//! The façade, and what its parts share.

use crate::activity::{ActivityLog, ActivityRecord};
use crate::book::Book;
use crate::changes::{ChangeFeed, Changes};
use crate::clock;
use crate::counted::Counted;
use crate::dispatch::{self, Collected, DispatchError, DispatchRequest, LiveDispatch};
use crate::error::ControllerError;
use crate::listener::{self, Listener, ListenerState};
use crate::material;
use crate::metrics::Metrics;
use crate::options::{ControllerOptions, HANDSHAKES_MAX, REJECTED_MAX, TlsMaterial, UNAUTHENTICATED_MAX};
use crate::pairing::{self, Decision, PairingRequest};
use crate::pending::Verdict;
use crate::recorder::Recorder;
use crate::recovery::Recovery;
use crate::registry::{ConnectionCount, GatewaySnapshot, Live, Presence, Ready, Registry};
use crate::trust;
use crate::turns::Turns;
use goblin_keys::KeyPair;
use goblin_ports::{GatewayRecord, OperationRecord, Operations, Secret, Secrets, Settings, check_note};
use goblin_protocol::auth::GatewayMetadata;
use goblin_protocol::id::{valid_api_operation_id, valid_gateway_id};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the parts of a controller share.
pub(crate) struct Shared {
    pub(crate) options: ControllerOptions,
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) operations: Arc<dyn Operations>,
    /// The controller's own key, which gateways pin.
    pub(crate) pair: KeyPair,
    pub(crate) listener: Listener,
    pub(crate) registry: Arc<Registry>,
    pub(crate) book: Book,
    pub(crate) activity: Arc<ActivityLog>,
    pub(crate) changes: Changes,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Recorder,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) turns: Turns,
    pub(crate) unauthenticated: Arc<Semaphore>,
    pub(crate) handshakes: Semaphore,
    /// Rejected keys, and until when.
    rejected: Mutex<HashMap<String, Instant>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
}

impl Shared {
    /// The connection counts as lost from now on; its task ends.
    pub(crate) fn lost(&self, ready: &Ready) {
        ready.client.close();
        // First what was interrupted: the next connection, which may come as soon as this one is off the list, asks for it.
        ready.tracker.interrupt();
        self.registry.lost(&ready.gateway_id, ready.generation);
    }

    /// Ends every connection.
    pub(crate) fn disconnect_all(&self) {
        for live in self.registry.all_live() {
            match live {
                Live::Ready(ready) => self.lost(&ready),
                Live::Pending(pending) => {
                    pending.decide(Verdict::Dismissed);
                }
            }
        }
    }

    /// True while the key is refused.
    pub(crate) fn rejected(&self, public_key: &str) -> bool {
        let rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        rejected.get(public_key).is_some_and(|until| Instant::now() < *until)
    }

    /// Refuses a key for a while. Of too many, the one nearest to its end is let go.
    pub(crate) fn reject_key(&self, public_key: String) {
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        rejected.retain(|_, until| now < *until);
        if rejected.len() >= REJECTED_MAX
            && let Some(first) = rejected
                .iter()
                .min_by_key(|(_, until)| **until)
                .map(|(key, _)| key.clone())
        {
            rejected.remove(&first);
        }
        rejected.insert(public_key, now + self.options.timing.rejected);
    }
}

/// A running controller. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Controller(Arc<Running>);

struct Running {
    shared: Arc<Shared>,
    recording: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Running {
    /// A controller that nobody holds any more stops as if it were closed, without anybody waiting for it.
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.shared.recorder.stop();
    }
}

impl Controller {
    /// Starts a controller in its home. An address in the options that cannot be listened on is an error; one from the
    /// settings is told by [`Controller::listener`].
    ///
    /// # Errors
    /// See [`ControllerError`]; nothing that exists is overwritten by a failed start.
    pub async fn start(
        options: ControllerOptions,
        settings: Arc<dyn Settings>,
        secrets: Arc<dyn Secrets>,
        operations: Arc<dyn Operations>,
    ) -> Result<Self, ControllerError> {
        let (changes, metrics) = (Changes::default(), Metrics::default());
        let settings: Arc<dyn Settings> = Arc::new(Counted {
            port: settings,
            metrics: metrics.clone(),
        });
        let secrets: Arc<dyn Secrets> = Arc::new(Counted {
            port: secrets,
            metrics: metrics.clone(),
        });
        let operations: Arc<dyn Operations> = Arc::new(Counted {
            port: operations,
            metrics: metrics.clone(),
        });
        let pair = material::pairing_identity(&*secrets).await?;
        let (recorder, recording) = Recorder::new(operations.clone());
        let shared = Arc::new(Shared {
            options,
            settings,
            secrets,
            operations,
            pair,
            listener: Listener::default(),
            registry: Arc::new(Registry::new(changes.clone())),
            book: Book::default(),
            activity: Arc::new(ActivityLog::new(changes.clone(), metrics.clone())),
            changes,
            metrics,
            recorder,
            recovery: Arc::default(),
            turns: Turns::default(),
            unauthenticated: Arc::new(Semaphore::new(UNAUTHENTICATED_MAX)),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            rejected: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let controller = Self(Arc::new(Running {
            shared: shared.clone(),
            recording: Mutex::new(Some(tokio::spawn(recording))),
        }));
        if shared.options.listen.is_some() {
            listener::start(&shared).await?;
        } else {
            listener::restart(&shared).await?;
        }
        Ok(controller)
    }

    /// Where gateways connect to, when the listener runs.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.0.shared.listener.address()
    }

    /// TLS of a web server that shows the listener's certificate, whichever it is now, and asks for none. `None` while
    /// the listener does not run.
    pub fn web_tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.0.shared.listener.web_tls()
    }

    /// The listener's state.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn listener(&self) -> Result<ListenerState, ControllerError> {
        listener::state(&self.0.shared).await
    }

    /// Stores whether and where the listener shall run, and applies it at once: gateways that are connected stay so,
    /// unless it is disabled. An address in the options stays in force. That it cannot run there is told by the state.
    ///
    /// # Errors
    /// [`ControllerError::HostInvalid`], [`ControllerError::PortInvalid`], and those of the home.
    pub async fn set_listener(&self, enabled: bool, host: &str, port: u16) -> Result<ListenerState, ControllerError> {
        let (shared, host) = (self.0.shared.clone(), host.to_owned());
        self.change(async move {
            listener::configure(&shared, enabled, &host, port).await?;
            listener::state(&shared).await
        })
        .await
    }

    /// Checks and stores a certificate, and serves with it at once; connections that are open stay so.
    ///
    /// # Errors
    /// [`ControllerError::TlsCredentialsRequired`], [`ControllerError::Certificate`], and those of the home; after any
    /// of them nothing has changed.
    pub async fn set_tls(&self, material: TlsMaterial) -> Result<ListenerState, ControllerError> {
        let shared = self.0.shared.clone();
        self.change(async move {
            material::configure(&*shared.settings, &*shared.secrets, Some(&material)).await?;
            listener::renew(&shared).await?;
            listener::state(&shared).await
        })
        .await
    }

    /// Forgets the stored certificate; a listener that runs makes itself another one at once.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn clear_tls(&self) -> Result<ListenerState, ControllerError> {
        let shared = self.0.shared.clone();
        self.change(async move {
            material::configure(&*shared.settings, &*shared.secrets, None).await?;
            listener::renew(&shared).await?;
            listener::state(&shared).await
        })
        .await
    }

    /// Gateways that asked for approval, oldest first.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn pairings(&self) -> Result<Vec<PairingRequest>, ControllerError> {
        pairing::list(&self.0.shared).await
    }

    /// Approves the live request of a gateway, if `code` (short or long) is its code. Once it begins it runs to its end,
    /// even when the caller goes away.
    ///
    /// # Errors
    /// [`ControllerError::PairingNotFound`], [`ControllerError::PairingNotLive`],
    /// [`ControllerError::PairingCodeMismatch`], and those of the home; after any of them nothing has changed.
    pub async fn approve(&self, gateway_id: &str, code: Option<&str>) -> Result<Decision, ControllerError> {
        let (gateway_id, code) = (checked(gateway_id)?, code.map(str::to_owned));
        let shared = self.0.shared.clone();
        self.change(async move {
            let _turn = shared.turns.take(&gateway_id).await;
            pairing::approve(&shared, &gateway_id, code.as_deref()).await
        })
        .await
    }

    /// Rejects a gateway's request: a live one is closed, and its key refused for ten minutes.
    ///
    /// # Errors
    /// [`ControllerError::PairingNotFound`], and those of the home.
    pub async fn reject(&self, gateway_id: &str) -> Result<Decision, ControllerError> {
        let gateway_id = checked(gateway_id)?;
        let shared = self.0.shared.clone();
        self.change(async move {
            let _turn = shared.turns.take(&gateway_id).await;
            pairing::reject(&shared, &gateway_id).await
        })
        .await
    }

    /// The trust records.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn trust(&self) -> Result<Vec<GatewayRecord>, ControllerError> {
        trust::list(&self.0.shared).await
    }

    /// The trust record of one gateway.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn trust_of(&self, gateway_id: &str) -> Result<Option<GatewayRecord>, ControllerError> {
        let shared = &self.0.shared;
        Ok(shared.book.records(&*shared.settings).await?.get(gateway_id).cloned())
    }

    /// Trusts a gateway by a shared secret, in place of whatever it was trusted by. Its live connection ends.
    ///
    /// # Errors
    /// [`ControllerError::GatewaySecretRequired`], [`ControllerError::ControllerIdInvalid`], and those of the home.
    pub async fn enrol(
        &self,
        gateway_id: &str,
        controller_id: Option<&str>,
        secret: Secret,
    ) -> Result<GatewayRecord, ControllerError> {
        let (gateway_id, controller_id) = (checked(gateway_id)?, controller_id.map(str::to_owned));
        let shared = self.0.shared.clone();
        self.change(async move {
            let _turn = shared.turns.take(&gateway_id).await;
            trust::enrol(&shared, &gateway_id, controller_id.as_deref(), secret).await
        })
        .await
    }

    /// Shuts a gateway out at once: its connection ends, and what runs there is not waited for.
    ///
    /// # Errors
    /// [`ControllerError::NotFound`], and those of the home. When the home fails after the record was written the
    /// gateway is shut out already; calling again completes it.
    pub async fn revoke(&self, gateway_id: &str) -> Result<GatewayRecord, ControllerError> {
        let gateway_id = checked(gateway_id)?;
        let shared = self.0.shared.clone();
        self.change(async move {
            let _turn = shared.turns.take(&gateway_id).await;
            trust::revoke(&shared, &gateway_id).await
        })
        .await
    }

    /// Every gateway that is trusted, or was seen since the start, by id.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn gateways(&self) -> Result<Vec<GatewaySnapshot>, ControllerError> {
        let shared = &self.0.shared;
        let trusted = shared.book.records(&*shared.settings).await?;
        let mut snapshots = shared.registry.snapshots();
        let others: Vec<_> = {
            let seen: std::collections::HashSet<_> = snapshots.iter().map(|it| it.gateway_id.as_str()).collect();
            let others = trusted
                .list()
                .iter()
                .filter(|record| record.trusted() && !seen.contains(record.gateway_id.as_str()));
            others.cloned().map(unseen).collect()
        };
        snapshots.extend(others);
        snapshots.sort_by(|a, b| a.gateway_id.cmp(&b.gateway_id));
        Ok(snapshots)
    }

    /// One gateway, if it is trusted or was seen since the start.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn gateway(&self, gateway_id: &str) -> Result<Option<GatewaySnapshot>, ControllerError> {
        if let Some(snapshot) = self.0.shared.registry.snapshot(gateway_id) {
            return Ok(Some(snapshot));
        }
        let records = trust::list(&self.0.shared).await?.into_iter();
        let mut trusted = records.filter(|record| record.trusted() && record.gateway_id == gateway_id);
        Ok(trusted.next().map(unseen))
    }

    /// How many gateways are connected.
    pub fn connections(&self) -> ConnectionCount {
        self.0.shared.registry.count()
    }

    /// What changes from now on.
    pub fn changes(&self) -> ChangeFeed {
        self.0.shared.changes.watch()
    }

    /// Resolves once the controller stops.
    pub async fn stopping(&self) {
        self.0.shared.closing.cancelled().await;
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.0.shared.metrics
    }

    /// One record of activity.
    pub fn activity_on(&self, gateway_id: &str, operation_id: &str) -> Option<ActivityRecord> {
        self.0.shared.activity.get(gateway_id, operation_id)
    }

    /// The newest `limit` operations in memory, of one gateway where given, newest last.
    pub fn activity(&self, gateway_id: Option<&str>, limit: usize) -> Vec<ActivityRecord> {
        self.0.shared.activity.list(gateway_id, limit)
    }

    /// The activity of one operation, one record for each gateway that was asked, oldest first.
    pub fn activity_of(&self, operation_id: &str) -> Vec<ActivityRecord> {
        self.0.shared.activity.of_operation(operation_id)
    }

    /// The durable record of an operation.
    ///
    /// # Errors
    /// [`ControllerError::OperationIdInvalid`], and those of the home.
    pub async fn correlation(&self, operation_id: &str) -> Result<Option<OperationRecord>, ControllerError> {
        if !valid_api_operation_id(operation_id) {
            return Err(ControllerError::OperationIdInvalid);
        }
        Ok(self.0.shared.operations.get(operation_id).await?)
    }

    /// Closes an operation whose outcome is not known, by an operator's word; on one that was closed so, replaces the
    /// word. Late evidence still counts afterwards.
    ///
    /// # Errors
    /// [`ControllerError::OperationIdInvalid`], [`ControllerError::NoteInvalid`], and those of the home.
    pub async fn resolve(&self, operation_id: &str, note: &str) -> Result<OperationRecord, ControllerError> {
        if !valid_api_operation_id(operation_id) {
            return Err(ControllerError::OperationIdInvalid);
        }
        let note = note.trim();
        if note.is_empty() || check_note(note).is_err() {
            return Err(ControllerError::NoteInvalid);
        }
        let shared = &self.0.shared;
        let record = shared.operations.resolve(operation_id, note, &clock::now_iso()).await?;
        // Nothing is asked for any more; evidence that comes all the same is recorded over the word.
        shared.recovery.forget(&record.gateway_id, operation_id);
        Ok(record)
    }

    /// Sends an operation to its gateway.
    ///
    /// # Errors
    /// See [`DispatchError`]. Whether the gateway refused the operation is told by its answer.
    pub async fn dispatch(&self, request: DispatchRequest) -> Result<LiveDispatch, DispatchError> {
        dispatch::dispatch(&self.0.shared, request).await
    }

    /// Asks a gateway to cancel an operation; gives its answer, which is no evidence of an end.
    ///
    /// # Errors
    /// See [`DispatchError`].
    pub async fn cancel(&self, gateway_id: &str, operation_id: &str) -> Result<Collected, DispatchError> {
        dispatch::cancel(&self.0.shared, gateway_id, operation_id).await
    }

    /// Stops: takes no operations and no connections any more, closes all connections, and waits until everything that
    /// belongs to the controller has ended and what is known of operations is recorded.
    pub async fn close(&self) {
        let shared = &self.0.shared;
        shared.closing.cancel();
        shared.tasks.close();
        shared.tasks.wait().await;
        shared.recorder.stop();
        let recording = self.0.recording.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(recording) = recording {
            let _ = recording.await;
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Runs a change of trust as a task of its own, so that a caller that goes away cannot leave it half done.
    async fn change<R: Send + 'static>(
        &self,
        change: impl Future<Output = Result<R, ControllerError>> + Send + 'static,
    ) -> Result<R, ControllerError> {
        self.0.shared.tasks.spawn(change).await.unwrap_or_else(|_| {
            Err(goblin_ports::PortError::Unavailable("the change was not carried out".to_owned()).into())
        })
    }
}

/// A trusted gateway that was not seen since the start.
fn unseen(record: GatewayRecord) -> GatewaySnapshot {
    GatewaySnapshot {
        gateway_id: record.gateway_id,
        presence: Presence::Disconnected,
        connected_at: None,
        last_seen_at: None,
        active_operations: 0,
        metadata: GatewayMetadata::default(),
    }
}

fn checked(gateway_id: &str) -> Result<String, ControllerError> {
    if valid_gateway_id(gateway_id) {
        Ok(gateway_id.to_owned())
    } else {
        Err(ControllerError::TargetIdInvalid)
    }
}
