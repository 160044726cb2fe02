//! Outcomes: the JSON object that every call ends with, in the documented order of keys.
//! It must never know what a tool does.

use crate::Tool;
use crate::failure::Failure;
use goblin_protocol::canonical::canonical;
use goblin_protocol::digest::Sha256;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// What one call gave.
#[derive(Clone)]
pub struct ToolOutcome {
    /// Whether the tool did what was asked.
    pub ok: bool,
    /// The stable code of the fault, or the errno name of a system error; `None` when `ok`.
    pub error: Option<String>,
    /// The whole outcome, one JSON object.
    pub json: String,
}

impl fmt::Debug for ToolOutcome {
    /// Without the outcome itself, which holds content of files.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ok, error, json } = self;
        formatter
            .debug_struct("ToolOutcome")
            .field("ok", ok)
            .field("error", error)
            .field("length", &json.len())
            .finish()
    }
}

/// How an outcome says where it came from.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    kind: Cow<'static, str>,
    protocol_method: Cow<'static, str>,
}

const EXECUTION: Execution = Execution {
    kind: Cow::Borrowed("gateway"),
    protocol_method: Cow::Borrowed("filesystem.execute"),
};

#[derive(Serialize)]
struct Succeeded<'a, R> {
    tool: &'static str,
    ok: bool,
    #[serde(flatten)]
    result: &'a R,
    error: (),
    artifacts: (),
}

#[derive(Serialize)]
struct Diagnostic<'a> {
    code: &'a str,
    message: String,
}

struct Failed<'a> {
    tool: &'a str,
    code: &'a str,
    message: String,
    path: Option<(&'static str, Option<String>)>,
}

impl Serialize for Failed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tool", self.tool)?;
        map.serialize_entry("ok", &false)?;
        map.serialize_entry("error", self.code)?;
        map.serialize_entry(
            "diagnostic",
            &Diagnostic {
                code: self.code,
                message: self.message.clone(),
            },
        )?;
        map.serialize_entry("warnings", &[(); 0])?;
        map.serialize_entry("artifacts", &())?;
        if let Some((field, path)) = &self.path {
            map.serialize_entry(field, path)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tail {
    duration_ms: f64,
    result_fingerprint: String,
    execution: Execution,
}

pub(crate) fn succeeded<R: Serialize>(tool: Tool, result: &R, started: Instant) -> ToolOutcome {
    let body = Succeeded {
        tool: tool.name(),
        ok: true,
        result,
        error: (),
        artifacts: (),
    };
    ToolOutcome {
        ok: true,
        error: None,
        json: whole(&body, started),
    }
}

/// `path` is the outcome's path field with what was asked for.
pub(crate) fn failed(
    tool: &str,
    path: Option<(&'static str, Option<String>)>,
    failure: &Failure,
    started: Instant,
) -> ToolOutcome {
    let code = failure.code();
    let body = Failed {
        tool,
        code: &code,
        message: failure.to_string(),
        path,
    };
    ToolOutcome {
        ok: false,
        json: whole(&body, started),
        error: Some(code.into_owned()),
    }
}

/// The body with its tail.
fn whole<B: Serialize>(body: &B, started: Instant) -> String {
    // Strings, booleans, integers and lists of them always serialise.
    let mut json = serde_json::to_string(body).unwrap_or_default();
    let result_fingerprint = fingerprint(&json);
    let duration_ms = started.elapsed().as_micros() as f64 / 1_000.0;
    let tail = serde_json::to_string(&Tail {
        duration_ms,
        result_fingerprint,
        execution: EXECUTION,
    })
    .unwrap_or_default();
    json.pop();
    json.push(',');
    json.push_str(&tail[1..]);
    json
}

/// The first 16 hexadecimal digits of the SHA-256 of the canonical form of `body`, a JSON object without white space.
///
/// The text is nearly canonical already: strings are, and the objects inside (entries, matches, diagnostics) declare
/// their fields in order. So only the outermost fields are put in order, and numbers are printed anew; a result of
/// many entries is not taken apart a second time.
fn fingerprint(body: &str) -> String {
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(body).unwrap_or_default();
    let mut digest = Sha256::default();
    let mut before = "{\"";
    for (name, value) in fields {
        for piece in [before, name, "\":"] {
            digest.update(piece.as_bytes());
        }
        match value.get() {
            text if text.starts_with(['"', '[', '{']) => digest.update(text.as_bytes()),
            text => digest.update(canonical(&serde_json::from_str(text).unwrap_or(Value::Null)).as_bytes()),
        }
        before = ",\"";
    }
    digest.update(b"}");
    let mut hex = digest.finish_hex();
    hex.truncate(16);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin_protocol::digest::sha256_hex;
    use serde_json::json;

    #[test]
    fn what_a_log_may_show_holds_no_content() {
        let outcome = ToolOutcome {
            ok: false,
            error: Some("ENOENT".to_owned()),
            json: "secret".to_owned(),
        };
        assert_eq!(
            format!("{outcome:?}"),
            "ToolOutcome { ok: false, error: Some(\"ENOENT\"), length: 6 }"
        );
    }

    #[test]
    fn the_fingerprint_is_that_of_the_canonical_form() {
        let bodies = [
            json!({"tool": "t", "ok": true, "bytes": u64::MAX, "b": null, "a": [{"path": "a\u{1}\n\"\\/\u{7f}é😀", "type": "file"}], "x": -1.5}),
            json!({"matches": [{"filePath": "f", "line": 1, "text": ""}], "diagnostic": {"code": "c", "message": "m"}}),
        ];
        for body in bodies {
            assert_eq!(
                fingerprint(&body.to_string()),
                sha256_hex(canonical(&body).as_bytes())[..16],
                "{body}"
            );
        }
    }
}
