//! Bringing appended records to the disk itself, off the callers' way. It must never hold the lock while it waits.

use std::sync::Arc;
use std::time::Instant;

use crate::Fault;
use crate::journal::Shared;

/// The thread of `Sync::Grouped`: syncs a little after the first unsynced append, until it is told to stop.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    loop {
        if state.unsynced.is_empty() {
            if state.stopping {
                return;
            }
            state = shared.wait(&shared.wake, state);
            continue;
        }
        let since = *state.unsynced_since.get_or_insert_with(Instant::now);
        let rest = state.tuning.group.saturating_sub(since.elapsed());
        if !rest.is_zero() && !state.stopping {
            state = shared.wait_for(&shared.wake, state, rest);
            continue;
        }
        drop(state);
        // A failure is in the warnings and makes the next `expire` write everything anew.
        let _ = sync_log(shared);
        state = shared.lock();
    }
}

/// Syncs all segments with unsynced records, and their names.
pub(crate) fn sync_log(shared: &Shared) -> Result<(), Fault> {
    let mut state = shared.lock();
    let homes = std::mem::take(&mut state.unsynced);
    state.unsynced_since = None;
    let files: Vec<_> = homes
        .iter()
        .filter_map(|home| state.segments.get(home))
        .map(|it| it.file.clone())
        .collect();
    let last = state.last_segment();
    let directory = state.files.clone().filter(|_| last > state.names_synced);
    drop(state);
    let outcome = files
        .iter()
        .try_for_each(|file| file.sync_data())
        .and_then(|()| directory.iter().try_for_each(|files| files.sync_directory()));
    let mut state = shared.lock();
    match outcome {
        Ok(()) => {
            state.names_synced = state.names_synced.max(last);
            Ok(())
        }
        Err(error) => {
            if state.faults.sync.is_none() {
                tracing::warn!(%error, "the journal can't be synced to the disk");
            }
            state.faults.sync = Some(format!("the journal can't be synced to the disk: {error}"));
            // The system reports such a loss once; only writing everything anew makes sure.
            state.fold_wanted = true;
            Err(error.into())
        }
    }
}
