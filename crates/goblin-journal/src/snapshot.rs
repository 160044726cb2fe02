//! The snapshot file, `{"entries":[{id, requestDigest, result, expiresAt}]}` in insertion order, in the baseline's shape.
//!
//! Read and written as a stream: one entry in memory at a time. It must never know the log nor the index.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::files::{self, Files};
use crate::index::{Entry, Place};
use crate::segment::LINE_MAX;
use crate::state::OUTCOME_MAX;

/// The highest length of an id or a digest, in bytes: what the wire lets an operation id have.
const NAME_MAX: usize = 1_024;

/// One entry found in a snapshot; its result lies at the offset.
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) digest: String,
    pub(crate) expires_at_ms: u64,
    pub(crate) offset: u64,
    pub(crate) length: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    id: String,
    request_digest: String,
    #[serde(borrow)]
    result: &'a RawValue,
    expires_at: serde_json::Number,
}

/// Reads all entries that can be read; the answer is what was wrong with the file, if anything.
pub(crate) fn read(file: &File, mut each: impl FnMut(Found)) -> io::Result<Option<&'static str>> {
    let mut scanner = Scanner {
        reader: BufReader::with_capacity(64 * 1024, file),
        position: 0,
    };
    for token in [&b"{"[..], b"\"entries\"", b":", b"["] {
        if !scanner.token(token)? {
            return Ok(Some("it does not begin as a list of entries"));
        }
    }
    let mut fault = None;
    let mut text = Vec::new();
    let mut first = true;
    loop {
        let offset = scanner.position;
        let Some(end) = scanner.element(&mut text)? else {
            return Ok(Some("it is cut off or an entry has no end"));
        };
        let blank = text.iter().all(u8::is_ascii_whitespace);
        if !(first && blank && end == b']') {
            match entry(&text, offset) {
                Some(found) => each(found),
                None => fault = Some("an entry has the wrong shape"),
            }
        }
        first = false;
        if end == b']' {
            break;
        }
    }
    if !scanner.token(b"}")? || !scanner.at_end()? {
        fault = Some("it does not end as a list of entries");
    }
    Ok(fault)
}

fn entry(text: &[u8], offset: u64) -> Option<Found> {
    let shape: Shape<'_> = serde_json::from_slice(text).ok()?;
    if shape.id.len() > NAME_MAX || shape.request_digest.len() > NAME_MAX || shape.result.get().len() > OUTCOME_MAX {
        return None;
    }
    let result = shape.result.get();
    // The raw value borrows from the text, so the distance of their addresses is its place in the text.
    let place = (result.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let expires_at_ms = shape
        .expires_at
        .as_u64()
        .or_else(|| shape.expires_at.as_f64().map(|time| time as u64))?;
    Some(Found {
        id: shape.id,
        digest: shape.request_digest,
        expires_at_ms,
        offset: offset + place as u64,
        length: result.len(),
    })
}

struct Scanner<R> {
    reader: R,
    position: u64,
}

impl<R: BufRead> Scanner<R> {
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    fn advance(&mut self, count: usize) {
        self.reader.consume(count);
        self.position += count as u64;
    }

    fn skip_blanks(&mut self) -> io::Result<()> {
        while self.peek()?.is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.advance(1);
        }
        Ok(())
    }

    fn token(&mut self, token: &[u8]) -> io::Result<bool> {
        self.skip_blanks()?;
        for byte in token {
            if self.peek()? != Some(*byte) {
                return Ok(false);
            }
            self.advance(1);
        }
        Ok(true)
    }

    fn at_end(&mut self) -> io::Result<bool> {
        self.skip_blanks()?;
        Ok(self.peek()?.is_none())
    }

    /// Takes what lies before the comma or bracket that ends this element, and says which it was; None when there is
    /// no end. Of an element too long to be an entry only the beginning is kept, so that it can't be read as one.
    fn element(&mut self, text: &mut Vec<u8>) -> io::Result<Option<u8>> {
        text.clear();
        let (mut depth, mut in_string, mut escaped) = (0u64, false, false);
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let mut end = None;
            for (place, byte) in buffer.iter().enumerate() {
                if in_string {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        b'"' => in_string = false,
                        _ => {}
                    }
                    continue;
                }
                match byte {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b',' | b']' if depth == 0 => {
                        end = Some((place, *byte));
                        break;
                    }
                    b'}' if depth == 0 => return Ok(None),
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
            }
            let taken = end.map_or(buffer.len(), |(place, _)| place);
            if text.len() <= LINE_MAX {
                text.extend_from_slice(&buffer[..taken]);
            }
            self.advance(taken + usize::from(end.is_some()));
            if let Some((_, byte)) = end {
                return Ok(Some(byte));
            }
        }
    }
}

/// A snapshot that took its place on disk.
pub(crate) struct Written {
    pub(crate) file: Arc<File>,
    pub(crate) length: u64,
    /// Where each entry's outcome lies now: its number in the index, offset and length.
    pub(crate) places: Vec<(u64, u64, usize)>,
    /// Outcomes that could not be read back and were left out.
    pub(crate) lost: usize,
}

/// Writes the entries to a new file and puts it in the place of the old, durably.
pub(crate) fn write<'a>(files: &Files, entries: impl Iterator<Item = (u64, &'a Entry)>) -> io::Result<Written> {
    let draft = files.draft();
    for path in [&draft, &files.snapshot] {
        files::check_regular(path).map_err(io::Error::other)?;
    }
    files::remove(&draft)?;
    let written = (|| {
        let written = fill(files::create(&draft, false)?, entries)?;
        written.file.sync_all()?;
        fs::rename(&draft, &files.snapshot)?;
        Ok(written)
    })();
    match written {
        Ok(written) => {
            files.sync_directory()?;
            Ok(written)
        }
        Err(error) => {
            // The draft is only in the way; the next attempt removes it too.
            let _ = files::remove(&draft);
            Err(error)
        }
    }
}

fn fill<'a>(file: File, entries: impl Iterator<Item = (u64, &'a Entry)>) -> io::Result<Written> {
    let mut writer = Counted {
        inner: BufWriter::with_capacity(64 * 1024, &file),
        position: 0,
    };
    let mut places = Vec::new();
    let mut lost = 0;
    writer.put(b"{\"entries\":[")?;
    for (number, entry) in entries {
        let Ok(outcome) = entry.place.read() else {
            lost += 1;
            continue;
        };
        // One outcome that is no JSON would make the whole file unreadable.
        if serde_json::from_str::<&RawValue>(&outcome).is_err() {
            lost += 1;
            continue;
        }
        if !places.is_empty() {
            writer.put(b",")?;
        }
        writer.put(b"{\"id\":")?;
        writer.put(&serde_json::to_vec(&*entry.id)?)?;
        writer.put(b",\"requestDigest\":")?;
        writer.put(&serde_json::to_vec(&*entry.digest)?)?;
        writer.put(b",\"result\":")?;
        places.push((number, writer.position, outcome.len()));
        writer.put(outcome.as_bytes())?;
        writer.put(format!(",\"expiresAt\":{}}}", entry.expires_at_ms).as_bytes())?;
    }
    writer.put(b"]}")?;
    writer.inner.flush()?;
    let length = writer.position;
    drop(writer);
    Ok(Written {
        file: Arc::new(file),
        length,
        places,
        lost,
    })
}

struct Counted<W> {
    inner: W,
    position: u64,
}

impl<W: Write> Counted<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

impl Place {
    /// The outcome's text.
    pub(crate) fn read(&self) -> io::Result<Arc<str>> {
        match self {
            Self::Memory(text) => Ok(text.clone()),
            Self::File {
                file, offset, length, ..
            } => {
                let mut bytes = vec![0; *length];
                file.read_exact_at(&mut bytes, *offset)?;
                let text =
                    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                Ok(text.into())
            }
        }
    }
}
