//! Key pairs, signatures, HMAC, certificates, the pinning verifier and the TLS configurations.
//!
//! Everything here is a computation over bytes in memory, with one cryptography provider (aws-lc-rs). It must never
//! know a file, a socket, a runtime, the wall clock (times are arguments; only the TLS library reads it, to judge
//! certificate dates during a handshake), nor what a message of the protocol says: callers bring the bytes.

pub mod certificate;
pub mod compare;
pub mod fingerprint;
pub mod pair;
pub mod proof;
pub mod random;
pub mod signature;
pub mod tls;

#[cfg(test)]
mod tests;

pub use fingerprint::Fingerprint;
pub use pair::{KeyError, KeyPair, PublicKey};
