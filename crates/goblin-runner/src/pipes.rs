//! The parent's ends of the child's two output pipes.
//!
//! Owns: creating, reading, sweeping and probing them. Must never know: what the bytes mean.

use std::cell::RefCell;
use std::future::poll_fn;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tokio::io::unix::AsyncFd;

use crate::reactor::register;
use crate::spec::Stream;

/// One read: as much as a pipe holds by default.
const READ_BYTES: usize = 64 * 1024;

/// The most that a sweep takes from one pipe: as much as an unprivileged pipe can hold, so that
/// a writer that never rests can't hold up settlement.
const SWEEP_BYTES: usize = 1024 * 1024;

thread_local! {
    /// Shared by all operations of a thread; nobody holds it across an await.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// The reading end of one pipe, non-blocking and known to the reactor.
pub(crate) struct Pipe(AsyncFd<OwnedFd>);

/// What a read brought.
pub(crate) enum Read<'a> {
    Bytes(&'a [u8]),
    End,
}

impl Pipe {
    /// A pipe whose writing end, given to a child, blocks as programs expect.
    fn new() -> Result<(Self, OwnedFd), Errno> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // The two ends are two open file descriptions: the child's one stays blocking.
        rustix::io::ioctl_fionbio(&read, true)?;
        let write = above_standard(write)?;
        let read = register(read)?;
        Ok((Self(read), write))
    }

    /// Reads once and hands the bytes to `take`; `None` when there is nothing to read now.
    fn try_read<T>(&self, take: impl FnOnce(Read<'_>) -> T) -> Option<T> {
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                return match rustix::io::read(&self.0, &mut buffer[..]) {
                    Ok(0) => Some(take(Read::End)),
                    Ok(length) => Some(take(Read::Bytes(&buffer[..length]))),
                    Err(Errno::AGAIN) => None,
                    Err(Errno::INTR) => continue,
                    // A pipe has no other error; nothing more can come from it.
                    Err(_) => Some(take(Read::End)),
                };
            }
        })
    }

    fn poll_read<T>(&self, cx: &mut Context<'_>, take: &mut impl FnMut(Read<'_>) -> T) -> Poll<T> {
        loop {
            let mut guard = match self.0.poll_read_ready(cx) {
                Poll::Ready(Ok(guard)) => guard,
                // The runtime is going down and this future with it.
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            };
            match self.try_read(&mut *take) {
                Some(taken) => return Poll::Ready(taken),
                None => guard.clear_ready(),
            }
        }
    }

    /// Reads and drops until the last writer is gone.
    pub(crate) async fn discard(self) {
        let mut end = false;
        while !end {
            end = poll_fn(|cx| self.poll_read(cx, &mut |read| matches!(read, Read::End))).await;
        }
    }
}

/// The two pipes of an operation; each is gone once it has ended.
pub(crate) struct Pipes {
    stdout: Option<Pipe>,
    stderr: Option<Pipe>,
    /// Whose turn it is, so that one busy stream can't silence the other.
    first: Stream,
}

/// The ends that the child gets.
pub(crate) struct WriteEnds {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Pipes {
    pub(crate) fn new() -> Result<(Self, WriteEnds), Errno> {
        let (out, stdout) = Pipe::new()?;
        let (err, stderr) = Pipe::new()?;
        let pipes = Self {
            stdout: Some(out),
            stderr: Some(err),
            first: Stream::Stdout,
        };
        Ok((pipes, WriteEnds { stdout, stderr }))
    }

    /// Waits for the next read of either pipe; `None` when both have ended. Loses nothing when
    /// it is dropped.
    pub(crate) async fn read<T>(&mut self, mut take: impl FnMut(Stream, Read<'_>) -> T) -> Option<T> {
        poll_fn(|cx| {
            if !self.open() {
                return Poll::Ready(None);
            }
            for stream in [self.first, other(self.first)] {
                let mut end = false;
                let taken = match self.pipe(stream) {
                    Some(pipe) => pipe.poll_read(cx, &mut |read| {
                        end = matches!(read, Read::End);
                        take(stream, read)
                    }),
                    None => continue,
                };
                if let Poll::Ready(taken) = taken {
                    if end {
                        *self.pipe(stream) = None;
                    }
                    self.first = other(stream);
                    return Poll::Ready(Some(taken));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Reads once of what is there now, without waiting, of a stream that was read for fewer
    /// than [`SWEEP_BYTES`] so far.
    pub(crate) fn sweep<T>(&mut self, mut take: impl FnMut(Stream, Read<'_>) -> T, swept: &mut Swept) -> Option<T> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let count = match stream {
                Stream::Stdout => &mut swept.stdout,
                Stream::Stderr => &mut swept.stderr,
            };
            let Some(pipe) = self.pipe(stream).as_ref() else {
                continue;
            };
            if *count >= SWEEP_BYTES {
                continue;
            }
            let mut end = false;
            let taken = pipe.try_read(|read| {
                match read {
                    Read::Bytes(bytes) => *count += bytes.len(),
                    Read::End => end = true,
                }
                take(stream, read)
            });
            if end {
                *self.pipe(stream) = None;
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Whether a pipe has not ended yet.
    pub(crate) fn open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Whether no process holds a writing end any more, so that what is left ends by itself.
    pub(crate) fn hung_up(&self) -> bool {
        [&self.stdout, &self.stderr].into_iter().flatten().all(|pipe| {
            let mut polled = [PollFd::from_borrowed_fd(pipe.0.as_fd(), PollFlags::IN)];
            let now = Timespec::default();
            rustix::event::poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
        })
    }

    /// The streams that have not ended yet.
    pub(crate) fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        let out = self.stdout.as_ref().map(|_| Stream::Stdout);
        let err = self.stderr.as_ref().map(|_| Stream::Stderr);
        out.into_iter().chain(err)
    }

    /// The pipes that have not ended yet.
    pub(crate) fn into_open(self) -> impl Iterator<Item = Pipe> {
        self.stdout.into_iter().chain(self.stderr)
    }

    fn pipe(&mut self, stream: Stream) -> &mut Option<Pipe> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// How much a sweep has taken from each stream.
#[derive(Default)]
pub(crate) struct Swept {
    stdout: usize,
    stderr: usize,
}

fn other(stream: Stream) -> Stream {
    match stream {
        Stream::Stdout => Stream::Stderr,
        Stream::Stderr => Stream::Stdout,
    }
}

/// The child's descriptors 0 to 2 are set one after the other; an end among them would be
/// overwritten before its turn.
fn above_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, 3)
}
