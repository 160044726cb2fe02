//! Encodings of file content as text, and where a range may be cut so that the pages of a file concatenate.
//! It must never know a file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goblin_protocol::digest::hex;
use serde::{Deserialize, Serialize};

/// How bytes become text. The names are those of Node.js.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Encoding {
    #[serde(rename = "utf8")]
    Utf8,
    #[serde(rename = "utf-8")]
    Utf8Dashed,
    #[serde(rename = "base64")]
    Base64,
    #[serde(rename = "hex")]
    Hex,
    #[serde(rename = "latin1")]
    Latin1,
    #[serde(rename = "ascii")]
    Ascii,
    #[serde(rename = "utf16le")]
    Utf16le,
}

/// Bytes of the longest character in any encoding.
pub(crate) const CHARACTER_MAX: usize = 4;

impl Encoding {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "utf8" => Self::Utf8,
            "utf-8" => Self::Utf8Dashed,
            "base64" => Self::Base64,
            "hex" => Self::Hex,
            "latin1" => Self::Latin1,
            "ascii" => Self::Ascii,
            "utf16le" => Self::Utf16le,
            _ => return None,
        })
    }

    /// Bytes after which the text of the next ones can follow without a seam.
    pub(crate) fn group_bytes(self) -> u64 {
        match self {
            Self::Base64 => 3,
            _ => 1,
        }
    }

    /// The text of `bytes`. What is no character of the encoding becomes U+FFFD; `ascii` drops the eighth bit.
    pub(crate) fn decode(self, bytes: &[u8]) -> String {
        match self {
            Self::Utf8 | Self::Utf8Dashed => String::from_utf8_lossy(bytes).into_owned(),
            Self::Base64 => STANDARD.encode(bytes),
            Self::Hex => hex(bytes),
            Self::Latin1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
            Self::Ascii => bytes.iter().map(|byte| char::from(byte & 0x7f)).collect(),
            Self::Utf16le => {
                let (units, odd) = bytes.as_chunks::<2>();
                let mut text: String = char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)))
                    .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect();
                text.extend(odd.iter().map(|_| char::REPLACEMENT_CHARACTER));
                text
            }
        }
    }

    /// How many of the first `limit` bytes to deliver when `bytes` goes on beyond them: whole characters only, but at
    /// least one character, so that a limit below its length still makes progress.
    pub(crate) fn cut(self, bytes: &[u8], limit: usize) -> usize {
        if bytes.len() <= limit {
            return bytes.len();
        }
        let whole = match self {
            Self::Utf8 | Self::Utf8Dashed => whole_utf8(&bytes[..limit]),
            Self::Utf16le => whole_utf16(&bytes[..limit]),
            Self::Base64 | Self::Hex | Self::Latin1 | Self::Ascii => limit,
        };
        if whole > 0 { whole } else { self.first(bytes) }
    }

    /// Length of the first character of `bytes`, or of what becomes the first U+FFFD.
    fn first(self, bytes: &[u8]) -> usize {
        match self {
            Self::Utf8 | Self::Utf8Dashed => match bytes.utf8_chunks().next() {
                Some(chunk) => chunk
                    .valid()
                    .chars()
                    .next()
                    .map_or(chunk.invalid().len(), char::len_utf8),
                None => 0,
            },
            Self::Utf16le => match bytes {
                [_, high, _, low, ..] if is_high(*high) && low & 0xfc == 0xdc => 4,
                _ => bytes.len().min(2),
            },
            Self::Base64 | Self::Hex | Self::Latin1 | Self::Ascii => bytes.len().min(1),
        }
    }

    /// Characters of encoded text that must stay together so that a shortened text still decodes.
    pub(crate) fn quantum(self) -> usize {
        match self {
            Self::Base64 => 4,
            Self::Hex => 2,
            Self::Utf8 | Self::Utf8Dashed | Self::Latin1 | Self::Ascii | Self::Utf16le => 1,
        }
    }
}

/// The length without a character that is only begun at the end. Invalid bytes count as whole.
fn whole_utf8(bytes: &[u8]) -> usize {
    let continued = bytes
        .iter()
        .rev()
        .take(CHARACTER_MAX - 1)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    let Some(lead) = bytes.len().checked_sub(continued + 1) else {
        return bytes.len();
    };
    match std::str::from_utf8(&bytes[lead..]) {
        Err(error) if error.error_len().is_none() => lead + error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// The length without half a unit or the first half of a pair at the end.
fn whole_utf16(bytes: &[u8]) -> usize {
    let even = bytes.len() - bytes.len() % 2;
    match even.checked_sub(1).map(|last| bytes[last]) {
        Some(high) if is_high(high) => even - 2,
        _ => even,
    }
}

/// Whether the upper byte of a unit makes it the first half of a pair.
fn is_high(upper: u8) -> bool {
    upper & 0xfc == 0xd8
}
