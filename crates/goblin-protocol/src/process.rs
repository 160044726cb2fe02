//! The parameters of `process.exec`, checked and typed.

use crate::canonical::canonical;
use crate::code::Code;
use crate::id::Params;
use crate::limits::{OUTPUT_BYTES_DEFAULT, TIMEOUT_MS_DEFAULT};
use serde_json::{Number, Value};

/// One of the two execution forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A command line for `/bin/sh -c`, trimmed.
    Shell {
        /// The command line.
        command: String,
    },
    /// A program and its arguments; no shell sees them.
    Exec {
        /// Program name or path.
        executable: String,
        /// Arguments after the program's own name.
        args: Vec<String>,
    },
}

/// What is to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRequest {
    /// Execution form.
    pub form: Form,
    /// Working directory, as asked for.
    pub cwd: Option<String>,
    /// Additions to the daemon's environment, in the request's order.
    pub env: Vec<(String, String)>,
    /// Time allowed, in milliseconds, as asked for.
    pub timeout_ms: Number,
    /// End of the time allowed, in epoch milliseconds, as asked for.
    pub deadline_ms: Option<Number>,
    /// Bytes of output allowed, both streams together.
    pub max_output_bytes: u64,
}

impl ProcessRequest {
    /// Checks params in the documented order: form, env, cwd.
    pub fn from_params(params: &Params) -> Result<Self, Code> {
        let form = form(params)?;
        let env = env(params)?;
        let cwd = match member(params, "cwd") {
            None => None,
            Some(value) => Some(
                coerced(value)
                    .filter(|path| !path.contains('\0'))
                    .ok_or(Code::CwdInvalid)?,
            ),
        };
        Ok(Self {
            form,
            // An empty directory name means the daemon's own, as an absent one does.
            cwd: cwd.filter(|path| !path.is_empty()),
            env,
            timeout_ms: positive_integer(params, "timeoutMs").unwrap_or_else(|| TIMEOUT_MS_DEFAULT.into()),
            deadline_ms: member(params, "deadlineMs")
                .and_then(Value::as_number)
                .filter(|number| is_integer(number))
                .cloned(),
            max_output_bytes: positive_integer(params, "maxOutputBytes")
                .map_or(OUTPUT_BYTES_DEFAULT, |number| saturated(&number)),
        })
    }

    /// Time allowed in milliseconds, saturated.
    pub fn timeout_ms(&self) -> u64 {
        saturated(&self.timeout_ms)
    }

    /// Deadline in epoch milliseconds; a time before 1970 is 0, one beyond the range saturates.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.deadline_ms.as_ref().map(saturated)
    }
}

/// A member that is there and not null.
fn member<'a>(params: &'a Params, name: &str) -> Option<&'a Value> {
    params.get(name).filter(|value| !value.is_null())
}

fn form(params: &Params) -> Result<Form, Code> {
    let text = |value: &Value, code| match value.as_str() {
        Some(text) if !trimmed(text).is_empty() && !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(code),
    };
    let args = || match member(params, "args") {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| {
                item.as_str()
                    .filter(|text| !text.contains('\0'))
                    .map(str::to_owned)
                    .ok_or(Code::ArgsInvalid)
            })
            .collect(),
        Some(_) => Err(Code::ArgsInvalid),
    };
    match (member(params, "command"), member(params, "executable")) {
        (Some(_), Some(_)) => Err(Code::CommandAndExecutableMutuallyExclusive),
        (None, None) => Err(Code::CommandOrExecutableRequired),
        (Some(command), None) => {
            let command = trimmed(&text(command, Code::CommandInvalid)?).to_owned();
            if args()?.is_empty() {
                Ok(Form::Shell { command })
            } else {
                Err(Code::ArgsWithCommandInvalid)
            }
        }
        (None, Some(executable)) => Ok(Form::Exec {
            executable: text(executable, Code::ExecutableInvalid)?,
            args: args()?,
        }),
    }
}

/// A text without the white space around it, as JavaScript's `trim` sees white space.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|character: char| character == '\u{feff}' || (character.is_whitespace() && character != '\u{85}'))
}

fn env(params: &Params) -> Result<Vec<(String, String)>, Code> {
    let members = match member(params, "env") {
        None => return Ok(Vec::new()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(Code::EnvInvalid),
    };
    members
        .iter()
        .map(|(name, value)| {
            let value = coerced(value).filter(|value| !value.contains('\0'));
            match value {
                Some(value) if !name.is_empty() && !name.contains(['=', '\0']) => Ok((name.clone(), value)),
                _ => Err(Code::EnvInvalid),
            }
        })
        .collect()
}

/// A scalar as JavaScript's `String(value)` prints it.
fn coerced(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) | Value::Array(_) => None,
        scalar => Some(canonical(scalar)),
    }
}

fn is_integer(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || number
            .as_f64()
            .is_some_and(|float| float.is_finite() && float.fract() == 0.0)
}

fn positive_integer(params: &Params, name: &str) -> Option<Number> {
    params
        .get(name)?
        .as_number()
        .filter(|number| is_integer(number) && number.as_f64().is_some_and(|float| float > 0.0))
        .cloned()
}

/// An integral number in the range of `u64`.
fn saturated(number: &Number) -> u64 {
    // `as` saturates from floats, and sends negative ones to zero.
    number.as_u64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<ProcessRequest, Code> {
        ProcessRequest::from_params(value.as_object().unwrap())
    }

    #[test]
    fn exactly_one_form() {
        assert_eq!(
            read(json!({"command": " echo a \n"})).unwrap().form,
            Form::Shell {
                command: "echo a".into()
            }
        );
        let exec = Form::Exec {
            executable: "printf".into(),
            args: vec!["%s".into(), "".into()],
        };
        assert_eq!(
            read(json!({"executable": "printf", "args": ["%s", ""], "command": null}))
                .unwrap()
                .form,
            exec
        );
        for (params, code) in [
            (json!({}), Code::CommandOrExecutableRequired),
            (json!({"args": ["x"]}), Code::CommandOrExecutableRequired),
            (json!({"command": 5}), Code::CommandInvalid),
            (json!({"command": " \n\t "}), Code::CommandInvalid),
            (json!({"command": "\u{feff}\u{2029} "}), Code::CommandInvalid),
            (json!({"command": "a\0b"}), Code::CommandInvalid),
            (json!({"executable": ["true"]}), Code::ExecutableInvalid),
            (json!({"executable": "a\0"}), Code::ExecutableInvalid),
            (json!({"executable": "true", "args": "x"}), Code::ArgsInvalid),
            (json!({"executable": "true", "args": ["a", null]}), Code::ArgsInvalid),
            (json!({"executable": "true", "args": ["a\0b"]}), Code::ArgsInvalid),
            (
                json!({"command": "true", "executable": "true"}),
                Code::CommandAndExecutableMutuallyExclusive,
            ),
            (json!({"command": "true", "args": ["x"]}), Code::ArgsWithCommandInvalid),
            (json!({"command": "true", "cwd": {}}), Code::CwdInvalid),
            (json!({"command": "true", "cwd": "a\0"}), Code::CwdInvalid),
        ] {
            assert_eq!(read(params.clone()), Err(code), "{params}");
        }
        assert!(read(json!({"command": "true", "args": []})).is_ok());
    }

    #[test]
    fn env_values_are_coerced_as_javascript_does() {
        let env = read(
            json!({"command": "true", "env": {"A": 1, "B": true, "C": null, "D": 1e21, "E": 1e-7, "F": "", "G": 0.5}}),
        )
        .unwrap()
        .env;
        let values: Vec<&str> = env.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["1", "true", "null", "1e+21", "1e-7", "", "0.5"]);
        for bad in [
            json!({"A": {}}),
            json!({"A": []}),
            json!({"": "x"}),
            json!({"A=B": "x"}),
            json!({"A\0": "x"}),
            json!({"A": "x\0"}),
            json!([]),
            json!("x"),
        ] {
            assert_eq!(
                read(json!({"command": "true", "env": bad})).unwrap_err(),
                Code::EnvInvalid
            );
        }
    }

    #[test]
    fn limits_default_and_saturate() {
        for value in [
            json!(0),
            json!(-1),
            json!("5000"),
            json!(1.5),
            json!(null),
            json!(true),
            json!([1]),
        ] {
            let request = read(json!({"command": "true", "timeoutMs": value, "maxOutputBytes": value})).unwrap();
            assert_eq!((request.timeout_ms(), request.max_output_bytes), (30_000, 1_048_576));
        }
        let request =
            read(json!({"command": "true", "timeoutMs": 1e300, "maxOutputBytes": 1e300, "deadlineMs": 8.64e15}))
                .unwrap();
        assert_eq!(
            (request.timeout_ms(), request.max_output_bytes, request.deadline_ms()),
            (u64::MAX, u64::MAX, Some(8_640_000_000_000_000))
        );
        assert_eq!(serde_json::to_string(&request.timeout_ms).unwrap(), "1e+300");
        for (value, deadline) in [
            (json!("1000"), None),
            (json!(1000.5), None),
            (json!(-5), Some(0)),
            (json!(1000.0), Some(1000)),
        ] {
            assert_eq!(
                read(json!({"command": "true", "deadlineMs": value}))
                    .unwrap()
                    .deadline_ms(),
                deadline
            );
        }
        assert_eq!(
            read(json!({"command": "true", "cwd": 7})).unwrap().cwd.as_deref(),
            Some("7")
        );
    }
}
