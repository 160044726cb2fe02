//! The controller's Unix socket.

use crate::api::ApiError;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// Name of the socket in the state directory.
pub const SOCKET_FILE: &str = "controller.sock";

/// Longest path of a socket that the system takes, in bytes.
const SOCKET_PATH_MAX: usize = 107;

/// Connects to the controller that runs on `directory`.
pub async fn connect(directory: &Path) -> Result<UnixStream, ApiError> {
    let absent = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory => ApiError::NotRunning {
            directory: directory.to_owned(),
        },
        ErrorKind::PermissionDenied => ApiError::Denied {
            directory: directory.to_owned(),
        },
        _ => ApiError::Unreachable {
            directory: directory.to_owned(),
            source: error,
        },
    };
    let socket = directory.join(SOCKET_FILE);
    if socket.as_os_str().len() <= SOCKET_PATH_MAX {
        return UnixStream::connect(&socket).await.map_err(absent);
    }
    // A long path is reached by way of an open directory, whose name under /proc is short.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, directory, flags, Mode::empty()).map_err(|error: Errno| absent(error.into()))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(SOCKET_FILE);
    UnixStream::connect(&short).await.map_err(absent)
}
