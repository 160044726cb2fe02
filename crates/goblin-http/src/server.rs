//! Serving over a Unix socket and over TCP with one router: who may connect, time limits, and an end that lets running
//! requests finish.

use crate::audit::AuditLog;
use crate::auth::{Book, Clock, Door, Hosts, Sessions, Via};
use crate::connection::{self, Endings};
use crate::limits::Failures;
use crate::routes;
use crate::socket;
use crate::tcp::{self, Bound, HttpOptions};
use axum::Router;
use goblin_controller::Controller;
use goblin_keys::certificate::CertificateError;
use goblin_keys::tls::TlsError;
use goblin_ports::{PortError, Tokens};
use rustix::process::geteuid;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

/// Tells streams that never end by themselves that the server closes, as an extension of the request.
#[derive(Clone)]
pub(crate) struct Closing(pub(crate) CancellationToken);

/// How long the server waits for its clients.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// For the head of a request to arrive.
    pub(crate) head: Duration,
    /// For its body to arrive.
    pub(crate) body: Duration,
    /// For another request over a connection of HTTP/2; over HTTP/1.1 it is that for a head.
    pub(crate) idle: Duration,
    /// For a connection over TCP to bring a request of somebody who may call.
    pub(crate) stranger: Duration,
    /// For running requests to finish when the server closes.
    pub(crate) finish: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            stranger: Duration::from_secs(60),
            finish: Duration::from_secs(10),
        }
    }
}

/// Pause after the system refused a connection: accepting at once would spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served, and where.
pub struct Service {
    /// What the routes work on.
    pub controller: Controller,
    /// Where tokens are kept. Nobody else changes them while the server runs.
    pub tokens: Arc<dyn Tokens>,
    /// Where requests are noted.
    pub audit: AuditLog,
    /// Path of the Unix socket, which only the user of this process and root may use. The caller holds the lock of its
    /// directory: a socket that is there already is taken for stale.
    pub socket: PathBuf,
    /// The TCP side, if there shall be one.
    pub http: Option<HttpOptions>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket could not be made.
    #[error("cannot serve on {}: {source}; a shorter --state-dir may help", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address could not be bound.
    #[error("cannot serve HTTP on {address} (--http HOST:PORT takes another address, --http off none)")]
    Http {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Others could read along.
    #[error(
        "HTTP on {address} without TLS is refused, since others can reach it: serve with --http-tls auto, with a \
         certificate (--http-cert, --http-key), or on a loopback address"
    )]
    TlsRequired {
        /// The address.
        address: String,
    },
    /// The gateway listener, whose certificate was to be used, has none.
    #[error("the gateway listener has no certificate that HTTP could be served with: give --http-cert and --http-key")]
    NoCertificate,
    /// The certificate of its own does not serve.
    #[error("the certificate for HTTP: {0}")]
    Certificate(#[from] CertificateError),
    /// The certificate of its own does not serve.
    #[error("the certificate for HTTP: {0}")]
    Tls(#[from] TlsError),
    /// The tokens could not be read.
    #[error(transparent)]
    Tokens(#[from] PortError),
}

impl ServeError {
    /// The stable snake_case code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "controller_socket_failed",
            Self::Http { .. } => "http_listen_failed",
            Self::TlsRequired { .. } => "http_tls_required",
            Self::NoCertificate => "http_certificate_missing",
            Self::Certificate(error) => error.code(),
            Self::Tls(error) => error.code(),
            Self::Tokens(error) => error.code(),
        }
    }
}

/// A running server.
pub struct Server {
    path: PathBuf,
    http: Option<SocketAddr>,
    patience: Patience,
    tasks: TaskTracker,
    endings: Endings,
    audit: AuditLog,
}

/// Serves the API.
///
/// # Errors
/// See [`ServeError`]; nothing listens after one.
pub async fn serve(service: Service) -> Result<Server, ServeError> {
    let now = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
    };
    serve_with(service, Tuning::default(), Arc::new(now)).await
}

/// What only tests serve otherwise.
#[derive(Clone, Copy)]
pub(crate) struct Tuning {
    pub(crate) patience: Patience,
    /// Connections over TCP at once.
    pub(crate) connections_max: usize,
    /// Those of one peer.
    pub(crate) of_one_peer_max: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            patience: Patience::default(),
            connections_max: tcp::CONNECTIONS_MAX,
            of_one_peer_max: tcp::OF_ONE_PEER_MAX,
        }
    }
}

pub(crate) async fn serve_with(service: Service, tuning: Tuning, clock: Clock) -> Result<Server, ServeError> {
    let Service {
        controller,
        tokens,
        audit,
        socket,
        http,
    } = service;
    let bound = match &http {
        Some(options) => Some(tcp::bind(options, &controller).await?),
        None => None,
    };
    let door = Arc::new(Door {
        tokens: Book::open(tokens).await?,
        sessions: Sessions::default(),
        failures: Failures::default(),
        audit: audit.clone(),
        hosts: Hosts::new(http.iter().flat_map(tcp::names)),
        clock,
    });
    let failed = |source| ServeError::Socket {
        path: socket.clone(),
        source,
    };
    let listener = socket::bind_private(&socket)
        .and_then(UnixListener::from_std)
        .map_err(failed)?;
    let server = Server {
        path: socket.clone(),
        http: bound.as_ref().map(|bound: &Bound| bound.address),
        patience: tuning.patience,
        tasks: TaskTracker::new(),
        endings: Endings {
            closing: CancellationToken::new(),
            ending: CancellationToken::new(),
        },
        audit,
    };
    let serving = Serving {
        router: routes::guarded(controller, door, tuning.patience.body),
        patience: tuning.patience,
        connections_max: tuning.connections_max,
        of_one_peer_max: tuning.of_one_peer_max,
        tasks: server.tasks.clone(),
        endings: server.endings.clone(),
    };
    if let Some(bound) = bound {
        server.tasks.spawn(tcp::accept(bound, serving.clone()));
    }
    server.tasks.spawn(accept(listener, serving));
    Ok(server)
}

impl Server {
    /// Where HTTP is served, if it is.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Path of the Unix socket.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// Accepts no more connections, lets running requests finish for 10 s, then ends them. The socket is gone and the
    /// audit log is written afterwards.
    pub async fn close(self) {
        self.endings.closing.cancel();
        self.tasks.close();
        if timeout(self.patience.finish, self.tasks.wait()).await.is_err() {
            self.endings.ending.cancel();
            self.tasks.wait().await;
        }
        if let Err(error) = socket::remove(&self.path) {
            warn!(%error, "the socket could not be removed");
        }
        self.audit.close().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.endings.closing.cancel();
        self.endings.ending.cancel();
    }
}

/// What accepting and serving take.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) router: Router,
    pub(crate) patience: Patience,
    pub(crate) connections_max: usize,
    pub(crate) of_one_peer_max: usize,
    pub(crate) tasks: TaskTracker,
    pub(crate) endings: Endings,
}

async fn accept(listener: UnixListener, serving: Serving) {
    let rooms = Arc::new(Semaphore::new(serving.connections_max));
    let accepting = async {
        loop {
            // Never closed.
            let Ok(room) = rooms.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let Some(uid) = user_who_may_connect(&stream) else {
                        warn!("a connection of another user was refused");
                        continue;
                    };
                    let connection = connection::serve(
                        stream,
                        serving.router.clone(),
                        Via::Socket { uid },
                        serving.patience,
                        serving.endings.clone(),
                    );
                    serving.tasks.spawn(async move {
                        connection.await;
                        drop(room);
                    });
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
        () = serving.endings.closing.cancelled() => {}
    }
}

/// The file's mode keeps others out already; this holds even if somebody changed it.
fn user_who_may_connect(stream: &UnixStream) -> Option<u32> {
    let uid = stream.peer_cred().ok()?.uid();
    (uid == 0 || uid == geteuid().as_raw()).then_some(uid)
}
