//! What changed, for those who watch: only names, never content. A watcher looks up how the thing stands now, so that it
//! cannot show an older state after a newer one.

use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Changes that a watcher may be behind; then it is told that it missed some.
const BEHIND_MAX: usize = 4096;

/// One thing that is no longer as it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A gateway's connection, or whether it is trusted.
    Gateway(Arc<str>),
    /// A gateway's pairing request.
    Pairing(Arc<str>),
    /// The activity record of an operation.
    Operation {
        /// The gateway.
        gateway_id: Arc<str>,
        /// The operation.
        operation_id: Arc<str>,
    },
}

/// Where changes are told. Cheap to clone; telling costs next to nothing while nobody watches.
#[derive(Clone)]
pub(crate) struct Changes(Sender<Change>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(BEHIND_MAX).0)
    }
}

impl Changes {
    pub(crate) fn gateway(&self, gateway_id: &str) {
        self.tell(|| Change::Gateway(gateway_id.into()));
    }

    pub(crate) fn pairing(&self, gateway_id: &str) {
        self.tell(|| Change::Pairing(gateway_id.into()));
    }

    pub(crate) fn operation(&self, gateway_id: &str, operation_id: &str) {
        self.tell(|| Change::Operation {
            gateway_id: gateway_id.into(),
            operation_id: operation_id.into(),
        });
    }

    pub(crate) fn watch(&self) -> ChangeFeed {
        ChangeFeed(self.0.subscribe())
    }

    fn tell(&self, change: impl FnOnce() -> Change) {
        if self.0.receiver_count() > 0 {
            // Without a watcher there is nobody to tell.
            let _ = self.0.send(change());
        }
    }
}

/// Changes that came since the last batch, each once, in the order in which they first came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The changes.
    pub changes: Vec<Change>,
    /// There were more than could be kept: anything may have changed.
    pub missed: bool,
}

/// Changes since it was made.
pub struct ChangeFeed(Receiver<Change>);

impl ChangeFeed {
    /// Waits for a change and takes all that there are. `None` once the controller is gone. Nothing is lost when the
    /// future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<ChangeBatch> {
        let mut batch = ChangeBatch::default();
        let mut seen = HashSet::new();
        let mut add = |batch: &mut ChangeBatch, change: Change| {
            if seen.insert(change.clone()) {
                batch.changes.push(change);
            }
        };
        match self.0.recv().await {
            Ok(change) => add(&mut batch, change),
            Err(RecvError::Lagged(_)) => batch.missed = true,
            Err(RecvError::Closed) => return None,
        }
        // No more than these, however fast others come.
        for _ in 0..BEHIND_MAX {
            match self.0.try_recv() {
                Ok(change) => add(&mut batch, change),
                Err(TryRecvError::Lagged(_)) => batch.missed = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Some(batch)
    }
}
