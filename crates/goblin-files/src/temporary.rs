//! Temporary files beside their targets, and the notes by which a successor finds those that a kill left behind.
//!
//! A note is a symbolic link in a folder of ours: its name is the random part of the temporary file's name, its target
//! the path. One system call makes it, whole, before the temporary name appears, so at any instant at which the process
//! may be killed every temporary file has its note. A file without a name until it is linked (`O_TMPFILE`) would need the
//! same: a link can't take the place of a file, so there is a temporary name for a moment in either way.
//! It must never know what is written.

use crate::target::Target;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};

const PREFIX: &str = ".goblin-";
const SUFFIX: &str = ".tmp";

/// Hexadecimal digits of the random part.
const RANDOM_DIGITS: usize = 32;

/// The folder of notes, if there is one.
#[derive(Debug)]
pub(crate) struct Notes(Option<PathBuf>);

/// A temporary file; its name and its note are gone once this is dropped.
pub(crate) struct Temporary<'a> {
    pub(crate) file: OwnedFd,
    pub(crate) name: String,
    target: &'a Target,
    note: Option<PathBuf>,
    /// Whether the name is still ours to remove.
    named: bool,
}

impl Notes {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// Creates a temporary file beside `target`, empty, with `mode` less the umask.
    pub(crate) fn create<'a>(&self, target: &'a Target, mode: Mode) -> Result<Temporary<'a>, Errno> {
        let random = random();
        let name = format!("{PREFIX}{random}{SUFFIX}");
        let note = self.note(&random, &target.directory_path.join(&name));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(&target.directory, name.as_str(), flags, mode) {
            Ok(file) => Ok(Temporary {
                file,
                name,
                target,
                note,
                named: true,
            }),
            Err(error) => {
                remove_note(note.as_deref());
                Err(error)
            }
        }
    }

    /// Notes a path. A folder that can't take the note doesn't keep anybody from writing: without a kill in that very
    /// moment nothing is left behind anyway.
    fn note(&self, random: &str, temporary: &Path) -> Option<PathBuf> {
        let note = self.0.as_ref()?.join(random);
        if symlink(temporary, &note).is_ok() {
            return Some(note);
        }
        create_private(self.0.as_ref()?).ok()?;
        symlink(temporary, &note).ok().map(|()| note)
    }

    /// Removes what notes of an earlier process lead to, and the notes.
    pub(crate) fn recover(&self) -> Vec<PathBuf> {
        let Some(entries) = self.0.as_ref().and_then(|folder| folder.read_dir().ok()) else {
            return Vec::new();
        };
        let mut removed = Vec::new();
        for entry in entries.flatten() {
            let note = entry.path();
            let Ok(temporary) = note.read_link() else { continue };
            if !is_ours(&temporary, &entry.file_name()) {
                continue;
            }
            let gone = match temporary.symlink_metadata() {
                Ok(metadata) if metadata.is_file() => {
                    std::fs::remove_file(&temporary).map(|()| removed.push(temporary))
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            match gone.map_err(|error| Errno::from_io_error(&error)) {
                // Renamed to its target before the kill, or removed with its folder.
                Ok(()) | Err(Some(Errno::NOENT | Errno::NOTDIR)) => remove_note(Some(&note)),
                // The note stays for the next start.
                Err(_) => {}
            }
        }
        removed
    }
}

/// Creates the folder of notes. Made by root it belongs to the owner of the folder that it lies in, so that one run by root
/// doesn't keep the daemon's account from using it.
fn create_private(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let Some(parent) = folder.parent().filter(|_| rustix::process::geteuid().is_root()) else {
        return Ok(());
    };
    let parent = parent.metadata()?;
    lchown(folder, Some(parent.uid()), Some(parent.gid()))
}

/// Whether a path has the form of our temporary files and the random part of its note.
fn is_ours(temporary: &Path, note: &OsStr) -> bool {
    let random = temporary.file_name().and_then(|name| {
        name.as_bytes()
            .strip_prefix(PREFIX.as_bytes())?
            .strip_suffix(SUFFIX.as_bytes())
    });
    temporary.is_absolute()
        && random == Some(note.as_bytes())
        && note.len() == RANDOM_DIGITS
        && note.as_bytes().iter().all(u8::is_ascii_hexdigit)
}

fn remove_note(note: Option<&Path>) {
    if let Some(note) = note {
        // A note that stays is taken away by the next start.
        let _ = std::fs::remove_file(note);
    }
}

/// 128 bits that no other process guesses or repeats: the keys of two hashers, which the standard library seeds from the
/// system.
fn random() -> String {
    let [first, second] = [(), ()].map(|()| RandomState::new().hash_one(std::process::id()));
    format!("{first:016x}{second:016x}")
}

impl Temporary<'_> {
    /// The name now is the target's, or somebody else's: it is no longer removed.
    pub(crate) fn renamed(&mut self) {
        self.named = false;
    }

    /// Removes the name, if it is still there and ours.
    pub(crate) fn remove_name(&mut self) {
        if self.named {
            let removed = unlinkat(&self.target.directory, self.name.as_str(), AtFlags::empty());
            self.named = !matches!(removed, Ok(()) | Err(Errno::NOENT));
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        self.remove_name();
        if !self.named {
            remove_note(self.note.as_deref());
        }
    }
}
