//! The TLS listener: it accepts connections and hands each to a task of its own.

use crate::connection;
use crate::error::ControllerError;
use crate::material::{self, Tls};
use crate::options::ListenAddress;
use crate::service::Shared;
use goblin_ports::{ControllerSettings, SettingsExt, TLS_SOURCE_CONFIGURED, TlsMetadata, secret, setting};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tracing::{info, warn};

/// Keep-alive: after so long without traffic, so often, so many times unanswered. A host that vanished is seen within
/// 45 s, and what was sent to it unacknowledged is given up within [`USER_TIMEOUT_MS`].
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_PROBES: u32 = 3;
const USER_TIMEOUT_MS: u32 = 30_000;

/// Pause after the system refused a connection (no descriptors, no memory): accepting at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
pub(crate) enum Started {
    /// Not meant to run.
    Disabled,
    /// It serves here.
    Running(SocketAddr),
    /// It should run and does not.
    Failed(ControllerError),
}

/// Starts the listener where options or settings enable it.
pub(crate) async fn start(shared: &Arc<Shared>) -> Result<Started, ControllerError> {
    let address = match &shared.options.listen {
        Some(address) => address.clone(),
        None => {
            let configured: ControllerSettings = shared.settings.get_as(setting::CONTROLLER).await?.unwrap_or_default();
            if !configured.enabled {
                return Ok(Started::Disabled);
            }
            ListenAddress {
                host: configured.host,
                port: configured.port,
            }
        }
    };
    Ok(match bind(shared, &address).await {
        Ok((listener, local, tls)) => {
            shared.tasks.spawn(accept(shared.clone(), listener, Arc::new(tls)));
            info!(address = %local, "listening for gateways");
            Started::Running(local)
        }
        Err(error) => Started::Failed(error),
    })
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

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Arc<Tls>) {
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
                    shared
                        .tasks
                        .spawn(connection::serve(shared.clone(), tls.clone(), stream, peer, room));
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
        () = shared.closing.cancelled() => {}
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
pub(crate) async fn state(shared: &Shared, started: &Started) -> Result<ListenerState, ControllerError> {
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
    let (running, port, error) = match started {
        Started::Running(local) => (true, local.port(), None),
        Started::Failed(error) => (false, port, Some(error.code().to_owned())),
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
