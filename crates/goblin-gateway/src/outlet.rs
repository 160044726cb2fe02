//! Where answers and events go: the connection of the moment.
//!
//! Work outlives a connection. What it says while there is none is dropped, and what it says after a reconnect goes to
//! the new one; a completed outcome is recovered by its operation id.

use goblin_link::FrameSender;
use std::sync::{Arc, PoisonError, RwLock};

/// The daemon's way out. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Outlet(Arc<RwLock<Option<FrameSender>>>);

impl Outlet {
    /// Directs what follows to a connection, or drops it.
    pub fn connect(&self, sender: Option<FrameSender>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = sender;
    }

    /// True while the connection of the moment takes frames at once.
    #[cfg(test)]
    pub fn is_roomy(&self) -> bool {
        let sender = self.0.read().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_none_or(|sender| sender.free_bytes() > 64 * 1024)
    }

    /// Gives up on the peer: what waits for it is dropped, and so is all that follows.
    pub fn give_up(&self) {
        if let Some(sender) = self.0.write().unwrap_or_else(PoisonError::into_inner).take() {
            sender.close();
        }
    }

    /// Sends a frame to the connection of the moment. Waits while that one is slow.
    pub async fn send(&self, frame: Vec<u8>) {
        let sender = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sender) = sender {
            // A connection that has closed meanwhile drops the frame, as none at all does.
            let _ = sender.send(frame).await;
        }
    }
}
