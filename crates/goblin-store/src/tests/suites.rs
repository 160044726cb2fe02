//! The suites of the ports.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use goblin_ports::{Operations, Secrets, Settings, Tokens, conformance};

use super::*;

/// Each store of a suite gets a directory of its own below one that outlives them.
struct Fresh {
    parent: TempDir,
    made: AtomicUsize,
}

impl Fresh {
    fn new() -> Self {
        Self {
            parent: scratch(),
            made: AtomicUsize::new(0),
        }
    }

    async fn store(&self) -> Arc<Store> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Arc::new(open(&self.parent.path().join(format!("store {number} 100%?#"))).await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings() {
    let fresh = Fresh::new();
    conformance::settings_suite(|| async { fresh.store().await as Arc<dyn Settings> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets() {
    let fresh = Fresh::new();
    conformance::secrets_suite(|| async { fresh.store().await as Arc<dyn Secrets> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations() {
    let fresh = Fresh::new();
    conformance::operations_suite(|| async { fresh.store().await as Arc<dyn Operations> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens() {
    let fresh = Fresh::new();
    conformance::tokens_suite(|| async { fresh.store().await as Arc<dyn Tokens> }).await;
}
