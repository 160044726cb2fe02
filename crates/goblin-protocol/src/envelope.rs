//! What a daemon writes: every envelope, encoded as one frame that never exceeds the cap.
//!
//! The frame budget lives here too. Escaping is measured, not guessed, and a text is encoded at most twice.

use crate::code::Code;
use crate::digest::sha256_hex;
use crate::evidence::ProcessEvidence;
use crate::id::RequestId;
use crate::limits::FRAME_MAX;
use serde::Serialize;
use serde_json::value::RawValue;

/// Version of the protocol, in `hello` and in every `accepted`.
pub const PROTOCOL_VERSION: &str = "1.0";

/// An encoded frame, its newline included.
pub type Frame = Vec<u8>;

/// Where a chunk of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a, R, E> {
    r#type: &'static str,
    request_id: &'a RequestId,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<E>,
}

/// Why an operation was refused or could not start, with what is known beside the code.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationError<'a> {
    /// Stable code.
    pub code: &'a str,
    /// The operation; null when its id is invalid.
    pub operation_id: Option<&'a str>,
    /// Name of the system's error, where it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<&'a str>,
    /// When the operation had started, for one whose outcome is unknown (ISO 8601).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<&'a str>,
}

impl<'a> OperationError<'a> {
    /// A code and the operation it is about.
    pub fn new(code: Code, operation_id: Option<&'a str>) -> Self {
        Self {
            code: code.as_str(),
            operation_id,
            errno: None,
            started_at: None,
        }
    }
}

#[derive(Serialize)]
struct CodeOnly {
    code: Code,
}

/// Encodes any value as a frame, however long.
fn encode(value: &impl Serialize) -> Frame {
    let mut frame = Vec::with_capacity(256);
    // Our envelopes hold string keys, finite numbers and valid raw JSON alone, so encoding cannot fail.
    if serde_json::to_writer(&mut frame, value).is_err() {
        frame.clear();
    }
    frame.push(b'\n');
    frame
}

/// A successful response. A result that does not fit becomes `output_frame_too_large`.
pub fn response(id: &RequestId, result: &impl Serialize) -> Frame {
    let frame = encode(&Envelope::<_, ()> {
        r#type: "response",
        request_id: id,
        ok: true,
        result: Some(result),
        error: None,
    });
    if frame.len() <= FRAME_MAX {
        frame
    } else {
        refusal(id, &OperationError::new(Code::OutputFrameTooLarge, None))
    }
}

/// A refused operation, or one that could not start.
pub fn refusal(id: &RequestId, error: &OperationError<'_>) -> Frame {
    encode(&Envelope::<(), _> {
        r#type: "response",
        request_id: id,
        ok: false,
        result: None,
        error: Some(error),
    })
}

/// A protocol error.
pub fn protocol_error(id: &RequestId, code: Code) -> Frame {
    encode(&Envelope::<(), _> {
        r#type: "error",
        request_id: id,
        ok: false,
        result: None,
        error: Some(CodeOnly { code }),
    })
}

/// An error of the transport; the connection closes after it.
pub fn transport_error(code: &str) -> Frame {
    #[derive(Serialize)]
    struct Error<'a> {
        code: &'a str,
    }
    #[derive(Serialize)]
    struct TransportError<'a> {
        r#type: &'static str,
        ok: bool,
        error: Error<'a>,
    }
    encode(&TransportError {
        r#type: "transport.error",
        ok: false,
        error: Error { code },
    })
}

/// An operation begins.
pub fn accepted(id: &RequestId, operation_id: &str) -> Frame {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Accepted<'a> {
        r#type: &'static str,
        request_id: &'a RequestId,
        ok: bool,
        operation_id: &'a str,
        protocol_version: &'static str,
    }
    encode(&Accepted {
        r#type: "accepted",
        request_id: id,
        ok: true,
        operation_id,
        protocol_version: PROTOCOL_VERSION,
    })
}

/// A chunk of output; shortened and marked when it does not fit.
pub fn stream_event(operation_id: &str, stream: OutputStream, seq: u64, data: &str, truncated: bool) -> Frame {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct StreamEvent<'a> {
        r#type: &'static str,
        operation_id: &'a str,
        stream: OutputStream,
        seq: u64,
        data: &'a str,
        truncated: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        transport_truncated: bool,
    }
    let mut event = StreamEvent {
        r#type: "process.stream",
        operation_id,
        stream,
        seq,
        data,
        truncated,
        transport_truncated: false,
    };
    let frame = encode(&event);
    if frame.len() <= FRAME_MAX {
        return frame;
    }
    let rest = frame.len() - escaped_len(data) + MARK_LEN;
    (event.truncated, event.transport_truncated) = (true, true);
    event.data = prefix_within(data, FRAME_MAX.saturating_sub(rest));
    encode(&event)
}

/// The last event of a process; `evidence` is the text of [`fit_evidence`].
pub fn terminal_event(operation_id: &str, seq: u64, evidence: &RawValue) -> Frame {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct TerminalEvent<'a> {
        r#type: &'static str,
        operation_id: &'a str,
        seq: u64,
        evidence: &'a RawValue,
    }
    encode(&TerminalEvent {
        r#type: "process.terminal",
        operation_id,
        seq,
        evidence,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutcomeResult<'a> {
    operation_id: &'a str,
    replay: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    journaled: Option<bool>,
    outcome: &'a RawValue,
}

/// The final response of an operation. `None` when the outcome does not fit: shorten it, or answer `output_frame_too_large`.
pub fn outcome_response(
    id: &RequestId,
    operation_id: &str,
    replay: bool,
    journaled: bool,
    outcome: &RawValue,
) -> Option<Frame> {
    let result = OutcomeResult {
        operation_id,
        replay,
        journaled: (!journaled).then_some(false),
        outcome,
    };
    let frame = encode(&Envelope::<_, ()> {
        r#type: "response",
        request_id: id,
        ok: true,
        result: Some(result),
        error: None,
    });
    (frame.len() <= FRAME_MAX).then_some(frame)
}

/// Bytes that an outcome's text may take so that every envelope around it fits: response, replayed response, terminal event.
pub fn outcome_room(id: &RequestId, operation_id: &str) -> usize {
    let operation = escaped_len(operation_id);
    // `{"type":"response","requestId":…,"ok":true,"result":{"operationId":"…","replay":false,"journaled":false,"outcome":…}}\n`
    let response = 114 + id.as_json().len() + operation;
    // `{"type":"process.terminal","operationId":"…","seq":18446744073709551615,"evidence":…}\n`
    let terminal = 90 + operation;
    FRAME_MAX.saturating_sub(response.max(terminal))
}

/// `,"transportTruncated":true`
const MARK_LEN: usize = 26;

/// The evidence's JSON text, its output shortened at character boundaries (as much as fits is kept) and marked when the
/// text would be longer than `room` bytes. `None` when it does not fit even without output.
pub fn fit_evidence(evidence: &mut ProcessEvidence, room: usize) -> Option<Box<RawValue>> {
    let text = serde_json::to_string(evidence).ok()?;
    if text.len() <= room {
        return RawValue::from_string(text).ok();
    }
    let (stdout, stderr) = (escaped_len(&evidence.stdout), escaped_len(&evidence.stderr));
    let rest = text.len() - stdout - stderr + if evidence.transport_truncated { 0 } else { MARK_LEN };
    let available = room.checked_sub(rest)?;
    // Each stream may use its half, and what the other leaves of its own.
    let for_stdout = stdout.min((available / 2).max(available.saturating_sub(stderr)));
    let kept = prefix_within(&evidence.stdout, for_stdout).len();
    evidence.stdout.truncate(kept);
    let for_stderr = available - escaped_len(&evidence.stdout);
    let kept = prefix_within(&evidence.stderr, for_stderr).len();
    evidence.stderr.truncate(kept);
    (evidence.truncated, evidence.transport_truncated) = (true, true);
    evidence.stdout_digest = sha256_hex(evidence.stdout.as_bytes());
    evidence.stderr_digest = sha256_hex(evidence.stderr.as_bytes());
    RawValue::from_string(serde_json::to_string(evidence).ok()?)
        .ok()
        .filter(|text| text.get().len() <= room)
}

/// Bytes that a text takes inside JSON quotes.
pub fn escaped_len(text: &str) -> usize {
    text.bytes().map(escaped_width).sum()
}

fn escaped_width(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// The longest prefix, at a character boundary, that takes at most `room` bytes inside JSON quotes.
pub fn prefix_within(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (position, byte) in text.bytes().enumerate() {
        used += escaped_width(byte);
        if used > room {
            return &text[..text.floor_char_boundary(position)];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Mode, ProcessResult};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn text(frame: &Frame) -> &str {
        assert!(frame.len() <= FRAME_MAX && frame.ends_with(b"\n"));
        std::str::from_utf8(&frame[..frame.len() - 1]).unwrap()
    }

    fn evidence(stdout: &str, stderr: &str) -> ProcessEvidence {
        let mut evidence = ProcessEvidence {
            r#type: ProcessResult::Tag,
            started_at: "2026-12-01T00:00:00.000Z".into(),
            ended_at: "2026-12-01T00:00:00.001Z".into(),
            duration_ms: 1.25,
            cwd: "/".into(),
            effective_uid: 0,
            effective_gid: 0,
            hostname: "host".into(),
            mode: Mode::Exec,
            executable: Some("true".into()),
            args: vec![],
            command: None,
            exit_code: Some(0),
            signal: None,
            cancelled: false,
            killed: false,
            truncated: false,
            timed_out: false,
            timeout_reason: None,
            timeout_ms: 30_000.into(),
            deadline_ms: None,
            stdout: stdout.into(),
            stderr: stderr.into(),
            stdout_digest: String::new(),
            stderr_digest: String::new(),
            output_held_open: false,
            transport_truncated: false,
        };
        evidence.seal();
        evidence
    }

    #[test]
    fn envelopes_are_what_the_wire_says() {
        let id = RequestId::text("r");
        let raw = RawValue::from_string("{\"a\":1}".into()).unwrap();
        assert_eq!(
            text(&response(&id, &json!({"status": "ok"}))),
            r#"{"type":"response","requestId":"r","ok":true,"result":{"status":"ok"}}"#
        );
        assert_eq!(
            text(&refusal(&id, &OperationError::new(Code::CommandInvalid, Some("o")))),
            r#"{"type":"response","requestId":"r","ok":false,"error":{"code":"command_invalid","operationId":"o"}}"#
        );
        let errno = OperationError {
            errno: Some("ENOENT"),
            ..OperationError::new(Code::InternalError, None)
        };
        assert_eq!(
            text(&refusal(&id, &errno)),
            r#"{"type":"response","requestId":"r","ok":false,"error":{"code":"internal_error","operationId":null,"errno":"ENOENT"}}"#
        );
        assert_eq!(
            text(&protocol_error(&RequestId::null(), Code::InvalidJson)),
            r#"{"type":"error","requestId":null,"ok":false,"error":{"code":"invalid_json"}}"#
        );
        assert_eq!(
            text(&transport_error("frame_too_large")),
            r#"{"type":"transport.error","ok":false,"error":{"code":"frame_too_large"}}"#
        );
        assert_eq!(
            text(&accepted(&id, "o")),
            r#"{"type":"accepted","requestId":"r","ok":true,"operationId":"o","protocolVersion":"1.0"}"#
        );
        assert_eq!(
            text(&stream_event("o", OutputStream::Stderr, 3, "x\n", false)),
            r#"{"type":"process.stream","operationId":"o","stream":"stderr","seq":3,"data":"x\n","truncated":false}"#
        );
        assert_eq!(
            text(&terminal_event("o", 4, &raw)),
            r#"{"type":"process.terminal","operationId":"o","seq":4,"evidence":{"a":1}}"#
        );
        assert_eq!(
            text(&outcome_response(&id, "o", false, true, &raw).unwrap()),
            r#"{"type":"response","requestId":"r","ok":true,"result":{"operationId":"o","replay":false,"outcome":{"a":1}}}"#
        );
        assert_eq!(
            text(&outcome_response(&id, "o", false, false, &raw).unwrap()),
            r#"{"type":"response","requestId":"r","ok":true,"result":{"operationId":"o","replay":false,"journaled":false,"outcome":{"a":1}}}"#
        );
    }

    #[test]
    fn evidence_keeps_the_members_and_their_order() {
        let text = fit_evidence(&mut evidence("a", ""), FRAME_MAX).unwrap();
        let golden = concat!(
            r#"{"type":"process.result","startedAt":"2026-12-01T00:00:00.000Z","endedAt":"2026-12-01T00:00:00.001Z","durationMs":1.25,"cwd":"/","#,
            r#""effectiveUid":0,"effectiveGid":0,"hostname":"host","mode":"exec","executable":"true","args":[],"command":null,"exitCode":0,"signal":null,"#,
            r#""cancelled":false,"killed":false,"truncated":false,"timedOut":false,"timeoutReason":null,"timeoutMs":30000,"deadlineMs":null,"stdout":"a","stderr":"","#,
            r#""stdoutDigest":"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb","stderrDigest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#
        );
        assert_eq!(text.get(), golden);
        assert_eq!(
            serde_json::from_str::<ProcessEvidence>(golden).unwrap(),
            evidence("a", "")
        );
    }

    #[test]
    fn evidence_that_does_not_fit_keeps_as_much_as_does() {
        let id = RequestId::text("z");
        let room = outcome_room(&id, "z");
        let mut large = evidence(&"\0".repeat(400_000), "");
        let fitted = fit_evidence(&mut large, room).unwrap();
        assert!(
            (348_000..=349_600).contains(&large.stdout.len()),
            "{}",
            large.stdout.len()
        );
        assert!(large.truncated && large.transport_truncated);
        assert_eq!(large.stdout_digest, sha256_hex(large.stdout.as_bytes()));
        assert!(
            text(&outcome_response(&id, "z", false, false, &fitted).unwrap()).contains("\"transportTruncated\":true")
        );
        assert!(terminal_event("z", u64::MAX, &fitted).len() <= FRAME_MAX);
        // A replay under a longer id passes the same gate again.
        let longer = RequestId::text(&"\"".repeat(500));
        let mut again: ProcessEvidence = serde_json::from_str(fitted.get()).unwrap();
        let refitted = fit_evidence(&mut again, outcome_room(&longer, "z")).unwrap();
        assert!(outcome_response(&longer, "z", true, true, &refitted).is_some());
    }

    #[test]
    fn both_streams_share_the_room_fairly() {
        let room = 4_000;
        let share = |out: usize, err: usize| {
            let mut both = evidence(&"o".repeat(out), &"e".repeat(err));
            fit_evidence(&mut both, room).unwrap();
            (both.stdout.len(), both.stderr.len())
        };
        let (out, err) = share(9_000, 9_000);
        assert!(out.abs_diff(err) <= 1 && out > 1_000);
        let (out, err) = share(9_000, 10);
        assert!(err == 10 && out > 3_000);
        let (out, err) = share(10, 9_000);
        assert!(out == 10 && err > 3_000);
        assert!(fit_evidence(&mut evidence("abc", ""), 100).is_none());
    }

    #[test]
    fn a_stream_event_that_does_not_fit_is_shortened_and_marked() {
        let data = "é\u{1}".repeat(400_000);
        let frame = stream_event("o", OutputStream::Stdout, 1, &data, false);
        assert!(frame.len() > FRAME_MAX - 16);
        let event: Value = serde_json::from_str(text(&frame)).unwrap();
        assert_eq!(
            (event["truncated"].clone(), event["transportTruncated"].clone()),
            (json!(true), json!(true))
        );
        assert!(data.starts_with(event["data"].as_str().unwrap()));
    }

    #[test]
    fn a_result_that_does_not_fit_is_refused() {
        let frame = response(&RequestId::text("r"), &"x".repeat(FRAME_MAX));
        assert!(text(&frame).contains("output_frame_too_large"));
        let raw = RawValue::from_string(format!("\"{}\"", "x".repeat(FRAME_MAX - 90))).unwrap();
        assert!(outcome_response(&RequestId::text("r"), "o", false, true, &raw).is_none());
    }

    proptest! {
        #[test]
        fn escaping_is_measured_exactly(sample in ".{0,60}", room in 0usize..80) {
            prop_assert_eq!(escaped_len(&sample) + 2, serde_json::to_string(&sample).unwrap().len());
            let kept = prefix_within(&sample, room);
            prop_assert!(sample.starts_with(kept) && escaped_len(kept) <= room);
            if let Some(next) = sample[kept.len()..].chars().next() {
                prop_assert!(escaped_len(kept) + escaped_len(next.encode_utf8(&mut [0; 4])) > room);
            }
        }

        #[test]
        fn evidence_always_fits_its_room(out in proptest::collection::vec(any::<char>(), 0..300), err in proptest::collection::vec(any::<char>(), 0..300), room in 800usize..3000) {
            let mut sample = evidence(&out.iter().collect::<String>(), &err.iter().collect::<String>());
            if let Some(fitted) = fit_evidence(&mut sample, room) {
                prop_assert!(fitted.get().len() <= room);
                prop_assert_eq!(serde_json::from_str::<ProcessEvidence>(fitted.get()).unwrap(), sample);
            }
        }
    }
}
