//! One record of the log as a line of text: `<crc32, 8 hex digits> TAB <what it is, JSON> TAB <outcome> LF`.
//!
//! Lines rather than binary frames, because neither compact JSON nor an outcome holds a raw line feed: a last line
//! without one is a torn tail, a bad line with one is damage, and reading can go on at the next line. The checksum
//! covers all between the first TAB and the line feed. It must never know a file.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::crc::checksum;

const CHECKSUM_DIGITS: usize = 8;

/// The highest length of a line without its outcome, in bytes: an id of 1 024 bytes, escaped, digest, boot and mark
/// take less than half of it.
pub(crate) const HEAD_MAX: usize = 16 * 1024;

/// What a line says, apart from the outcome.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
#[serde(tag = "record", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Meta<'a> {
    /// An operation is about to have effects.
    Started {
        id: Cow<'a, str>,
        digest: Cow<'a, str>,
        started_at: u64,
        boot_id: Cow<'a, str>,
        mark: Cow<'a, str>,
        /// Until when its outcome counts as unknown; only in a record that a later daemon wrote again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_until: Option<u64>,
    },
    /// An operation ended; its outcome follows on the line.
    Completed {
        id: Cow<'a, str>,
        digest: Cow<'a, str>,
        started_at: u64,
        expires_at: u64,
    },
    /// An operation that was started had no effect after all.
    Withdrawn { id: Cow<'a, str> },
}

/// The line up to its outcome. The outcome itself and a line feed follow.
pub(crate) fn encode(meta: &Meta<'_>, outcome: &str) -> Vec<u8> {
    let mut head = vec![b'0'; CHECKSUM_DIGITS];
    head.reserve(512);
    head.push(b'\t');
    // Strings and integers always serialise, and a vector takes all that is written.
    let _ = serde_json::to_writer(&mut head, meta);
    head.push(b'\t');
    let sum = format!("{:08x}", checksum(&[&head[CHECKSUM_DIGITS + 1..], outcome.as_bytes()]));
    head[..CHECKSUM_DIGITS].copy_from_slice(sum.as_bytes());
    head
}

/// What a line (without its line feed) says and where in it the outcome lies; None when it is damaged.
pub(crate) fn decode(line: &[u8]) -> Option<(Meta<'static>, Range<usize>)> {
    let (sum, rest) = line.split_at_checked(CHECKSUM_DIGITS)?;
    let body = rest.strip_prefix(b"\t")?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    if sum != checksum(&[body]) {
        return None;
    }
    let meta_length = body.iter().take(HEAD_MAX).position(|byte| *byte == b'\t')?;
    let meta = serde_json::from_slice(&body[..meta_length]).ok()?;
    Some((meta, CHECKSUM_DIGITS + 1 + meta_length + 1..line.len()))
}

/// JSON text on one line. A raw line break in JSON is white space between tokens, so a blank says the same.
pub(crate) fn one_line(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) {
        Cow::Owned(text.replace(['\n', '\r'], " "))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was_and_any_changed_byte_is_noticed() {
        let outcome = r#"{"stdout":"tab \t, é, \u0000"}"#;
        let meta = Meta::Completed {
            id: "a\tb\n".into(),
            digest: "d".into(),
            started_at: 1,
            expires_at: u64::MAX,
        };
        let mut line = encode(&meta, outcome);
        line.extend_from_slice(outcome.as_bytes());
        assert!(!line.contains(&b'\n'));
        let (read, range) = decode(&line).expect("a good line");
        assert_eq!(read, meta);
        assert_eq!(&line[range], outcome.as_bytes());
        for place in 0..line.len() {
            line[place] ^= 0x11;
            assert_eq!(decode(&line), None, "byte {place}");
            line[place] ^= 0x11;
        }
        for length in 0..line.len() {
            assert_eq!(decode(&line[..length]), None, "cut at {length}");
        }
    }

    #[test]
    fn line_breaks_become_blanks() {
        assert_eq!(one_line("{\n\"a\":\r\n1}".into()), "{ \"a\":  1}");
        assert!(matches!(one_line("{}".into()), Cow::Borrowed("{}")));
    }
}
