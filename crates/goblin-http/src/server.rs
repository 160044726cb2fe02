//! Serving over a Unix socket: who may connect, time limits, and an end that lets running requests finish.

use crate::body::BodyWithin;
use crate::connections;
use crate::routes::router;
use crate::socket;
use axum::{Extension, Router};
use goblin_controller::Controller;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustix::process::geteuid;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

/// Connections at once. Further ones wait in the system's queue.
const CONNECTIONS_MAX: usize = 4096;

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
    /// For running requests to finish when the server closes.
    pub(crate) finish: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            finish: Duration::from_secs(10),
        }
    }
}

/// Pause after the system refused a connection: accepting at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
}

impl ServeError {
    /// The stable snake_case code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "controller_socket_failed",
        }
    }
}

/// A running server.
pub struct Server {
    path: PathBuf,
    patience: Patience,
    tasks: TaskTracker,
    /// Accept no more, finish what runs.
    closing: CancellationToken,
    /// End now.
    ending: CancellationToken,
}

/// Serves the API on a Unix socket at `path`, which only the user of this process and root may use. The caller holds
/// the lock of the socket's directory: a socket that is there already is taken for stale. To be called within a runtime.
///
/// # Errors
/// [`ServeError::Socket`].
pub fn serve_unix(controller: Controller, path: &Path) -> Result<Server, ServeError> {
    serve_patiently(controller, path, Patience::default())
}

/// As [`serve_unix`], with other limits of time.
pub(crate) fn serve_patiently(controller: Controller, path: &Path, patience: Patience) -> Result<Server, ServeError> {
    let failed = |source| ServeError::Socket {
        path: path.to_owned(),
        source,
    };
    let listener = socket::bind_private(path)
        .and_then(UnixListener::from_std)
        .map_err(failed)?;
    let server = Server {
        path: path.to_owned(),
        patience,
        tasks: TaskTracker::new(),
        closing: CancellationToken::new(),
        ending: CancellationToken::new(),
    };
    let serving = Serving {
        router: router(controller)
            .layer(Extension(BodyWithin(patience.body)))
            .layer(Extension(Closing(server.closing.clone()))),
        patience,
        tasks: server.tasks.clone(),
        closing: server.closing.clone(),
        ending: server.ending.clone(),
    };
    server.tasks.spawn(accept(listener, serving));
    Ok(server)
}

impl Server {
    /// Accepts no more connections, lets running requests finish for 10 s, then ends them. The socket is gone afterwards.
    pub async fn close(self) {
        self.closing.cancel();
        self.tasks.close();
        if timeout(self.patience.finish, self.tasks.wait()).await.is_err() {
            self.ending.cancel();
            self.tasks.wait().await;
        }
        if let Err(error) = socket::remove(&self.path) {
            warn!(%error, "the socket could not be removed");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closing.cancel();
        self.ending.cancel();
    }
}

struct Serving {
    router: Router,
    patience: Patience,
    tasks: TaskTracker,
    closing: CancellationToken,
    ending: CancellationToken,
}

async fn accept(listener: UnixListener, serving: Serving) {
    let rooms = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = async {
        loop {
            // Never closed.
            let Ok(room) = rooms.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) if may_connect(&stream) => {
                    let connection = serve(
                        stream,
                        serving.router.clone(),
                        serving.patience.head,
                        serving.closing.clone(),
                        serving.ending.clone(),
                    );
                    let counted = connections::Counted::new();
                    serving.tasks.spawn(async move {
                        connection.await;
                        drop(counted);
                        drop(room);
                    });
                }
                Ok(_) => warn!("a connection of another user was refused"),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = serving.closing.cancelled() => {}
    }
}

/// The file's mode keeps others out already; this holds even if somebody changed it.
fn may_connect(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}

async fn serve(
    stream: UnixStream,
    router: Router,
    head_within: Duration,
    closing: CancellationToken,
    ending: CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_within);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection.as_mut() => result,
                () = ending.cancelled() => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        debug!(%error, "an API connection ended early");
    }
}
