//! Transport shortening: a successful `files_read` outcome cut down to a size. It must never know a frame or a file.

use crate::Tool;
use crate::outcome::Execution;
use crate::read::{Read, content_hash};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadOutcome {
    tool: String,
    ok: bool,
    #[serde(flatten)]
    read: Read,
    error: (),
    artifacts: (),
    #[serde(default)]
    transport_truncated: bool,
    #[serde(default)]
    incomplete: bool,
    duration_ms: f64,
    execution: Execution,
}

/// A successful `files_read` outcome, shortened so that its JSON text is at most `max_bytes` bytes long.
///
/// The content ends at a character, and where its encoding has groups (base64, hex) at a group. `truncated`,
/// `transportTruncated` and `incomplete` are true, `nextOffsetBytes` is null, the fingerprint is left out, and
/// `returnedBytes` and `contentHash` describe the delivered text. An outcome that fits comes back as it is. `None` when
/// it is not the outcome of a successful read, or does not fit even without content.
pub fn shorten_read(outcome_json: &str, max_bytes: usize) -> Option<String> {
    let mut outcome: ReadOutcome = serde_json::from_str(outcome_json).ok()?;
    if !outcome.ok || outcome.tool != Tool::Read.name() {
        return None;
    }
    if outcome_json.len() <= max_bytes {
        return Some(outcome_json.to_owned());
    }
    outcome.transport_truncated = true;
    outcome.incomplete = true;
    outcome.read.truncated = true;
    outcome.read.next_offset_bytes = None;
    let mut content = std::mem::take(&mut outcome.read.content);
    // Measured without content, with a number at least as long as the final one and a hash of the final length.
    outcome.read.returned_bytes = content.len() as u64;
    let room = max_bytes.checked_sub(serde_json::to_string(&outcome).ok()?.len())?;
    let end = end_within(&content, room);
    content.truncate(content.floor_char_boundary(end - end % outcome.read.encoding.quantum()));
    outcome.read.returned_bytes = content.len() as u64;
    outcome.read.content_hash = content_hash(content.as_bytes());
    outcome.read.content = content;
    serde_json::to_string(&outcome).ok()
}

/// The longest prefix, in bytes, whose JSON string, without quotes, takes at most `room` bytes.
fn end_within(content: &str, room: usize) -> usize {
    let mut used = 0;
    for (index, character) in content.char_indices() {
        used += match character {
            '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 2,
            '\0'..='\u{1f}' => 6,
            _ => character.len_utf8(),
        };
        if used > room {
            return index;
        }
    }
    content.len()
}
