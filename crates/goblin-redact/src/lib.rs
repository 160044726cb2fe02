//! Streaming removal of known byte strings.
//!
//! Owns: what counts as an occurrence of a protected value in a stream of bytes, and what is
//! written in its place. Must never know: where the bytes come from, text encodings, or what a
//! pattern means. Patterns never appear in a `Debug`, a message or a log, and are wiped from
//! memory when the last user is gone.

mod automaton;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use automaton::Automaton;
use zeroize::Zeroizing;

/// What stands in the place of one run of overlapping occurrences.
pub const MARK: &str = "[redacted]";

/// A set of patterns, ready to be looked for in any number of streams. Cheap to clone.
#[derive(Clone)]
pub struct Redactor {
    automaton: Option<Arc<Automaton>>,
}

impl Redactor {
    /// Takes the patterns to mask. Empty patterns and repetitions are ignored.
    pub fn new<P: AsRef<[u8]>>(patterns: &[P]) -> Self {
        let automaton = Automaton::new(patterns.iter().map(AsRef::as_ref));
        Self {
            automaton: automaton.map(Arc::new),
        }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.automaton.is_none()
    }

    /// Starts one stream.
    pub fn stream(&self) -> RedactStream {
        let longest = self.automaton.as_ref().map_or(0, |a| a.longest());
        RedactStream {
            automaton: self.automaton.clone(),
            state: Automaton::ROOT,
            // Reserved once, so that no reallocation leaves a copy behind.
            held: Zeroizing::new(Vec::with_capacity(longest)),
            masked: 0,
            pending: VecDeque::new(),
        }
    }

    /// Masks every occurrence in `input` at once.
    pub fn redact(&self, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(input.len());
        let mut stream = self.stream();
        stream.push(input, &mut out);
        stream.finish(&mut out);
        out
    }

    /// Masks every occurrence in a text. A pattern that is not UTF-8 can cut a character; what is
    /// left of it becomes U+FFFD.
    pub fn redact_text(&self, input: &str) -> String {
        match String::from_utf8(self.redact(input.as_bytes())) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// One stream under redaction.
///
/// Every byte that belongs to an occurrence of a pattern is masked, wherever the reads split it.
/// Occurrences that share a byte become one [`MARK`], those that only touch become one each. A
/// byte leaves as soon as it can't belong to an occurrence any more: at most a tail that is the
/// beginning of some pattern is held back, so memory is bounded by the longest pattern.
pub struct RedactStream {
    automaton: Option<Arc<Automaton>>,
    state: u32,
    /// The tail that is held back. It is where all offsets below start.
    held: Zeroizing<Vec<u8>>,
    /// So many bytes of `held` belong to an occurrence whose mark has been written.
    masked: usize,
    /// Merged occurrences in `held` that a longer one may still swallow.
    pending: VecDeque<Range<usize>>,
}

impl RedactStream {
    /// Takes the next bytes of the stream and appends to `out` all that is decided.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let Some(automaton) = self.automaton.clone() else {
            out.extend_from_slice(input);
            return;
        };
        let before = self.held.len();
        let mut done = self.masked;
        let mut at = 0;
        while at < input.len() {
            if self.state == Automaton::ROOT {
                match automaton.find_first_byte(&input[at..]) {
                    Some(distance) => at += distance,
                    None => break,
                }
            }
            self.state = automaton.step(self.state, input[at]);
            at += 1;
            let found = automaton.matched(self.state);
            if found > 0 {
                let end = before + at;
                self.add(end - found..end);
                let decided = end - automaton.hold(self.state);
                self.flush(decided, &mut done, input, out);
            }
        }
        let end = before + input.len();
        let decided = end - automaton.hold(self.state);
        self.flush(decided, &mut done, input, out);
        self.keep_from(decided, input);
    }

    /// Whether bytes are held back whose fate the next ones decide.
    pub fn holds(&self) -> bool {
        self.held.len() > self.masked
    }

    /// The stream has ended: appends what was held back. The stream starts anew.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let mut done = self.masked;
        let end = self.held.len();
        self.flush(end, &mut done, &[], out);
        self.reset();
    }

    /// The stream is left before its end: forgets what was held back, since it may be the
    /// beginning of an occurrence whose rest nobody will see. Returns whether any byte was lost
    /// by that. The stream starts anew.
    pub fn abandon(&mut self) -> bool {
        let lost = self.holds();
        self.reset();
        lost
    }

    /// Notes an occurrence, in offsets from the start of `held`.
    fn add(&mut self, mut found: Range<usize>) {
        while let Some(last) = self.pending.back() {
            if last.end <= found.start {
                break;
            }
            found.start = found.start.min(last.start);
            self.pending.pop_back();
        }
        if self.pending.is_empty() && found.start < self.masked {
            self.masked = self.masked.max(found.end);
        } else {
            self.pending.push_back(found);
        }
    }

    /// Writes what lies before `decided`, where the earliest future occurrence can start. A run
    /// that starts exactly there can grow, but not to the left: its mark can go out.
    fn flush(&mut self, decided: usize, done: &mut usize, input: &[u8], out: &mut Vec<u8>) {
        *done = self.masked.max(*done);
        while let Some(run) = self.pending.pop_front_if(|run| run.start <= decided) {
            self.copy(*done..run.start, input, out);
            out.extend_from_slice(MARK.as_bytes());
            self.masked = run.end;
            *done = run.end;
        }
        if *done < decided {
            self.copy(*done..decided, input, out);
            *done = decided;
        }
    }

    /// Copies a range of `held` followed by `input`.
    fn copy(&self, range: Range<usize>, input: &[u8], out: &mut Vec<u8>) {
        let split = self.held.len();
        if range.start < split {
            out.extend_from_slice(&self.held[range.start..range.end.min(split)]);
        }
        if range.end > split {
            out.extend_from_slice(&input[range.start.max(split) - split..range.end - split]);
        }
    }

    /// Moves the start of `held` to `start` and appends the input to it.
    fn keep_from(&mut self, start: usize, input: &[u8]) {
        let before = self.held.len();
        if start >= before {
            self.held.clear();
            self.held.extend_from_slice(&input[start - before..]);
        } else {
            self.held.drain(..start);
            self.held.extend_from_slice(input);
        }
        self.masked = self.masked.saturating_sub(start);
        for run in &mut self.pending {
            run.start -= start;
            run.end -= start;
        }
    }

    fn reset(&mut self) {
        self.state = Automaton::ROOT;
        self.held.clear();
        self.masked = 0;
        self.pending.clear();
    }
}

impl fmt::Debug for RedactStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedactStream").finish_non_exhaustive()
    }
}
