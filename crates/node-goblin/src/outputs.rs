//! The two outputs: written by a thread of its own, so that a reader that takes nothing holds up
//! neither Ctrl-C nor the connection's end.

mod spool;

use crate::terminal::OutputError;
use goblin_protocol::envelope::OutputStream;
use spool::{FILE_MAX, Spool};
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Chunks that may wait for the reader, or for their way into the spool.
const WAITING_MAX: usize = 16;

/// A chunk on its way.
pub type Chunk = (OutputStream, Vec<u8>);

type Writer = Box<dyn Write + Send>;

/// The two outputs.
pub struct Outputs {
    sender: mpsc::Sender<Chunk>,
    written: oneshot::Receiver<Result<(), OutputError>>,
}

impl Outputs {
    /// Standard output and standard error.
    pub fn standard() -> Self {
        Self::over(Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// Standard output and standard error, for output that comes whether it is taken or not: what the reader leaves for
    /// later waits in a temporary file, so that it holds up nobody else and nothing of it is lost.
    pub fn spooled() -> Self {
        Self::spooled_over(Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// Any two writers.
    pub fn over(stdout: Writer, stderr: Writer) -> Self {
        let (sender, mut chunks) = mpsc::channel(WAITING_MAX);
        let written = write_apart(stdout, stderr, move || Ok(chunks.blocking_recv()), || ());
        Self { sender, written }
    }

    /// Any two writers behind a spool.
    pub fn spooled_over(stdout: Writer, stderr: Writer) -> Self {
        let (sender, mut chunks) = mpsc::channel(WAITING_MAX);
        let spool = Arc::new(Spool::new(FILE_MAX));
        let (filled, left) = (spool.clone(), spool.clone());
        std::thread::spawn(move || {
            while let Some(chunk) = chunks.blocking_recv() {
                if !filled.put(chunk) {
                    return;
                }
            }
            filled.close();
        });
        let written = write_apart(stdout, stderr, move || spool.take(), move || left.abandon());
        Self { sender, written }
    }

    /// Waits until a chunk has room; `None` once writing has failed. Can be dropped.
    pub fn room(&self) -> impl Future<Output = Option<mpsc::OwnedPermit<Chunk>>> + use<> {
        let sender = self.sender.clone();
        async move { sender.reserve_owned().await.ok() }
    }

    /// Waits until writing fails. Not to be called again after it has.
    pub async fn fault(&mut self) -> OutputError {
        match (&mut self.written).await {
            Ok(Err(error)) => error,
            // The thread writes for as long as there is a sender.
            _ => OutputError::Closed,
        }
    }

    /// Waits until all that was handed over is written.
    pub async fn finish(self) -> Result<(), OutputError> {
        drop(self.sender);
        self.written.await.unwrap_or(Err(OutputError::Closed))
    }
}

/// Writes what `next` gives in a thread of its own, up to its end or a fault. Then it says so, last of all.
fn write_apart(
    mut stdout: Writer,
    mut stderr: Writer,
    mut next: impl FnMut() -> io::Result<Option<Chunk>> + Send + 'static,
    ended: impl FnOnce() + Send + 'static,
) -> oneshot::Receiver<Result<(), OutputError>> {
    let (tell, written) = oneshot::channel();
    std::thread::spawn(move || {
        let mut write = || -> io::Result<()> {
            while let Some((stream, data)) = next()? {
                let output = match stream {
                    OutputStream::Stdout => &mut stdout,
                    OutputStream::Stderr => &mut stderr,
                };
                output.write_all(&data)?;
                output.flush()?;
            }
            Ok(())
        };
        let result = write();
        drop(next);
        ended();
        // Whoever waited may have left.
        let _ = tell.send(result.map_err(OutputError::from));
    });
    written
}
