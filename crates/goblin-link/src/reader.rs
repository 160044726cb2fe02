//! Frames out of a byte stream, in bounded memory.

use crate::heard::Heard;
use bytes::Bytes;
use goblin_protocol::frame::{Decoded, FrameDecoder};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room for one read, in bytes: small for an idle connection, larger once a peer sends much.
const READ_SMALL: usize = 4 * 1024;
const READ_LARGE: usize = 64 * 1024;

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame without its line end.
    Frame(Bytes),
    /// A frame over the limit began; the rest of it is skipped.
    TooLarge,
    /// The stream ended.
    End,
}

/// Reads frames from one half of a byte stream.
pub struct FrameReader<R> {
    stream: R,
    decoder: FrameDecoder,
    heard: Heard,
    room: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader of frames of at most `limit` bytes.
    pub fn new(stream: R, limit: usize) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::new(limit),
            heard: Heard::default(),
            room: READ_SMALL,
            ended: false,
        }
    }

    /// Changes the limit, as authentication does.
    pub fn set_limit(&mut self, limit: usize) {
        self.decoder.set_limit(limit);
    }

    /// The clock of the last bytes.
    pub fn heard(&self) -> Heard {
        self.heard.clone()
    }

    /// The next frame. Cancel safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> io::Result<Received> {
        loop {
            if let Some(decoded) = self.decoder.next() {
                return Ok(received(decoded));
            }
            if self.ended {
                return Ok(self.decoder.finish().map_or(Received::End, received));
            }
            let buffer = self.decoder.buffer();
            buffer.reserve(self.room);
            let read = self.stream.read_buf(buffer).await?;
            self.room = if read >= self.room { READ_LARGE } else { READ_SMALL };
            self.heard.now();
            self.ended = read == 0;
        }
    }
}

fn received(decoded: Decoded) -> Received {
    match decoded {
        Decoded::Frame(frame) => Received::Frame(frame),
        Decoded::TooLarge => Received::TooLarge,
    }
}
