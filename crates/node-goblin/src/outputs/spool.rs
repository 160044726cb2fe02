//! Output that its reader has not taken yet: a little in memory, the rest in a file without a name, in the order in
//! which it came. It must never know who writes or reads it.

use super::Chunk;
use goblin_protocol::envelope::OutputStream;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that wait in memory before the file is used.
const MEMORY_MAX: usize = 1024 * 1024;

/// Longest file, in bytes: more than anybody pages through, and still a part of a disk.
pub const FILE_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes before each chunk in the file: its stream and its length.
const HEAD: usize = 9;

/// A queue between two threads.
pub struct Spool {
    state: Mutex<State>,
    news: Condvar,
}

struct State {
    memory: VecDeque<Chunk>,
    bytes: usize,
    overflow: Overflow,
    /// Nothing more is put in.
    closed: bool,
    /// Nothing more is taken out.
    abandoned: bool,
}

impl Spool {
    /// An empty one, whose file grows to at most `most` bytes.
    pub fn new(most: u64) -> Self {
        Self {
            state: Mutex::new(State {
                memory: VecDeque::new(),
                bytes: 0,
                overflow: Overflow {
                    file: None,
                    read: 0,
                    end: 0,
                    most,
                },
                closed: false,
                abandoned: false,
            }),
            news: Condvar::new(),
        }
    }

    /// Puts a chunk in. Waits while the file is as long as it may be, or cannot be written. False once nobody takes
    /// anything out any more.
    pub fn put(&self, chunk: Chunk) -> bool {
        let mut state = self.lock();
        loop {
            if state.abandoned {
                return false;
            }
            if state.overflow.is_empty() && state.bytes < MEMORY_MAX {
                state.bytes += chunk.1.len();
                state.memory.push_back(chunk);
                break;
            }
            // A disk that takes nothing is no reason to lose output: the reader's pace is the pace then.
            if state.overflow.append(&chunk).unwrap_or(false) {
                break;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.news.notify_all();
        true
    }

    /// The next chunk; waits for it. `None` when all was taken and nothing more comes.
    pub fn take(&self) -> io::Result<Option<Chunk>> {
        let mut state = self.lock();
        let chunk = loop {
            if let Some(chunk) = state.memory.pop_front() {
                state.bytes -= chunk.1.len();
                break chunk;
            }
            if !state.overflow.is_empty() {
                break state.overflow.take()?;
            }
            if state.closed {
                return Ok(None);
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        self.news.notify_all();
        Ok(Some(chunk))
    }

    /// Nothing more is put in.
    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    /// Nothing more is taken out.
    pub fn abandon(&self) {
        self.lock().abandoned = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Chunks in a file. It shrinks when all of it was read.
struct Overflow {
    file: Option<File>,
    read: u64,
    end: u64,
    most: u64,
}

impl Overflow {
    fn is_empty(&self) -> bool {
        self.read == self.end
    }

    /// Appends a chunk; false when there is no room. After an error nothing was appended.
    fn append(&mut self, (stream, data): &Chunk) -> io::Result<bool> {
        let length = data.len() as u64;
        let end = self.end + HEAD as u64 + length;
        if end > self.most {
            return Ok(false);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let mut head = [0; HEAD];
        head[0] = match stream {
            OutputStream::Stdout => 1,
            OutputStream::Stderr => 2,
        };
        head[1..].copy_from_slice(&length.to_le_bytes());
        file.write_all_at(&head, self.end)?;
        file.write_all_at(data, self.end + HEAD as u64)?;
        self.end = end;
        Ok(true)
    }

    fn take(&mut self) -> io::Result<Chunk> {
        let Some(file) = &self.file else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, self.read)?;
        let [stream, length @ ..] = head;
        let stream = if stream == 1 {
            OutputStream::Stdout
        } else {
            OutputStream::Stderr
        };
        // It was the length of a chunk in memory.
        let mut data = vec![0; u64::from_le_bytes(length) as usize];
        file.read_exact_at(&mut data, self.read + HEAD as u64)?;
        self.read += (HEAD + data.len()) as u64;
        if self.is_empty() {
            (self.read, self.end) = (0, 0);
            // What stays is overwritten by what comes.
            let _ = file.set_len(0);
        }
        Ok((stream, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn chunk(number: usize, length: usize) -> Chunk {
        let stream = if number.is_multiple_of(2) {
            OutputStream::Stdout
        } else {
            OutputStream::Stderr
        };
        (stream, vec![number.to_le_bytes()[0]; length])
    }

    #[test]
    fn chunks_come_out_as_they_went_in_however_many_wait() {
        let spool = Spool::new(FILE_MAX);
        for round in 0..3 {
            for number in 0..40 {
                assert!(spool.put(chunk(number, 100_000 + round)));
            }
            let state = spool.lock();
            assert!(state.bytes < MEMORY_MAX + 200_000 && state.overflow.end > 2_500_000);
            drop(state);
            for number in 0..40 {
                assert!(spool.take().unwrap().unwrap() == chunk(number, 100_000 + round));
            }
            let state = spool.lock();
            assert_eq!(state.overflow.file.as_ref().unwrap().metadata().unwrap().len(), 0);
        }
        spool.close();
        assert!(spool.take().unwrap().is_none());
    }

    #[test]
    fn a_full_one_waits_for_its_reader() {
        let spool = Arc::new(Spool::new(2_000_000));
        let filling = spool.clone();
        let filled = std::thread::spawn(move || {
            let all = (0..100).all(|number| filling.put(chunk(number, 100_000)));
            filling.close();
            all
        });
        for number in 0..100 {
            assert!(spool.take().unwrap().unwrap() == chunk(number, 100_000));
            assert!(spool.lock().overflow.end <= 2_000_000);
        }
        assert!(spool.take().unwrap().is_none());
        assert!(filled.join().unwrap());
    }

    #[test]
    fn nothing_waits_for_a_reader_that_left() {
        let spool = Arc::new(Spool::new(0));
        let filling = spool.clone();
        let filled = std::thread::spawn(move || (0..100).all(|number| filling.put(chunk(number, 100_000))));
        assert!(spool.take().unwrap().is_some());
        spool.abandon();
        assert!(!filled.join().unwrap());
    }
}
