//! One segment of the log: appending a line in one system call, and reading all of its lines back.
//! It must never know what a line means to the index.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read};
use std::path::PathBuf;
use std::sync::Arc;

use crate::record::{HEAD_MAX, Meta, decode};
use crate::state::OUTCOME_MAX;

/// The highest length of a line that is looked at, in bytes.
pub(crate) const LINE_MAX: usize = HEAD_MAX + OUTCOME_MAX + 1;

/// A segment on disk.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    /// Bytes of whole records.
    pub(crate) length: u64,
    pub(crate) opened_at_ms: u64,
    /// The earliest expiry of any outcome ever written to it; the highest number when there was none.
    pub(crate) first_expiry_ms: u64,
}

/// Why an append failed, and whether the segment can still be used.
pub(crate) struct AppendError {
    pub(crate) error: io::Error,
    pub(crate) usable: bool,
}

impl Segment {
    /// Appends the parts as one write and says where they begin. What was written of an incomplete one is cut off again.
    pub(crate) fn append(&mut self, parts: &[&[u8]]) -> Result<u64, AppendError> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let written = loop {
            match rustix::io::writev(&*self.file, &slices) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        let error = match written {
            Ok(count) if count == total => {
                let offset = self.length;
                self.length += total as u64;
                return Ok(offset);
            }
            Ok(_) => io::ErrorKind::StorageFull.into(),
            Err(errno) => errno.into(),
        };
        let usable = self.file.set_len(self.length).is_ok();
        Err(AppendError { error, usable })
    }
}

/// What reading a segment brought to light beside its records.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Damage {
    /// Bytes of a last line that was never finished.
    pub(crate) torn: u64,
    /// Finished lines that can't be right.
    pub(crate) bad_lines: u64,
}

/// Reads all lines; `each` gets the record, the outcome's offset in the file and its length.
pub(crate) fn read(file: &File, mut each: impl FnMut(Meta<'static>, u64, usize)) -> io::Result<Damage> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut damage = Damage::default();
    let mut line = Vec::new();
    let mut offset = 0u64;
    loop {
        line.clear();
        let mut length = reader.by_ref().take(LINE_MAX as u64).read_until(b'\n', &mut line)? as u64;
        if length == 0 {
            return Ok(damage);
        }
        let mut finished = line.pop_if(|byte| *byte == b'\n').is_some();
        if !finished && length == LINE_MAX as u64 {
            line.clear();
            let (skipped, found) = skip_line(&mut reader)?;
            length += skipped;
            finished = found;
        }
        match (finished, decode(&line)) {
            (true, Some((meta, outcome))) => each(meta, offset + outcome.start as u64, outcome.len()),
            (true, None) => damage.bad_lines += 1,
            (false, _) => damage.torn = length,
        }
        offset += length;
    }
}

/// Skips to behind the next line feed; says how far that was and whether there was one.
fn skip_line(reader: &mut impl BufRead) -> io::Result<(u64, bool)> {
    let mut skipped = 0u64;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((skipped, false));
        }
        let found = buffer.iter().position(|byte| *byte == b'\n');
        let count = found.map_or(buffer.len(), |place| place + 1);
        reader.consume(count);
        skipped += count as u64;
        if found.is_some() {
            return Ok((skipped, true));
        }
    }
}
