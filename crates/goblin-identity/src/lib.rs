//! The state directory of a host: identity, pins, trust and pairing files, atomic private files, the lock.
//!
//! Blocking work on a few small files. It must never know a connection, a runtime or the clock (times are arguments, in
//! milliseconds since 1970), nor what stands in the journal: it says only where that lies.
//!
//! What must hold: at most one daemon works on a directory; every file is replaced as a whole or not at all, and is
//! private whatever the umask; a file that this version can't read stops the start and is left as it is; what other
//! versions added to a file survives.

mod document;
mod error;
mod identity;
mod lock;
mod pairing;
pub mod private_file;
mod state;
mod trust;

#[cfg(test)]
mod tests;

pub use error::IdentityError;
pub use identity::NodeIdentity;
pub use pairing::{PairingCode, read_pairing_code};
pub use private_file::read_secret;
pub use state::StateDir;
pub use trust::{ControllerTrust, Credential, credential};
