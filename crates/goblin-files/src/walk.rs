//! The one traversal: depth first, names in byte order, bounded, cancellable, by directory handles.
//!
//! A walk holds at most as many names as it may still visit, whatever a directory holds, and at most
//! [`HANDLES_MAX`] directory handles, whatever the depth; no path is ever handed to the system, so that a tree
//! deeper than the longest path is no different. It must never know what its visitor does with an entry.

use crate::check_cancelled;
use crate::failure::Failure;
use crate::open;
use crate::traversal::{Bounds, Traversal};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, RawDir, Stat};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;

/// Directory handles that one walk keeps open; older ancestors are closed and found again from below.
const HANDLES_MAX: usize = 32;

/// Bytes of directory entries taken from the system at a time.
const BLOCK: usize = 32 * 1024;

/// What an entry is, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

impl Kind {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self::from(FileType::from_raw_mode(stat.st_mode))
    }
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

/// One visited entry.
pub(crate) struct Entry<'a> {
    /// Path from the root, components joined by `/`.
    pub(crate) relative: &'a [u8],
    pub(crate) kind: Kind,
    /// The directory that holds it, and its name there.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a [u8],
    /// For what is to be said of the entry.
    pub(crate) traversal: &'a mut Traversal,
}

/// A name that waits to be visited.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    bytes: Box<[u8]>,
    kind: Kind,
}

/// One directory on the way from the root to the current entry.
struct Frame {
    /// `None` while its handle is closed to save handles.
    directory: Option<OwnedFd>,
    /// Device and inode, known once the handle has been closed.
    identity: Option<(u64, u64)>,
    /// Length of the relative path up to the names of this directory.
    prefix: usize,
    names: VecDeque<Name>,
}

/// A walk in progress.
pub(crate) struct Walk<'a> {
    bounds: Bounds,
    cancel: &'a AtomicBool,
    frames: Vec<Frame>,
    /// The current entry's path from the root.
    relative: Vec<u8>,
    /// Whether the current entry is a directory that is yet to be entered.
    enter: bool,
    /// Entries that may still be visited.
    remaining: u64,
    /// Names that wait, in all frames.
    waiting: usize,
    block: Vec<MaybeUninit<u8>>,
    pub(crate) traversal: Traversal,
}

impl<'a> Walk<'a> {
    /// Starts at `root`; a root that can't be listed is an error.
    pub(crate) fn new(root: OwnedFd, bounds: Bounds, cancel: &'a AtomicBool) -> Result<Self, Failure> {
        let mut walk = Self {
            bounds,
            cancel,
            frames: Vec::new(),
            relative: Vec::new(),
            enter: false,
            remaining: bounds.entries,
            waiting: 0,
            block: vec![MaybeUninit::uninit(); BLOCK],
            traversal: Traversal::default(),
        };
        let (names, error) = walk.names(&root)?;
        match error {
            Some(error) => Err(error.into()),
            None => {
                walk.push(root, names);
                Ok(walk)
            }
        }
    }

    /// Starts at the directory that `path` leads to.
    pub(crate) fn at(path: &std::path::Path, bounds: Bounds, cancel: &'a AtomicBool) -> Result<Self, Failure> {
        Self::new(open::directory(path)?, bounds, cancel)
    }

    /// The next entry, or `None` at the end of the tree or of the budget.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>, Failure> {
        if std::mem::take(&mut self.enter) {
            self.enter()?;
        }
        let name = loop {
            check_cancelled(self.cancel)?;
            if self.traversal.is_overlong() {
                return Ok(None);
            }
            let Some(frame) = self.frames.last_mut() else {
                return Ok(None);
            };
            match frame.names.pop_front() {
                Some(name) => break name,
                None => self.leave(),
            }
        };
        self.waiting -= 1;
        if self.remaining == 0 {
            self.traversal.budget_exhausted();
            self.frames.clear();
            return Ok(None);
        }
        self.remaining -= 1;
        self.enter = name.kind == Kind::Directory;
        let Some(frame) = self.frames.last() else {
            return Ok(None);
        };
        let Some(directory) = &frame.directory else {
            return Ok(None);
        };
        self.relative.truncate(frame.prefix);
        self.relative.extend_from_slice(&name.bytes);
        Ok(Some(Entry {
            relative: &self.relative,
            kind: name.kind,
            directory: directory.as_fd(),
            name: &self.relative[frame.prefix..],
            traversal: &mut self.traversal,
        }))
    }

    /// Goes down into the current entry.
    fn enter(&mut self) -> Result<(), Failure> {
        if self.frames.len() as u64 > self.bounds.depth {
            self.traversal.depth_reached();
            return Ok(());
        }
        let Some((frame, directory)) = self
            .frames
            .last()
            .and_then(|frame| Some((frame, frame.directory.as_ref()?)))
        else {
            return Ok(());
        };
        let opened = open::directory_in(directory.as_fd(), &self.relative[frame.prefix..]);
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) => {
                self.traversal.warn("unreadable_directory", &self.relative, Some(error));
                return Ok(());
            }
        };
        let (names, error) = self.names(&directory)?;
        if let Some(error) = error {
            self.traversal.warn("unreadable_directory", &self.relative, Some(error));
        }
        if !names.is_empty() {
            self.relative.push(b'/');
            self.push(directory, names);
        }
        Ok(())
    }

    fn push(&mut self, directory: OwnedFd, names: Vec<Name>) {
        if let Some(index) = self.frames.len().checked_sub(HANDLES_MAX) {
            let frame = &mut self.frames[index];
            if let Some(directory) = frame.directory.take() {
                frame.identity = identity(&directory);
            }
        }
        self.waiting += names.len();
        let prefix = self.relative.len();
        self.frames.push(Frame {
            directory: Some(directory),
            identity: None,
            prefix,
            names: names.into(),
        });
        // The names nearest to the root come last: those beyond the budget will never be reached.
        let mut excess = self.waiting.saturating_sub(self.keep());
        self.waiting -= excess;
        for frame in &mut self.frames {
            let dropped = excess.min(frame.names.len());
            frame.names.truncate(frame.names.len() - dropped);
            excess -= dropped;
            if excess == 0 {
                break;
            }
        }
    }

    /// Goes back up from a directory that is done.
    fn leave(&mut self) {
        let Some(Frame {
            directory: Some(below), ..
        }) = self.frames.pop()
        else {
            return;
        };
        let Some(frame) = self.frames.last_mut() else { return };
        if frame.directory.is_some() {
            return;
        }
        // Found again from below, and only believed when it is the one that was left.
        let found = open::directory_in(below.as_fd(), c"..")
            .ok()
            .filter(|above| identity(above) == frame.identity);
        if found.is_none() {
            let relative = &self.relative[..frame.prefix.saturating_sub(1)];
            self.traversal
                .warn("unreadable_directory", relative, Some(Errno::NOENT));
            // It and what lies above it can't be reached any more.
            let lost: usize = self.frames.iter().map(|frame| frame.names.len()).sum();
            self.waiting -= lost;
            self.frames.clear();
        } else {
            frame.directory = found;
        }
    }

    /// Names worth keeping: as many as may be visited, and one that shows that there are more.
    fn keep(&self) -> usize {
        usize::try_from(self.remaining).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// The smallest names of a directory, in order, and the error that ended the listing early.
    fn names(&mut self, directory: &OwnedFd) -> Result<(Vec<Name>, Option<Errno>), Failure> {
        let keep = self.keep();
        let mut names: Vec<Name> = Vec::new();
        let mut full = false;
        let mut error = None;
        let mut listing = RawDir::new(directory, &mut self.block);
        let mut visited = 0_u32;
        while let Some(entry) = listing.next() {
            visited = visited.wrapping_add(1);
            if visited.is_multiple_of(256) {
                check_cancelled(self.cancel)?;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    error = Some(errno);
                    break;
                }
            };
            let bytes = entry.file_name().to_bytes();
            // Once full, the last kept name is the largest: nothing beyond it is of use.
            let beyond = full && names.get(keep - 1).is_some_and(|last| bytes > &*last.bytes);
            if bytes.starts_with(b".") || bytes == b"node_modules" || beyond {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match open::look(directory.as_fd(), entry.file_name()) {
                    Ok(stat) => Kind::of(&stat),
                    Err(Errno::NOENT) => continue,
                    Err(_) => Kind::Other,
                },
                file_type => file_type.into(),
            };
            names.push(Name {
                bytes: bytes.into(),
                kind,
            });
            if names.len() >= keep.saturating_mul(2) {
                names.select_nth_unstable_by(keep - 1, |a, b| a.bytes.cmp(&b.bytes));
                names.truncate(keep);
                full = true;
            }
        }
        names.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes));
        names.truncate(keep);
        names.shrink_to_fit();
        Ok((names, error))
    }
}

fn identity(directory: &OwnedFd) -> Option<(u64, u64)> {
    rustix::fs::fstat(directory).ok().map(|stat| (stat.st_dev, stat.st_ino))
}
