//! Bounded durable replay: what a daemon must remember of finished and started operations, on disk and in memory.
//!
//! Owns the journal's files (the snapshot `operations.json` and the log segments beside it), their recovery, retention
//! and eviction. An outcome is opaque text to it: it must never know what an operation is, how a digest is made, what
//! a process or a tool did, nor the wire. It never asks for the time; every decision is made from the caller's clock.
//!
//! ```text
//! start ──► one line in operations.log.N ─┐
//! complete ► one line in operations.log.N ┼─► index (id → digest, file, offset) ─► lookup: one pread
//! operations.json (taken over, folded) ───┘
//! ```
//!
//! An append costs one `write` whatever the journal holds. Segments are cut by size and age and are deleted, oldest
//! first, once nothing in them is alive; what outlives that is folded into a new `operations.json` by a background
//! thread that exists only while there is such work.

mod crc;
mod error;
mod files;
mod fold;
mod index;
mod journal;
mod record;
mod recovery;
mod segment;
mod snapshot;
mod state;
mod sync;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

pub use error::{Fault, JournalError};
pub use journal::Journal;

/// How long an outcome is kept from its completion, in milliseconds, unless the caller says otherwise.
pub const RETENTION_MS_DEFAULT: u64 = 300_000;

/// How many outcomes are kept unless the caller says otherwise; the oldest goes first.
pub const CAPACITY_DEFAULT: usize = 256;

/// When what was written must have reached the disk itself. A crash of the daemon alone loses nothing in any mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before `start` and `complete` return.
    Always,
    /// Within 100 ms, by a thread of the journal's own.
    Grouped,
    /// Whenever the operating system likes.
    Never,
}

/// How to open a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// The snapshot file; log segments and lock lie beside it as `<file name>.log.<number>` and `<file name>.log.lock`
    /// (those of `operations.json` as `operations.log.…`), and a new snapshot is written to `….log.new`. A symbolic link
    /// to a regular file stands for its target; whatever else is no regular file is refused. None: memory only.
    pub file: Option<PathBuf>,
    /// How long an outcome is kept from its completion, in milliseconds.
    pub retention_ms: u64,
    /// How many outcomes are kept; the oldest goes first.
    pub capacity: usize,
    /// When appends reach the disk.
    pub sync: Sync,
}

impl Options {
    /// The defaults, with the given snapshot file or none.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self {
            file,
            retention_ms: RETENTION_MS_DEFAULT,
            capacity: CAPACITY_DEFAULT,
            sync: Sync::Grouped,
        }
    }
}

/// A journal that was opened, and what its opening brought to light.
#[derive(Debug)]
pub struct Opened {
    /// The journal.
    pub journal: Journal,
    /// Operations that a predecessor started and never completed, oldest first, of whatever boot.
    pub unfinished: Vec<StartRecord>,
    /// Plain sentences for the log: files set aside, torn tails, a missing lock.
    pub notices: Vec<String>,
}

/// What is written before an operation may have an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRecord {
    /// The operation's id.
    pub id: String,
    /// Digest of its request.
    pub digest: String,
    /// When it started, epoch milliseconds.
    pub started_at_ms: u64,
    /// The boot it runs in.
    pub boot_id: String,
    /// What its processes can be recognised by.
    pub mark: String,
}

/// What the journal knows of an operation id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing, or nothing any more.
    Free,
    /// It completed, and the request is the same.
    Completed {
        /// The outcome's JSON text exactly as delivered.
        outcome: Arc<str>,
    },
    /// The id was used with another digest.
    Conflict,
    /// It started before this journal was opened and its outcome is not known (or can't be read back).
    Unknown {
        /// When it started, epoch milliseconds.
        started_at_ms: u64,
    },
}
