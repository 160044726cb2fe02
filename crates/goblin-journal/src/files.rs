//! Names, modes and whereabouts of the journal's files. It must never know what they hold.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, OFlags, Uid, fchown, flock};
use rustix::io::Errno;

use crate::JournalError;

const PRIVATE: u32 = 0o600;

/// Where a journal with a file lives.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) directory: PathBuf,
    pub(crate) snapshot: PathBuf,
    log_prefix: OsString,
}

/// The file name whose log goes by a shorter name, as it always has.
const DEFAULT: &str = "operations.json";

/// What the log's names begin with: the whole file name, so that two journals beside each other share nothing. Only
/// [`DEFAULT`] goes without its ending; a journal of that shorter name gets the longer one in exchange.
fn log_name(file_name: &OsStr) -> &OsStr {
    match file_name.to_str() {
        Some(DEFAULT) => OsStr::new("operations"),
        Some("operations") => OsStr::new(DEFAULT),
        _ => file_name,
    }
}

impl Files {
    /// Where the files of this journal lie. A symbolic link to a regular file stands for that file, so the log lies beside
    /// the link's target; anything else but a regular file or nothing at all is refused.
    pub(crate) fn new(snapshot: &Path) -> Result<Self, JournalError> {
        let snapshot = match kind(snapshot).map_err(|source| unusable(snapshot, source))? {
            Some(Kind::Link) => match fs::metadata(snapshot) {
                Ok(target) if target.is_file() => {
                    fs::canonicalize(snapshot).map_err(|source| unusable(snapshot, source))?
                }
                Ok(target) => return Err(irregular(snapshot, linked(Kind::of(&target)))),
                Err(_) => return Err(irregular(snapshot, "a symbolic link that leads to no file")),
            },
            _ => snapshot.to_owned(),
        };
        let Some(file_name) = snapshot.file_name() else {
            return Err(JournalError::Path { path: snapshot });
        };
        let mut log_prefix = log_name(file_name).to_owned();
        log_prefix.push(".log.");
        let directory = match snapshot.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let files = Self {
            directory,
            snapshot,
            log_prefix,
        };
        for path in [&files.snapshot, &files.lock(), &files.draft()] {
            check_regular(path)?;
        }
        Ok(files)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.log_prefix.clone();
        name.push(suffix);
        self.directory.join(name)
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.beside(&format!("{number:06}"))
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.beside("lock")
    }

    /// Where a new snapshot is written before it takes its place.
    pub(crate) fn draft(&self) -> PathBuf {
        self.beside("new")
    }

    /// The segments on disk, oldest first. Numbers that can't be followed by another are none of ours.
    pub(crate) fn segments(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let prefix = self.log_prefix.as_encoded_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let Some(digits) = name.as_encoded_bytes().strip_prefix(prefix) else {
                continue;
            };
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                continue;
            }
            let number = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse::<u64>().ok());
            if let Some(number) = number.filter(|number| (1..u64::MAX / 2).contains(number)) {
                found.push((number, self.directory.join(&name)));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Makes names in the directory durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// What stands under a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Regular,
    Directory,
    Link,
    Device,
    Pipe,
    Socket,
}

impl Kind {
    fn of(metadata: &fs::Metadata) -> Self {
        let kind = metadata.file_type();
        match () {
            () if kind.is_file() => Self::Regular,
            () if kind.is_dir() => Self::Directory,
            () if kind.is_symlink() => Self::Link,
            () if kind.is_fifo() => Self::Pipe,
            () if kind.is_socket() => Self::Socket,
            () => Self::Device,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Regular => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Device => "a device",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
        }
    }
}

fn linked(target: Kind) -> &'static str {
    match target {
        Kind::Directory => "a symbolic link to a directory",
        Kind::Pipe => "a symbolic link to a pipe",
        Kind::Socket => "a symbolic link to a socket",
        _ => "a symbolic link to a device",
    }
}

/// What has the name, decided without opening it: the opening of a device can have an effect of its own.
fn kind(path: &Path) -> io::Result<Option<Kind>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(Kind::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn irregular(path: &Path, kind: &'static str) -> JournalError {
    JournalError::NotRegular {
        path: path.to_owned(),
        kind,
    }
}

fn unusable(path: &Path, source: io::Error) -> JournalError {
    JournalError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Refuses whatever is there and is no regular file.
pub(crate) fn check_regular(path: &Path) -> Result<(), JournalError> {
    match kind(path).map_err(|source| unusable(path, source))? {
        None | Some(Kind::Regular) => Ok(()),
        Some(kind) => Err(irregular(path, kind.name())),
    }
}

/// A new file that nobody else may read, whatever the umask. Fails when the name is taken.
///
/// Made by root, it belongs to the directory's owner, so that one run by root doesn't lock the account out to which the
/// journal belongs.
pub(crate) fn create(path: &Path, append: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .append(append)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)?;
    let prepared = file
        .set_permissions(Permissions::from_mode(PRIVATE))
        .and_then(|()| hand_over(&file, path));
    if let Err(error) = prepared {
        // Empty and ours; the error is what counts.
        let _ = remove(path);
        return Err(error);
    }
    Ok(file)
}

fn hand_over(file: &File, path: &Path) -> io::Result<()> {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Ok(());
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::metadata(directory.unwrap_or(Path::new(".")))?;
    if directory.uid() == user.as_raw() {
        return Ok(());
    }
    let (owner, group) = (Uid::from_raw(directory.uid()), Gid::from_raw(directory.gid()));
    Ok(fchown(file, Some(owner), Some(group))?)
}

/// Opens a file to read it. No link is followed, and nothing that may have taken the name is waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(CAREFUL.bits().cast_signed())
        .open(path)
}

const CAREFUL: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::NOCTTY);

/// Takes the reading away from others, should a predecessor have left it to them.
pub(crate) fn make_private(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & 0o177 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

/// Removes a file; one that is gone already is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps a damaged file under a name that tells when. It stays under its own name too where that is possible, so that
/// what could be read of it is on disk until a new snapshot holds it.
pub(crate) fn set_aside(path: &Path, now_ms: u64) -> io::Result<PathBuf> {
    let target = aside(path, now_ms);
    if fs::hard_link(path, &target).is_err() {
        fs::rename(path, &target)?;
    }
    Ok(target)
}

/// Moves a file that can't be read to a name that tells when.
pub(crate) fn move_aside(path: &Path, now_ms: u64) -> io::Result<PathBuf> {
    let target = aside(path, now_ms);
    fs::rename(path, &target)?;
    Ok(target)
}

fn aside(path: &Path, now_ms: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".corrupt-{now_ms}"));
    let mut target = PathBuf::from(&name);
    let mut count = 1;
    while fs::symlink_metadata(&target).is_ok() {
        count += 1;
        let mut next = name.clone();
        next.push(format!("-{count}"));
        target = PathBuf::from(next);
    }
    target
}

/// The lock, held until it is dropped.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is just being spawned may hold the descriptor a moment longer.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Takes the lock that keeps a second process off the same files; None where the file system knows no locks.
pub(crate) fn take_lock(path: &Path) -> Result<Option<Lock>, LockError> {
    let existing = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(CAREFUL.bits().cast_signed())
            .open(path)
    };
    let file = match create(path, false) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existing()?,
        created => created?,
    };
    make_private(&file)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(Errno::WOULDBLOCK) => Err(LockError::Held),
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(LockError::Io(error.into())),
    }
}

/// Why the lock was not taken.
pub(crate) enum LockError {
    Held,
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
