//! Atomic, durable replacement of one file: the new content is written and synced under a temporary name beside the
//! target, which then takes the target's name. A crash at any instant leaves the old or the new content.
//!
//! Where a replacement can't keep the owner, the access list or the place, the file is written in place and the
//! caller is told. It must never know where content comes from beyond its pieces.

use crate::check_cancelled;
use crate::failure::Failure;
use crate::metadata;
use crate::open;
use crate::target::{Target, sync_directory};
use crate::temporary::{Notes, Temporary};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, Mode, OFlags, RenameFlags, Stat, fallocate, fchmod, fstat, fsync, ftruncate, openat, renameat,
    renameat_with,
};
use rustix::io::{Errno, pread, pwrite, write};
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Bytes copied at a time.
const BLOCK: usize = 128 * 1024;

/// Attempts to create a file that somebody else creates and removes at the same time.
const CREATE_ATTEMPTS: usize = 8;

/// A part of the new content. At most one range of the old file follows the new bytes.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// A range of the old file, by offset and length.
    Old {
        file: &'a OwnedFd,
        offset: u64,
        length: u64,
    },
}

impl Piece<'_> {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Old { length, .. } => *length,
        }
    }
}

/// What makes a file the one that was read: any change of it shows in one of these.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Version {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether two looks at a file saw the same content. Its names may have changed, which shows in `changed` alone.
    fn same_content(&self, other: &Self) -> bool {
        let content = |version: &Self| (version.device, version.inode, version.size, version.modified);
        content(self) == content(other)
    }
}

/// The file that is to be replaced, opened before anything is read of it: on a layered file system the opening for writing
/// is what brings the file to the layer on top, as a new version.
pub(crate) struct Old {
    file: OwnedFd,
    /// Whether it can be written in place.
    writable: bool,
}

impl Old {
    /// Opens the target for writing though a replacement never writes to it: what can't be written must not be replaced
    /// either.
    pub(crate) fn open(target: &Target) -> Result<Self, Failure> {
        let open = |access: OFlags| {
            let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(target.directory_handle(), target.name_bytes(), flags, Mode::empty())
        };
        let (file, writable) = match open(OFlags::WRONLY) {
            // A program that runs is not writable in place, but replaceable.
            Err(Errno::TXTBSY) => (open(OFlags::RDONLY)?, false),
            opened => (opened?, true),
        };
        let stat = fstat(&file)?;
        open::check_regular(&stat)?;
        open::refuse_own(&file, &stat)?;
        Ok(Self { file, writable })
    }
}

/// What an edit has read.
pub(crate) struct Read<'a> {
    pub(crate) old: &'a Old,
    /// The version that was read; another one is `file_changed`.
    pub(crate) version: Version,
}

/// How a file came to its new content.
pub(crate) struct Replaced {
    /// There was no file before.
    pub(crate) created: bool,
    /// The content was written in place: a crash in that moment could have left a mixture.
    pub(crate) in_place: bool,
}

/// One replacement.
pub(crate) struct Replacement<'a> {
    pub(crate) notes: &'a Notes,
    pub(crate) target: &'a Target,
    pub(crate) pieces: &'a [Piece<'a>],
    /// What the pieces belong to, if they hold a part of the old file.
    pub(crate) read: Option<Read<'a>>,
    pub(crate) cancel: &'a AtomicBool,
}

/// A replacement that could not be staged.
enum Unstaged {
    /// The system does not let the replacement be like the old file, or take its place.
    NotAtomic,
    Failed(Failure),
}

impl From<Failure> for Unstaged {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Replacement<'_> {
    /// Replaces the target, or creates it. The caller holds the lock of the target's name.
    pub(crate) fn run(&self) -> Result<Replaced, Failure> {
        for _ in 0..CREATE_ATTEMPTS {
            match self.target.existing()? {
                Some(_) => match &self.read {
                    Some(read) => return self.replace(read.old),
                    None => return self.replace(&Old::open(self.target)?),
                },
                None if self.read.is_some() => return Err(Failure::FileChanged),
                None => match self.create() {
                    // Somebody else was faster: then it is a file to replace.
                    Err(Failure::System(Errno::EXIST)) => {}
                    created => return created,
                },
            }
        }
        Err(Errno::EXIST.into())
    }

    fn create(&self) -> Result<Replaced, Failure> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let mut temporary = self.notes.create(self.target, mode)?;
        self.fill(&temporary)?;
        self.sync(&temporary)?;
        let directory = self.target.directory_handle();
        let (from, to) = (temporary.name.as_bytes(), self.target.name_bytes());
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // A file system that can't promise it gets the plain kind.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(directory, from, directory, to)?,
            renamed => renamed?,
        }
        temporary.renamed();
        sync_directory(&self.target.directory, Some(&temporary.file))?;
        Ok(Replaced {
            created: true,
            in_place: false,
        })
    }

    fn replace(&self, old: &Old) -> Result<Replaced, Failure> {
        match self.stage(&old.file) {
            Ok(()) => Ok(Replaced {
                created: false,
                in_place: false,
            }),
            Err(Unstaged::Failed(failure)) => Err(failure),
            Err(Unstaged::NotAtomic) if !old.writable => Err(Errno::TXTBSY.into()),
            Err(Unstaged::NotAtomic) => {
                self.check_version(&fstat(&old.file)?)?;
                self.write_in_place(&old.file)?;
                Ok(Replaced {
                    created: false,
                    in_place: true,
                })
            }
        }
    }

    fn stage(&self, old: &OwnedFd) -> Result<(), Unstaged> {
        let mut temporary = self
            .notes
            .create(self.target, Mode::RUSR | Mode::WUSR)
            .map_err(unstaged)?;
        let mode = metadata::copy(old.as_fd(), temporary.file.as_fd()).map_err(unstaged)?;
        self.fill(&temporary)?;
        fchmod(&temporary.file, mode).map_err(unstaged)?;
        self.sync(&temporary)?;
        match self.target.existing()? {
            Some(now) => self.check_version(&now)?,
            None if self.read.is_some() => return Err(Failure::FileChanged.into()),
            None => {}
        }
        match &self.read {
            Some(read) => self.exchange(&mut temporary, read.version)?,
            None => self.rename(&mut temporary).map_err(unstaged)?,
        }
        temporary.remove_name();
        sync_directory(&self.target.directory, Some(&temporary.file)).map_err(|error| Unstaged::Failed(error.into()))
    }

    fn rename(&self, temporary: &mut Temporary<'_>) -> Result<(), Errno> {
        let directory = self.target.directory_handle();
        renameat(
            directory,
            temporary.name.as_bytes(),
            directory,
            self.target.name_bytes(),
        )?;
        temporary.renamed();
        Ok(())
    }

    /// Lets the new and the old file change names, then looks at what came out: whatever another process put there since
    /// the last look goes back to its place. What came out is removed with the temporary name.
    fn exchange(&self, temporary: &mut Temporary<'_>, expected: Version) -> Result<(), Unstaged> {
        let directory = self.target.directory_handle();
        let (ours, theirs) = (temporary.name.clone(), self.target.name_bytes());
        let swap = || renameat_with(directory, ours.as_bytes(), directory, theirs, RenameFlags::EXCHANGE);
        match swap() {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return self.rename(temporary).map_err(unstaged),
            Err(Errno::NOENT) => return Err(Failure::FileChanged.into()),
            swapped => swapped.map_err(unstaged)?,
        }
        let came_out = || open::look(directory, ours.as_str()).map(|stat| Version::of(&stat));
        if came_out().is_ok_and(|version| version.same_content(&expected)) {
            return Ok(());
        }
        let new = fstat(&temporary.file).map(|stat| Version::of(&stat));
        let restored = swap().and_then(|()| came_out());
        if let (Ok(restored), Ok(new)) = (restored, new)
            && !restored.same_content(&new)
        {
            // Somebody replaced ours meanwhile; theirs is the latest and stays.
            swap().map_err(|error| Unstaged::Failed(error.into()))?;
        }
        Err(Failure::FileChanged.into())
    }

    fn check_version(&self, now: &Stat) -> Result<(), Failure> {
        match &self.read {
            Some(read) if read.version != Version::of(now) => Err(Failure::FileChanged),
            _ => Ok(()),
        }
    }

    /// Writes all pieces to a temporary file.
    fn fill(&self, temporary: &Temporary<'_>) -> Result<(), Failure> {
        let mut offset = 0;
        for piece in self.pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    for block in bytes.chunks(BLOCK) {
                        check_cancelled(self.cancel)?;
                        write_at(&temporary.file, block, offset)?;
                        offset += block.len() as u64;
                    }
                }
                Piece::Old {
                    file,
                    offset: from,
                    length,
                } => {
                    copy_range(file, *from, *length, self.cancel, &mut |block| {
                        write_at(&temporary.file, block, offset)?;
                        offset += block.len() as u64;
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Makes a temporary file durable; the last moment for a cancellation.
    fn sync(&self, temporary: &Temporary<'_>) -> Result<(), Failure> {
        fsync(&temporary.file)?;
        check_cancelled(self.cancel)
    }

    /// Overwrites the file itself. All that stays was read before, and room is reserved before the first byte is written, so
    /// that only a crash can leave a mixture. What follows the new bytes moves within the file, block by block, to take no
    /// memory for it.
    fn write_in_place(&self, file: &OwnedFd) -> Result<(), Failure> {
        let size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
        let length: u64 = self.pieces.iter().map(Piece::length).sum();
        let changed = self.changed();
        if !changed.is_empty() {
            let reserved = fallocate(
                file,
                FallocateFlags::KEEP_SIZE,
                changed.start,
                changed.end - changed.start,
            );
            // Any other error is that of a file without the notion, such as those of `/proc`.
            if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) = reserved {
                return Err(error.into());
            }
        }
        check_cancelled(self.cancel)?;
        // What is kept goes first: new bytes may take its old place.
        for (to, piece) in self.placed() {
            if let Piece::Old {
                file: from,
                offset,
                length,
            } = piece
            {
                move_range(from, file, *offset, to, *length)?;
            }
        }
        for (to, piece) in self.placed() {
            if let Piece::Bytes(bytes) = piece {
                write_at(file, bytes, to)?;
            }
        }
        if size > length {
            ftruncate(file, length)?;
        }
        match fsync(file) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The pieces with their offsets in the new content.
    fn placed(&self) -> impl Iterator<Item = (u64, &Piece<'_>)> {
        self.pieces.iter().scan(0, |end, piece| {
            let start = *end;
            *end += piece.length();
            Some((start, piece))
        })
    }

    /// The part of the new content that is not where it was.
    fn changed(&self) -> Range<u64> {
        let changed = || {
            self.placed()
                .filter(|(to, piece)| !matches!(piece, Piece::Old { offset, .. } if offset == to))
                .map(|(to, piece)| to..to + piece.length())
        };
        let start = changed().next().map_or(0, |range| range.start);
        start..changed().last().map_or(0, |range| range.end)
    }
}

/// Sorts the errors of staging: a lack of room or of health is final, a lack of rights or of the notion is not.
fn unstaged(error: Errno) -> Unstaged {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::FBIG => {
            Unstaged::Failed(error.into())
        }
        _ => Unstaged::NotAtomic,
    }
}

/// Hands a range of a file over in blocks.
fn copy_range(
    file: &OwnedFd,
    offset: u64,
    length: u64,
    cancel: &AtomicBool,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut block = vec![0; BLOCK.min(usize::try_from(length).unwrap_or(BLOCK))];
    let mut done = 0;
    while done < length {
        check_cancelled(cancel)?;
        let count = block.len().min(usize::try_from(length - done).unwrap_or(usize::MAX));
        read_exact_at(file, offset + done, &mut block[..count])?;
        take(&block[..count])?;
        done += count as u64;
    }
    Ok(())
}

/// Fills the block. A file that ends early has changed.
fn read_exact_at(file: &OwnedFd, mut offset: u64, mut block: &mut [u8]) -> Result<(), Failure> {
    while !block.is_empty() {
        match pread(file, &mut *block, offset) {
            Ok(0) => return Err(Failure::FileChanged),
            Ok(count) => {
                block = &mut block[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Moves a range within one file, which two handles are open on: towards the end from its last block on, towards the
/// beginning from its first, so that nothing is overwritten before it was read.
fn move_range(source: &OwnedFd, target: &OwnedFd, from: u64, to: u64, length: u64) -> Result<(), Failure> {
    if from == to {
        return Ok(());
    }
    let mut block = vec![0; BLOCK.min(usize::try_from(length).unwrap_or(BLOCK))];
    let mut done = 0;
    while done < length {
        let count = block.len().min(usize::try_from(length - done).unwrap_or(usize::MAX));
        let at = if to > from { length - done - count as u64 } else { done };
        read_exact_at(source, from + at, &mut block[..count])?;
        write_at(target, &block[..count], to + at)?;
        done += count as u64;
    }
    Ok(())
}

fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let written = match pwrite(file, bytes, offset) {
            // Some files of `/proc` know no positions.
            Err(Errno::SPIPE) => write(file, bytes),
            written => written,
        };
        match written {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
