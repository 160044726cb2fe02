//! The journal's state behind its lock: the index, the log's segments, what is wrong at present, and what is to be done.
//! It must never read an outcome back, nor wait for a disk to sync: those happen outside the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::files::{self, Files};
use crate::index::{Home, Index, Pending, SNAPSHOT};
use crate::record::{self, Meta};
use crate::segment::Segment;
use crate::{Fault, StartRecord};

/// The highest length of one outcome, in bytes: well above the 2 MiB that a frame can carry.
pub(crate) const OUTCOME_MAX: usize = 16 * 1024 * 1024;

/// The journal's measures. Tests make them small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// A segment is cut at this length, in bytes, so that dead outcomes free the disk piece by piece.
    pub(crate) segment_bytes: u64,
    /// And at this age, so that all in it expires at nearly the same time and the file can simply go.
    pub(crate) segment_age_ms: u64,
    /// The log is folded into the snapshot when it has grown to this length, in bytes.
    pub(crate) fold_bytes: u64,
    /// How long an expired outcome may stay in a file that cannot go yet. With the caller's 30 s between two calls of
    /// `expire` the minute holds; it is more than a segment's age, so an ordinary segment is never rewritten.
    pub(crate) grace_ms: u64,
    /// Outcomes kept in memory, in bytes together, when there is no file or it can't be written.
    pub(crate) memory_bytes: usize,
    /// How long a failed fold rests.
    pub(crate) retry_ms: u64,
    /// How long an append waits for others before it is synced; the sync itself must fit into 100 ms as well.
    pub(crate) group: Duration,
}

/// The measures of a daemon.
pub(crate) const TUNING: Tuning = Tuning {
    segment_bytes: 8 * 1024 * 1024,
    segment_age_ms: 15_000,
    fold_bytes: 64 * 1024 * 1024,
    grace_ms: 20_000,
    memory_bytes: 64 * 1024 * 1024,
    retry_ms: 10_000,
    group: Duration::from_millis(80),
};

/// What is wrong at present, as sentences.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) append: Option<String>,
    pub(crate) sync: Option<String>,
    pub(crate) fold: Option<String>,
    pub(crate) read: Option<String>,
}

/// The snapshot on disk.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) length: u64,
    /// The earliest expiry of any outcome in it; the highest number when it holds none.
    pub(crate) first_expiry_ms: u64,
}

/// Work for the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Delete the oldest segments, in which nothing is alive.
    Drop,
    /// Write a new snapshot of what lies in the old one.
    Rewrite,
    /// Write a new snapshot of all, and delete the log.
    Fold,
}

/// Everything behind the lock.
pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) files: Option<Files>,
    pub(crate) tuning: Tuning,
    pub(crate) snapshot: SnapshotFile,
    pub(crate) segments: BTreeMap<Home, Segment>,
    active: Option<Home>,
    pub(crate) next_segment: Home,
    /// Segments with records that have not been synced, and since when there are some.
    pub(crate) unsynced: BTreeSet<Home>,
    pub(crate) unsynced_since: Option<Instant>,
    /// The last segment whose name in the directory has been synced.
    pub(crate) names_synced: Home,
    pub(crate) faults: Faults,
    /// The time that the last caller told. It may go back, as the host's clock may.
    pub(crate) clock_ms: u64,
    pub(crate) fold_wanted: bool,
    /// When the background last failed.
    pub(crate) failed_at_ms: Option<u64>,
    pub(crate) working: bool,
    pub(crate) stopping: bool,
    pub(crate) closed: bool,
}

impl State {
    pub(crate) fn new(index: Index, files: Option<Files>, tuning: Tuning, now_ms: u64) -> Self {
        Self {
            index,
            files,
            tuning,
            snapshot: SnapshotFile {
                length: 0,
                first_expiry_ms: u64::MAX,
            },
            segments: BTreeMap::new(),
            active: None,
            next_segment: SNAPSHOT + 1,
            unsynced: BTreeSet::new(),
            unsynced_since: None,
            names_synced: SNAPSHOT,
            faults: Faults::default(),
            clock_ms: now_ms,
            fold_wanted: false,
            failed_at_ms: None,
            working: false,
            stopping: false,
            closed: false,
        }
    }

    /// Whether the background is to leave the disk alone for a while after a failure.
    pub(crate) fn rests(&self) -> bool {
        self.failed_at_ms
            .is_some_and(|then| self.clock_ms.abs_diff(then) < self.tuning.retry_ms)
    }

    /// Appends one record, or several already joined; says which segment took it and where it begins.
    pub(crate) fn append(&mut self, parts: &[&[u8]], now_ms: u64) -> Result<(Home, u64), Fault> {
        match self.try_append(parts, now_ms) {
            Ok(done) => {
                if self.faults.append.take().is_some() {
                    tracing::info!("the journal can be written again");
                    // What was kept in memory meanwhile gets to the disk that way.
                    self.fold_wanted = true;
                }
                Ok(done)
            }
            Err(fault) => {
                let name = self
                    .files
                    .as_ref()
                    .map(|files| files.directory.display().to_string())
                    .unwrap_or_default();
                let sentence = format!("the journal in {name} can't be written: {fault}");
                if self.faults.append.is_none() {
                    tracing::warn!(code = fault.code(), "{sentence}; outcomes are kept in memory");
                }
                self.faults.append = Some(sentence);
                Err(fault)
            }
        }
    }

    fn try_append(&mut self, parts: &[&[u8]], now_ms: u64) -> Result<(Home, u64), Fault> {
        if self.closed {
            return Err(Fault::Closed);
        }
        let full = |segment: &Segment| {
            segment.length >= self.tuning.segment_bytes
                || now_ms.abs_diff(segment.opened_at_ms) >= self.tuning.segment_age_ms
        };
        if self.active.and_then(|home| self.segments.get(&home)).is_some_and(full) {
            self.active = None;
        }
        let home = match self.active {
            Some(home) => home,
            None => self.create_segment(now_ms)?,
        };
        let Some(segment) = self.segments.get_mut(&home) else {
            self.active = None;
            return Err(Fault::Io(std::io::ErrorKind::NotFound.into()));
        };
        match segment.append(parts) {
            Ok(offset) => {
                self.unsynced.insert(home);
                Ok((home, offset))
            }
            Err(failed) => {
                if !failed.usable {
                    self.active = None;
                }
                Err(failed.error.into())
            }
        }
    }

    fn create_segment(&mut self, now_ms: u64) -> Result<Home, Fault> {
        let Some(files) = &self.files else {
            return Err(Fault::Io(std::io::ErrorKind::NotFound.into()));
        };
        let home = self.next_segment;
        let path = files.segment(home);
        // A name that is taken is never tried twice.
        self.next_segment += 1;
        let file = Arc::new(files::create(&path, true)?);
        let segment = Segment {
            path,
            file,
            length: 0,
            opened_at_ms: now_ms,
            first_expiry_ms: u64::MAX,
        };
        self.segments.insert(home, segment);
        self.active = Some(home);
        Ok(home)
    }

    /// The segment that was created last.
    pub(crate) fn last_segment(&self) -> Home {
        self.next_segment - 1
    }

    /// No further record goes to segments up to this one.
    pub(crate) fn retire(&mut self, through: Home) {
        self.active = self.active.filter(|home| *home > through);
    }

    /// Writes the start records that still count and lie in segments up to this one (or nowhere) once more; says
    /// whether there were any.
    pub(crate) fn restate_starts(&mut self, through: Home) -> Result<bool, Fault> {
        let (mut ids, mut lines) = (Vec::new(), Vec::new());
        for pending in self
            .index
            .started()
            .filter(|pending| pending.home.is_none_or(|home| home <= through))
        {
            lines.extend_from_slice(&start_line(pending));
            ids.push(pending.record.id.clone());
        }
        if !ids.is_empty() {
            let (home, _) = self.append(&[&lines], self.clock_ms)?;
            self.index.start_moved(&ids, home);
        }
        Ok(!ids.is_empty())
    }

    /// Bytes of the whole log.
    fn log_length(&self) -> u64 {
        self.segments.values().map(|segment| segment.length).sum()
    }

    /// Whether the log has outgrown the snapshot. A large snapshot is not rewritten for a small log.
    pub(crate) fn log_is_long(&self) -> bool {
        self.log_length() > self.tuning.fold_bytes.max(self.snapshot.length)
    }

    /// What the background should do next.
    pub(crate) fn next_job(&self) -> Option<Job> {
        if self.files.is_none() || self.closed {
            return None;
        }
        if self.fold_wanted {
            return Some(Job::Fold);
        }
        if self.dead_segments().is_some() {
            return Some(Job::Drop);
        }
        let overdue = |first_expiry: u64| first_expiry.saturating_add(self.tuning.grace_ms) <= self.clock_ms;
        if self.log_is_long() || self.segments.values().any(|segment| overdue(segment.first_expiry_ms)) {
            return Some(Job::Fold);
        }
        overdue(self.snapshot.first_expiry_ms).then_some(Job::Rewrite)
    }

    /// The oldest segments in which no outcome is alive, up to the number told. Only ever the oldest: a record that
    /// settles a start lies in the same or a later segment and must not go before it.
    pub(crate) fn dead_segments(&self) -> Option<Home> {
        let homes = self.index.homes();
        let dead = self.segments.iter().take_while(|(home, _)| !homes.contains(home));
        let (mut through, mut outcomes) = (None, false);
        for (home, segment) in dead {
            through = Some(*home);
            outcomes |= segment.first_expiry_ms != u64::MAX;
        }
        // Segments with nothing but the starts of long operations may stay; writing those again would gain nothing.
        through.filter(|through| outcomes || !self.index.starts_within(*through))
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let faults = &self.faults;
        [&faults.append, &faults.sync, &faults.fold, &faults.read]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

/// The whole line of a start record.
pub(crate) fn start_line(pending: &Pending) -> Vec<u8> {
    let mut line = start_head(&pending.record, pending.unknown_until_ms);
    line.push(b'\n');
    line
}

/// The line of a start record without its line feed.
pub(crate) fn start_head(record: &StartRecord, unknown_until: Option<u64>) -> Vec<u8> {
    let meta = Meta::Started {
        id: record.id.as_str().into(),
        digest: record.digest.as_str().into(),
        started_at: record.started_at_ms,
        boot_id: record.boot_id.as_str().into(),
        mark: record.mark.as_str().into(),
        unknown_until,
    };
    record::encode(&meta, "")
}
