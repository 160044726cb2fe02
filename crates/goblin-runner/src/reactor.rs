//! Registering a descriptor with the runtime's reactor.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets the runtime tell when the descriptor can be read. Panics outside a runtime.
#[allow(unsafe_code)]
pub(crate) fn register(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, Errno> {
    // SAFETY: an `OwnedFd` is open, always names the same descriptor, and moves into the result:
    // it is closed only after it has been deregistered.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(|error| {
        let (_, cause) = error.into_parts();
        Errno::from_io_error(&cause).unwrap_or(Errno::IO)
    })
}
