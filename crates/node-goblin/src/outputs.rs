//! The two outputs: written by a thread of its own, so that a reader that takes nothing holds up
//! neither Ctrl-C nor the connection's end.

use crate::terminal::OutputError;
use goblin_protocol::envelope::OutputStream;
use std::io::{self, Write};
use tokio::sync::{mpsc, oneshot};

/// Chunks that may wait for the reader.
const WAITING_MAX: usize = 16;

/// A chunk on its way.
pub type Chunk = (OutputStream, Vec<u8>);

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

    /// Any two writers.
    pub fn over(mut stdout: Box<dyn Write + Send>, mut stderr: Box<dyn Write + Send>) -> Self {
        let (sender, mut chunks) = mpsc::channel::<Chunk>(WAITING_MAX);
        let (tell, written) = oneshot::channel();
        std::thread::spawn(move || {
            let mut write = || -> io::Result<()> {
                while let Some((stream, data)) = chunks.blocking_recv() {
                    let output = match stream {
                        OutputStream::Stdout => &mut stdout,
                        OutputStream::Stderr => &mut stderr,
                    };
                    output.write_all(&data)?;
                    output.flush()?;
                }
                Ok(())
            };
            // Whoever waited may have left.
            let _ = tell.send(write().map_err(OutputError::from));
        });
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
