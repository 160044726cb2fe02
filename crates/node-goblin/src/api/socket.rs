//! The controller's Unix socket.

use crate::api::ApiError;
use goblin_http::ReachablePath;
use std::io::ErrorKind;
use std::path::Path;
use tokio::net::UnixStream;

/// Name of the socket in the state directory.
pub const SOCKET_FILE: &str = "controller.sock";

/// Connects to the controller that runs on `directory`.
pub async fn connect(directory: &Path) -> Result<UnixStream, ApiError> {
    let connected = match ReachablePath::of(&directory.join(SOCKET_FILE)) {
        Ok(socket) => UnixStream::connect(socket.path()).await,
        Err(error) => Err(error),
    };
    let directory = directory.to_owned();
    connected.map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory => {
            ApiError::NotRunning { directory }
        }
        ErrorKind::PermissionDenied => ApiError::Denied { directory },
        _ => ApiError::Unreachable { directory, source },
    })
}
