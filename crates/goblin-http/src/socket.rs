//! The Unix socket as a file: its path, its mode, and what a stale one is. It must never know what is served on it.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, openat, statat, unlinkat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Longest path that a socket address holds, in bytes.
const ADDRESS_MAX: usize = 107;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A path of a socket that fits an address, whatever its length: a long one is reached through its directory, which
/// stays open as long as this lives. Both ends need it.
#[derive(Debug)]
pub struct ReachablePath {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl ReachablePath {
    /// The way to the socket at `path`.
    ///
    /// # Errors
    /// The directory cannot be opened, or the name alone is too long.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= ADDRESS_MAX {
            return Ok(Self {
                path: path.to_owned(),
                _directory: None,
            });
        }
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the socket's path is too long");
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(too_long());
        };
        let directory = openat(
            CWD,
            directory,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        if path.as_os_str().len() > ADDRESS_MAX {
            return Err(too_long());
        }
        Ok(Self {
            path,
            _directory: Some(directory),
        })
    }

    /// The path to bind or to connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds a socket that only its owner may open. A socket that is there already is stale, since the caller holds the
/// lock of its directory; anything else there is left alone.
pub(crate) fn bind_private(path: &Path) -> io::Result<UnixListener> {
    remove(path)?;
    let reachable = ReachablePath::of(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file takes over the mode that the socket has when it is bound, so there is no moment at which others could
    // open it, and the process-wide umask stays as it is.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(reachable.path())?)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Removes a socket. That there is none is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Socket => {
            Ok(unlinkat(CWD, path, AtFlags::empty())?)
        }
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file of this name that is no socket",
        )),
    }
}
