//! Secrets: named texts that leave the store only to be used.
//! It must never print, compare or log one.

use async_trait::async_trait;
use zeroize::Zeroizing;

use crate::PortError;

/// A secret text (PEM, JSON of a key pair, an HMAC secret). Wiped from memory when dropped; it has no `Debug` and no
/// `Display`, so that it cannot reach a log by accident.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over without a copy.
    pub fn new(text: impl Into<Zeroizing<String>>) -> Self {
        Self(text.into())
    }

    /// The text itself. Every call is a place where a secret is used.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Secret storage of the home.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The secret, or `None` when there is none of this name.
    async fn get(&self, name: &str) -> Result<Option<Secret>, PortError>;

    /// Writes or replaces; durable when it returns.
    async fn set(&self, name: &str, secret: Secret) -> Result<(), PortError>;

    /// Removes; durable when it returns. Removing what is not there succeeds.
    async fn clear(&self, name: &str) -> Result<(), PortError>;

    /// Whether there is a secret of this name.
    async fn has(&self, name: &str) -> Result<bool, PortError>;
}
