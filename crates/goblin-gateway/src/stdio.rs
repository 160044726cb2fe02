//! The daemon over standard input and output.

use crate::daemon::{Daemon, LAST_ANSWERS, Session};
use goblin_link::{FrameReader, Received, start_writer};
use goblin_protocol::limits::FRAME_MAX;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves one peer until its input ends or the daemon is asked to stop. At the end of input accepted work is finished
/// and answered; a stop cancels it, and what comes in meanwhile is still answered. The journal is closed in any case.
/// Fails when a stream failed, other than by a peer that went away.
pub async fn serve<R, W>(daemon: &Daemon, input: R, output: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (sender, writer) = start_writer(output);
    daemon.outlet().connect(Some(sender));
    let reading = read(daemon, FrameReader::new(input, FRAME_MAX));
    tokio::pin!(reading);
    let mut read = None;
    tokio::select! {
        result = &mut reading => read = Some(result),
        () = daemon.stopping().cancelled() => {}
    }
    let finished = daemon.finished();
    tokio::pin!(finished);
    let answered = loop {
        tokio::select! {
            answered = &mut finished => break answered,
            result = &mut reading, if read.is_none() => read = Some(result),
        }
    };
    daemon.close().await;
    // With the last sender gone the writer ends once everything is written.
    daemon.outlet().connect(None);
    let abort = writer.abort_handle();
    let written = match tokio::time::timeout(LAST_ANSWERS, writer).await {
        Ok(Ok(written)) if answered => written,
        _ => {
            abort.abort();
            Ok(())
        }
    };
    read.unwrap_or(Ok(()))?;
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Answers frames until the input ends.
async fn read<R: AsyncRead + Unpin>(daemon: &Daemon, mut reader: FrameReader<R>) -> io::Result<()> {
    loop {
        match reader.next().await? {
            Received::Frame(frame) => daemon.receive(&frame, &Session::Stdio).await,
            Received::TooLarge => daemon.receive_too_large().await,
            Received::End => return Ok(()),
        }
    }
}
