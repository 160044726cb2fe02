//! Opening a journal: what the files of a predecessor (or of the baseline) hold, however they were left.
//! It must never throw readable records away, nor stop for damaged ones.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::files::{self, Files, Lock, LockError};
use crate::index::{Entry, Home, INHERITED_MAX, Index, Place, SNAPSHOT};
use crate::record::Meta;
use crate::segment::{self, Segment};
use crate::state::{SnapshotFile, State, Tuning};
use crate::{Fault, JournalError, Options, StartRecord, snapshot};

/// What was found.
pub(crate) struct Recovered {
    pub(crate) state: State,
    /// Held as long as the journal lives.
    pub(crate) lock: Option<Lock>,
    pub(crate) unfinished: Vec<StartRecord>,
    pub(crate) notices: Vec<String>,
}

/// Reads the snapshot, then the log, oldest segment first.
pub(crate) fn recover(options: &Options, tuning: Tuning, now_ms: u64) -> Result<Recovered, JournalError> {
    let files = options.file.as_deref().map(Files::new).transpose()?;
    let index = Index::new(options.capacity, tuning.memory_bytes);
    let state = State::new(index, files.clone(), tuning, now_ms);
    let mut reading = Reading {
        state,
        now_ms,
        retention_ms: options.retention_ms,
        notices: Vec::new(),
    };
    let mut lock = None;
    if let Some(files) = files {
        lock = reading.lock(&files)?;
        reading.snapshot(&files)?;
        let segments = files.segments().map_err(|source| unusable(&files.directory, source))?;
        for (home, path) in segments {
            reading.segment(home, &path)?;
        }
    }
    let Reading {
        mut state, mut notices, ..
    } = reading;
    state.names_synced = state.last_segment();
    // An outcome that was written beside its start record, in a fold that did not end, settles it.
    let settled: Vec<String> = state.index.started().map(|it| it.record.id.clone()).collect();
    for id in settled
        .iter()
        .filter(|id| state.index.get(id).is_some())
        .cloned()
        .collect::<Vec<_>>()
    {
        state.index.withdraw(&id);
    }
    let excess = state.index.bound_pending(INHERITED_MAX);
    if excess > 0 {
        notices.push(format!(
            "{excess} of too many unfinished operations in the journal were dropped, oldest first"
        ));
    }
    let unfinished = state.index.started().map(|pending| pending.record.clone()).collect();
    Ok(Recovered {
        state,
        lock,
        unfinished,
        notices,
    })
}

fn unusable(path: &Path, source: io::Error) -> JournalError {
    JournalError::Io {
        path: path.to_owned(),
        source,
    }
}

struct Reading {
    state: State,
    now_ms: u64,
    retention_ms: u64,
    notices: Vec<String>,
}

impl Reading {
    fn lock(&mut self, files: &Files) -> Result<Option<Lock>, JournalError> {
        let path = files.lock();
        match files::take_lock(&path) {
            Ok(Some(file)) => return Ok(Some(file)),
            Ok(None) => self
                .notices
                .push(format!("{} can't be locked on this file system", path.display())),
            Err(LockError::Held) => return Err(JournalError::Locked { path }),
            // Reading and replaying work all the same, and room may come back.
            Err(LockError::Io(source)) => match Fault::from(source) {
                fault @ (Fault::DiskFull(_) | Fault::ReadOnly(_)) => {
                    let sentence = format!("the journal in {} can't be written: {fault}", files.directory.display());
                    self.notices.push(sentence.clone());
                    self.state.faults.append = Some(sentence);
                }
                Fault::Io(source) if source.kind() == io::ErrorKind::PermissionDenied && path.exists() => {
                    return Err(JournalError::Denied { path, source });
                }
                Fault::Io(source) => return Err(unusable(&path, source)),
                Fault::TooLarge { .. } | Fault::Closed => {}
            },
        }
        Ok(None)
    }

    fn snapshot(&mut self, files: &Files) -> Result<(), JournalError> {
        let path = &files.snapshot;
        let Some(file) = self.open(path)? else { return Ok(()) };
        let mut first_expiry_ms = u64::MAX;
        let mut entries = Vec::new();
        let read = snapshot::read(&file, |found| {
            first_expiry_ms = first_expiry_ms.min(found.expires_at_ms);
            entries.push(found);
            // Those in front can't be among the kept ones, so a huge file needs no huge memory.
            if entries.len() >= 2 * self.state.index.capacity().max(1) {
                entries.drain(..entries.len() - self.state.index.capacity());
            }
        });
        for found in entries.into_iter().filter(|found| found.expires_at_ms > self.now_ms) {
            self.state.index.complete(Entry {
                id: found.id.into(),
                digest: found.digest.into(),
                started_at_ms: None,
                expires_at_ms: found.expires_at_ms,
                place: Place::File {
                    home: SNAPSHOT,
                    file: file.clone(),
                    offset: found.offset,
                    length: found.length,
                },
                taken_over: true,
            });
        }
        let length = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        self.state.snapshot = SnapshotFile {
            length,
            first_expiry_ms,
        };
        // Expired outcomes have no business on the disk.
        self.state.fold_wanted |= first_expiry_ms <= self.now_ms;
        match read {
            Ok(None) => {}
            Ok(Some(reason)) => self.damaged(path, reason),
            Err(error) => self.damaged(path, &format!("reading it failed: {error}")),
        }
        Ok(())
    }

    fn segment(&mut self, home: Home, path: &Path) -> Result<(), JournalError> {
        self.state.next_segment = self.state.next_segment.max(home + 1);
        // Whatever it holds is folded into the snapshot.
        self.state.fold_wanted = true;
        let Some(file) = self.open(path)? else { return Ok(()) };
        let mut first_expiry_ms = u64::MAX;
        let read = segment::read(&file, |meta, offset, length| {
            let place = Place::File {
                home,
                file: file.clone(),
                offset,
                length,
            };
            if let Meta::Completed { expires_at, .. } = &meta {
                first_expiry_ms = first_expiry_ms.min(*expires_at);
            }
            self.apply(meta, home, place);
        });
        let length = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        let segment = Segment {
            path: path.to_owned(),
            file,
            length,
            opened_at_ms: self.now_ms,
            first_expiry_ms,
        };
        self.state.segments.insert(home, segment);
        match read {
            Ok(damage) => {
                if damage.torn > 0 {
                    let name = path.display();
                    self.notices.push(format!(
                        "a record that was never finished was dropped from the journal's {name}"
                    ));
                }
                if damage.bad_lines > 0 {
                    self.damaged(path, &format!("{} records have a wrong checksum", damage.bad_lines));
                }
            }
            Err(error) => self.damaged(path, &format!("reading it failed: {error}")),
        }
        Ok(())
    }

    /// Opens a file to read; none when there is none, or when it can't be read and has been moved aside. What is no
    /// regular file is refused before anything is done to it.
    fn open(&mut self, path: &Path) -> Result<Option<Arc<File>>, JournalError> {
        files::check_regular(path)?;
        let file = match files::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return self.unreadable(path, error).map(|()| None);
            }
            Err(source) => return Err(unusable(path, source)),
        };
        // Something else may have taken the name since.
        if !file.metadata().map_err(|source| unusable(path, source))?.is_file() {
            return Err(unusable(path, io::ErrorKind::InvalidInput.into()));
        }
        if let Err(error) = files::make_private(&file) {
            self.notices
                .push(format!("{} can be read by others: {error}", path.display()));
        }
        Ok(Some(Arc::new(file)))
    }

    fn damaged(&mut self, path: &Path, reason: &str) {
        self.state.fold_wanted = true;
        let name = path.display();
        self.notices.push(match files::set_aside(path, self.now_ms) {
            Ok(target) => format!(
                "the journal's {name} is corrupt ({reason}) and was set aside as {}",
                target.display()
            ),
            Err(error) => format!("the journal's {name} is corrupt ({reason}) and can't be set aside: {error}"),
        });
    }

    /// A file of another account, mostly. Moving it needs no right on it, only on the directory.
    fn unreadable(&mut self, path: &Path, source: io::Error) -> Result<(), JournalError> {
        match files::move_aside(path, self.now_ms) {
            Ok(target) => {
                self.notices.push(format!(
                    "the journal's {} can't be read ({source}) and was set aside as {}; what it holds is not replayed",
                    path.display(),
                    target.display()
                ));
                Ok(())
            }
            Err(_) => Err(JournalError::Denied {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn apply(&mut self, meta: Meta<'static>, home: Home, place: Place) {
        let index = &mut self.state.index;
        match meta {
            Meta::Started {
                id,
                digest,
                started_at,
                boot_id,
                mark,
                unknown_until,
            } => {
                index.withdraw(&id);
                let until = unknown_until.unwrap_or_else(|| self.now_ms.saturating_add(self.retention_ms));
                if until > self.now_ms {
                    let record = StartRecord {
                        id: id.into_owned(),
                        digest: digest.into_owned(),
                        started_at_ms: started_at,
                        boot_id: boot_id.into_owned(),
                        mark: mark.into_owned(),
                    };
                    index.start(record, Some(home), Some(until));
                    // Bounded in between too, but not sorted for every record.
                    if index.pending_len() > 2 * INHERITED_MAX {
                        index.bound_pending(INHERITED_MAX);
                    }
                }
            }
            Meta::Completed {
                id,
                digest,
                started_at,
                expires_at,
            } => {
                index.withdraw(&id);
                // The log is never older than the snapshot: where a fold ended before it deleted the log, both hold this
                // very outcome, and the log holds all that follow it too, so the order stays.
                index.forget(&id);
                if expires_at > self.now_ms {
                    index.complete(Entry {
                        id: id.into(),
                        digest: digest.into(),
                        started_at_ms: Some(started_at),
                        expires_at_ms: expires_at,
                        place,
                        taken_over: false,
                    });
                }
            }
            Meta::Withdrawn { id } => {
                index.withdraw(&id);
            }
        }
    }
}
