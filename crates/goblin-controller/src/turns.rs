//! One thing at a time for one gateway: changes of its trust and decisions about its connections follow one another.
//! It must never know what is done in a turn.

use std::hash::{BuildHasher, RandomState};
use tokio::sync::{Mutex, MutexGuard};

/// Gateways share so many turns by the hash of their id: memory stays bounded whatever ids strangers make up, and
/// hardly ever does one wait for another. The hash is keyed, so nobody can aim at another's turn.
const TURNS: usize = 256;

pub(crate) struct Turns {
    hasher: RandomState,
    turns: Vec<Mutex<()>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
        }
    }
}

impl Turns {
    /// Waits for the gateway's turn, which lasts until the guard is dropped. Nobody may take a second one meanwhile.
    pub(crate) async fn take(&self, gateway_id: &str) -> MutexGuard<'_, ()> {
        let index = self.hasher.hash_one(gateway_id) % TURNS as u64;
        // The remainder is below `TURNS`.
        self.turns[index as usize].lock().await
    }
}
