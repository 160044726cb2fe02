//! The TLS listener: it accepts connections and hands each to a task of its own.

use crate::connection;
use crate::error::ControllerError;
use crate::material::{self, Tls};
use crate::options::ListenAddress;
use crate::service::Shared;
use goblin_ports::{ControllerSettings, SettingsExt, TLS_SOURCE_CONFIGURED, TlsMetadata, secret, setting};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Keep-alive: after so long without traffic, so often, so many times unanswered. A host that vanished is seen within
/// 45 s, and what was sent to it unacknowledged is given up within [`USER_TIMEOUT_MS`].
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_PROBES: u32 = 3;
const USER_TIMEOUT_MS: u32 = 30_000;

/// Pause after the system refused a connection (no descriptors, no memory): accepting at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest host, in characters.
const HOST_MAX: usize = 255;

/// The listener as operators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerState {
    /// Whether it is meant to run.
    pub enabled: bool,
    /// Address or name.
    pub host: String,
    /// Port; the one that the system chose once it runs.
    pub port: u16,
    /// Whether it serves.
    pub running: bool,
    /// Its certificate.
    pub tls: TlsState,
    /// Stable code of why it does not run, when it should.
    pub error: Option<String>,
}

/// The listener's certificate as operators see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsState {
    /// There is a private key.
    pub key: bool,
    /// There is a certificate.
    pub cert: bool,
    /// There is an authority for client certificates.
    pub ca: bool,
    /// What is known of the certificate.
    pub metadata: Option<TlsMetadata>,
}

/// What became of starting the listener.
#[derive(Clone, Copy)]
enum Started {
    /// Not meant to run.
    Disabled,
    /// It serves here.
    Running(SocketAddr),
    /// It should run and does not; the code says why.
    Failed(&'static str),
}

/// The task that accepts, how to end it, and what it serves with.
struct Accepting {
    task: JoinHandle<()>,
    stop: CancellationToken,
    host: String,
    tls: Arc<Mutex<Arc<Tls>>>,
}

struct Current {
    started: Started,
    accepting: Option<Accepting>,
}

/// The listener as it runs now. It can be put elsewhere while connections go on.
pub(crate) struct Listener {
    /// Held while it is changed, so that changes follow one another.
    changing: tokio::sync::Mutex<()>,
    current: Mutex<Current>,
    /// Put elsewhere since the start: the setting counts, no more the options.
    moved: AtomicBool,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            moved: AtomicBool::new(false),
            changing: tokio::sync::Mutex::default(),
            current: Mutex::new(Current {
                started: Started::Disabled,
                accepting: None,
            }),
        }
    }
}

impl Listener {
    /// Where it serves.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.current().started {
            Started::Running(address) => Some(address),
            Started::Disabled | Started::Failed(_) => None,
        }
    }

    /// TLS for HTTP with the certificate that is served now.
    pub(crate) fn web_tls(&self) -> Option<Arc<ServerConfig>> {
        let current = self.current();
        let tls = &current.accepting.as_ref()?.tls;
        Some(tls.lock().unwrap_or_else(PoisonError::into_inner).web.clone())
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the listener where options or settings enable it, in place of one that runs.
///
/// # Errors
/// Those of the home. That it cannot run is also told by its state.
pub(crate) async fn start(shared: &Arc<Shared>) -> Result<(), ControllerError> {
    let _change = shared.listener.changing.lock().await;
    let running = shared.listener.current().accepting.take();
    if let Some(accepting) = running {
        accepting.stop.cancel();
        // Its port is free once it has ended.
        let _ = accepting.task.await;
    }
    let outcome = match enabled_address(shared).await? {
        None => Ok(None),
        Some(address) => match bind(shared, &address).await {
            Ok(bound) => Ok(Some((address.host, bound))),
            Err(error) => Err(error),
        },
    };
    let (started, accepting, result) = match outcome {
        Ok(None) => (Started::Disabled, None, Ok(())),
        Ok(Some((host, (listener, local, tls)))) => {
            let stop = shared.closing.child_token();
            let tls = Arc::new(Mutex::new(Arc::new(tls)));
            let task = shared
                .tasks
                .spawn(accept(shared.clone(), listener, tls.clone(), stop.clone()));
            info!(address = %local, "listening for gateways");
            let accepting = Accepting { task, stop, host, tls };
            (Started::Running(local), Some(accepting), Ok(()))
        }
        Err(error) => (Started::Failed(error.code()), None, Err(error)),
    };
    *shared.listener.current() = Current { started, accepting };
    result
}

/// Serves from now on with the certificate that is stored, made anew when there is none. A listener that runs stays
/// where it is.
pub(crate) async fn renew(shared: &Arc<Shared>) -> Result<(), ControllerError> {
    let running = {
        let _change = shared.listener.changing.lock().await;
        let running = {
            let current = shared.listener.current();
            let accepting = current.accepting.as_ref();
            accepting.map(|accepting| (accepting.host.clone(), accepting.tls.clone()))
        };
        match running {
            Some((host, served)) => {
                let tls = material::tls(&shared.options, &*shared.settings, &*shared.secrets, &host).await?;
                *served.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tls);
                true
            }
            None => false,
        }
    };
    if running { Ok(()) } else { restart(shared).await }
}

/// The address to serve at; `None` when the listener is not enabled.
async fn enabled_address(shared: &Shared) -> Result<Option<ListenAddress>, ControllerError> {
    if let Some(address) = &shared.options.listen
        && !shared.listener.moved.load(Ordering::Relaxed)
    {
        return Ok(Some(address.clone()));
    }
    let configured: ControllerSettings = shared.settings.get_as(setting::CONTROLLER).await?.unwrap_or_default();
    Ok(configured.enabled.then_some(ListenAddress {
        host: configured.host,
        port: configured.port,
    }))
}

/// Stores where the listener shall be, and puts it there. An address in the options counts again at the next start. When it is
/// disabled, all connections end.
pub(crate) async fn configure(
    shared: &Arc<Shared>,
    enabled: bool,
    host: &str,
    port: u16,
) -> Result<(), ControllerError> {
    let host = host.trim();
    if host.is_empty() || host.chars().count() > HOST_MAX {
        return Err(ControllerError::HostInvalid);
    }
    if port == 0 {
        return Err(ControllerError::PortInvalid);
    }
    shared
        .settings
        .update_as(setting::CONTROLLER, |known: Option<ControllerSettings>| {
            let changed = ControllerSettings {
                enabled,
                host: host.to_owned(),
                port,
                ..known.unwrap_or_default()
            };
            Ok::<_, ControllerError>((Some(changed), ()))
        })
        .await?;
    shared.listener.moved.store(true, Ordering::Relaxed);
    restart(shared).await?;
    if !enabled {
        shared.disconnect_all();
    }
    Ok(())
}

/// Serves from now on with what is stored. That the listener cannot run is told by its state: the change is kept.
pub(crate) async fn restart(shared: &Arc<Shared>) -> Result<(), ControllerError> {
    match start(shared).await {
        Err(error @ ControllerError::Port(_)) => Err(error),
        Err(error) => {
            warn!(code = error.code(), "the listener does not run");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn bind(shared: &Shared, address: &ListenAddress) -> Result<(TcpListener, SocketAddr, Tls), ControllerError> {
    let tls = material::tls(&shared.options, &*shared.settings, &*shared.secrets, &address.host).await?;
    let failed = |source: io::Error| ControllerError::Bind {
        address: address.to_string(),
        source,
    };
    let listener = TcpListener::bind((address.host.as_str(), address.port))
        .await
        .map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local, tls))
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Arc<Mutex<Arc<Tls>>>, stop: CancellationToken) {
    let accepting = async {
        loop {
            // Never closed, so there is always a permit in the end.
            let Ok(room) = shared.unauthenticated.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    if let Err(error) = prepare(&stream) {
                        warn!(%peer, %error, "the socket of a connection could not be set up");
                    }
                    let tls = tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    shared
                        .tasks
                        .spawn(connection::serve(shared.clone(), tls, stream, peer, room));
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.cancelled() => {}
    }
}

pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(stream, USER_TIMEOUT_MS)?;
    Ok(())
}

/// The listener as it is now.
pub(crate) async fn state(shared: &Shared) -> Result<ListenerState, ControllerError> {
    let (enabled, host, port) = match &shared.options.listen {
        Some(address) => (true, address.host.clone(), address.port),
        None => {
            let configured: ControllerSettings = shared.settings.get_as(setting::CONTROLLER).await?.unwrap_or_default();
            (configured.enabled, configured.host, configured.port)
        }
    };
    let tls = match &shared.options.tls_material {
        Some(material) => TlsState {
            key: true,
            cert: true,
            ca: material.ca.is_some(),
            metadata: given_metadata(material),
        },
        None => TlsState {
            key: shared.secrets.has(secret::TLS_KEY).await?,
            cert: shared.secrets.has(secret::TLS_CERT).await?,
            ca: shared.secrets.has(secret::TLS_CA).await?,
            metadata: shared.settings.get_as(setting::TLS_METADATA).await?,
        },
    };
    let started = shared.listener.current().started;
    let (running, port, error) = match started {
        Started::Running(local) => (true, local.port(), None),
        Started::Failed(code) => (false, port, Some(code.to_owned())),
        Started::Disabled => (false, port, None),
    };
    Ok(ListenerState {
        enabled,
        host,
        port,
        running,
        tls,
        error,
    })
}

/// What is known of a certificate that came with the options.
fn given_metadata(material: &crate::options::TlsMaterial) -> Option<TlsMetadata> {
    let now = std::time::SystemTime::now();
    let checked = goblin_keys::certificate::check(&material.cert, &material.key, material.ca.as_deref(), now).ok()?;
    let mut metadata = material::metadata_record(&checked);
    metadata.source = TLS_SOURCE_CONFIGURED.to_owned();
    Some(metadata)
}
