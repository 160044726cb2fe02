//! SHA-256 fingerprints of certificates and the hex texts of digests. It must never know which certificate is trusted.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

/// The SHA-256 of a certificate's DER. Shown as 64 lower-case hex digits; compared in constant time.
#[derive(Clone, Copy)]
pub struct Fingerprint([u8; 32]);

/// A text is no SHA-256 fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 hex digits, with or without colons between the pairs")]
pub struct FingerprintError;

impl FingerprintError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "fingerprint_invalid"
    }
}

impl Fingerprint {
    /// The fingerprint of a certificate given as DER.
    pub fn of_der(der: &[u8]) -> Self {
        let mut bytes = [0; 32];
        // Both sides hold 32 bytes: the first is SHA-256's length by definition.
        bytes.copy_from_slice(digest::digest(&digest::SHA256, der).as_ref());
        Self(bytes)
    }

    /// Reads what an operator pastes or a file holds: 64 hex digits in either case, as they are or as 32 pairs with
    /// colons between them, with white space around and the `sha256 Fingerprint=` of `openssl x509` before them.
    pub fn parse(text: &str) -> Result<Self, FingerprintError> {
        const LABEL: &str = "sha256 fingerprint=";
        let mut digits = text.trim();
        if let Some(head) = digits.get(..LABEL.len())
            && head.eq_ignore_ascii_case(LABEL)
        {
            digits = digits[LABEL.len()..].trim_start();
        }
        let digits = digits.as_bytes();
        let stride = match digits.len() {
            64 => 2,
            95 => 3,
            _ => return Err(FingerprintError),
        };
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let at = index * stride;
            let high = hex_digit(digits[at]).ok_or(FingerprintError)?;
            let low = hex_digit(digits[at + 1]).ok_or(FingerprintError)?;
            if stride == 3 && digits.get(at + 2).is_some_and(|&separator| separator != b':') {
                return Err(FingerprintError);
            }
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }

    /// The digest itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 lower-case hex digits, as files and signed messages hold them.
    pub fn to_hex(&self) -> String {
        hex_of(&self.0)
    }
}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        crate::compare::bytes(&self.0, &other.0)
    }
}

impl Eq for Fingerprint {}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Fingerprint({})", self.to_hex())
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Lower-case hex digits of `bytes`.
pub(crate) fn hex_of(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn hex_digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}
