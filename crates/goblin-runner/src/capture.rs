//! From bytes of the two pipes to text: redaction, decoding, the cap, what is retained.
//!
//! Owns: the order of these steps and the two bounds. Must never know: processes or time.

use goblin_redact::{RedactStream, Redactor};

use crate::spec::{Chunk, Stream};
use crate::utf8::Decoder;

/// The output of one operation.
///
/// Both bounds count bytes of delivered text, over both streams together: after redaction, and
/// with three bytes for each U+FFFD. Both cut at a character's boundary.
pub(crate) struct Capture {
    stdout: Side,
    stderr: Side,
    /// Scratch between redaction and decoding; used only when there are secrets.
    clean: Vec<u8>,
    redacting: bool,
    /// What the cap still lets through.
    allowed: u64,
    /// What may still be retained.
    room: usize,
    overflowed: bool,
    lost: bool,
}

struct Side {
    redaction: RedactStream,
    decoder: Decoder,
    retained: String,
}

impl Capture {
    pub(crate) fn new(secrets: &[impl AsRef<[u8]>], cap: u64, retain: usize) -> Self {
        let redactor = Redactor::new(secrets);
        let side = || Side {
            redaction: redactor.stream(),
            decoder: Decoder::default(),
            retained: String::new(),
        };
        Self {
            stdout: side(),
            stderr: side(),
            clean: Vec::new(),
            redacting: !redactor.is_empty(),
            allowed: cap,
            room: retain,
            overflowed: false,
            lost: false,
        }
    }

    /// Whether the cap has been exceeded. What comes after is dropped.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Takes the next bytes of a stream.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) -> Option<Chunk> {
        if self.overflowed {
            return None;
        }
        let mut text = String::with_capacity(bytes.len());
        let side = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        if self.redacting {
            self.clean.clear();
            side.redaction.push(bytes, &mut self.clean);
            side.decoder.push(&self.clean, &mut text);
        } else {
            side.decoder.push(bytes, &mut text);
        }
        self.take(stream, text)
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, stream: Stream) -> Option<Chunk> {
        if self.overflowed {
            return None;
        }
        let mut text = String::new();
        let side = self.side(stream);
        let mut clean = Vec::new();
        side.redaction.finish(&mut clean);
        side.decoder.push(&clean, &mut text);
        side.decoder.finish(&mut text);
        self.take(stream, text)
    }

    /// The stream is left before its end. What is held back may be the beginning of a secret.
    pub(crate) fn abandon(&mut self, stream: Stream) -> Option<Chunk> {
        if self.overflowed {
            return None;
        }
        let mut text = String::new();
        let side = self.side(stream);
        let lost = side.redaction.abandon();
        side.decoder.finish(&mut text);
        self.lost |= lost;
        self.take(stream, text)
    }

    /// Standard output, standard error, and whether text is missing.
    pub(crate) fn into_parts(self) -> (String, String, bool) {
        let truncated = self.overflowed || self.lost;
        (self.stdout.retained, self.stderr.retained, truncated)
    }

    fn side(&mut self, stream: Stream) -> &mut Side {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn take(&mut self, stream: Stream, mut text: String) -> Option<Chunk> {
        let allowed = usize::try_from(self.allowed).unwrap_or(usize::MAX);
        if text.len() > allowed {
            text.truncate(text.floor_char_boundary(allowed));
            self.overflowed = true;
        } else if text.is_empty() {
            return None;
        }
        self.allowed -= text.len() as u64;
        self.retain(stream, &text);
        Some(Chunk {
            stream,
            data: text,
            truncated: self.overflowed,
        })
    }

    fn retain(&mut self, stream: Stream, text: &str) {
        let kept = text.floor_char_boundary(self.room.min(text.len()));
        self.side(stream).retained.push_str(&text[..kept]);
        self.room -= kept;
        if kept < text.len() {
            self.lost = true;
            // Nothing after a gap.
            self.room = 0;
        }
    }
}
