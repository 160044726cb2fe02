//! Unpredictable bytes and the two texts made of them. It must never know what they are used for.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Bytes of randomness in a challenge nonce.
pub const NONCE_BYTES: usize = 24;

/// The system gave no randomness. Nothing secret can be made without it, so nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random generator gave nothing")]
pub struct RandomError;

impl RandomError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "random_unavailable"
    }
}

/// Fills `target` with unpredictable bytes.
pub fn fill(target: &mut [u8]) -> Result<(), RandomError> {
    aws_lc_rs::rand::fill(target).map_err(|_| RandomError)
}

/// A challenge nonce: [`NONCE_BYTES`] random bytes as base64url without padding, 32 characters.
pub fn nonce() -> Result<String, RandomError> {
    let mut bytes = [0; NONCE_BYTES];
    fill(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// `count` random bytes as `2 * count` lower-case hex digits.
pub fn hex(count: usize) -> Result<String, RandomError> {
    let mut bytes = vec![0; count];
    fill(&mut bytes)?;
    Ok(crate::fingerprint::hex_of(&bytes))
}
