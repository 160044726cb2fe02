//! Authentication state machines of both ends, and one driver over any byte stream.
//!
//! The machines are pure: frames in, frames and verdicts out. The driver moves frames between a byte stream and the
//! rest of the program in bounded memory, whatever the stream is: standard input and output, TLS, or a pair in memory.
//! It reports when the peer was last heard; others decide what that means. It must never know what a request means.

pub mod controller_auth;
pub mod gateway_auth;
mod heard;
mod reader;
pub mod stdio;
mod writer;

pub use heard::Heard;
pub use reader::{FrameReader, Received};
pub use writer::{Closed, FrameSender, Place, QUEUE_BYTES, WriterTask, start_writer};

#[cfg(test)]
mod tests;
