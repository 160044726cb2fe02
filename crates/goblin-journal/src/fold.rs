//! The background's work: deleting dead segments, and folding the log into a new snapshot.
//! A thread lives only while there is something to do. It must never hold the lock while it reads or writes outcomes.

use std::sync::Arc;

use crate::index::{Entry, Place, SNAPSHOT};
use crate::journal::Shared;
use crate::state::{Job, OUTCOME_MAX, SnapshotFile, State};
use crate::{Fault, Sync, files, snapshot, sync};

/// Starts the background's thread when there is work and none is at it.
pub(crate) fn kick(shared: &Arc<Shared>, state: &mut State) {
    if state.working || state.stopping || state.rests() || state.next_job().is_none() {
        return;
    }
    let own = shared.clone();
    // Where no thread can be had the next call tries again.
    state.working = std::thread::Builder::new()
        .name("journal-fold".to_owned())
        .spawn(move || run(&own))
        .is_ok();
}

fn run(shared: &Arc<Shared>) {
    let mut presence = Presence { shared, here: true };
    loop {
        let job = {
            let mut state = shared.lock();
            match state.next_job().filter(|_| !state.stopping) {
                Some(job) => job,
                None => {
                    presence.leave(&mut state);
                    return;
                }
            }
        };
        let outcome = match job {
            Job::Drop => drop_dead(shared),
            Job::Rewrite => rewrite(shared, false),
            Job::Fold => rewrite(shared, true),
        };
        if let Err(fault) = outcome {
            tracing::warn!(code = fault.code(), "the journal can't be tidied up: {fault}");
            let mut state = shared.lock();
            state.faults.fold = Some(format!("the journal can't be tidied up: {fault}"));
            state.failed_at_ms = Some(state.clock_ms);
            presence.leave(&mut state);
            return;
        }
    }
}

/// Says that the thread is gone, however it went.
struct Presence<'a> {
    shared: &'a Shared,
    here: bool,
}

impl Presence<'_> {
    fn leave(&mut self, state: &mut State) {
        self.here = false;
        state.working = false;
        self.shared.idle.notify_all();
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if self.here {
            let mut state = self.shared.lock();
            self.leave(&mut state);
        }
    }
}

fn drop_dead(shared: &Shared) -> Result<(), Fault> {
    let through = {
        let mut state = shared.lock();
        let Some(through) = state.dead_segments() else {
            return Ok(());
        };
        state.retire(through);
        through
    };
    drop_segments(shared, through)?;
    shared.lock().faults.fold = None;
    Ok(())
}

/// Deletes the segments up to this one, oldest first. None of them takes records any more.
fn drop_segments(shared: &Shared, through: u64) -> Result<(), Fault> {
    let mut state = shared.lock();
    let restated = state.restate_starts(through)?;
    let doomed: Vec<_> = state
        .segments
        .range(..=through)
        .map(|(home, it)| (*home, it.path.clone()))
        .collect();
    drop(state);
    if restated && shared.sync != Sync::Never {
        sync::sync_log(shared)?;
    }
    for (home, path) in doomed {
        files::remove(&path)?;
        let mut state = shared.lock();
        state.segments.remove(&home);
        state.unsynced.remove(&home);
    }
    Ok(())
}

/// Writes a new snapshot: of all outcomes, and then deletes the log; or of those alone that the old one holds.
pub(crate) fn rewrite(shared: &Shared, everything: bool) -> Result<(), Fault> {
    let (entries, through, files) = {
        let mut state = shared.lock();
        let Some(files) = state.files.clone() else {
            return Ok(());
        };
        let now = state.clock_ms;
        state.index.expire(now);
        let mut through = SNAPSHOT;
        if everything {
            state.fold_wanted = false;
            through = state.last_segment();
            state.retire(through);
        }
        let chosen = |(_, entry): &(u64, &Entry)| match &entry.place {
            Place::Memory(text) => everything && text.len() <= OUTCOME_MAX,
            Place::File { home, .. } => *home <= through,
        };
        let entries: Vec<(u64, Entry)> = state
            .index
            .entries()
            .filter(chosen)
            .map(|(number, entry)| (number, entry.clone()))
            .collect();
        (entries, through, files)
    };
    let written = snapshot::write(&files, entries.iter().map(|(number, entry)| (*number, entry)));
    let mut state = shared.lock();
    let written = match written {
        Ok(written) => written,
        Err(error) => {
            state.fold_wanted |= everything;
            return Err(error.into());
        }
    };
    let first_expiry_ms = entries
        .iter()
        .map(|(_, entry)| entry.expires_at_ms)
        .min()
        .unwrap_or(u64::MAX);
    state.snapshot = SnapshotFile {
        length: written.length,
        first_expiry_ms,
    };
    for (number, offset, length) in written.places {
        state.index.moved(
            number,
            Place::File {
                home: SNAPSHOT,
                file: written.file.clone(),
                offset,
                length,
            },
        );
    }
    state.faults.read = (written.lost > 0).then(|| {
        format!(
            "{} outcomes of the journal can't be read back and are not replayed",
            written.lost
        )
    });
    state.faults.fold = None;
    if !everything {
        return Ok(());
    }
    state.faults.sync = None;
    if !state.index.holds_memory(OUTCOME_MAX) {
        state.faults.append = None;
    }
    drop(state);
    drop_segments(shared, through).inspect_err(|_| shared.lock().fold_wanted = true)
}
