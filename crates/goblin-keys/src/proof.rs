//! HMAC-SHA-256 proofs: that a peer holds a shared secret. It must never know what the proven message says.

use aws_lc_rs::hmac;

/// The proof of `message` under `secret`: HMAC-SHA-256 as 64 lower-case hex digits.
pub fn prove(secret: &[u8], message: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    crate::fingerprint::hex_of(hmac::sign(&key, message).as_ref())
}

/// Whether `proof` is the proof of `message` under `secret`, in constant time. Anything but the exact lower-case hex
/// text is false.
pub fn verify(secret: &[u8], message: &[u8], proof: &str) -> bool {
    crate::compare::text(&prove(secret, message), proof)
}
