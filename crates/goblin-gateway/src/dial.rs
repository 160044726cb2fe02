//! From a configured address to a TLS connection: name, proxy, TCP, handshake, judged certificate.

use goblin_keys::tls::{ClientTls, Leaf, TlsError, server_name};
use rustix::net::sockopt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

/// Time for each of: TCP (name resolution included), the proxy's answer, the TLS handshake.
const STEP: Duration = Duration::from_secs(10);

/// Longest answer of a proxy, in bytes.
const PROXY_ANSWER_MAX: usize = 8 * 1024;

/// Where the controller listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address, the latter without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// `host:port`, with brackets round an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// An HTTP proxy that is asked to CONNECT.
#[derive(Clone)]
pub struct Proxy {
    /// Where it listens.
    pub address: Address,
    /// `Basic` credentials, base64.
    pub authorization: Option<Zeroizing<String>>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Name resolution or TCP.
    #[error("cannot connect to {to}: {reason}")]
    Connect {
        /// The address that was tried.
        to: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// The proxy refused, or spoke no HTTP.
    #[error("the proxy {proxy} does not connect: {answer}")]
    Proxy {
        /// The proxy.
        proxy: String,
        /// Its status line, or what went wrong.
        answer: String,
    },
    /// The handshake, certificate included.
    #[error("the TLS handshake failed: {0}")]
    Handshake(io::Error),
    /// Name or certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Connects, shakes hands and judges the certificate. Nothing that the peer sent has been looked at yet.
pub async fn dial(
    address: &Address,
    proxy: Option<&Proxy>,
    tls: &ClientTls,
) -> Result<(TlsStream<TcpStream>, Leaf), DialError> {
    let name = server_name(&address.host)?;
    let first_hop = proxy.map_or(address, |proxy| &proxy.address);
    let connect = |reason| DialError::Connect {
        to: first_hop.authority(),
        reason,
    };
    let tcp = TcpStream::connect((first_hop.host.as_str(), first_hop.port));
    let mut tcp = timed(tcp).await.map_err(connect)?;
    tune(&tcp).map_err(connect)?;
    if let Some(proxy) = proxy {
        let refused = |error: io::Error| DialError::Proxy {
            proxy: proxy.address.authority(),
            answer: error.to_string(),
        };
        timed(open_tunnel(&mut tcp, address, proxy)).await.map_err(refused)?;
    }
    let stream = timed(TlsConnector::from(tls.config()).connect(name, tcp))
        .await
        .map_err(DialError::Handshake)?;
    let leaf = tls.judge(stream.get_ref().1.peer_certificates())?;
    Ok((stream, leaf))
}

async fn timed<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(STEP, step)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s")))
}

/// Small frames go out at once, and a peer that vanished without a word is noticed within 45 s.
fn tune(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(tcp, 3)?;
    Ok(sockopt::set_tcp_user_timeout(tcp, 30_000)?)
}

/// Asks an HTTP proxy for a tunnel (RFC 9110, CONNECT).
async fn open_tunnel(tcp: &mut TcpStream, address: &Address, proxy: &Proxy) -> io::Result<()> {
    let authority = address.authority();
    let authorization = match &proxy.authorization {
        Some(credentials) => Zeroizing::new(format!("Proxy-Authorization: Basic {}\r\n", credentials.as_str())),
        None => Zeroizing::default(),
    };
    let request = Zeroizing::new(format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{}\r\n",
        authorization.as_str()
    ));
    tcp.write_all(request.as_bytes()).await?;
    // Byte by byte: what follows the head belongs to the tunnel.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == PROXY_ANSWER_MAX {
            return Err(io::Error::other("its answer is too long"));
        }
        head.push(tcp.read_u8().await?);
    }
    let status = String::from_utf8_lossy(&head)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    match status.split(' ').nth(1) {
        Some(code) if status.starts_with("HTTP/1.") && code.len() == 3 && code.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(status)),
    }
}
