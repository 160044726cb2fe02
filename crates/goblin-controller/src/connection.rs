//! One connection from its first byte to its last: handshake, challenge, claim, approval where it is needed, then
//! service until it is lost. Each has one task that owns it.

use crate::admission::{self, Admission};
use crate::correlation::{Tracker, known_form};
use crate::error::ControllerError;
use crate::material::Tls;
use crate::metrics::HandshakeEnd;
use crate::options::{HANDSHAKE_TURN, Timing};
use crate::pending::{Pending, Verdict};
use crate::registry::{Live, Ready, Registry};
use crate::service::Shared;
use crate::{clock, liveness, pairing, recovery};
use goblin_client::{Envelope, Observer};
use goblin_keys::{compare, random};
use goblin_link::controller_auth::{self, Claim, ControllerAuth, PairingClaim};
use goblin_link::{FrameReader, FrameSender, Received, WriterTask, start_writer};
use goblin_protocol::Code;
use goblin_protocol::envelope::transport_error;
use goblin_protocol::limits::{FRAME_MAX, PRE_AUTH_FRAME_MAX};
use goblin_redact::Redactor;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::ReadHalf;
use tokio::net::TcpStream;
use tokio::sync::{MutexGuard, OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

type Reader = FrameReader<ReadHalf<TlsStream<TcpStream>>>;

/// Why a connection ends before it is ready.
enum End {
    /// Tell the gateway, and close.
    Refused(&'static str),
    /// It is gone.
    Lost,
}

impl From<Code> for End {
    fn from(code: Code) -> Self {
        Self::Refused(code.as_str())
    }
}

impl From<ControllerError> for End {
    fn from(error: ControllerError) -> Self {
        warn!(code = error.code(), "a gateway could not be authenticated");
        Self::Refused(error.code())
    }
}

/// A gateway that may be served.
struct Admitted<'s> {
    claim: Claim,
    redactor: Redactor,
    /// Held until the connection is registered. An approval holds it itself.
    turn: Option<MutexGuard<'s, ()>>,
    /// Tells the approval that the connection is ready.
    ready: Option<oneshot::Sender<()>>,
}

/// Serves one connection to its end. `room` is its place among those not authenticated yet.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    tls: Arc<Tls>,
    stream: TcpStream,
    peer: SocketAddr,
    room: OwnedSemaphorePermit,
) {
    let timing = &shared.options.timing;
    let deadline = Instant::now() + timing.auth;
    let Some(stream) = handshake(&shared, &tls, stream, peer).await else {
        return;
    };
    let (reading, writing) = tokio::io::split(stream);
    let mut reader = FrameReader::new(reading, PRE_AUTH_FRAME_MAX);
    let (sender, writer) = start_writer(writing);
    let authentication = async {
        match timeout_at(deadline, authenticate(&shared, &tls, &mut reader, &sender)).await {
            Ok(result) => result,
            Err(_) => Err(Code::AuthTimeout.into()),
        }
    };
    let result = tokio::select! {
        result = authentication => result,
        () = shared.closing.cancelled() => Err(End::Lost),
    };
    match result {
        Ok(admitted) => {
            drop(room);
            run(&shared, admitted, reader, sender, writer, peer).await;
        }
        Err(end) => {
            if let End::Refused(code) = end {
                info!(%peer, code, "a connection was refused");
                shared.metrics.refused(code);
                let _ = timeout(timing.close, sender.send(transport_error(code))).await;
            }
            drop(sender);
            finish(writer, timing).await;
        }
    }
}

async fn handshake(shared: &Shared, tls: &Tls, stream: TcpStream, peer: SocketAddr) -> Option<TlsStream<TcpStream>> {
    let shaking = async {
        // Who says nothing at all takes no turn.
        let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        // The bound on turns is never closed.
        let turn = shared.handshakes.acquire().await;
        let mut finishing = std::pin::pin!(hello.into_stream(tls.config.clone()));
        match timeout(HANDSHAKE_TURN, &mut finishing).await {
            Ok(shaken) => shaken,
            Err(_) => {
                drop(turn);
                finishing.await
            }
        }
    };
    tokio::select! {
        shaken = timeout(shared.options.timing.handshake, shaking) => match shaken {
            Ok(Ok(stream)) => {
                shared.metrics.handshake(HandshakeEnd::Completed);
                Some(stream)
            }
            Ok(Err(error)) => {
                debug!(%peer, %error, "a TLS handshake failed");
                shared.metrics.handshake(HandshakeEnd::Failed);
                None
            }
            Err(_) => {
                debug!(%peer, "a TLS handshake took too long");
                shared.metrics.handshake(HandshakeEnd::TimedOut);
                None
            }
        },
        () = shared.closing.cancelled() => None,
    }
}

/// Lets the last frames out, and closes.
async fn finish(mut writer: WriterTask, timing: &Timing) {
    if timeout(timing.close, &mut writer).await.is_err() {
        writer.abort();
    }
}

async fn authenticate<'s>(
    shared: &'s Arc<Shared>,
    tls: &Tls,
    reader: &mut Reader,
    sender: &FrameSender,
) -> Result<Admitted<'s>, End> {
    let nonce = random::nonce().map_err(|_| Code::InternalError)?;
    let (auth, challenge) = ControllerAuth::new(nonce, &shared.pair, &tls.leaf);
    sender.send(challenge).await.map_err(|_| End::Lost)?;
    let first = timeout(shared.options.timing.first_message, frame(reader)).await;
    let claim = auth.receive(&first.map_err(|_| Code::AuthTimeout)??)?;
    let mut contested = false;
    loop {
        let turn = shared.turns.take(&claim.gateway_id).await;
        let admission = admission::judge(shared, &claim).await?;
        let live = shared.registry.live(&claim.gateway_id);
        match (admission, live) {
            (Admission::Refused(code), _) => return Err(code.into()),
            (Admission::Trusted(redactor), None) => {
                return Ok(Admitted {
                    claim,
                    redactor,
                    turn: Some(turn),
                    ready: None,
                });
            }
            (Admission::Trusted(_), Some(Live::Ready(old))) => {
                drop(turn);
                if contested || liveness::answers(&old, shared.options.timing.replace_probe).await {
                    return Err(Code::GatewayAlreadyConnected.into());
                }
                contested = true;
                info!(
                    gateway_id = claim.gateway_id,
                    "a connection that does not answer is replaced"
                );
                shared.lost(&old);
            }
            // Trust was given in another way than by this approval.
            (Admission::Trusted(_), Some(Live::Pending(pending))) => {
                pending.decide(Verdict::Dismissed);
                shared.registry.lost(&pending.gateway_id, pending.generation);
            }
            (Admission::Stranger(offer), None) => {
                let (waiting, verdict) = begin_waiting(shared, &claim, &offer).await?;
                drop(turn);
                return wait_for_approval(waiting, verdict, claim, reader, sender).await;
            }
            (Admission::Stranger(offer), Some(Live::Pending(other)))
                if !compare::text(&other.public_key, &offer.public_key) =>
            {
                return Err(Code::GatewayIdentityConflict.into());
            }
            (Admission::Stranger(_), Some(_)) => return Err(Code::GatewayAlreadyConnected.into()),
        }
    }
}

/// Takes the connection off the list when it no longer waits, however that came.
struct Waiting<'s> {
    shared: &'s Arc<Shared>,
    pending: Arc<Pending>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared
            .registry
            .lost(&self.pending.gateway_id, self.pending.generation);
    }
}

async fn begin_waiting<'s>(
    shared: &'s Arc<Shared>,
    claim: &Claim,
    offer: &PairingClaim,
) -> Result<(Waiting<'s>, oneshot::Receiver<Verdict>), End> {
    if !shared.registry.has_room_for_pending() {
        return Err(Code::TooManyPending.into());
    }
    pairing::remember(shared, claim, offer).await?;
    let (pending, verdict) = Pending::new(shared.registry.next_generation(), claim, offer);
    let pending = Arc::new(pending);
    let listed = shared.registry.insert(
        &claim.gateway_id,
        Live::Pending(pending.clone()),
        claim.metadata.clone(),
    );
    if !listed {
        return Err(Code::TooManyPending.into());
    }
    Ok((Waiting { shared, pending }, verdict))
}

async fn wait_for_approval<'s>(
    waiting: Waiting<'s>,
    verdict: oneshot::Receiver<Verdict>,
    claim: Claim,
    reader: &mut Reader,
    sender: &FrameSender,
) -> Result<Admitted<'s>, End> {
    let code = &waiting.pending.code;
    info!(gateway_id = claim.gateway_id, "a gateway waits for approval");
    sender
        .send(controller_auth::pairing_pending(code))
        .await
        .map_err(|_| End::Lost)?;
    tokio::select! {
        // A decision that was made counts, even if the connection breaks at the same time.
        biased;
        verdict = verdict => match verdict {
            Ok(Verdict::Approved(ready)) => Ok(Admitted {
                claim,
                redactor: Redactor::new::<&str>(&[]),
                turn: None,
                ready: Some(ready),
            }),
            Ok(Verdict::Rejected) => Err(Code::PairingRejected.into()),
            Ok(Verdict::Dismissed) | Err(_) => Err(End::Lost),
        },
        received = frame(reader) => {
            received?;
            Err(Code::Unauthenticated.into())
        }
    }
}

async fn frame(reader: &mut Reader) -> Result<bytes::Bytes, End> {
    match reader.next().await {
        Ok(Received::Frame(frame)) => Ok(frame),
        Ok(Received::TooLarge) => Err(Code::FrameTooLarge.into()),
        Ok(Received::End) | Err(_) => Err(End::Lost),
    }
}

/// Sees a ready connection's frames and its end.
struct Witness {
    registry: Arc<Registry>,
    tracker: Arc<Tracker>,
    gateway_id: Arc<str>,
    generation: u64,
}

impl Observer for Witness {
    fn arrived(&self, envelope: &Envelope) {
        self.tracker.arrived(envelope);
    }

    fn closed(&self) {
        // In this order for the same reason as in [`Shared::lost`].
        self.tracker.interrupt();
        self.registry.lost(&self.gateway_id, self.generation);
    }
}

/// Serves a gateway that was admitted, until its connection is lost.
async fn run(
    shared: &Arc<Shared>,
    admitted: Admitted<'_>,
    mut reader: Reader,
    sender: FrameSender,
    writer: WriterTask,
    peer: SocketAddr,
) {
    let timing = &shared.options.timing;
    let gateway_id: Arc<str> = admitted.claim.gateway_id.as_str().into();
    let Ok(suffix) = random::hex(6) else { return };
    let connection_id = format!("{}-{suffix}", clock::now_ms());
    let tracker = Arc::new(Tracker::new(
        gateway_id.clone(),
        shared.activity.clone(),
        shared.recorder.clone(),
        shared.recovery.clone(),
    ));
    let generation = shared.registry.next_generation();
    let witness = Witness {
        registry: shared.registry.clone(),
        tracker: tracker.clone(),
        gateway_id: gateway_id.clone(),
        generation,
    };
    reader.set_limit(FRAME_MAX);
    let heard = reader.heard();
    if sender.send(controller_auth::auth_ok(&connection_id)).await.is_err() {
        return;
    }
    let (client, mut reading) = goblin_client::start(reader, sender, Some(Arc::new(witness)));
    let ready = Arc::new(Ready {
        gateway_id,
        connection_id,
        generation,
        client,
        heard,
        tracker,
        redactor: admitted.redactor,
    });
    shared
        .registry
        .insert(&ready.gateway_id, Live::Ready(ready.clone()), admitted.claim.metadata);
    drop(admitted.turn);
    if let Some(approval) = admitted.ready {
        let _ = approval.send(());
    }
    info!(gateway_id = %ready.gateway_id, connection_id = ready.connection_id, %peer, "a gateway is ready");

    let lapse = async {
        let mut lapse = std::pin::pin!(liveness::lapse(&ready, timing));
        if shared.recovery.has(&ready.gateway_id) {
            // Boxed, so that the many connections that have nothing to recover do not keep room for it.
            tokio::select! {
                () = &mut lapse => return,
                () = Box::pin(recovery::recover(shared, &ready)) => {}
            }
        }
        lapse.await;
    };
    let ended = tokio::select! {
        // The task neither panics nor is it aborted; if it did, the connection would be lost all the same.
        reason = &mut reading => Some(reason.ok().flatten()),
        () = lapse => None,
        () = shared.closing.cancelled() => None,
    };
    let reason = match &ended {
        Some(Some(reason)) if known_form(reason) => reason.as_str(),
        Some(Some(_)) => "the gateway said why in no known form",
        Some(None) => "the connection was lost",
        None if shared.closing.is_cancelled() => "the controller stops",
        None => "the gateway does not answer",
    };
    info!(gateway_id = %ready.gateway_id, connection_id = ready.connection_id, reason, "a gateway is disconnected");
    if ended.is_none() {
        ready.client.close();
        let _ = reading.await;
    }
    // Once more after the connection's own notice: a request may have slipped in before it was closed to requests.
    shared.lost(&ready);
    drop(ready);
    finish(writer, timing).await;
}
