//! The lines of one file that hold a literal text, in one pass, with memory for a block and a line's beginning only.
//! It must never know names, trees or limits: each line goes to the caller, who may stop.

use crate::failure::Failure;
use crate::open::Regular;
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};

/// Bytes read at a time.
pub(super) const BLOCK: usize = 64 * 1024;

/// A file with a NUL among its first bytes, this many, is binary.
const BINARY_BLOCK: usize = 8 * 1024;

/// Characters of a line that are shown.
const TEXT_MAX: usize = 1_000;

/// Bytes that hold `TEXT_MAX` characters of any kind.
const HEAD_MAX: usize = 4 * TEXT_MAX;

/// One line that holds the query.
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    /// At most `TEXT_MAX` characters, without the line's end.
    pub(super) text: String,
}

/// The search for one query, with its buffers, for any number of files.
pub(super) struct LineSearch<'a> {
    query: &'a [u8],
    finder: Finder<'a>,
    buffer: Vec<u8>,
    position: Position,
}

/// How far a file has been accounted for.
struct Position {
    /// Number of the line that is open here.
    line: u64,
    /// The beginning of that line, at most `HEAD_MAX` bytes of it.
    head: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Looking for the query.
    Looking,
    /// The open line holds the query; its text is still being gathered.
    Gathering,
    /// The open line has been handed over; waiting for its end.
    Skipping,
}

impl<'a> LineSearch<'a> {
    /// Reads files `block` bytes at a time, more where the query is long.
    pub(super) fn new(query: &'a str, block: usize) -> Self {
        let query = query.as_bytes();
        Self {
            query,
            finder: Finder::new(query),
            buffer: vec![0; block.max(2 * query.len())],
            position: Position {
                line: 1,
                head: Vec::with_capacity(HEAD_MAX),
                state: State::Looking,
            },
        }
    }

    /// Hands every line of `file` that holds the query to `found`, until that says false. `check` is called for every
    /// block and may end the search. False when the file is binary and was not searched.
    pub(super) fn run(
        &mut self,
        file: &Regular,
        check: &mut dyn FnMut() -> Result<(), Failure>,
        found: &mut dyn FnMut(Line) -> bool,
    ) -> Result<bool, Failure> {
        self.position.restart();
        // A line never holds its own end.
        let impossible = memchr(b'\n', self.query).is_some();
        let mut kept = 0;
        let mut first = true;
        let mut offset = 0;
        loop {
            check()?;
            let wanted = self.buffer.len() - kept;
            let count = file.fill(&mut self.buffer[kept..], &mut offset)?;
            let end = count < wanted;
            let data = &self.buffer[..kept + count];
            if std::mem::take(&mut first) {
                if memchr(0, &data[..data.len().min(BINARY_BLOCK)]).is_some() {
                    return Ok(false);
                }
                if impossible {
                    return Ok(true);
                }
            }
            let Some(done) = self.position.advance(data, end, self.query, &self.finder, found) else {
                return Ok(true);
            };
            if end {
                return Ok(true);
            }
            kept = data.len() - done;
            self.buffer.copy_within(done..done + kept, 0);
        }
    }
}

impl Position {
    fn restart(&mut self) {
        self.line = 1;
        self.head.clear();
        self.state = State::Looking;
    }

    /// Goes through `data`, which begins at this position, and returns how much of it is accounted for; the rest is to
    /// be given again, with more behind it. `None` when the caller has had enough.
    fn advance(
        &mut self,
        data: &[u8],
        end: bool,
        query: &[u8],
        finder: &Finder<'_>,
        found: &mut dyn FnMut(Line) -> bool,
    ) -> Option<usize> {
        // Everything before `done` is accounted for; the query may begin at `from` at the earliest.
        let (mut done, mut from) = (0, 0);
        loop {
            match self.state {
                State::Looking => match finder.find(&data[from..]).map(|at| from + at) {
                    Some(at) => {
                        let after = data.get(at + query.len());
                        if query.ends_with(b"\r") {
                            if after == Some(&b'\n') {
                                // That carriage return belongs to the line's end.
                                from = at + 1;
                                continue;
                            }
                            if after.is_none() && !end {
                                self.account(&data[done..at]);
                                return Some(at);
                            }
                        }
                        self.account(&data[done..at]);
                        done = at;
                        self.state = State::Gathering;
                    }
                    None if end => return Some(data.len()),
                    None => {
                        let keep = data.len().saturating_sub(query.len()).max(from).max(done);
                        self.account(&data[done..keep]);
                        return Some(keep);
                    }
                },
                State::Gathering => {
                    let wanted = HEAD_MAX - self.head.len();
                    let rest = &data[done..];
                    let near = &rest[..rest.len().min(wanted + 1)];
                    let line_end = memchr(b'\n', near);
                    let taken = line_end.unwrap_or(near.len()).min(wanted);
                    self.head.extend_from_slice(&rest[..taken]);
                    done += taken;
                    if line_end.is_none() && self.head.len() < HEAD_MAX && !end {
                        return Some(done);
                    }
                    if line_end.is_some_and(|line_end| line_end <= taken) && self.head.last() == Some(&b'\r') {
                        self.head.pop();
                    }
                    let text = String::from_utf8_lossy(&self.head).chars().take(TEXT_MAX).collect();
                    if !found(Line {
                        number: self.line,
                        text,
                    }) {
                        return None;
                    }
                    self.state = State::Skipping;
                }
                State::Skipping => match memchr(b'\n', &data[done..]) {
                    Some(line_end) => {
                        done += line_end + 1;
                        from = done;
                        self.line += 1;
                        self.head.clear();
                        self.state = State::Looking;
                    }
                    None => return Some(data.len()),
                },
            }
        }
    }

    /// Counts the lines of `passed`, and keeps the beginning of the line that is open behind it.
    fn account(&mut self, passed: &[u8]) {
        let open = match memrchr(b'\n', passed) {
            Some(last) => {
                self.line += memchr_iter(b'\n', passed).count() as u64;
                self.head.clear();
                &passed[last + 1..]
            }
            None => passed,
        };
        let room = HEAD_MAX - self.head.len();
        self.head.extend_from_slice(&open[..open.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;
    use proptest::prelude::*;

    fn search(content: &[u8], query: &str, block: usize) -> Vec<(u64, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, content).unwrap();
        let mut lines = Vec::new();
        let mut search = LineSearch::new(query, block);
        let file = open::regular(&path).unwrap();
        search
            .run(&file, &mut || Ok(()), &mut |Line { number, text }| {
                lines.push((number, text));
                true
            })
            .unwrap();
        lines
    }

    /// The same by splitting the whole content.
    fn naive(content: &[u8], query: &str) -> Vec<(u64, String)> {
        let pieces: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
        let last = pieces.len() - 1;
        let finder = Finder::new(query);
        (1..)
            .zip(pieces.iter().enumerate().map(|(index, piece)| {
                if index < last {
                    piece.strip_suffix(b"\r").unwrap_or(piece)
                } else {
                    piece
                }
            }))
            .filter(|(_, line)| finder.find(line).is_some())
            .map(|(number, line)| (number, String::from_utf8_lossy(line).chars().take(TEXT_MAX).collect()))
            .collect()
    }

    #[test]
    fn a_match_across_blocks_is_found_wherever_it_lies() {
        for shift in 0..40 {
            let content = [&b"x\n"[..], &vec![b'-'; BLOCK - 20 + shift], b"needle\r\nneedle"].concat();
            let lines = search(&content, "needle", BLOCK);
            assert_eq!(lines, naive(&content, "needle"), "{shift}");
            assert_eq!(lines.len(), 2);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) })]

        #[test]
        fn blocks_of_any_size_give_the_lines_of_the_whole(content in "[abé\r\n]{0,80}", query in "[abé\r\n]{1,3}", block in 1_usize..20) {
            prop_assert_eq!(search(content.as_bytes(), &query, block), naive(content.as_bytes(), &query));
        }

        #[test]
        fn long_lines_are_cut_alike(lines in proptest::collection::vec((0_usize..2_500, "[aé😀]{1,2}"), 1..6), block in 1_usize..9_000) {
            let content: String = lines.iter().map(|(count, text)| text.repeat(*count) + "b\r\n").collect();
            prop_assert_eq!(search(content.as_bytes(), "b", block), naive(content.as_bytes(), "b"));
        }
    }
}
