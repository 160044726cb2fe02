//! How much of a command's output has been printed, and what of the output that a gateway kept is still to be printed
//! after an interruption. It must never know how the interruption is overcome.

use crate::outputs::Chunk;
use goblin_protocol::envelope::OutputStream;
use goblin_protocol::evidence::ProcessEvidence;

/// Output as far as it has been handed over. What a gateway keeps of each stream is its beginning, so lengths tell where
/// the rest begins.
#[derive(Debug, Default)]
pub struct Printed {
    /// Bytes of each stream.
    stdout: usize,
    stderr: usize,
    /// Number of the last event.
    seq: u64,
    /// Events that did not arrive.
    missing: u64,
    /// The last event came: there is no more output.
    complete: bool,
}

/// What is still to be printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Rest {
    /// The output.
    pub chunks: Vec<Chunk>,
    /// Output is missing that nobody keeps.
    pub lost: bool,
}

impl Printed {
    /// Notes the number of an event.
    pub fn event(&mut self, seq: u64) {
        self.missing += seq.saturating_sub(self.seq + 1);
        self.seq = self.seq.max(seq);
    }

    /// Notes output.
    pub fn output(&mut self, stream: OutputStream, bytes: usize) {
        match stream {
            OutputStream::Stdout => self.stdout += bytes,
            OutputStream::Stderr => self.stderr += bytes,
        }
    }

    /// Notes that the last event came.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// Events that never arrived.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// What the kept output has beyond that which was printed.
    pub fn rest(&self, evidence: &ProcessEvidence) -> Rest {
        if self.complete || self.missing > 0 {
            // All was printed, or what is missing lies in the middle, where no length leads to it.
            return Rest {
                chunks: Vec::new(),
                lost: false,
            };
        }
        let mut rest = Rest {
            chunks: Vec::new(),
            lost: evidence.truncated,
        };
        for (stream, kept, printed) in [
            (OutputStream::Stdout, &evidence.stdout, self.stdout),
            (OutputStream::Stderr, &evidence.stderr, self.stderr),
        ] {
            match kept.get(printed..) {
                Some("") => {}
                Some(beyond) => rest.chunks.push((stream, beyond.as_bytes().to_vec())),
                None => rest.lost = true,
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::ending::tests::evidence;
    use serde_json::json;

    fn printed(stdout: usize, stderr: usize) -> Printed {
        let mut printed = Printed::default();
        printed.output(OutputStream::Stdout, stdout);
        printed.output(OutputStream::Stderr, stderr);
        printed
    }

    fn rest(printed: &Printed, truncated: bool) -> (String, bool) {
        let kept = evidence(json!({"stdout": "one é two", "stderr": "err", "truncated": truncated}));
        let rest = printed.rest(&kept);
        let shown: Vec<String> = rest
            .chunks
            .into_iter()
            .map(|(stream, data)| format!("{stream:?}:{}", String::from_utf8(data).unwrap()))
            .collect();
        (shown.join(","), rest.lost)
    }

    #[test]
    fn the_rest_begins_where_the_printed_part_ends() {
        assert_eq!(
            rest(&printed(0, 0), false),
            ("Stdout:one é two,Stderr:err".into(), false)
        );
        assert_eq!(rest(&printed(6, 3), false), ("Stdout: two".into(), false));
        assert_eq!(rest(&printed(10, 3), false), (String::new(), false));
    }

    #[test]
    fn what_nobody_keeps_is_said_to_be_lost() {
        assert_eq!(rest(&printed(6, 0), true), ("Stdout: two,Stderr:err".into(), true));
        assert!(rest(&printed(11, 0), true).1, "more was printed than was kept");
        assert!(rest(&printed(11, 0), false).1, "the kept output is another one");
        assert!(rest(&printed(5, 0), false).1, "in the middle of a character");
    }

    #[test]
    fn nothing_is_printed_where_no_length_leads() {
        let mut whole = printed(500, 0);
        whole.complete();
        assert_eq!(rest(&whole, true), (String::new(), false));
        let mut gap = printed(3, 0);
        gap.event(2);
        assert_eq!((rest(&gap, false), gap.missing()), ((String::new(), false), 1));
    }
}
