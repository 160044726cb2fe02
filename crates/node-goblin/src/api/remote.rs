//! The way to a controller's API over TCP, with TLS where the URL says so. It must never know what is asked, nor where
//! a token comes from.
//!
//! What must hold: a token goes to the URL that it belongs to and nowhere else (redirects are not followed), never in
//! the clear beyond this machine unless that was asked for, and to nobody before the certificate was judged.

use crate::api::url::ApiUrl;
use goblin_keys::Fingerprint;
use goblin_keys::tls::{ClientTls, ClientTrust, Standing, TlsError, server_name};
use hyper::header::HeaderValue;
use rustix::net::sockopt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;
use zeroize::Zeroizing;

/// Time for each of: TCP (name resolution included), the TLS handshake.
const STEP: Duration = Duration::from_secs(10);

/// A connection, whatever it goes over.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// The token would cross a network in the clear.
    #[error("{url} would send the token unencrypted: use https, or --insecure-http where the network is to be trusted")]
    Unencrypted {
        /// The URL.
        url: ApiUrl,
    },
    /// The token can't stand in a header.
    #[error("the token has characters that no token has")]
    TokenInvalid,
    /// Name resolution or TCP.
    #[error("cannot connect to {url}: {source}")]
    Connect {
        /// The URL.
        url: ApiUrl,
        /// The system's reason.
        source: io::Error,
    },
    /// The handshake was cut, or the peer speaks no TLS.
    #[error("the TLS handshake with {url} failed: {source}")]
    Handshake {
        /// The URL.
        url: ApiUrl,
        /// The reason.
        source: io::Error,
    },
    /// The certificate does not pass.
    #[error(
        "the certificate of {url} is not to be trusted: {reason}; `node-goblin login {url}` shows it and asks, --ca-file names its authority"
    )]
    Certificate {
        /// The URL.
        url: ApiUrl,
        /// The library's reason.
        reason: rustls::Error,
    },
    /// The certificate is not the one of the login.
    #[error(
        "THE CERTIFICATE OF {url} HAS CHANGED: its fingerprint is {found}, at login it was {pinned}. Somebody may stand between; nothing was sent. If the controller got a new certificate, log in again: node-goblin login {url}"
    )]
    CertificateChanged {
        /// The URL.
        url: ApiUrl,
        /// What it showed.
        found: Fingerprint,
        /// What it showed at login.
        pinned: Fingerprint,
    },
    /// A TLS configuration.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl ReachError {
    /// True for what may pass by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Handshake { .. })
    }
}

/// A controller's API over TCP. Its `Debug` leaves the token out.
pub struct Remote {
    url: ApiUrl,
    tls: Option<(ClientTls, ClientTrust)>,
    authorization: Option<HeaderValue>,
    /// The token must not leave this machine.
    loopback_only: bool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Remote {
    /// The way to `url`, whose certificate is judged by `trust`.
    pub fn new(url: ApiUrl, trust: &ClientTrust, token: Option<&str>, insecure_http: bool) -> Result<Self, ReachError> {
        let loopback_only = token.is_some() && !url.https && !insecure_http;
        if loopback_only && !url.is_loopback() {
            return Err(ReachError::Unencrypted { url });
        }
        let tls = match url.https {
            true => Some((ClientTls::new(trust, None)?, trust.clone())),
            false => None,
        };
        let authorization = token.map(|token| {
            let text = Zeroizing::new(format!("Bearer {token}"));
            let value = HeaderValue::from_str(&text).map(|mut value| {
                value.set_sensitive(true);
                value
            });
            value.map_err(|_| ReachError::TokenInvalid)
        });
        Ok(Self {
            authorization: authorization.transpose()?,
            url,
            tls,
            loopback_only,
        })
    }

    /// The URL.
    pub fn url(&self) -> &ApiUrl {
        &self.url
    }

    /// The `Authorization` header.
    pub fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Connects and judges the certificate. Nothing has been sent yet.
    pub async fn connect(&self) -> Result<Box<dyn Wire>, ReachError> {
        let tcp = self.tcp().await.map_err(|source| ReachError::Connect {
            url: self.url.clone(),
            source,
        })?;
        if self.loopback_only && !tcp.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
            return Err(ReachError::Unencrypted { url: self.url.clone() });
        }
        let Some((tls, trust)) = &self.tls else {
            return Ok(Box::new(tcp));
        };
        let (stream, leaf) = handshake(&self.url, tcp, tls).await?;
        match (leaf.standing, trust) {
            (Standing::Verified | Standing::Pinned, _) => Ok(Box::new(stream)),
            (Standing::Changed | Standing::Unproven, ClientTrust::Pinned { fingerprint, .. }) => {
                Err(ReachError::CertificateChanged {
                    url: self.url.clone(),
                    found: leaf.fingerprint,
                    pinned: *fingerprint,
                })
            }
            // Nothing is asked of a certificate that proves nothing.
            (Standing::Changed | Standing::Unproven, _) => Err(ReachError::Certificate {
                url: self.url.clone(),
                reason: rustls::Error::General("it was not verified".to_owned()),
            }),
        }
    }

    async fn tcp(&self) -> io::Result<TcpStream> {
        connect_tcp(&self.url).await
    }
}

async fn connect_tcp(url: &ApiUrl) -> io::Result<TcpStream> {
    let tcp = within(TcpStream::connect((url.host.as_str(), url.port))).await?;
    // A peer that vanished without a word is noticed within 45 s, so that a lost answer can be asked for again.
    tcp.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&tcp, true)?;
    sockopt::set_tcp_keepidle(&tcp, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(&tcp, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(&tcp, 3)?;
    sockopt::set_tcp_user_timeout(&tcp, 30_000)?;
    Ok(tcp)
}

async fn handshake(
    url: &ApiUrl,
    tcp: TcpStream,
    tls: &ClientTls,
) -> Result<(tokio_rustls::client::TlsStream<TcpStream>, goblin_keys::tls::Leaf), ReachError> {
    let name = server_name(&url.host)?;
    let shaken = within(TlsConnector::from(tls.config()).connect(name, tcp)).await;
    let stream = shaken.map_err(|source| {
        let reason = source.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        match reason {
            Some(reason @ rustls::Error::InvalidCertificate(_)) => ReachError::Certificate {
                url: url.clone(),
                reason: reason.clone(),
            },
            _ => ReachError::Handshake {
                url: url.clone(),
                source,
            },
        }
    })?;
    let leaf = tls.judge(stream.get_ref().1.peer_certificates())?;
    Ok((stream, leaf))
}

/// The fingerprint of whatever certificate `url` shows. Nothing is sent.
pub async fn shown_fingerprint(url: &ApiUrl) -> Result<Fingerprint, ReachError> {
    let tls = ClientTls::new(&ClientTrust::Unverified, None)?;
    let tcp = connect_tcp(url).await.map_err(|source| ReachError::Connect {
        url: url.clone(),
        source,
    })?;
    let (_, leaf) = handshake(url, tcp, &tls).await?;
    Ok(leaf.fingerprint)
}

async fn within<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(STEP, step)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s")))
}
