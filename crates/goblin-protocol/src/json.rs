//! Reading JSON that a JavaScript peer may send: what V8 accepts and strict Rust parsers refuse.
//!
//! Lone surrogate escapes are taken as U+FFFD and numbers beyond the range of a double as `null`, before anything
//! else looks at the text, so that one odd value never costs a frame.

use crate::limits::{ID_MAX, NESTING_MAX};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// Longest text of an id that is salvaged, in bytes: every character of the longest id as an escape, and the quotes.
const SCALAR_MAX: usize = 6 * ID_MAX + 2;

/// Parses `text`; when it is refused, once more after [`repair`].
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match repair(text) {
        Cow::Owned(repaired) => serde_json::from_str(&repaired),
        Cow::Borrowed(_) => Err(error),
    })
}

/// True when arrays and objects nest deeper than [`NESTING_MAX`]. Brackets within strings do not count.
pub fn too_deep(text: &[u8]) -> bool {
    // Most frames hold fewer brackets than the bound, however they nest.
    if memchr::memchr2_iter(b'[', b'{', text).nth(NESTING_MAX).is_none() {
        return false;
    }
    let (mut depth, mut position) = (0usize, 0);
    while let Some(&byte) = text.get(position) {
        match byte {
            b'"' => position = string_end(text, position),
            b'[' | b'{' => {
                depth += 1;
                if depth > NESTING_MAX {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        position += 1;
    }
    false
}

/// The index of the quote that ends the string opened at `start`, or the last index when it never ends.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut position = start + 1;
    while let Some(found) = text.get(position..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        position += found;
        if text[position] == b'"' {
            return position;
        }
        position += 2;
    }
    text.len().saturating_sub(1)
}

/// Replaces escapes of lone surrogates by `\ufffd` and numbers out of range by `null`. Borrowed when nothing changed.
pub fn repair(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut repaired = String::new();
    let (mut copied, mut position) = (0, 0);
    while position < bytes.len() {
        match bytes[position] {
            b'"' => {
                let end = string_end(bytes, position);
                let mut at = position + 1;
                while let Some(found) = bytes.get(at..end).and_then(|rest| memchr::memchr(b'\\', rest)) {
                    at += found;
                    match surrogate(bytes, at) {
                        Some(0xD800..=0xDBFF) if matches!(surrogate(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
                        Some(0xD800..=0xDFFF) => {
                            repaired.push_str(&text[copied..at]);
                            repaired.push_str("\\ufffd");
                            at += 6;
                            copied = at;
                        }
                        _ => at += 2,
                    }
                }
                position = end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let length = bytes[position..]
                    .iter()
                    .take_while(|byte| matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'e' | b'E'))
                    .count();
                let number = &text[position..position + length];
                if number.parse::<f64>().is_ok_and(f64::is_infinite) {
                    repaired.push_str(&text[copied..position]);
                    repaired.push_str("null");
                    copied = position + length;
                }
                position += length;
            }
            _ => position += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(&text[copied..]);
    Cow::Owned(repaired)
}

/// The code unit of a `\uXXXX` escape at `at`.
fn surrogate(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The value of the first `"id": <scalar>` pair of a text that does not parse, as JSON text: at the outermost level
/// when there is one, else anywhere.
pub fn salvage_id(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut depth, mut position, mut nested) = (0usize, 0, None);
    while let Some(&byte) = bytes.get(position) {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(bytes, position);
                if &bytes[position..=end] == b"\"id\""
                    && let Some(value) = text[end + 1..].trim_start().strip_prefix(':').and_then(leading_scalar)
                {
                    if depth == 1 {
                        return Some(value);
                    }
                    nested = nested.or(Some(value));
                }
                position = end;
            }
            _ => {}
        }
        position += 1;
    }
    nested
}

/// The scalar that `text` begins with, white space aside. Looks no further than an id may be long, so that a line full
/// of such pairs costs no more than its length.
fn leading_scalar(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    let near = &text[..text.floor_char_boundary(SCALAR_MAX)];
    let length = match near.as_bytes().first()? {
        b'"' => string_end(near.as_bytes(), 0) + 1,
        _ => near
            .find(|character: char| !character.is_ascii_alphanumeric() && !matches!(character, '+' | '-' | '.'))
            .unwrap_or(near.len()),
    };
    let scalar = near.get(..length)?;
    match from_text(scalar) {
        Ok(serde_json::Value::Array(_) | serde_json::Value::Object(_)) | Err(_) => None,
        Ok(_) => Some(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn lone_surrogates_and_huge_numbers_are_repaired_and_nothing_else() {
        let parse = |text: &str| from_text::<Value>(text).unwrap();
        assert_eq!(
            parse(r#"["\ud83d","\ud83d\ude00","\\ud83d","\ude00x","\ud83dA","\ud83d\ud83d\ude00"]"#),
            json!(["\u{fffd}", "😀", "\\ud83d", "\u{fffd}x", "\u{fffd}A", "\u{fffd}😀"])
        );
        assert_eq!(
            parse(r#"[1E400,-1e999,1e300,"1E400",0.5]"#),
            json!([null, null, 1e300, "1E400", 0.5])
        );
        assert!(matches!(repair(r#"{"a":"\u00e9 1E400"}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let nest = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(!too_deep(nest(128).as_bytes()));
        assert!(too_deep(nest(129).as_bytes()));
        assert!(!too_deep(format!("\"{}\\\"{}\"", nest(200), nest(200)).as_bytes()));
        assert!(!too_deep("[]".repeat(5_000).as_bytes()));
        assert!(too_deep("[".repeat(10_000).as_bytes()));
    }

    #[test]
    fn salvaging_costs_no_more_than_the_line() {
        for pair in ["\"id\":x", "\"id\":\"", "\"id\":1E400", "\"id\": ", "\"id\":\"\\ud83d"] {
            let line = pair.repeat(2 * 1024 * 1024 / pair.len());
            let begun = std::time::Instant::now();
            let _ = salvage_id(&line);
            // Linear is some hundredths of a second even unoptimised; quadratic was minutes.
            assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{pair}");
        }
    }

    #[test]
    fn an_id_is_salvaged_from_broken_text() {
        for (text, id) in [
            (r#"{"id":"x1","meth"#, Some("\"x1\"")),
            (r#"{"id" : 12, "method""#, Some("12")),
            (r#"{"params":{"id":1},"id":"outer","#, Some("\"outer\"")),
            (r#"{"params":{"id":1},"#, Some("1")),
            (r#"{"id":-4.5,"#, Some("-4.5")),
            (r#"{"id":{"a":1},"#, None),
            (r#"{"id":tru"#, None),
            (r#"{"x":"\"id\":5","#, None),
            ("\"id", None),
            ("", None),
            ("\\", None),
        ] {
            assert_eq!(salvage_id(text), id, "{text}");
        }
    }
}
