//! Standard input and output as asynchronous byte streams.
//!
//! A pipe is opened anew through `/proc/self/fd`, so that non-blocking mode belongs to our own open file description and
//! never to a file shared with the parent. A socket, as Node.js gives its children, has no second description; its other
//! end has its own, so ours may be non-blocking. Whatever else it is (a terminal, a file) goes through blocking threads.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{AddressFamily, sockopt};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};

/// Standard input.
pub enum Input {
    /// A pipe of our own description.
    Pipe(pipe::Receiver),
    /// A local socket.
    Unix(UnixStream),
    /// A socket of the network, as super-servers give.
    Tcp(TcpStream),
    /// Anything else.
    Other(tokio::io::Stdin),
}

/// Standard output.
pub enum Output {
    /// A pipe of our own description.
    Pipe(pipe::Sender),
    /// A local socket.
    Unix(UnixStream),
    /// A socket of the network, as super-servers give.
    Tcp(TcpStream),
    /// Anything else.
    Other(tokio::io::Stdout),
}

/// Standard input. To be called within a runtime, once.
pub fn input() -> Input {
    let stdin = io::stdin();
    if let Ok(receiver) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Input::Pipe(receiver);
    }
    match socket(stdin.as_fd()) {
        Some(Socket::Unix(stream)) => Input::Unix(stream),
        Some(Socket::Tcp(stream)) => Input::Tcp(stream),
        None => {
            block(stdin.as_fd());
            Input::Other(tokio::io::stdin())
        }
    }
}

/// Standard output. To be called within a runtime, once.
pub fn output() -> Output {
    let stdout = io::stdout();
    if let Ok(sender) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Output::Pipe(sender);
    }
    match socket(stdout.as_fd()) {
        Some(Socket::Unix(stream)) => Output::Unix(stream),
        Some(Socket::Tcp(stream)) => Output::Tcp(stream),
        None => {
            block(stdout.as_fd());
            Output::Other(tokio::io::stdout())
        }
    }
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// The stream socket behind a descriptor, if it is one.
fn socket(descriptor: BorrowedFd<'_>) -> Option<Socket> {
    let family = sockopt::socket_domain(descriptor).ok()?;
    let owned: OwnedFd = descriptor.try_clone_to_owned().ok()?;
    match family {
        AddressFamily::UNIX => {
            let stream = std::os::unix::net::UnixStream::from(owned);
            stream.set_nonblocking(true).ok()?;
            UnixStream::from_std(stream).ok().map(Socket::Unix)
        }
        AddressFamily::INET | AddressFamily::INET6 => {
            let stream = std::net::TcpStream::from(owned);
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok().map(Socket::Tcp)
        }
        _ => None,
    }
}

/// Takes non-blocking mode away, which somebody else may have left on: the threads that read and write wait.
fn block(descriptor: BorrowedFd<'_>) {
    if let Ok(flags) = fcntl_getfl(descriptor) {
        // Where it can't be changed, reading and writing tell.
        let _ = fcntl_setfl(descriptor, flags - OFlags::NONBLOCK);
    }
}

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Other(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Unix(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
