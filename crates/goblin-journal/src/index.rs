//! What the journal knows, in memory: completed operations in insertion order and those that only started.
//! Pure bookkeeping with its bounds; it must never touch a file (it only carries handles of theirs).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::sync::Arc;

use crate::StartRecord;

/// The highest number of start records taken over from predecessors; the oldest goes first.
pub(crate) const INHERITED_MAX: usize = 4_096;

/// The file that an outcome lies in: the snapshot, or a segment by its number.
pub(crate) type Home = u64;

/// The snapshot. Segments are numbered from 1.
pub(crate) const SNAPSHOT: Home = 0;

/// Where an outcome is kept.
#[derive(Clone)]
pub(crate) enum Place {
    Memory(Arc<str>),
    File {
        home: Home,
        file: Arc<File>,
        offset: u64,
        length: usize,
    },
}

impl Place {
    fn memory(&self) -> usize {
        match self {
            Self::Memory(text) => text.len(),
            Self::File { .. } => 0,
        }
    }

    pub(crate) fn home(&self) -> Option<Home> {
        match self {
            Self::Memory(_) => None,
            Self::File { home, .. } => Some(*home),
        }
    }
}

/// A completed operation.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: Arc<str>,
    pub(crate) digest: Arc<str>,
    /// When it started, where that is known.
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) expires_at_ms: u64,
    pub(crate) place: Place,
    /// Taken over from a snapshot, so its digest may be in the baseline's form.
    pub(crate) taken_over: bool,
}

/// An operation that started and has not completed.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) record: StartRecord,
    /// The segment that holds its record; none when it could not be written.
    pub(crate) home: Option<Home>,
    /// Until when its outcome counts as unknown, when a predecessor started it; none for one of this process.
    pub(crate) unknown_until_ms: Option<u64>,
    order: u64,
}

/// The journal's memory.
pub(crate) struct Index {
    capacity: usize,
    memory_max: usize,
    memory: usize,
    next: u64,
    entries: BTreeMap<u64, Entry>,
    numbers: HashMap<Arc<str>, u64>,
    pending: HashMap<String, Pending>,
}

impl Index {
    /// At most `capacity` outcomes, of which at most `memory_max` bytes are kept in memory itself.
    pub(crate) fn new(capacity: usize, memory_max: usize) -> Self {
        Self {
            capacity,
            memory_max,
            memory: 0,
            next: 0,
            entries: BTreeMap::new(),
            numbers: HashMap::new(),
            pending: HashMap::new(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The completed operation of this id, expired or not.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(self.numbers.get(id)?)
    }

    /// All completed operations, oldest first, by number.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// Takes in a completed operation as the newest, and drops what the bounds no longer allow.
    pub(crate) fn complete(&mut self, entry: Entry) {
        self.pending.remove(&*entry.id);
        self.forget(&entry.id);
        self.memory += entry.place.memory();
        self.numbers.insert(entry.id.clone(), self.next);
        self.entries.insert(self.next, entry);
        self.next += 1;
        while self.entries.len() > self.capacity {
            let Some(oldest) = self.entries.keys().next().copied() else {
                break;
            };
            self.remove(oldest);
        }
        while self.memory > self.memory_max {
            let in_memory = |(number, entry): (&u64, &Entry)| (entry.place.memory() > 0).then_some(*number);
            let Some(oldest) = self.entries.iter().find_map(in_memory) else {
                break;
            };
            self.remove(oldest);
        }
    }

    /// Drops the completed operation of this id.
    pub(crate) fn forget(&mut self, id: &str) {
        if let Some(number) = self.numbers.get(id) {
            self.remove(*number);
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number) {
            self.memory -= entry.place.memory();
            self.numbers.remove(&entry.id);
        }
    }

    /// Drops what has expired.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let expired = |(number, entry): (&u64, &Entry)| (entry.expires_at_ms <= now_ms).then_some(*number);
        for number in self.entries.iter().filter_map(expired).collect::<Vec<_>>() {
            self.remove(number);
        }
        self.pending
            .retain(|_, pending| pending.unknown_until_ms.is_none_or(|until| until > now_ms));
    }

    /// Says that an outcome lies elsewhere now; nothing when it has been dropped meanwhile.
    pub(crate) fn moved(&mut self, number: u64, place: Place) {
        if let Some(entry) = self.entries.get_mut(&number) {
            self.memory -= entry.place.memory();
            self.memory += place.memory();
            entry.place = place;
        }
    }

    /// The files that hold the outcome of at least one completed operation.
    pub(crate) fn homes(&self) -> BTreeSet<Home> {
        self.entries.values().filter_map(|entry| entry.place.home()).collect()
    }

    /// Whether an outcome of at most this length is kept in memory itself.
    pub(crate) fn holds_memory(&self, length: usize) -> bool {
        self.entries
            .values()
            .any(|entry| matches!(&entry.place, Place::Memory(text) if text.len() <= length))
    }

    /// The operation of this id that has started and not completed.
    pub(crate) fn pending(&self, id: &str) -> Option<&Pending> {
        self.pending.get(id)
    }

    /// Takes in a started operation; an earlier record of the same id gives way.
    pub(crate) fn start(&mut self, record: StartRecord, home: Option<Home>, unknown_until_ms: Option<u64>) {
        let order = self.next;
        self.next += 1;
        self.pending.insert(
            record.id.clone(),
            Pending {
                record,
                home,
                unknown_until_ms,
                order,
            },
        );
    }

    /// Drops a started operation.
    pub(crate) fn withdraw(&mut self, id: &str) -> Option<Pending> {
        self.pending.remove(id)
    }

    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Keeps the latest so many started operations; says how many went.
    pub(crate) fn bound_pending(&mut self, most: usize) -> usize {
        let excess = self.pending.len().saturating_sub(most);
        let oldest: Vec<String> = self
            .started()
            .take(excess)
            .map(|pending| pending.record.id.clone())
            .collect();
        for id in &oldest {
            self.pending.remove(id);
        }
        excess
    }

    /// All started operations, oldest first.
    pub(crate) fn started(&self) -> impl Iterator<Item = &Pending> {
        let mut all: Vec<&Pending> = self.pending.values().collect();
        all.sort_by_key(|pending| pending.order);
        all.into_iter()
    }

    /// Whether a segment up to this one holds a start record that still counts.
    pub(crate) fn starts_within(&self, through: Home) -> bool {
        self.pending
            .values()
            .any(|pending| pending.home.is_some_and(|home| home <= through))
    }

    /// Says that these started operations have their records in that segment now.
    pub(crate) fn start_moved(&mut self, ids: &[String], home: Home) {
        for id in ids {
            if let Some(pending) = self.pending.get_mut(id) {
                pending.home = Some(home);
            }
        }
    }
}
