//! `files_read`: a range of one regular file as text.
//!
//! Text encodings deliver whole characters, and `nextOffsetBytes` points at the first byte that was not delivered,
//! so that pages concatenate to the file. A `maxBytes` below the length of one character delivers that character
//! nevertheless: a reader that follows `nextOffsetBytes` always comes to the end. An offset that a caller chose in the middle
//! of a character gives what is there, as U+FFFD.
//!
//! The other encodings deliver exactly the bytes asked for. A base64 page of a length that is no multiple of three ends
//! in padding, so such pages are decoded one by one, not joined as text; where no length is asked for, pages have one
//! that joins.

use crate::arguments::shown;
use crate::failure::Failure;
use crate::modified::modified_at;
use crate::open::{self, Regular};
use crate::text::{CHARACTER_MAX, Encoding};
use crate::{Call, check_cancelled};
use goblin_protocol::digest::sha256_hex;
use goblin_protocol::limits::FRAME_MAX;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, pread, read};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::atomic::AtomicBool;

const BYTES_DEFAULT: u64 = 512_000;

/// Most bytes of one read, in bytes, however large `maxBytes`: in every encoding they fill more than a frame.
const BYTES_MAX: u64 = 2 * FRAME_MAX as u64;

/// Bytes taken from a file at a time.
const BLOCK: usize = 128 * 1024;

/// Furthest offset, in bytes, to which a file that can't be read from its middle is read through.
const REREAD_MAX: u64 = 1024 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Read {
    pub(crate) file_path: String,
    pub(crate) workspace_root: Option<String>,
    pub(crate) encoding: Encoding,
    pub(crate) bytes: u64,
    pub(crate) modified_at: String,
    pub(crate) offset_bytes: u64,
    pub(crate) returned_bytes: u64,
    pub(crate) content_hash: String,
    pub(crate) truncated: bool,
    pub(crate) next_offset_bytes: Option<u64>,
    pub(crate) content: String,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Read, Failure> {
    let path = call.arguments.path("filePath")?;
    let encoding = match call.arguments.value("encoding") {
        None | Some(Value::Null) => Encoding::Utf8,
        Some(Value::String(name)) => Encoding::parse(name).ok_or(Failure::EncodingUnsupported)?,
        Some(_) => return Err(Failure::EncodingUnsupported),
    };
    let offset = call.arguments.bound("offsetBytes", 0);
    let default = BYTES_DEFAULT - BYTES_DEFAULT % encoding.group_bytes();
    let limit = call.arguments.bound("maxBytes", default).min(BYTES_MAX) as usize;
    let Regular { file, stat } = open::regular(&path)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    // One character more than is asked for tells whether there is more, and where it begins.
    let bytes = range(&file, size, offset, limit + CHARACTER_MAX, call.cancel)?;
    let delivered = encoding.cut(&bytes, limit);
    let truncated = delivered < bytes.len();
    let bytes = &bytes[..delivered];
    Ok(Read {
        file_path: shown(&path),
        workspace_root: call.arguments.text("workspaceRoot").map(str::to_owned),
        encoding,
        bytes: size,
        modified_at: modified_at(&stat),
        offset_bytes: offset,
        returned_bytes: bytes.len() as u64,
        content_hash: content_hash(bytes),
        truncated,
        next_offset_bytes: truncated.then(|| offset + bytes.len() as u64),
        content: encoding.decode(bytes),
        warnings: Vec::new(),
    })
}

/// The first 16 hexadecimal digits of the SHA-256.
pub(crate) fn content_hash(bytes: &[u8]) -> String {
    sha256_hex(bytes)[..16].to_owned()
}

/// Up to `want` bytes from `offset`; fewer only at the end of the file.
fn range(file: &OwnedFd, size: u64, offset: u64, want: usize, cancel: &AtomicBool) -> Result<Vec<u8>, Failure> {
    let expected = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(want.min(expected.saturating_add(1)));
    loop {
        check_cancelled(cancel)?;
        let start = bytes.len();
        bytes.resize(want.min(start + BLOCK), 0);
        match pread(file, &mut bytes[start..], offset + start as u64) {
            Ok(count) => {
                bytes.truncate(start + count);
                if bytes.len() == want {
                    return Ok(bytes);
                }
                if count == 0 {
                    break;
                }
            }
            Err(Errno::INTR) => bytes.truncate(start),
            // Some files of /proc can only be read from their beginning; those say so, others just end there.
            Err(Errno::SPIPE) => return through(file, offset, want, cancel),
            Err(error) => return Err(error.into()),
        }
    }
    if bytes.is_empty() && size == 0 && (1..REREAD_MAX).contains(&offset) {
        return through(file, offset, want, cancel);
    }
    Ok(bytes)
}

/// The same by reading on from where the file stands, its beginning, and dropping what comes before `offset`.
fn through(file: &OwnedFd, offset: u64, want: usize, cancel: &AtomicBool) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut block = vec![0; BLOCK];
    let mut drop_first = offset;
    while bytes.len() < want {
        check_cancelled(cancel)?;
        match read(file, &mut block) {
            Ok(0) => break,
            Ok(count) => {
                let dropped = count.min(usize::try_from(drop_first).unwrap_or(usize::MAX));
                drop_first -= dropped as u64;
                bytes.extend_from_slice(&block[dropped..count.min(dropped + want - bytes.len())]);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
