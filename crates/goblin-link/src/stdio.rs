//! Standard input and output as asynchronous byte streams.
//!
//! A pipe is opened anew through `/proc/self/fd`, so that non-blocking mode belongs to our own open file description and
//! never to a file shared with the parent. Whatever else it is (a terminal, a file, a socket) goes through tokio's
//! blocking threads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

/// Standard input.
pub enum Input {
    /// A pipe of our own description.
    Pipe(pipe::Receiver),
    /// Anything else.
    Other(tokio::io::Stdin),
}

/// Standard output.
pub enum Output {
    /// A pipe of our own description.
    Pipe(pipe::Sender),
    /// Anything else.
    Other(tokio::io::Stdout),
}

/// Standard input. To be called within a runtime, once.
pub fn input() -> Input {
    match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        Ok(receiver) => Input::Pipe(receiver),
        Err(_) => Input::Other(tokio::io::stdin()),
    }
}

/// Standard output. To be called within a runtime, once.
pub fn output() -> Output {
    match pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        Ok(sender) => Output::Pipe(sender),
        Err(_) => Output::Other(tokio::io::stdout()),
    }
}

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Other(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
