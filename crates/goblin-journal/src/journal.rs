//! The journal as its users see it: decide, start, complete, replay. Every call is short; none waits for the background.
//! It must never know the lines of the log nor the shape of the snapshot.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::files::Lock;
use crate::index::{Entry, Home, Place};
use crate::record::{self, HEAD_MAX, Meta, one_line};
use crate::recovery::{Recovered, recover};
use crate::state::{OUTCOME_MAX, State, TUNING, Tuning, start_head};
use crate::{Fault, JournalError, Lookup, Opened, Options, StartRecord, Sync, fold, sync};

/// Bounded durable replay of operations, safe to share between threads.
///
/// Dropping it without [`Journal::close`] is like a crash of the daemon: nothing is lost, the log is read at the next
/// opening.
pub struct Journal {
    shared: Arc<Shared>,
    retention_ms: u64,
    syncer: Mutex<Option<JoinHandle<()>>>,
    _lock: Option<Lock>,
}

/// What the journal's threads share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) sync: Sync,
    /// Wakes the thread that syncs.
    pub(crate) wake: Condvar,
    /// Tells that the background has come to rest.
    pub(crate) idle: Condvar,
}

impl Shared {
    /// The state. A panic elsewhere leaves it whole: every change of it is one call.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(&self, on: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        on.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait_for<'a>(
        &self,
        on: &Condvar,
        state: MutexGuard<'a, State>,
        most: Duration,
    ) -> MutexGuard<'a, State> {
        on.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns when the background has nothing at hand.
    pub(crate) fn settle(&self) {
        let mut state = self.lock();
        while state.working {
            state = self.wait(&self.idle, state);
        }
    }
}

impl Journal {
    /// Opens the journal: takes over what a predecessor left, sets damaged files aside and goes on.
    ///
    /// A full or read-only disk is no error; the journal then works from memory and says so in [`Journal::warnings`].
    pub fn open(options: Options, now_ms: u64) -> Result<Opened, JournalError> {
        Self::open_tuned(options, TUNING, now_ms)
    }

    pub(crate) fn open_tuned(options: Options, tuning: Tuning, now_ms: u64) -> Result<Opened, JournalError> {
        let Recovered {
            state,
            lock,
            unfinished,
            notices,
        } = recover(&options, tuning, now_ms)?;
        let on_disk = state.files.is_some();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            sync: options.sync,
            wake: Condvar::new(),
            idle: Condvar::new(),
        });
        let mut syncer = None;
        if on_disk && options.sync == Sync::Grouped {
            let own = shared.clone();
            let builder = std::thread::Builder::new().name("journal-sync".to_owned());
            let handle = builder
                .spawn(move || sync::run(&own))
                .map_err(|source| JournalError::Thread { source })?;
            syncer = Some(handle);
        }
        fold::kick(&shared, &mut shared.lock());
        let journal = Self {
            shared,
            retention_ms: options.retention_ms,
            syncer: Mutex::new(syncer),
            _lock: lock,
        };
        Ok(Opened {
            journal,
            unfinished,
            notices,
        })
    }

    /// What is known of an operation id. An operation that this process started and has not completed is `Free` here:
    /// its caller knows it as active.
    ///
    /// `digest` is the request's; `baseline_digest` the same in the baseline's form, asked for only when an entry was
    /// taken over from a snapshot. An outcome that can't be read back is `Unknown`: its operation did run.
    pub fn lookup(&self, id: &str, digest: &str, baseline_digest: impl FnOnce() -> String, now_ms: u64) -> Lookup {
        let entry = {
            let mut state = self.shared.lock();
            state.clock_ms = now_ms;
            match state.index.get(id).filter(|entry| entry.expires_at_ms > now_ms) {
                Some(entry) => entry.clone(),
                None => {
                    let unknown = |until: Option<u64>| until.is_some_and(|until| until > now_ms);
                    return match state
                        .index
                        .pending(id)
                        .filter(|pending| unknown(pending.unknown_until_ms))
                    {
                        None => Lookup::Free,
                        Some(pending) if pending.record.digest != digest => Lookup::Conflict,
                        Some(pending) => Lookup::Unknown {
                            started_at_ms: pending.record.started_at_ms,
                        },
                    };
                }
            }
        };
        if *entry.digest != *digest && !(entry.taken_over && *entry.digest == *baseline_digest()) {
            return Lookup::Conflict;
        }
        match entry.place.read() {
            Ok(outcome) => match one_line(Cow::Borrowed(&*outcome)) {
                Cow::Borrowed(_) => Lookup::Completed { outcome },
                Cow::Owned(outcome) => Lookup::Completed {
                    outcome: outcome.into(),
                },
            },
            Err(error) => {
                tracing::warn!(%error, "an outcome can't be read back from the journal");
                self.shared.lock().faults.read =
                    Some(format!("an outcome can't be read back from the journal: {error}"));
                let started_at_ms = entry.started_at_ms;
                Lookup::Unknown {
                    started_at_ms: started_at_ms.unwrap_or(entry.expires_at_ms.saturating_sub(self.retention_ms)),
                }
            }
        }
    }

    /// Whether a completed operation of this id is retained.
    pub fn contains_completed(&self, id: &str, now_ms: u64) -> bool {
        let state = self.shared.lock();
        state.index.get(id).is_some_and(|entry| entry.expires_at_ms > now_ms)
    }

    /// Records that an operation is about to have effects. One `write`; with [`Sync::Always`] it is on the disk on return.
    pub fn start(&self, record: &StartRecord, now_ms: u64) -> Result<(), Fault> {
        let head = start_head(record, None);
        self.record(&head, "", now_ms, |state, written| {
            let home = written.as_ref().ok().map(|(home, _)| *home);
            state.index.start(record.clone(), home, None);
        })
    }

    /// Takes a start back: the operation had no effect.
    pub fn withdraw(&self, id: &str, now_ms: u64) -> Result<(), Fault> {
        let head = record::encode(&Meta::Withdrawn { id: id.into() }, "");
        let mut state = self.shared.lock();
        state.clock_ms = now_ms;
        match state.index.withdraw(id) {
            Some(pending) if pending.home.is_some() => {
                state.append(&[&head, b"\n"], now_ms)?;
                self.wake_background(&mut state);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Records an outcome: one JSON value as text, exactly as it is delivered. One `write`; with [`Sync::Always`] it is
    /// on the disk on return. After a fault the outcome is replayed from memory for as long as it may be.
    pub fn complete(&self, id: &str, digest: &str, outcome: impl Into<Arc<str>>, now_ms: u64) -> Result<(), Fault> {
        let outcome: Arc<str> = match outcome.into() {
            text if text.contains(['\n', '\r']) => one_line(Cow::Borrowed(&*text)).into(),
            text => text,
        };
        let started_at_ms = self
            .shared
            .lock()
            .index
            .pending(id)
            .map(|pending| pending.record.started_at_ms);
        let expires_at_ms = now_ms.saturating_add(self.retention_ms);
        let meta = Meta::Completed {
            id: id.into(),
            digest: digest.into(),
            started_at: started_at_ms.unwrap_or(now_ms),
            expires_at: expires_at_ms,
        };
        let head = record::encode(&meta, &outcome);
        let file = |state: &mut State, (home, offset): (Home, u64)| {
            let segment = state.segments.get_mut(&home)?;
            segment.first_expiry_ms = segment.first_expiry_ms.min(expires_at_ms);
            let file = segment.file.clone();
            Some(Place::File {
                home,
                file,
                offset: offset + head.len() as u64,
                length: outcome.len(),
            })
        };
        self.record(&head, &outcome, now_ms, |state, written| {
            let place = written.as_ref().ok().and_then(|written| file(state, *written));
            state.index.complete(Entry {
                id: id.into(),
                digest: digest.into(),
                started_at_ms,
                expires_at_ms,
                place: place.unwrap_or_else(|| Place::Memory(outcome.clone())),
                taken_over: false,
            });
        })
    }

    /// Appends a line, takes it into the index (written or not) and sees to its syncing.
    fn record(
        &self,
        head: &[u8],
        outcome: &str,
        now_ms: u64,
        index: impl FnOnce(&mut State, &Result<(Home, u64), Fault>),
    ) -> Result<(), Fault> {
        let mut state = self.shared.lock();
        state.clock_ms = now_ms;
        if state.files.is_none() {
            // Nothing to write: what the index takes into memory is all there is.
            index(&mut state, &Err(Fault::Closed));
            return Ok(());
        }
        let written = if head.len() > HEAD_MAX || outcome.len() > OUTCOME_MAX {
            Err(Fault::TooLarge {
                length: head.len() + outcome.len(),
            })
        } else {
            state.append(&[head, outcome.as_bytes(), b"\n"], now_ms)
        };
        index(&mut state, &written);
        let (home, _) = written?;
        self.wake_background(&mut state);
        if self.shared.sync == Sync::Always {
            self.sync_segment(state, home)
        } else {
            Ok(())
        }
    }

    /// After an append: lets the threads know when there is something for them.
    fn wake_background(&self, state: &mut State) {
        if self.shared.sync == Sync::Grouped && state.unsynced_since.is_none() {
            state.unsynced_since = Some(Instant::now());
            self.shared.wake.notify_one();
        }
        if state.fold_wanted || state.log_is_long() {
            fold::kick(&self.shared, state);
        }
    }

    /// Waits, without the lock, until the segment and its name are on the disk.
    fn sync_segment(&self, state: MutexGuard<'_, State>, home: Home) -> Result<(), Fault> {
        let file = state.segments.get(&home).map(|segment| segment.file.clone());
        let files = state.files.clone().filter(|_| state.names_synced < home);
        drop(state);
        let names = files.map_or(Ok(()), |files| files.sync_directory());
        let synced = names.and_then(|()| file.map_or(Ok(()), |file| file.sync_data()));
        let mut state = self.shared.lock();
        match synced {
            Ok(()) => {
                state.names_synced = state.names_synced.max(home);
                Ok(())
            }
            Err(error) => {
                state.faults.sync = Some(format!("the journal can't be synced to the disk: {error}"));
                state.fold_wanted = true;
                Err(error.into())
            }
        }
    }

    /// What is wrong at present, as sentences for `health`. Empty again once writing works again.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.lock().warnings()
    }

    /// Drops what has expired, from memory at once and from the disk in the background. To be called at least every
    /// 30 s, idle or not; it also tries again what a full disk refused.
    pub fn expire(&self, now_ms: u64) {
        let mut state = self.shared.lock();
        state.clock_ms = now_ms;
        state.index.expire(now_ms);
        state.fold_wanted |= state.faults.append.is_some() && state.files.is_some();
        fold::kick(&self.shared, &mut state);
    }

    /// Writes the snapshot, deletes the log and ends the journal's threads. Records after this are refused.
    ///
    /// On a fault the log stays and is read at the next opening. Operations that never completed stay recorded.
    pub fn close(&self, now_ms: u64) -> Result<(), Fault> {
        {
            let mut state = self.shared.lock();
            if state.closed {
                return Ok(());
            }
            state.clock_ms = now_ms;
        }
        self.stop();
        let written = fold::rewrite(&self.shared, true);
        self.shared.lock().closed = true;
        written
    }

    fn stop(&self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_all();
        self.shared.settle();
        let syncer = self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = syncer {
            // It ends by itself; should it have panicked, the fold that follows writes everything.
            let _ = handle.join();
        }
    }

    /// How many outcomes are kept, those included that have expired since the last [`Journal::expire`].
    pub fn len(&self) -> usize {
        self.shared.lock().index.len()
    }

    /// Whether no outcome is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the tests of the crate look at beside the public face.
#[cfg(test)]
impl Journal {
    /// Returns when the background has nothing at hand.
    pub(crate) fn settle(&self) {
        self.shared.settle();
    }

    /// Whether all records and the names of their segments have been synced.
    pub(crate) fn is_synced(&self) -> bool {
        let state = self.shared.lock();
        state.unsynced.is_empty() && state.names_synced == state.last_segment()
    }

    /// The ids of the completed operations, oldest first.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.shared
            .lock()
            .index
            .entries()
            .map(|(_, entry)| entry.id.to_string())
            .collect()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Journal").finish_non_exhaustive()
    }
}
