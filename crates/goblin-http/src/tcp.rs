//! The TCP side: where it may be bound, what it shows as its certificate, and how many connections it takes. It must
//! never know a request.

use crate::auth::{TcpVia, Via};
use crate::connection;
use crate::limits::Places;
use crate::server::{ACCEPT_PAUSE, ServeError, Serving};
use goblin_controller::{Controller, ListenAddress};
use rustls::ServerConfig;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use zeroize::Zeroizing;

/// Connections at once. Further ones wait in the system's queue.
pub(crate) const CONNECTIONS_MAX: usize = 4096;

/// Connections of one peer at once, which may be a proxy for many. Further ones are closed.
pub(crate) const OF_ONE_PEER_MAX: usize = 3072;

/// TLS handshakes at once.
const HANDSHAKES_MAX: usize = 64;

/// What the HTTP side is served with.
#[derive(Clone)]
pub enum HttpTls {
    /// No TLS; only where nobody but this machine can connect.
    Off,
    /// The certificate of the gateway listener, whichever it is at the time.
    Controller,
    /// A certificate of its own.
    Own {
        /// Certificate, followed by its chain where there is one, PEM.
        cert: String,
        /// Private key, PEM.
        key: Zeroizing<String>,
    },
}

/// Where and how HTTP is served.
#[derive(Clone)]
pub struct HttpOptions {
    /// Address to bind; port 0 lets the system choose.
    pub listen: ListenAddress,
    /// TLS or none.
    pub tls: HttpTls,
    /// Names under which it is asked, beside the address it binds and the loopback names.
    pub hosts: Vec<String>,
}

/// A socket that is bound, and what it is served with.
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    tls: Tls,
}

#[derive(Clone)]
enum Tls {
    Off,
    Controller(Controller),
    Own(Arc<ServerConfig>),
}

impl Tls {
    /// What to shake hands with; `None` while there is nothing.
    fn config(&self) -> Option<Arc<ServerConfig>> {
        match self {
            Self::Off => None,
            Self::Controller(controller) => controller.web_tls(),
            Self::Own(config) => Some(config.clone()),
        }
    }
}

/// Binds.
///
/// # Errors
/// An address that others can reach is refused without TLS, before anything listens there.
pub(crate) async fn bind(options: &HttpOptions, controller: &Controller) -> Result<Bound, ServeError> {
    let failed = |source: io::Error| ServeError::Http {
        address: options.listen.to_string(),
        source,
    };
    let tls = match &options.tls {
        HttpTls::Off => Tls::Off,
        HttpTls::Controller if controller.web_tls().is_none() => return Err(ServeError::NoCertificate),
        HttpTls::Controller => Tls::Controller(controller.clone()),
        HttpTls::Own { cert, key } => {
            goblin_keys::certificate::check(cert, key, None, SystemTime::now())?;
            Tls::Own(goblin_keys::tls::web_server_config(cert, key)?)
        }
    };
    let host = (options.listen.host.as_str(), options.listen.port);
    let addresses: Vec<SocketAddr> = lookup_host(host).await.map_err(failed)?.collect();
    let is_local = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    if matches!(tls, Tls::Off) && !addresses.iter().all(is_local) {
        return Err(ServeError::TlsRequired {
            address: options.listen.to_string(),
        });
    }
    let listener = TcpListener::bind(addresses.as_slice()).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, address, tls })
}

/// Accepts until the server closes.
pub(crate) async fn accept(bound: Bound, serving: Serving) {
    let rooms = Arc::new(Semaphore::new(serving.connections_max));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let places = Places::default();
    let accepting = async {
        loop {
            // Never closed.
            let Ok(room) = rooms.clone().acquire_owned().await else {
                return;
            };
            let (stream, peer) = match bound.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let peer = peer.ip().to_canonical();
            let Some(place) = places.take(peer, serving.of_one_peer_max) else {
                debug!(%peer, "a connection too many was closed");
                continue;
            };
            let Ok(local) = stream.local_addr() else {
                continue;
            };
            let via = |tls| {
                Via::Tcp(Arc::new(TcpVia {
                    peer,
                    local: local.ip().to_canonical(),
                    tls,
                    known: CancellationToken::new(),
                }))
            };
            let _ = stream.set_nodelay(true);
            let (router, patience) = (serving.router.clone(), serving.patience);
            let endings = serving.endings.clone();
            if matches!(bound.tls, Tls::Off) {
                let via = via(false);
                serving.tasks.spawn(async move {
                    connection::serve(stream, router, via, patience, endings).await;
                    drop((room, place));
                });
                continue;
            }
            let (via, tls, handshakes) = (via(true), bound.tls.clone(), handshakes.clone());
            serving.tasks.spawn(async move {
                let shaken = tokio::select! {
                    shaken = timeout(patience.head, shake_hands(stream, &tls, &handshakes)) => shaken.ok().flatten(),
                    () = endings.closing.cancelled() => None,
                };
                match shaken {
                    Some(stream) => connection::serve(stream, router, via, patience, endings).await,
                    None => debug!(%peer, "a TLS handshake did not come about"),
                }
                drop((room, place));
            });
        }
    };
    tokio::select! {
        () = accepting => {}
        () = serving.endings.closing.cancelled() => {}
    }
}

async fn shake_hands(
    stream: TcpStream,
    tls: &Tls,
    turns: &Semaphore,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let _turn = turns.acquire().await.ok()?;
    TlsAcceptor::from(tls.config()?).accept(stream).await.ok()
}

/// Names under which a server that binds this host may be asked, beside the address of a connection itself.
pub(crate) fn names(options: &HttpOptions) -> Vec<String> {
    let mut names = options.hosts.clone();
    let is_wildcard = |host: &str| host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    if is_wildcard(&options.listen.host) {
        names.extend(rustix::system::uname().nodename().to_str().ok().map(str::to_owned));
    } else {
        names.push(options.listen.host.clone());
    }
    names
}
