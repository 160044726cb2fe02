//! The socket as a file, and how serving ends.

use super::{Fixture, PATIENCE, exec};
use crate::ReachablePath;
use crate::server::Patience;
use crate::socket::bind_private;
use hyper::StatusCode;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::time::timeout;

#[tokio::test]
async fn the_socket_is_its_owners_alone_and_goes_with_the_server() {
    let mut fixture = Fixture::new().await;
    let found = std::fs::symlink_metadata(&fixture.path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    fixture.server.take().unwrap().close().await;
    assert!(!fixture.path.exists());
    assert!(UnixStream::connect(&fixture.path).await.is_err());
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_anything_else_is_left_alone() {
    let fixture = Fixture::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("controller.sock");
    drop(bind_private(&path).unwrap());
    assert!(path.exists(), "a socket outlives whoever bound it");
    let server = fixture.another(&path).await.unwrap();
    assert!(UnixStream::connect(&path).await.is_ok());
    server.close().await;

    std::fs::write(&path, "precious").unwrap();
    let error = fixture.another(&path).await.err().unwrap();
    assert_eq!(error.code(), "controller_socket_failed");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(fixture.another(&path).await.is_err());
}

#[tokio::test]
async fn a_long_path_serves_and_is_reached_all_the_same() {
    let fixture = Fixture::new().await;
    let root = tempfile::tempdir().unwrap();
    let mut directory = PathBuf::from(root.path());
    for _ in 0..4 {
        directory.push("a".repeat(100));
    }
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("controller.sock");
    let server = fixture.another(&path).await.unwrap();
    let reachable = ReachablePath::of(&path).unwrap();
    assert!(UnixStream::connect(reachable.path()).await.is_ok());
    server.close().await;
    assert!(!path.exists());

    let nameless = directory.join("n".repeat(120));
    let error = fixture.another(&nameless).await.err().unwrap();
    assert!(error.to_string().contains("--state-dir"), "{error}");
    let absent = directory.join("absent/controller.sock");
    assert!(fixture.another(&absent).await.is_err());
}

#[tokio::test]
async fn closing_lets_a_running_dispatch_finish() {
    let mut fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let mut idle = fixture.client().await;
    idle.get("/gateways").await;
    let server = fixture.server.take().unwrap();
    let path = fixture.path.clone();
    let ((status, _), ()) = tokio::join!(client.post("/gateways/worker/processes", exec("op-1")), async {
        let request = gateway.request("process.exec").await;
        let closing = tokio::spawn(server.close());
        // Nobody gets in any more, while the dispatch goes on.
        timeout(PATIENCE, async {
            while UnixStream::connect(&path).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert!(!closing.is_finished());
        gateway.end(&request).await;
        timeout(PATIENCE, closing).await.unwrap().unwrap();
    });
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn closing_ends_what_does_not_finish() {
    let mut fixture = Fixture::with(Patience {
        finish: Duration::from_millis(200),
        ..Patience::default()
    })
    .await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let mut lines = client.lines("/gateways/worker/processes", &exec("op-1")).await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    lines.next().await.unwrap();
    let before = Instant::now();
    let closing = fixture.server.take().unwrap().close();
    timeout(PATIENCE, closing).await.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(200));
    // The operation itself goes on.
    assert_eq!(fixture.controller.gateways().await.unwrap()[0].active_operations, 1);
}
