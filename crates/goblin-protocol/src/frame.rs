//! Frames: lines of bytes out of a stream of bytes, in bounded memory.

use bytes::{Bytes, BytesMut};

/// What a stream of bytes held next.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// One line without its line end, not blank.
    Frame(Bytes),
    /// A line longer than the limit began; the rest of it is skipped. Told once for each such line.
    TooLarge,
}

/// Cuts a stream of bytes into frames. It never holds more than the limit and one read.
pub struct FrameDecoder {
    buffer: BytesMut,
    /// Bytes of `buffer` known to hold no newline.
    scanned: usize,
    limit: usize,
    skipping: bool,
}

impl FrameDecoder {
    /// A decoder of frames of at most `limit` bytes, the newline included.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            limit,
            skipping: false,
        }
    }

    /// Changes the limit for what is decoded from now on, as authentication does.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where the next bytes of the stream go: append to it, then call [`next`](Self::next) until it has no more.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next complete frame, or `None` when more bytes are needed.
    #[allow(
        clippy::should_implement_trait,
        reason = "not an iterator: more may follow after None"
    )]
    pub fn next(&mut self) -> Option<Decoded> {
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
                Some(found) => {
                    let length = self.scanned + found + 1;
                    let line = self.buffer.split_to(length).freeze();
                    self.scanned = 0;
                    if std::mem::take(&mut self.skipping) {
                        continue;
                    }
                    if length > self.limit {
                        return Some(Decoded::TooLarge);
                    }
                    if let Some(frame) = without_line_end(line) {
                        return Some(Decoded::Frame(frame));
                    }
                }
                None => {
                    if self.skipping {
                        self.buffer.clear();
                    } else if self.buffer.len() >= self.limit {
                        self.buffer = BytesMut::new();
                        self.skipping = true;
                        self.scanned = 0;
                        return Some(Decoded::TooLarge);
                    } else if self.buffer.is_empty() && self.buffer.capacity() > RETAINED_CAPACITY {
                        self.buffer = BytesMut::new();
                    }
                    self.scanned = self.buffer.len();
                    return None;
                }
            }
        }
    }

    /// The last line of a stream that ended without a newline.
    pub fn finish(&mut self) -> Option<Decoded> {
        let line = self.buffer.split().freeze();
        self.scanned = 0;
        if std::mem::take(&mut self.skipping) {
            return None;
        }
        without_line_end(line).map(Decoded::Frame)
    }
}

/// Capacity, in bytes, that an empty buffer may keep: a large frame must not cost its memory for ever.
const RETAINED_CAPACITY: usize = 256 * 1024;

/// The line without `\n`, `\r\n` and a byte order mark; `None` when nothing but white space is left.
fn without_line_end(line: Bytes) -> Option<Bytes> {
    let mut end = line.len();
    if end > 0 && line[end - 1] == b'\n' {
        end -= 1;
    }
    if end > 0 && line[end - 1] == b'\r' {
        end -= 1;
    }
    let start = if line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let frame = line.slice(start.min(end)..end);
    frame
        .iter()
        .any(|byte| !matches!(byte, b' ' | b'\t' | b'\r'))
        .then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(decoder: &mut FrameDecoder, bytes: &[u8]) -> Vec<Decoded> {
        decoder.buffer().extend_from_slice(bytes);
        std::iter::from_fn(|| decoder.next()).collect()
    }

    fn frame(text: &str) -> Decoded {
        Decoded::Frame(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn line_ends_blank_lines_and_marks() {
        let mut decoder = FrameDecoder::new(100);
        assert_eq!(
            decode(&mut decoder, b"a\r\n\n  \t\r\n\xef\xbb\xbf{}\nb"),
            [frame("a"), frame("{}")]
        );
        assert_eq!(decoder.finish(), Some(frame("b")));
        assert_eq!(decoder.finish(), None);
    }

    #[test]
    fn the_limit_counts_the_newline_and_a_longer_line_is_told_once() {
        let mut decoder = FrameDecoder::new(5);
        assert_eq!(decode(&mut decoder, b"1234\n"), [frame("1234")]);
        assert_eq!(
            decode(&mut decoder, b"12345\n1234\n"),
            [Decoded::TooLarge, frame("1234")]
        );
        assert_eq!(decode(&mut decoder, b"12345"), [Decoded::TooLarge]);
        for _ in 0..1_000 {
            assert_eq!(decode(&mut decoder, &[b'x'; 4096]), []);
            assert!(
                decoder.buffer().capacity() <= 16 * 1024,
                "a line without end takes no memory"
            );
        }
        assert_eq!(decode(&mut decoder, b"\nok\n"), [frame("ok")]);
        assert_eq!(decode(&mut decoder, b"toolong"), [Decoded::TooLarge]);
        assert_eq!(decoder.finish(), None, "the rest of a skipped line is no frame");
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_the_same_frames(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..200), cuts in proptest::collection::vec(0usize..200, 0..6)) {
            let mut whole = FrameDecoder::new(20);
            let mut expected = decode(&mut whole, &bytes);
            expected.extend(whole.finish());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let (mut pieces, mut found, mut start) = (FrameDecoder::new(20), Vec::new(), 0);
            for cut in cuts.into_iter().chain([bytes.len()]) {
                found.extend(decode(&mut pieces, &bytes[start..cut]));
                start = cut;
            }
            found.extend(pieces.finish());
            prop_assert_eq!(found, expected);
        }
    }
}
