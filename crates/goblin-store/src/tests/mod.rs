//! The suites over the embedded store, and what only a store with files can get wrong.

mod copies;
mod crash;
mod files;
mod full;
mod keys;
mod schema;
mod suites;

use std::path::Path;

use goblin_ports::{OperationKind, OperationStart, Secret, Secrets};
use tempfile::TempDir;

use crate::{Store, StoreError};

const NOW: &str = "2026-12-01T00:00:00.000Z";

fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn open(directory: &Path) -> Store {
    Store::open(directory, None, NOW).await.unwrap()
}

/// The error of an opening that must fail.
async fn refusal(directory: &Path, key_file: Option<&Path>) -> StoreError {
    match Store::open(directory, key_file, NOW).await {
        Ok(_) => panic!("the store opened"),
        Err(error) => error,
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

async fn secret_text(store: &Store, name: &str) -> Option<String> {
    Secrets::get(store, name)
        .await
        .unwrap()
        .map(|secret| secret.expose().to_owned())
}

fn start(operation_id: &str) -> OperationStart {
    OperationStart {
        operation_id: operation_id.to_owned(),
        parent_run_id: None,
        tool_call_id: None,
        gateway_id: "gateway".to_owned(),
        kind: OperationKind::Process,
        request_digest: "digest".to_owned(),
    }
}
