//! Which file a program's name means, and what went wrong when it could not be executed.
//!
//! Owns: the search over the child's `PATH` and the meaning of an error number. Must never know:
//! how processes are started. The search is ours because `posix_spawnp` would look at the
//! daemon's `PATH` and hand a file of unknown format to a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};
use rustix::io::Errno;

use crate::error::StartError;

/// Where programs are when the child has no `PATH`, as the C library has it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The path to execute, relative to the child's folder where it is relative.
pub(crate) fn resolve(name: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, StartError> {
    if name.is_empty() {
        return Err(not_found(Errno::NOENT));
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut failure = not_found(Errno::NOENT);
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        // An empty element is the child's folder.
        let mut candidate = OsString::from(OsStr::from_bytes(folder));
        candidate.push(if folder.is_empty() { "./" } else { "/" });
        candidate.push(name);
        match probe(&cwd.join(&candidate)) {
            Ok(()) => return Ok(PathBuf::from(candidate)),
            Err(Errno::ACCESS) => failure = denied(Errno::ACCESS),
            Err(_) => {}
        }
    }
    Err(failure)
}

/// Whether this is a file that we may execute.
fn probe(file: &Path) -> Result<(), Errno> {
    rustix::fs::access(file, Access::EXEC_OK)?;
    match FileType::from_raw_mode(rustix::fs::stat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(Errno::ACCESS),
    }
}

/// What an error of the start means. `program` is absolute; `folder` is where the child was to
/// go, if it was to go anywhere.
pub(crate) fn explain(errno: Errno, program: &Path, folder: Option<&Path>) -> StartError {
    match errno {
        Errno::TOOBIG => return StartError::ArgumentListTooLong(errno.raw_os_error()),
        Errno::NOEXEC => return StartError::ExecFormatError(errno.raw_os_error()),
        _ => {}
    }
    if let Some(error) = folder.and_then(check_folder) {
        return error;
    }
    match (rustix::fs::stat(program), errno) {
        (Err(Errno::ACCESS), _) => denied(Errno::ACCESS),
        (Err(missing), Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => not_found(missing),
        (Ok(_), Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => StartError::InterpreterNotFound(errno.raw_os_error()),
        (_, Errno::ACCESS | Errno::PERM) => denied(errno),
        _ => StartError::failed(errno),
    }
}

/// What keeps the child from its folder, if anything does.
pub(crate) fn check_folder(cwd: &Path) -> Option<StartError> {
    match rustix::fs::stat(cwd) {
        Err(Errno::ACCESS) => Some(denied(Errno::ACCESS)),
        Err(errno) => Some(StartError::CwdNotFound(errno.raw_os_error())),
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
            Some(StartError::CwdNotFound(Errno::NOTDIR.raw_os_error()))
        }
        Ok(_) => match rustix::fs::access(cwd, Access::EXEC_OK) {
            Ok(()) => None,
            Err(errno) => Some(denied(errno)),
        },
    }
}

fn not_found(errno: Errno) -> StartError {
    StartError::ExecutableNotFound(errno.raw_os_error())
}

fn denied(errno: Errno) -> StartError {
    StartError::PermissionDenied(errno.raw_os_error())
}
