//! The text form of an Ed25519 signature: base64url without padding. It must never know what was signed.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Characters of its text form.
const SIGNATURE_CHARACTERS: usize = 86;

/// The text form of a signature, 86 characters.
pub fn encode(signature: &[u8; SIGNATURE_BYTES]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(signature)
}

/// The signature of a text form. Strict: any other length, alphabet or padding, and a last character with stray bits,
/// gives `None`, so that one signature has one text.
pub fn decode(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    if text.len() != SIGNATURE_CHARACTERS {
        return None;
    }
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}
