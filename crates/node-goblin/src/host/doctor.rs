//! `doctor`: looks at everything between this host and its controller, and says what to do for each fault.

mod clock;
mod files;
mod network;
mod service;

use crate::host::layout::Layout;
use crate::host::observation::Trust;
use crate::host::output::say;
use crate::host::settings::Settings;
use crate::host::systemctl::ServiceManager;
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Words of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warning,
    Fault,
}

/// What one look brought to light.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Ok,
            seen: seen.into(),
            remedy: None,
        }
    }

    fn warning(check: &'static str, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Warning,
            seen: seen.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fault(check: &'static str, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Fault,
            ..Self::warning(check, seen, remedy)
        }
    }
}

#[derive(Serialize)]
struct Report {
    healthy: bool,
    findings: Vec<Finding>,
}

pub fn run(layout: &Layout, manager: &ServiceManager, arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    layout.require_root("doctor")?;
    let findings = examine(layout, manager)?;
    let healthy = findings.iter().all(|finding| finding.verdict != Verdict::Fault);
    if arguments.json {
        say!("{}", serde_json::to_string_pretty(&Report { healthy, findings })?);
    } else {
        say!("{}", words(&findings).trim_end());
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn examine(layout: &Layout, manager: &ServiceManager) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let settings = match Settings::read(layout) {
        Ok(settings) => settings,
        Err(error) => {
            // Without its configuration nothing else about the host can be known.
            let remedy = format!(
                "as root: ls -l '{}'; it is a file of root:burrow, mode 0640",
                layout.env_file().display()
            );
            return Ok(vec![Finding::fault("configuration", format!("{error:#}"), remedy)]);
        }
    };
    files::configuration(layout, &settings, &mut findings);
    if layout.is_staging() {
        findings.push(Finding::ok("service", "not looked at: this is a staging root"));
    } else {
        service::unit(manager, &mut findings);
    }
    let state = settings.state_directory();
    files::state_directory(layout, &state, &mut findings)?;
    files::disk(&state, &mut findings);
    let trust = Trust::read(&state).unwrap_or_else(|error| {
        let remedy = "restore the file, or move it away and have this host approved again";
        findings.push(Finding::fault("identity", format!("{error:#}"), remedy));
        Trust::default()
    });
    clock::check(layout, &state, &mut findings);
    if let Ok(Some(address)) = settings.controller() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime")?;
        runtime.block_on(network::check(&settings, &address, &trust, &mut findings));
        // A name that is still being looked up must not keep the command.
        runtime.shutdown_background();
    }
    Ok(findings)
}

fn words(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok     ",
            Verdict::Warning => "warning",
            Verdict::Fault => "FAULT  ",
        };
        text.push_str(&format!("{mark} {:<14} {}\n", finding.check, finding.seen));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("{:23}-> {remedy}\n", ""));
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    text.push_str(&match (count(Verdict::Fault), count(Verdict::Warning)) {
        (0, 0) => "nothing is wrong\n".to_owned(),
        (0, warnings) => format!("no fault, {warnings} to look at\n"),
        (faults, _) => format!("{faults} to mend\n"),
    });
    text
}
