//! How a command ended: the exit code, and what is said about it on standard error.

use crate::api::explained_remote;
use crate::exec::Order;
use crate::interrupts::Interrupt;
use crate::terminal::{self, BAD, CAUTION, FAINT, GOOD, OutputError, paint};
use goblin_client::{ClientError, Collected, RemoteError};
use goblin_protocol::Code;
use goblin_protocol::evidence::ProcessEvidence;

/// Exit code of what node-goblin itself could not do.
pub const EXIT_OURS: u8 = 125;
const EXIT_TIMED_OUT: u8 = 124;
const EXIT_CANNOT_START: u8 = 126;
const EXIT_NO_PROGRAM: u8 = 127;
const EXIT_OUTPUT_CLOSED: u8 = 141;
/// Of a signal that has no number here.
const EXIT_ODD_SIGNAL: u8 = 255;

/// How the session came to its end.
#[derive(Debug)]
pub enum How {
    /// The gateway answered.
    Answered(Box<Outcome>),
    /// The answer was lost on the way, and why.
    Lost(String),
    /// The gateway had forgotten the operation and began it anew; it was asked to end it.
    BeganAgain,
    /// The user left before.
    Left,
}

/// What the gateway answered.
#[derive(Debug)]
pub enum Outcome {
    /// The command ran.
    Ran {
        /// How it ended.
        evidence: Box<ProcessEvidence>,
        /// It ran before; this is what was kept.
        replay: bool,
    },
    /// The gateway refused the operation, or could not start it.
    Refused(RemoteError),
    /// The answer is not what the protocol says.
    Unreadable(String),
}

impl Outcome {
    /// Reads the final answer about an operation.
    pub fn of(collected: &Collected, operation_id: &str) -> Self {
        let read = collected
            .result_of(operation_id)
            .and_then(|result| Ok((collected.evidence()?, result.replay)));
        match read {
            Ok((evidence, replay)) => Self::Ran {
                evidence: Box::new(evidence),
                replay,
            },
            Err(ClientError::Remote(error)) => Self::Refused(error),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    /// True when the operation runs already: no outcome yet.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == Code::OperationInProgress.as_str())
    }
}

/// A session that is over.
#[derive(Debug)]
pub struct Ended {
    /// How it came to its end.
    pub how: How,
    /// The interrupt that asked for a cancel.
    pub asked: Option<Interrupt>,
    /// The gateway said that the operation began.
    pub began: bool,
    /// Events that never arrived.
    pub missing: u64,
    /// Output was lost in an interruption, and the gateway did not keep it.
    pub unrecovered: bool,
    /// The command wrote more than it was allowed to.
    pub cut: bool,
    /// Why its output could not be written.
    pub fault: Option<OutputError>,
    /// Envelopes were printed, so no summary is.
    pub envelopes: bool,
    /// The outcome was asked for again after an interruption.
    pub recovered: bool,
}

impl Ended {
    /// Says on standard error what there is to say, and gives the exit code.
    pub fn conclude(&self, order: &Order) -> u8 {
        self.say(order);
        self.exit_code()
    }

    /// The exit code of the session.
    pub fn exit_code(&self) -> u8 {
        match (&self.how, &self.fault) {
            (How::Left, _) => self.asked.unwrap_or(Interrupt::Interrupted).exit_code(),
            (_, Some(OutputError::Closed)) => EXIT_OUTPUT_CLOSED,
            (_, Some(OutputError::Failed(_))) | (How::Lost(_) | How::BeganAgain, None) => EXIT_OURS,
            (How::Answered(outcome), None) => match &**outcome {
                Outcome::Ran { evidence, .. } => match self.of_evidence(evidence) {
                    0 if self.missing > 0 || self.unrecovered => EXIT_OURS,
                    code => code,
                },
                Outcome::Refused(error) => match error.code.as_str() {
                    "executable_not_found" => EXIT_NO_PROGRAM,
                    "permission_denied" | "exec_format_error" | "interpreter_not_found" | "argument_list_too_long" => {
                        EXIT_CANNOT_START
                    }
                    _ => EXIT_OURS,
                },
                Outcome::Unreadable(_) => EXIT_OURS,
            },
        }
    }

    fn of_evidence(&self, evidence: &ProcessEvidence) -> u8 {
        if evidence.timed_out {
            return EXIT_TIMED_OUT;
        }
        if evidence.cancelled {
            return self.asked.unwrap_or(Interrupt::Interrupted).exit_code();
        }
        match (&evidence.signal, evidence.exit_code) {
            (Some(signal), _) => signal_number(signal).map_or(EXIT_ODD_SIGNAL, |number| 128 + number),
            // Hosts of this protocol have exit codes of one byte.
            (None, Some(code)) => code.to_le_bytes()[0],
            (None, None) => EXIT_OURS,
        }
    }

    fn say(&self, order: &Order) {
        let (gateway, id) = (&order.gateway, &order.request.operation_id);
        if let Some(error @ OutputError::Failed(_)) = &self.fault {
            terminal::fail(error);
        }
        if self.missing > 0 {
            terminal::warn("output was lost on the way: it was not taken in time");
        }
        if self.unrecovered {
            terminal::warn(
                "a part of the output was lost in the interruption: the gateway keeps only the beginning of a long output",
            );
        }
        if self.cut {
            terminal::warn("the command wrote more than --max-output allows, and was ended");
        }
        match &self.how {
            How::Left => terminal::note(format_args!(
                "node-goblin: left; operation {id} may still run on {gateway}. To end it: {}",
                order.cancel_line()
            )),
            How::Lost(why) => {
                terminal::fail(why);
                let state = match self.began {
                    true => "The command had begun: it may run still, or have ended",
                    false => "It is not known whether the command began",
                };
                terminal::note(format_args!(
                    "{state}. As long as the gateway remembers it (until five minutes after its end, and among its 256 newest), this asks for its outcome and does not run it twice:\n  {}",
                    paint(terminal::POINTER, order.command_line(self.began))
                ));
            }
            How::BeganAgain => terminal::fail(format_args!(
                "{gateway} had forgotten operation {id} and began it a second time, so it was asked to end it at once; look at the host before you run it again"
            )),
            How::Answered(outcome) => match &**outcome {
                Outcome::Ran { evidence, replay } => self.summarise(evidence, *replay, id),
                Outcome::Refused(error) => {
                    terminal::fail(format_args!("{gateway}: {}", explained_remote(error)));
                    if error.code == "operation_in_progress" {
                        terminal::note(format_args!("Ask again later, or end it: {}", order.cancel_line()));
                    }
                }
                Outcome::Unreadable(why) => terminal::fail(format_args!("{gateway}: {why}")),
            },
        }
    }

    fn summarise(&self, evidence: &ProcessEvidence, replay: bool, id: &str) {
        if replay && evidence.truncated && !self.recovered {
            terminal::warn("the gateway kept only a part of the output");
        }
        if self.envelopes || self.fault.is_some() || !terminal::watched() {
            return;
        }
        terminal::note(self.summary(evidence, replay, id));
    }

    fn summary(&self, evidence: &ProcessEvidence, replay: bool, id: &str) -> String {
        let (style, ending) = match (&evidence.signal, evidence.exit_code) {
            _ if evidence.timed_out => (BAD, "timed out".to_owned()),
            _ if evidence.cancelled => (CAUTION, "cancelled".to_owned()),
            (Some(signal), _) => (BAD, format!("ended by {}", terminal::safe(signal))),
            (None, Some(0)) => (GOOD, "exit 0".to_owned()),
            (None, code) => (
                BAD,
                format!("exit {}", code.map_or_else(|| "?".to_owned(), |code| code.to_string())),
            ),
        };
        let mut rest = vec![terminal::duration(evidence.duration_ms)];
        if self.cut || (replay && evidence.truncated && !self.recovered) {
            rest.push("output cut".to_owned());
        }
        if self.missing > 0 || self.unrecovered {
            rest.push("output lost".to_owned());
        }
        if evidence.output_held_open {
            rest.push("a process that it left behind still holds its output".to_owned());
        }
        match (replay, self.recovered) {
            (true, false) => rest.push("from the gateway's journal, nothing ran".to_owned()),
            (true, true) => rest.push("recovered".to_owned()),
            (false, _) => {}
        }
        rest.push(format!("operation {id}"));
        format!(
            "{} {}",
            paint(style, ending),
            paint(FAINT, format!("· {}", rest.join(" · ")))
        )
    }
}

/// The number of a signal on Linux by its name, as far as it fits an exit code.
fn signal_number(name: &str) -> Option<u8> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    const FIRST_REALTIME: u8 = 34;
    let name = name.strip_prefix("SIG")?;
    let known = NAMES
        .iter()
        .position(|known| *known == name)
        .map(|index| index as u8 + 1);
    let realtime = || {
        let beyond = name.strip_prefix("RTMIN")?;
        let beyond = beyond.strip_prefix('+').unwrap_or("0").parse::<u8>().ok()?;
        FIRST_REALTIME.checked_add(beyond)
    };
    known
        .or_else(realtime)
        .or_else(|| name.parse().ok())
        .filter(|number| (1..=64).contains(number))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    pub fn evidence(changes: serde_json::Value) -> ProcessEvidence {
        let mut value = json!({"type": "process.result", "startedAt": "", "endedAt": "", "durationMs": 1234.5, "cwd": "/",
            "effectiveUid": 0, "effectiveGid": 0, "hostname": "h", "mode": "exec", "executable": "x", "args": [],
            "command": null, "exitCode": 0, "signal": null, "cancelled": false, "killed": false, "truncated": false,
            "timedOut": false, "timeoutReason": null, "timeoutMs": 1, "deadlineMs": null, "stdout": "", "stderr": "",
            "stdoutDigest": "", "stderrDigest": ""});
        value
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn ended(how: How) -> Ended {
        Ended {
            how,
            asked: None,
            began: true,
            missing: 0,
            cut: false,
            fault: None,
            envelopes: false,
            unrecovered: false,
            recovered: false,
        }
    }

    fn ran(changes: serde_json::Value) -> Ended {
        ended(How::Answered(Box::new(Outcome::Ran {
            evidence: Box::new(evidence(changes)),
            replay: false,
        })))
    }

    fn refused(code: &str) -> u8 {
        let error = serde_json::from_value(json!({"code": code})).unwrap();
        ended(How::Answered(Box::new(Outcome::Refused(error)))).exit_code()
    }

    #[test]
    fn exit_codes_are_those_that_help_documents() {
        assert_eq!(ran(json!({})).exit_code(), 0);
        assert_eq!(ran(json!({"exitCode": 7})).exit_code(), 7);
        assert_eq!(ran(json!({"exitCode": null, "signal": "SIGKILL"})).exit_code(), 137);
        assert_eq!(
            ran(json!({"exitCode": null, "signal": "SIGTERM", "timedOut": true})).exit_code(),
            124
        );
        assert_eq!(ran(json!({"exitCode": 3, "cancelled": true})).exit_code(), 130);
        let mut terminated = ran(json!({"cancelled": true}));
        terminated.asked = Some(Interrupt::Terminated);
        assert_eq!(terminated.exit_code(), 143);
        let mut finished_first = ran(json!({"exitCode": 5}));
        finished_first.asked = Some(Interrupt::Interrupted);
        assert_eq!(
            finished_first.exit_code(),
            5,
            "it ended by itself before the cancel came"
        );
        assert_eq!(refused("executable_not_found"), 127);
        assert_eq!(refused("permission_denied"), 126);
        assert_eq!(refused("cwd_not_found"), 125);
        assert_eq!(refused("operation_in_progress"), 125);
        assert_eq!(ended(How::Lost(String::new())).exit_code(), 125);
        assert_eq!(ended(How::Left).exit_code(), 130);
    }

    #[test]
    fn output_that_was_lost_is_no_success() {
        let mut lossy = ran(json!({}));
        lossy.missing = 2;
        assert_eq!(lossy.exit_code(), 125);
        let mut closed = ran(json!({}));
        closed.fault = Some(OutputError::Closed);
        assert_eq!(closed.exit_code(), 141);
        closed.fault = Some(OutputError::Failed(std::io::ErrorKind::StorageFull.into()));
        assert_eq!(closed.exit_code(), 125);
    }

    #[test]
    fn signals_have_the_numbers_of_linux() {
        for (name, number) in [
            ("SIGHUP", Some(1)),
            ("SIGKILL", Some(9)),
            ("SIGTERM", Some(15)),
            ("SIGSYS", Some(31)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+30", Some(64)),
            ("SIG33", Some(33)),
            ("SIGRTMIN+300", None),
            ("SIG0", None),
            ("KILL", None),
            ("SIGWHAT", None),
        ] {
            assert_eq!(signal_number(name), number, "{name}");
        }
        assert_eq!(ran(json!({"exitCode": null, "signal": "SIGWHAT"})).exit_code(), 255);
    }

    #[test]
    fn the_summary_is_one_line() {
        let shown = |ended: &Ended, changes, replay| {
            let text = ended.summary(&evidence(changes), replay, "op-1");
            anstream::adapter::strip_str(&text).to_string()
        };
        let plain = ran(json!({}));
        assert_eq!(shown(&plain, json!({}), false), "exit 0 · 1.2 s · operation op-1");
        assert_eq!(
            shown(&plain, json!({"exitCode": null, "signal": "SIG\u{1b}X"}), false),
            "ended by SIG\\x1bX · 1.2 s · operation op-1"
        );
        assert_eq!(
            shown(&plain, json!({"truncated": true}), true),
            "exit 0 · 1.2 s · output cut · from the gateway's journal, nothing ran · operation op-1"
        );
        assert_eq!(
            shown(&plain, json!({"truncated": true}), false),
            "exit 0 · 1.2 s · operation op-1",
            "what was streamed whole was not cut, however little was retained"
        );
    }
}
