//! What is to be run, out of the command line; and the command line that asks for it again.

use crate::endpoint::Endpoint;
use crate::exec::ExecArguments;
use crate::ids;
use crate::shell::command_line;
use anyhow::{Context, bail};
use goblin_api::{ProcessRequest, ProtectedValues};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// Bytes of output that no command ever writes: the largest integer that every JSON reader holds exactly.
const NO_LIMIT: u64 = (1 << 53) - 1;

/// How long a command may run unless told otherwise: a day.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// One command for one gateway.
#[derive(Debug)]
pub struct Order {
    /// The gateway.
    pub gateway: String,
    /// What it is asked for.
    pub request: ProcessRequest,
    /// The arguments that ask for the same again, less the secrets, the id and the place.
    again: Vec<String>,
    secrets: Vec<String>,
    endpoint: Endpoint,
}

impl Order {
    /// A program, or a command line for the shell, that `exec` would run without any flag.
    pub fn plain(
        endpoint: Endpoint,
        gateway: String,
        program: Vec<String>,
        shell: Option<String>,
    ) -> anyhow::Result<Self> {
        let arguments = ExecArguments {
            endpoint,
            gateway,
            cwd: None,
            env: Vec::new(),
            secret: Vec::new(),
            timeout: TIMEOUT_DEFAULT,
            max_output: None,
            id: None,
            no_recover: true,
            json: false,
            shell,
            program,
        };
        Self::new(arguments, &|_| None)
    }

    /// Reads the command line; secrets come out of `environment`.
    pub fn new(arguments: ExecArguments, environment: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<Self> {
        let again = again(&arguments);
        let mut secrets = BTreeMap::new();
        for name in &arguments.secret {
            let value = environment(name).with_context(|| format!("--secret {name}: {name} is not set here"))?;
            let Ok(value) = value.into_string() else {
                bail!("--secret {name}: its value is not UTF-8");
            };
            if value.is_empty() {
                bail!("--secret {name}: its value is empty");
            }
            secrets.insert(name.clone(), value);
        }
        let mut words = arguments.program.into_iter();
        let executable = words.next();
        let request = ProcessRequest {
            operation_id: arguments.id.unwrap_or_else(ids::new_operation),
            command: arguments.shell,
            args: executable.is_some().then(|| words.collect()),
            executable,
            cwd: arguments.cwd,
            env: (!arguments.env.is_empty()).then(|| arguments.env.into_iter().collect()),
            timeout_ms: Some(
                arguments
                    .timeout
                    .as_millis()
                    .try_into()
                    .unwrap_or(NO_LIMIT)
                    .min(NO_LIMIT),
            ),
            max_output_bytes: Some(arguments.max_output.unwrap_or(NO_LIMIT).min(NO_LIMIT)),
            protected_values: (!secrets.is_empty()).then_some(ProtectedValues(secrets)),
            ..ProcessRequest::default()
        };
        Ok(Self {
            gateway: arguments.gateway,
            request,
            again,
            secrets: arguments.secret,
            endpoint: arguments.endpoint,
        })
    }

    /// The command line that asks for the same operation again. Secrets are delivered once, so an operation that began
    /// is asked for without them.
    pub fn command_line(&self, began: bool) -> String {
        let mut words = self.endpoint.command("exec");
        words.extend([
            self.gateway.clone(),
            "--id".to_owned(),
            self.request.operation_id.clone(),
        ]);
        if !began {
            words.extend(
                self.secrets
                    .iter()
                    .flat_map(|name| ["--secret".to_owned(), name.clone()]),
            );
        }
        words.extend(self.again.iter().cloned());
        command_line(&words)
    }

    /// The command line that ends the operation.
    pub fn cancel_line(&self) -> String {
        let mut words = self.endpoint.command("cancel");
        words.extend([self.gateway.clone(), self.request.operation_id.clone()]);
        command_line(&words)
    }
}

fn again(arguments: &ExecArguments) -> Vec<String> {
    let mut words = Vec::new();
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if let Some(directory) = &arguments.cwd {
        flag("--cwd", directory.clone());
    }
    for (name, value) in &arguments.env {
        flag("--env", format!("{name}={value}"));
    }
    flag("--timeout", format!("{}ms", arguments.timeout.as_millis()));
    if let Some(bytes) = arguments.max_output {
        flag("--max-output", bytes.to_string());
    }
    if let Some(command) = &arguments.shell {
        flag("--shell", command.clone());
    }
    if !arguments.program.is_empty() {
        words.push("--".to_owned());
        words.extend(arguments.program.iter().cloned());
    }
    words
}

/// `NAME=VALUE`.
pub fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give it as NAME=VALUE".to_owned()),
    }
}

/// The name of a variable that can carry a secret.
pub fn secret_name(text: &str) -> Result<String, String> {
    let letters = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let named =
        text.bytes().next().is_some_and(letters) && text.bytes().all(|byte| letters(byte) || byte.is_ascii_digit());
    match named {
        true => Ok(text.to_owned()),
        // The text may be the secret itself, so it is not repeated.
        false => Err("give the name of a variable, not a value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ExecArguments,
    }

    fn order(words: &[&str]) -> anyhow::Result<Order> {
        let line = Line::try_parse_from(["exec"].iter().chain(words))?;
        Order::new(line.arguments, &|name| match name {
            "TOKEN" => Some("hunter2".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        })
    }

    fn fault(words: &[&str]) -> String {
        format!("{:#}", order(words).unwrap_err())
    }

    #[test]
    fn a_program_and_its_arguments_go_through_untouched() {
        let asked = order(&[
            "w", "--cwd", "/x", "--env", "A=1=2", "-e", "B=", "--id", "op-1", "--", "prog", "--json", "-x", "--",
        ])
        .unwrap();
        let request = asked.request;
        assert_eq!((asked.gateway.as_str(), request.operation_id.as_str()), ("w", "op-1"));
        assert_eq!(request.executable.as_deref(), Some("prog"));
        assert_eq!(request.args.unwrap(), ["--json", "-x", "--"]);
        assert_eq!(request.cwd.as_deref(), Some("/x"));
        let variables: Vec<_> = request.env.unwrap().into_iter().collect();
        assert_eq!(variables, [("A".into(), "1=2".into()), ("B".into(), String::new())]);
        assert_eq!(request.timeout_ms, Some(86_400_000), "a day unless told otherwise");
        assert_eq!(
            request.max_output_bytes,
            Some(9_007_199_254_740_991),
            "no limit unless told otherwise"
        );
        assert_eq!(request.protected_values, None);
    }

    #[test]
    fn the_two_dashes_may_be_left_out_and_shell_takes_a_line() {
        let asked = order(&["w", "--timeout", "90", "ls", "-l", "--timeout"])
            .unwrap()
            .request;
        assert_eq!(
            (asked.timeout_ms, asked.args.unwrap().join(" ")),
            (Some(90_000), "-l --timeout".into())
        );
        let asked = order(&["w", "--max-output", "1K", "--shell", "a | b"]).unwrap().request;
        assert_eq!(
            (asked.command.as_deref(), asked.executable, asked.args),
            (Some("a | b"), None, None)
        );
        assert_eq!(asked.max_output_bytes, Some(1_024));
        let ids = [order(&["w", "x"]).unwrap(), order(&["w", "x"]).unwrap()].map(|order| order.request.operation_id);
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn faults_are_said_before_anything_is_sent() {
        assert!(fault(&["w"]).contains("PROGRAM"));
        assert!(fault(&["w", "--shell", "x", "--", "y"]).contains("cannot be used with"));
        assert!(fault(&["w", "--env", "=x", "y"]).contains("NAME=VALUE"));
        assert!(fault(&["w", "--timeout", "soon", "y"]).contains("soon"));
        assert!(fault(&["w", "--id", "a b", "y"]).contains("--id"));
        assert!(fault(&["w", "--secret", "ABSENT", "y"]).contains("ABSENT is not set"));
        assert!(fault(&["w", "--secret", "EMPTY", "y"]).contains("empty"));
        assert!(fault(&["w", "--secret", "TOKEN=hunter2", "y"]).contains("not a value"));
    }

    #[test]
    fn a_secret_is_delivered_by_name_and_shows_nowhere() {
        let asked = order(&["w", "--secret", "TOKEN", "--id", "o", "x"]).unwrap();
        assert_eq!(asked.request.protected_values.as_ref().unwrap().0["TOKEN"], "hunter2");
        assert!(!format!("{asked:?}").contains("hunter2"));
        assert!(!asked.command_line(false).contains("hunter2"));
        assert!(asked.command_line(false).contains("--secret TOKEN"));
        assert!(
            !asked.command_line(true).contains("--secret"),
            "an operation that began has its secrets"
        );
    }

    #[test]
    fn asking_again_is_asking_for_the_same() {
        let words = [
            "--state-dir",
            "/s t",
            "w",
            "--cwd",
            "/it's",
            "--env",
            "A=b\nc",
            "--max-output",
            "64K",
            "--id",
            "o",
            "--",
            "sh",
            "-c",
            "echo \"$A\"",
            "",
        ];
        let first = order(&words).unwrap();
        let line = first.command_line(true);
        assert_eq!(
            line,
            r#"node-goblin exec --state-dir '/s t' w --id o --cwd '/it'\''s' --env "$(printf '\101\075\142\012\143')" --timeout 86400000ms --max-output 65536 -- sh -c 'echo "$A"' ''"#
        );
        // A real shell takes the line apart again.
        let script = line.replacen("node-goblin exec", "printf '%s\\0'", 1);
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap()
            .stdout;
        let text = String::from_utf8(output).unwrap();
        let words: Vec<&str> = text.strip_suffix('\0').unwrap().split('\0').collect();
        assert_eq!(order(&words).unwrap().request, first.request);
    }
}
