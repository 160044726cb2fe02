//! Frames into a byte stream, from any number of senders, in bounded memory and with back-pressure.

use goblin_protocol::limits::FRAME_MAX;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Bytes that may wait for a slow peer, all senders together: two of the largest frames.
pub const QUEUE_BYTES: usize = 2 * FRAME_MAX;

/// Bytes written at once where frames wait in a row.
const BATCH_BYTES: usize = 64 * 1024;

/// The writer has ended: the peer is gone, or the stream was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

struct Queued {
    frame: Vec<u8>,
    /// Its share of the queue, given back once it is written.
    room: OwnedSemaphorePermit,
}

/// Sends frames to one writer. Cheap to clone; frames of one sender keep their order.
#[derive(Clone)]
pub struct FrameSender {
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
}

impl FrameSender {
    /// Queues a frame, newline included. Waits while a slow peer has [`QUEUE_BYTES`] outstanding.
    pub async fn send(&self, frame: Vec<u8>) -> Result<(), Closed> {
        self.reserve(frame.len()).await?.put(frame)
    }

    /// A frame's place in the queue. Waits as [`send`](Self::send) does; putting the frame there then takes no time.
    pub async fn reserve(&self, bytes: usize) -> Result<Place<'_>, Closed> {
        // The bound keeps the number far below `u32::MAX`.
        let room = self
            .room
            .clone()
            .acquire_many_owned(bytes.min(QUEUE_BYTES) as u32)
            .await
            .map_err(|_| Closed)?;
        Ok(Place { sender: self, room })
    }

    /// Gives up on the peer: whoever waits for room is refused, and nothing more is queued.
    pub fn close(&self) {
        self.room.close();
    }

    /// Bytes that can be queued at once.
    pub fn free_bytes(&self) -> usize {
        self.room.available_permits()
    }

    /// True once the writer has ended.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Resolves once the writer has ended.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}

/// Room for one frame.
pub struct Place<'a> {
    sender: &'a FrameSender,
    room: OwnedSemaphorePermit,
}

impl Place<'_> {
    /// Queues the frame that the room was reserved for.
    pub fn put(self, frame: Vec<u8>) -> Result<(), Closed> {
        self.sender
            .queue
            .send(Queued { frame, room: self.room })
            .map_err(|_| Closed)
    }
}

/// The task behind the senders. It ends when all senders are gone and everything is written, or on the first error.
pub type WriterTask = JoinHandle<io::Result<()>>;

/// Starts the task that writes to one half of a byte stream. At its end it shuts that half down.
pub fn start_writer<W: AsyncWrite + Unpin + Send + 'static>(stream: W) -> (FrameSender, WriterTask) {
    let (queue, frames) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(QUEUE_BYTES));
    let sender = FrameSender {
        queue,
        room: room.clone(),
    };
    let task = tokio::spawn(async move {
        let result = write_frames(stream, frames).await;
        // Whoever waits for room learns that there will be none.
        room.close();
        result
    });
    (sender, task)
}

async fn write_frames<W: AsyncWrite + Unpin>(
    mut stream: W,
    mut frames: mpsc::UnboundedReceiver<Queued>,
) -> io::Result<()> {
    let (mut batch, mut rooms) = (Vec::new(), Vec::new());
    while let Some(first) = frames.recv().await {
        let mut next = Some(first);
        while let Some(queued) = next.take() {
            let alone = batch.is_empty();
            match frames.try_recv() {
                // Small frames that wait in a row go out together.
                Ok(following) if batch.len() + queued.frame.len() < BATCH_BYTES => {
                    batch.extend_from_slice(&queued.frame);
                    rooms.push(queued.room);
                    next = Some(following);
                }
                // A frame alone is not copied.
                following if alone => {
                    stream.write_all(&queued.frame).await?;
                    next = following.ok();
                }
                following => {
                    batch.extend_from_slice(&queued.frame);
                    stream.write_all(&batch).await?;
                    batch.clear();
                    rooms.clear();
                    next = following.ok();
                }
            }
        }
        batch.shrink_to(BATCH_BYTES);
        stream.flush().await?;
    }
    stream.shutdown().await
}
