//! SHA-256 as the protocol uses it: lower-case hexadecimal text.

use aws_lc_rs::digest::{Context, SHA256, digest};
use std::fmt::Write as _;

/// Lower-case hexadecimal of any bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// SHA-256 of `bytes`, as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// SHA-256 over bytes that arrive in pieces.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Sha256 {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces, as 64 hexadecimal digits.
    pub fn finish_hex(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_whole_agree() {
        let mut pieces = Sha256::default();
        pieces.update(b"a");
        pieces.update(b"bc");
        assert_eq!(pieces.finish_hex(), sha256_hex(b"abc"));
        assert_eq!(
            sha256_hex(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
