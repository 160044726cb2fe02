//! Keeps a gateway's enrolment secret out of what is handed on from it: a host that prints its own environment must not
//! hand the secret to whoever may run commands there.
//!
//! Only the texts of a frame are looked at, never its structure: keys and the outermost members that route it stay.

use bytes::Bytes;
use goblin_client::{Body, Envelope};
use goblin_protocol::envelope::OutputStream;
use goblin_redact::{RedactStream, Redactor};
use std::collections::VecDeque;

/// Bytes of events that may wait behind one that ends like a secret begins, before it goes out as it is.
const WAITING_MAX: usize = 1024 * 1024;

/// The envelopes of one dispatch on their way out. A secret that is split over two events of a stream is masked as well:
/// an event that ends in what may be its beginning waits for the next one, and the rest, to keep the order, behind it.
pub(crate) struct Screen {
    redactor: Redactor,
    stdout: RedactStream,
    stderr: RedactStream,
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

struct Waiting {
    envelope: Envelope,
    /// It is the last event so far of this stream, of which something is held back.
    open: Option<OutputStream>,
}

impl Screen {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            stdout: redactor.stream(),
            stderr: redactor.stream(),
            redactor,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Takes the next envelope of the dispatch.
    pub(crate) fn push(&mut self, envelope: Envelope) {
        if self.redactor.is_empty() {
            return self.queue(envelope, None);
        }
        match &envelope.body {
            Body::Stream { event, .. } => {
                let (which, truncated) = (event.stream, event.truncated);
                let mut data = Vec::with_capacity(event.data.len());
                let stream = self.stream(which);
                stream.push(event.data.as_bytes(), &mut data);
                let open = stream.holds() && !truncated;
                if !open {
                    // After a gap nothing can go on.
                    stream.finish(&mut data);
                }
                // What an earlier event kept back has gone into this one.
                for earlier in &mut self.waiting {
                    earlier.open = earlier.open.filter(|earlier| *earlier != which);
                }
                let envelope = with_data(envelope, &text(data));
                self.queue(envelope, open.then_some(which));
                if self.bytes > WAITING_MAX {
                    self.finish();
                }
            }
            Body::Terminal { .. } | Body::Answer { .. } => {
                self.finish();
                let envelope = redact(&self.redactor, envelope);
                self.queue(envelope, None);
            }
            _ => {
                let envelope = redact(&self.redactor, envelope);
                self.queue(envelope, None);
            }
        }
    }

    /// Nothing follows: all that waits goes out.
    pub(crate) fn finish(&mut self) {
        while self.release_first() {}
    }

    /// The next envelope that may go out.
    pub(crate) fn pop(&mut self) -> Option<Envelope> {
        let first = self.waiting.pop_front_if(|first| first.open.is_none())?;
        self.bytes -= first.envelope.text.len();
        Some(first.envelope)
    }

    fn queue(&mut self, envelope: Envelope, open: Option<OutputStream>) {
        self.bytes += envelope.text.len();
        self.waiting.push_back(Waiting { envelope, open });
    }

    /// Gives the first event that waits what was held back of it. False when none waits.
    fn release_first(&mut self) -> bool {
        let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.open.is_some()) else {
            return false;
        };
        if let (Some(which), Body::Stream { event, .. }) = (waiting.open.take(), &waiting.envelope.body) {
            let mut data = event.data.clone().into_bytes();
            match which {
                OutputStream::Stdout => self.stdout.finish(&mut data),
                OutputStream::Stderr => self.stderr.finish(&mut data),
            }
            let before = waiting.envelope.text.len();
            waiting.envelope = with_data(waiting.envelope.clone(), &text(data));
            self.bytes = self.bytes - before + waiting.envelope.text.len();
        }
        true
    }

    fn stream(&mut self, which: OutputStream) -> &mut RedactStream {
        match which {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }
}

/// Secrets and frames are texts, and an occurrence begins and ends where a character does.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The stream event with other output.
fn with_data(envelope: Envelope, data: &str) -> Envelope {
    match &envelope.body {
        Body::Stream { event, .. } if event.data != data => {
            let rewritten = rewrite(&envelope.text, |place, _| {
                (place == Place::Data).then(|| data.to_owned())
            });
            reread(envelope, rewritten)
        }
        _ => envelope,
    }
}

/// What an envelope may be handed on as.
pub(crate) fn redact(redactor: &Redactor, envelope: Envelope) -> Envelope {
    if redactor.is_empty() {
        return envelope;
    }
    let rewritten = rewrite(&envelope.text, |_, text| {
        let masked = redactor.redact_text(text);
        (masked != text).then_some(masked)
    });
    reread(envelope, rewritten)
}

fn reread(envelope: Envelope, rewritten: Option<Vec<u8>>) -> Envelope {
    let Some(text) = rewritten.map(Bytes::from) else {
        return envelope;
    };
    // What was readable stays so, since only texts within it changed; the unmasked one is never the way out.
    Envelope::read(text.clone()).unwrap_or(Envelope {
        body: Body::Other,
        text,
    })
}

/// Where a text stands that may be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In `data`, the one outermost text that is output.
    Data,
    /// Within an object or an array.
    Within,
}

/// The frame with some of its texts replaced; `None` when none is.
fn rewrite(frame: &[u8], replace: impl Fn(Place, &str) -> Option<String>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut copied, mut position, mut depth) = (0, 0, 0usize);
    // Whether the value that comes next belongs to `data`.
    let mut key_is_data = false;
    while let Some(&byte) = frame.get(position) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(frame, position)?;
                let token = &frame[position..end];
                let is_key = frame[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                let place = match depth {
                    2.. => Some(Place::Within),
                    _ => key_is_data.then_some(Place::Data),
                };
                if is_key {
                    key_is_data = depth == 1 && token == b"\"data\"";
                } else if let Some(place) = place
                    && let Ok(text) = serde_json::from_slice::<String>(token)
                    && let Some(replaced) = replace(place, &text)
                    && let Ok(encoded) = serde_json::to_vec(&replaced)
                {
                    out.extend_from_slice(&frame[copied..position]);
                    out.extend_from_slice(&encoded);
                    copied = end;
                }
                position = end;
                continue;
            }
            _ => {}
        }
        position += 1;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&frame[copied..]);
    Some(out)
}

/// The index behind the quote that closes the string opened at `start`.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut position = start + 1;
    loop {
        match text.get(position)? {
            b'"' => return Some(position + 1),
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
}
