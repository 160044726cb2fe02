//! The daemon over TLS: it dials out, proves who it is, serves, and comes back after every loss.

use crate::backoff::Backoff;
use crate::clock::now_ms;
use crate::daemon::{Daemon, LAST_ANSWERS, NAME, Session};
use crate::dial::{Address, DialError, Proxy, dial};
use crate::presence::Reporter;
use goblin_identity::{Credential as Stored, IdentityError, NodeIdentity, StateDir};
use goblin_keys::fingerprint::Fingerprint;
use goblin_keys::pair::PublicKey;
use goblin_keys::random;
use goblin_keys::tls::{ClientTls, ClientTrust, TlsError};
use goblin_link::gateway_auth::{Credential, Expectations, Failure, GatewayAuth, Pins, Progress};
use goblin_link::{Closed, FrameReader, FrameSender, Received, WriterTask, start_writer};
use goblin_protocol::Code;
use goblin_protocol::auth::{CONTROLLER_ID_DEFAULT, GatewayMetadata};
use goblin_protocol::envelope::{PROTOCOL_VERSION, transport_error};
use goblin_protocol::limits::{FRAME_MAX, PRE_AUTH_FRAME_MAX};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::ReadHalf;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;
use tokio_rustls::client::TlsStream;
use tracing::{debug, info, warn};
use zeroize::Zeroizing;

/// How long the controller may take for its challenge. Its verdict may take as long as an operator does; the controller
/// itself sets that limit.
const CHALLENGE: Duration = Duration::from_secs(30);

/// How often the size of the journal is noted for the operator's command, where it has changed.
const COUNTING: Duration = Duration::from_secs(60);

/// Where to connect and what to go by.
pub struct Outbound {
    /// The controller's listener.
    pub address: Address,
    /// A proxy to go through.
    pub proxy: Option<Proxy>,
    /// This host's id.
    pub gateway_id: String,
    /// The controller's id; `controller` when not configured.
    pub controller_id: Option<String>,
    /// The HMAC enrolment token; a stored trust wins over it.
    pub token: Option<SecretString>,
    /// PEM of certificate authorities that the controller's certificate must pass.
    pub ca_pem: Option<String>,
    /// Client certificate and key, PEM.
    pub client_certificate: Option<(String, Zeroizing<String>)>,
    /// The controller's certificate as the operator knows it.
    pub controller_fingerprint: Option<Fingerprint>,
    /// Accept a controller that sends no proof.
    pub allow_unproven: bool,
    /// What the daemon says its version is.
    pub version: String,
}

/// Why a connection ended or never came to be.
#[derive(Debug, thiserror::Error)]
enum Ending {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Authentication(#[from] Failure),
    #[error(transparent)]
    State(#[from] IdentityError),
    #[error("the controller sent no challenge within 30 s")]
    NoChallenge,
    #[error("the controller sent a frame that is too large")]
    FrameTooLarge,
    #[error("the connection was closed")]
    Closed,
    #[error("the controller closed the connection: {0:?}")]
    Told(String),
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl Ending {
    /// A stable code for the operator's command.
    fn code(&self) -> &str {
        match self {
            Self::Dial(DialError::Connect { .. }) => "dial_failed",
            Self::Dial(DialError::Proxy { .. }) => "proxy_failed",
            Self::Dial(DialError::Handshake(_)) => "tls_handshake_failed",
            Self::Dial(DialError::Tls(error)) | Self::Tls(error) => error.code(),
            Self::Authentication(Failure::Refused(code)) => code.as_str(),
            Self::Authentication(Failure::Told(code)) | Self::Told(code) => code,
            Self::State(error) => error.code(),
            Self::NoChallenge => "no_challenge",
            Self::FrameTooLarge => Code::FrameTooLarge.as_str(),
            Self::Closed => "connection_closed",
            Self::Io(_) => "connection_failed",
        }
    }
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        // A peer that goes away without a farewell is an everyday event, not a fault to describe.
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Closed
        } else {
            Self::Io(error)
        }
    }
}

impl From<Closed> for Ending {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// Connects and serves until the daemon is asked to stop; then cancelled work is answered and the journal closed.
pub async fn serve(daemon: &Daemon, state: StateDir, mut identity: NodeIdentity, outbound: &Outbound) {
    let mut backoff = Backoff::default();
    let mut tls = TlsCache::default();
    let mut last = String::new();
    let mut reporter = Reporter::new(
        state.path(),
        &outbound.version,
        outbound.address.authority(),
        &outbound.gateway_id,
    );
    let mut connection = Attempt {
        daemon,
        state: &state,
        identity: &mut identity,
        outbound,
        tls: &mut tls,
        backoff: &mut backoff,
        reporter: &mut reporter,
    };
    // A daemon that was killed may have left one.
    remove_pairing_code(&state);
    let writer = loop {
        let ending = match connection.run().await {
            Ok(writer) => break writer,
            Err(ending) => ending,
        };
        daemon.outlet().connect(None);
        remove_pairing_code(&state);
        let (text, wait) = (ending.to_string(), connection.backoff.next(chance()));
        connection.reporter.failed(ending.code(), &text);
        // The same reason again and again is said once.
        if text == last {
            debug!(reason = %text, ?wait, "no connection to the controller");
        } else {
            warn!(reason = %text, "no connection to the controller; trying again");
            last = text;
        }
        tokio::select! {
            () = daemon.stopping().cancelled() => break None,
            () = tokio::time::sleep(wait) => {}
        }
    };
    remove_pairing_code(&state);
    // Work that an earlier connection began may still be under way.
    daemon.finished().await;
    daemon.close().await;
    daemon.outlet().connect(None);
    if let Some(writer) = writer {
        let abort = writer.abort_handle();
        let _ = tokio::time::timeout(LAST_ANSWERS, writer).await;
        abort.abort();
    }
    reporter.stopped(daemon.journal_entries());
}

/// A code is good for its connection alone.
fn remove_pairing_code(state: &StateDir) {
    if let Err(error) = state.remove_pairing_code() {
        warn!(%error, "the pairing code could not be removed");
    }
}

/// 32 random bits; without a source of randomness the waits are merely not spread.
fn chance() -> u32 {
    let mut bytes = [0; 4];
    let _ = random::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

/// One configuration per trust: a resumed session skips the verifier, so configurations are never shared between them.
#[derive(Default)]
struct TlsCache(Option<((bool, Option<Fingerprint>), ClientTls)>);

impl TlsCache {
    fn get(
        &mut self,
        outbound: &Outbound,
        by_secret: bool,
        pinned: Option<Fingerprint>,
    ) -> Result<ClientTls, TlsError> {
        let key = (by_secret, pinned);
        if let Some((cached, tls)) = &self.0
            && *cached == key
        {
            return Ok(tls.clone());
        }
        let trust = match (by_secret, pinned, outbound.ca_pem.clone()) {
            (false, Some(fingerprint), ca_pem) => ClientTrust::Pinned { fingerprint, ca_pem },
            (_, _, Some(pem)) => ClientTrust::Ca { pem },
            // A secret is never proven to a certificate that nobody verified.
            (true, _, None) => ClientTrust::SystemRoots,
            (false, None, None) => ClientTrust::Unverified,
        };
        let client = outbound
            .client_certificate
            .as_ref()
            .map(|(certificate, key)| (certificate.as_str(), key.as_str()));
        let tls = ClientTls::new(&trust, client)?;
        self.0 = Some((key, tls.clone()));
        Ok(tls)
    }
}

type Reader = FrameReader<ReadHalf<TlsStream<TcpStream>>>;

/// What one connection after the other needs.
struct Attempt<'a> {
    daemon: &'a Daemon,
    state: &'a StateDir,
    identity: &'a mut NodeIdentity,
    outbound: &'a Outbound,
    tls: &'a mut TlsCache,
    backoff: &'a mut Backoff,
    reporter: &'a mut Reporter,
}

impl Attempt<'_> {
    /// One connection from dial to loss. `Ok` once the daemon is asked to stop, with the writer of a live connection.
    async fn run(&mut self) -> Result<Option<WriterTask>, Ending> {
        let stopping = self.daemon.stopping().clone();
        let ready = tokio::select! {
            () = stopping.cancelled() => return Ok(None),
            ready = self.authenticate() => ready?,
        };
        let Ready {
            mut reader,
            sender,
            writer,
            connection_id,
        } = ready;
        self.backoff.reset();
        self.reporter.connected(&connection_id, self.daemon.journal_entries());
        info!(connection = ?connection_id, controller = %self.outbound.address.authority(), "connected");
        let session = Session::Authenticated {
            gateway_id: self.outbound.gateway_id.clone(),
            connection_id,
        };
        self.daemon.outlet().connect(Some(sender.clone()));
        let daemon = self.daemon;
        let serving = self.serve_connection(&mut reader, &sender, &session);
        tokio::pin!(serving);
        tokio::select! {
            ending = &mut serving => return Err(ending),
            () = stopping.cancelled() => {}
        }
        // Whoever asks meanwhile is still answered.
        tokio::select! {
            _ = &mut serving => {}
            _ = daemon.finished() => {}
        }
        Ok(Some(writer))
    }

    async fn serve_connection(&mut self, reader: &mut Reader, sender: &FrameSender, session: &Session) -> Ending {
        let mut counting = tokio::time::interval(COUNTING);
        counting.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let received = tokio::select! {
                received = reader.next() => received,
                _ = counting.tick() => {
                    self.reporter.counted(self.daemon.journal_entries());
                    continue;
                }
                () = sender.closed() => return Ending::Closed,
            };
            let frame = match received {
                Ok(Received::Frame(frame)) => frame,
                Ok(Received::TooLarge) => {
                    let _ = sender.send(transport_error(Code::FrameTooLarge.as_str())).await;
                    return Ending::FrameTooLarge;
                }
                Ok(Received::End) => return Ending::Closed,
                Err(error) => return error.into(),
            };
            match transport_message(&frame) {
                None => self.daemon.receive(&frame, session).await,
                Some(Transport::Error(code)) => return Ending::Told(code),
                Some(Transport::Authentication) => {
                    let _ = sender.send(transport_error(Code::UnexpectedAuthMessage.as_str())).await;
                    return Ending::Authentication(Failure::Refused(Code::UnexpectedAuthMessage));
                }
            }
        }
    }

    /// Dials and authenticates. What was learnt is stored before the connection counts as ready.
    async fn authenticate(&mut self) -> Result<Ready, Ending> {
        let stored = self.state.credential(self.outbound.token.clone())?;
        let (credential, controller_id) = match &stored {
            Stored::Stored(trust) => (hmac(&trust.secret), Some(trust.controller_id.clone())),
            Stored::Token(token) => (hmac(token), None),
            Stored::None => (Credential::Pairing(self.identity.keys().clone()), None),
        };
        let by_secret = matches!(credential, Credential::Hmac(_));
        let pinned = if by_secret {
            None
        } else {
            self.identity.controller_fingerprint()
        };
        let tls = self.tls.get(self.outbound, by_secret, pinned)?;
        let (stream, leaf) = dial(&self.outbound.address, self.outbound.proxy.as_ref(), &tls).await?;
        let controller_id = controller_id
            .or_else(|| self.outbound.controller_id.clone())
            .unwrap_or_else(|| CONTROLLER_ID_DEFAULT.to_owned());
        let mut auth = GatewayAuth::new(
            Expectations {
                gateway_id: self.outbound.gateway_id.clone(),
                controller_id: controller_id.clone(),
                credential,
                metadata: GatewayMetadata {
                    name: Some(NAME.to_owned()),
                    version: Some(self.outbound.version.clone()),
                    protocol_version: Some(PROTOCOL_VERSION.to_owned()),
                },
                pinned_key: self.identity.controller_key().map(|key| key.pem().to_owned()),
                expected_leaf: self.outbound.controller_fingerprint,
                allow_unproven: self.outbound.allow_unproven,
            },
            leaf,
        );
        let (read, write) = tokio::io::split(stream);
        let (sender, writer) = start_writer(write);
        let mut reader = FrameReader::new(read, PRE_AUTH_FRAME_MAX);
        let mut challenged = false;
        loop {
            let received = if challenged {
                reader.next().await?
            } else {
                tokio::time::timeout(CHALLENGE, reader.next())
                    .await
                    .map_err(|_| Ending::NoChallenge)??
            };
            let progress = match received {
                Received::Frame(frame) => auth.receive(&frame),
                Received::TooLarge => return Err(Ending::FrameTooLarge),
                Received::End => return Err(Ending::Closed),
            };
            match progress {
                Ok(Progress::Answer(answer)) => {
                    challenged = true;
                    sender.send(answer).await?;
                }
                Ok(Progress::Pending(code)) => {
                    self.state
                        .write_pairing_code(&self.outbound.gateway_id, &code.short, now_ms() as i64)?;
                    self.reporter.waiting(&code);
                    info!(code = %code.short, long_code = %code.long, "waiting for an operator to approve this code");
                }
                Ok(Progress::Ready { connection_id, pins }) => {
                    if let Some(pins) = pins {
                        self.pin(&pins)?;
                    }
                    self.state.authenticated(&stored, &controller_id, now_ms() as i64)?;
                    self.state.remove_pairing_code()?;
                    reader.set_limit(FRAME_MAX);
                    return Ok(Ready {
                        reader,
                        sender,
                        writer,
                        connection_id,
                    });
                }
                Err(failure) => {
                    if let Failure::Refused(code) = &failure {
                        let _ = sender.send(transport_error(code.as_str())).await;
                    }
                    return Err(failure.into());
                }
            }
        }
    }

    fn pin(&mut self, pins: &Pins) -> Result<(), Ending> {
        // The text was read as a key before it was accepted.
        let key =
            PublicKey::from_pem(&pins.controller_key).map_err(|_| Failure::Refused(Code::ControllerIdentityMissing))?;
        if pins.renewed {
            self.state.update_pinned_fingerprint(self.identity, pins.leaf)?;
            warn!(fingerprint = %pins.leaf, "the controller proved a renewed certificate; it is pinned from now on");
        } else {
            self.state.pin_controller(self.identity, &key, pins.leaf)?;
            info!(fingerprint = %pins.leaf, "the controller is pinned");
        }
        Ok(())
    }
}

struct Ready {
    reader: Reader,
    sender: FrameSender,
    writer: WriterTask,
    connection_id: String,
}

fn hmac(secret: &SecretString) -> Credential {
    Credential::Hmac(Arc::new(Zeroizing::new(secret.expose_secret().to_owned())))
}

/// Messages of the transport that come instead of a request.
enum Transport {
    Error(String),
    Authentication,
}

fn transport_message(frame: &[u8]) -> Option<Transport> {
    #[derive(Deserialize)]
    struct Message {
        r#type: String,
        #[serde(default)]
        method: Option<String>,
        #[serde(default)]
        error: Option<Reason>,
    }
    #[derive(Deserialize)]
    struct Reason {
        code: String,
    }
    // Requests have no `type` of their own, so nearly every frame ends here.
    memchr::memmem::find(frame, b"\"type\"")?;
    let message: Message = serde_json::from_slice(frame).ok()?;
    match (message.r#type.as_str(), message.error) {
        _ if message.method.is_some() => None,
        ("transport.error", Some(reason)) => Some(Transport::Error(reason.code)),
        (other, _) if other.starts_with("auth.") || other.starts_with("pairing.") => Some(Transport::Authentication),
        _ => None,
    }
}
