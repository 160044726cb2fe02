//! Keeps a gateway's enrolment secret out of what is handed on from it: a host that prints its own environment must not
//! hand the secret to whoever may run commands there.
//!
//! Only the texts of a frame are looked at, never its structure: keys and the outermost members that route it stay.

use bytes::Bytes;
use goblin_client::{Body, Envelope};
use goblin_redact::Redactor;

/// What an envelope may be handed on as.
pub(crate) fn redact(redactor: &Redactor, envelope: Envelope) -> Envelope {
    if redactor.is_empty() {
        return envelope;
    }
    let Some(text) = redact_text(redactor, &envelope.text).map(Bytes::from) else {
        return envelope;
    };
    // What was readable stays so, since only texts within it changed; the unmasked one is never the way out.
    Envelope::read(text.clone()).unwrap_or(Envelope {
        body: Body::Other,
        text,
    })
}

/// The frame with every occurrence masked; `None` when there is none.
fn redact_text(redactor: &Redactor, frame: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut copied, mut position, mut depth) = (0, 0, 0usize);
    // Whether the value that comes next belongs to `data`, the one outermost text that is output.
    let mut key_is_data = false;
    while let Some(&byte) = frame.get(position) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(frame, position)?;
                let token = &frame[position..end];
                let is_key = frame[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if is_key {
                    key_is_data = depth == 1 && token == b"\"data\"";
                } else if (depth > 1 || key_is_data)
                    && let Ok(text) = serde_json::from_slice::<String>(token)
                {
                    let masked = redactor.redact_text(&text);
                    if masked != text
                        && let Ok(encoded) = serde_json::to_vec(&masked)
                    {
                        out.extend_from_slice(&frame[copied..position]);
                        out.extend_from_slice(&encoded);
                        copied = end;
                    }
                }
                position = end;
                continue;
            }
            _ => {}
        }
        position += 1;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&frame[copied..]);
    Some(out)
}

/// The index behind the quote that closes the string opened at `start`.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut position = start + 1;
    loop {
        match text.get(position)? {
            b'"' => return Some(position + 1),
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
}
