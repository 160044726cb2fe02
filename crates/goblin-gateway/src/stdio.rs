//! The daemon over standard input and output.

use crate::daemon::{Daemon, Session};
use goblin_link::{FrameReader, Received, start_writer};
use goblin_protocol::limits::FRAME_MAX;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::warn;

/// How long the last answers may wait for a peer that does not read, once the daemon stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Serves one peer until its input ends or the daemon is asked to stop. At the end of input accepted work is finished
/// and answered; a stop cancels it. The journal is closed in either case.
pub async fn serve<R, W>(daemon: &Daemon, input: R, output: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (sender, writer) = start_writer(output);
    daemon.outlet().connect(Some(sender));
    let mut reader = FrameReader::new(input, FRAME_MAX);
    let stopping = daemon.stopping();
    loop {
        let received = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            received = reader.next() => received,
        };
        match received {
            // A peer that reads nothing must not keep the daemon from stopping.
            Ok(Received::Frame(frame)) => tokio::select! {
                () = daemon.receive(&frame, &Session::Stdio) => {}
                () = stopping.cancelled() => break,
            },
            Ok(Received::TooLarge) => tokio::select! {
                () = daemon.receive_too_large() => {}
                () = stopping.cancelled() => break,
            },
            Ok(Received::End) => break,
            Err(error) => {
                warn!(%error, "standard input failed");
                break;
            }
        }
    }
    let drained = tokio::select! {
        () = daemon.drained() => true,
        () = async {
            stopping.cancelled().await;
            tokio::time::sleep(LAST_ANSWERS).await;
        } => false,
    };
    if !drained {
        warn!("the peer reads nothing; its last answers are dropped");
    }
    daemon.close().await;
    // With the last sender gone the writer ends once everything is written.
    daemon.outlet().connect(None);
    match tokio::time::timeout(LAST_ANSWERS, writer).await {
        Ok(Ok(Err(error))) => warn!(%error, "standard output failed"),
        Ok(_) => {}
        Err(_) => warn!("the peer reads nothing; its last answers are dropped"),
    }
}
