//! What a controller is started with, and every bound of the listener, with its unit and its reason.

use goblin_protocol::auth::CONTROLLER_ID_DEFAULT;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use zeroize::Zeroizing;

/// Connections that are not authenticated yet. Further ones wait in the system's queue, so strangers cannot use up the
/// descriptors of the process.
pub(crate) const UNAUTHENTICATED_MAX: usize = 1024;

/// TLS handshakes at once: a fleet that comes back all together is let in a part at a time, none of it too late.
pub(crate) const HANDSHAKES_MAX: usize = 64;

/// How long a handshake keeps its turn. A peer that stalls in the middle goes on without one, so that strangers who
/// begin a handshake and say nothing more keep nobody waiting for long.
pub(crate) const HANDSHAKE_TURN: Duration = Duration::from_millis(250);

/// Live connections that wait for approval: more than an operator could compare.
pub(crate) const PENDING_LIVE_MAX: usize = 64;

/// Stored records of gateways that asked for approval.
pub(crate) const PENDING_STORED_MAX: usize = 256;

/// Keys remembered as rejected.
pub(crate) const REJECTED_MAX: usize = 1024;

/// Address that the listener binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// IP address or name.
    pub host: String,
    /// TCP port; 0 lets the system choose.
    pub port: u16,
}

/// A text is no `HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address to listen on is HOST:PORT, an IPv6 address in brackets")]
pub struct ListenAddressError;

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(ListenAddressError)?;
        let bare = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(ListenAddressError)?,
            None if host.contains(':') => return Err(ListenAddressError),
            None => host,
        };
        if bare.is_empty() {
            return Err(ListenAddressError);
        }
        Ok(Self {
            host: bare.to_owned(),
            port: port.parse().map_err(|_| ListenAddressError)?,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Certificate and key that an operator supplies. Its `Debug` shows nothing.
#[derive(Clone)]
pub struct TlsMaterial {
    /// Certificate, followed by its chain where there is one, PEM.
    pub cert: String,
    /// Private key, PEM.
    pub key: Zeroizing<String>,
    /// Authorities that client certificates must chain to, PEM.
    pub ca: Option<String>,
}

impl fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMaterial").finish_non_exhaustive()
    }
}

/// Every span of time that the controller waits for something.
#[derive(Clone, Debug)]
pub struct Timing {
    /// From the connection to `auth.ok`, waiting for approval included.
    pub auth: Duration,
    /// From the challenge to the gateway's answer.
    pub first_message: Duration,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// Silence of a ready gateway after which it is probed.
    pub probe_after: Duration,
    /// For the answer to a probe; two missed ones close the connection.
    pub probe: Duration,
    /// For the answer to the probe of a connection that another one wants to replace.
    pub replace_probe: Duration,
    /// How long a rejected key is refused.
    pub rejected: Duration,
    /// For room in the queue to a gateway that reads nothing; then its connection is closed.
    pub send: Duration,
    /// For the last frames on a connection that closes.
    pub close: Duration,
    /// Before an interrupted operation that still runs is asked for again; doubled each time.
    pub recover_first: Duration,
    /// The longest such pause.
    pub recover_longest: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            auth: Duration::from_secs(60),
            first_message: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            probe_after: Duration::from_secs(15),
            probe: Duration::from_secs(5),
            replace_probe: Duration::from_secs(2),
            rejected: Duration::from_secs(600),
            send: Duration::from_secs(30),
            close: Duration::from_secs(1),
            recover_first: Duration::from_millis(500),
            recover_longest: Duration::from_secs(30),
        }
    }
}

/// What a controller is started with.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Enables the listener at this address, whatever the setting says.
    pub listen: Option<ListenAddress>,
    /// Further names and addresses of a generated certificate.
    pub advertise: Vec<String>,
    /// Used instead of what the secrets hold; nothing of it is stored.
    pub tls_material: Option<TlsMaterial>,
    /// The controller that an enrolled gateway means unless the enrolment names one.
    pub controller_id: String,
    /// Spans of time.
    pub timing: Timing,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            listen: None,
            advertise: Vec::new(),
            tls_material: None,
            controller_id: CONTROLLER_ID_DEFAULT.to_owned(),
            timing: Timing::default(),
        }
    }
}
