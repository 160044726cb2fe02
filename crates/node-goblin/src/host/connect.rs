//! `connect`: starts the service and waits for what the operator wants to know.

use crate::host::hint;
use crate::host::layout::{Layout, UNIT};
use crate::host::observation::Observation;
use crate::host::output::say;
use crate::host::settings::Settings;
use crate::host::systemctl::ServiceManager;
use anyhow::{Context, bail};
use goblin_gateway::presence::Phase;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the unit may take to become active.
const ACTIVE: Duration = Duration::from_secs(30);

/// How long a first word of the controller is waited for.
const WORD: Duration = Duration::from_secs(15);

/// Between two looks: nothing announces these events to another process.
const LOOK: Duration = Duration::from_millis(100);

pub fn run(layout: &Layout, manager: &ServiceManager) -> anyhow::Result<ExitCode> {
    layout.require_service("connect")?;
    layout.require_root("connect")?;
    start(layout, manager, ACTIVE, WORD)
}

fn start(layout: &Layout, manager: &ServiceManager, active: Duration, word: Duration) -> anyhow::Result<ExitCode> {
    let settings = Settings::read(layout)?;
    let Some(controller) = settings.controller()? else {
        bail!("no controller is configured: node-goblin configure HOST:PORT NODE_ID");
    };
    let Some(id) = settings.gateway_id() else {
        bail!("this host has no id yet: node-goblin configure HOST:PORT NODE_ID");
    };
    manager.order(&["daemon-reload"])?;
    manager.order(&["enable", UNIT])?;
    let before = Observation::take(layout, manager, &settings)?;
    let running = before.unit.is_ok_and(|unit| unit.active == "active");
    // A daemon reads its configuration once; one that tells nothing of itself, or another version, is an earlier program.
    let up_to_date = before.presence.is_some_and(|note| {
        note.controller == controller.authority() && note.gateway_id == id && note.version == env!("CARGO_PKG_VERSION")
    });
    manager.order(&[if running && !up_to_date { "restart" } else { "start" }, UNIT])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .context("the runtime")?;
    runtime.block_on(async {
        wait_until_active(manager, active).await?;
        say!("{UNIT} is active; controller {}, id {id}", controller.authority());
        wait_for_word(layout, manager, &settings, word).await
    })
}

async fn wait_until_active(manager: &ServiceManager, limit: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let unit = manager.state()?;
        match unit.active.as_str() {
            "active" => return Ok(()),
            "failed" => bail!("{UNIT} failed ({}): journalctl -u {UNIT}", unit.result),
            _ if begun.elapsed() >= limit => {
                bail!(
                    "{UNIT} is {} ({}) after {} s: node-goblin status",
                    unit.active,
                    unit.sub,
                    limit.as_secs()
                )
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn wait_for_word(
    layout: &Layout,
    manager: &ServiceManager,
    settings: &Settings,
    limit: Duration,
) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    loop {
        let seen = Observation::take(layout, manager, settings)?;
        let over = begun.elapsed() >= limit;
        if let Some(code) = seen.pairing_code {
            say!("pairing code: {code}");
            say!("approve it on the controller once it shows the same code");
            return Ok(ExitCode::SUCCESS);
        }
        match seen.presence {
            Some(note) if note.phase == Phase::Connected => {
                say!("connected and approved");
                return Ok(ExitCode::SUCCESS);
            }
            Some(note) if over => {
                if let Some(error) = note.last_error {
                    say!("not connected yet: {}", error.message);
                    if let Some(advice) = hint::for_code(&error.code) {
                        say!("{advice}");
                    }
                } else {
                    say!("not connected yet: node-goblin status");
                }
                return Ok(ExitCode::SUCCESS);
            }
            None if over => {
                say!("the service says nothing of itself yet: node-goblin status");
                return Ok(ExitCode::SUCCESS);
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    const SOON: Duration = Duration::from_millis(300);

    /// A machine whose systemctl notes its calls and then runs `on_start` when it starts the unit.
    struct Machine {
        root: TempDir,
        layout: Layout,
        manager: ServiceManager,
    }

    impl Machine {
        fn new(env: &str, on_start: &str) -> Self {
            let root = tempfile::tempdir().unwrap();
            let layout = Layout::of(root.path(), false);
            let path = root.path().display();
            fs::create_dir_all(root.path().join("var/lib/burrow-host-gateway")).unwrap();
            fs::create_dir_all(layout.env_file().parent().unwrap()).unwrap();
            fs::write(layout.env_file(), env).unwrap();
            fs::write(root.path().join("active"), "inactive").unwrap();
            let script = format!(
                "#!/bin/sh\ncd '{path}'\ncase $1 in\n\
                 show) echo LoadState=loaded; echo ActiveState=$(cat active); echo Result=exit-code; exit;;\n\
                 start|restart) {on_start};;\nesac\necho \"$@\" >>calls\n"
            );
            let systemctl = root.path().join("systemctl");
            fs::write(&systemctl, script).unwrap();
            fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
            let manager = ServiceManager::with(&systemctl);
            Self { root, layout, manager }
        }

        fn connect(&self) -> anyhow::Result<ExitCode> {
            start(&self.layout, &self.manager, SOON, SOON)
        }

        fn calls(&self) -> String {
            fs::read_to_string(self.root.path().join("calls")).unwrap_or_default()
        }
    }

    const CONFIGURED: &str = "BURROW_GATEWAY_CONTROLLER_URL=tls://c.example:7443\nBURROW_GATEWAY_ID=host-1\n";

    #[test]
    fn systemd_is_reloaded_and_the_unit_enabled_and_started() {
        let code = r#"{"gatewayId":"host-1","pairingCode":"AAAA-BBBB-CCCC","updatedAt":"2026-01-01T00:00:00.000Z"}"#;
        let on_start = format!("echo active >active; echo '{code}' >var/lib/burrow-host-gateway/pairing-code.json");
        let machine = Machine::new(CONFIGURED, &on_start);
        assert_eq!(machine.connect().unwrap(), ExitCode::SUCCESS);
        assert_eq!(
            machine.calls(),
            "daemon-reload\nenable burrow-host-gateway.service\nstart burrow-host-gateway.service\n"
        );
    }

    #[test]
    fn a_daemon_of_an_earlier_program_or_configuration_is_restarted() {
        let note = |controller: &str, version: &str| {
            let pid = std::process::id();
            format!(
                r#"{{"pid":{pid},"version":"{version}","phase":"connected","since":"x","controller":"{controller}","gatewayId":"host-1","journalEntries":0}}"#
            )
        };
        let current = env!("CARGO_PKG_VERSION");
        for (note, order) in [
            (Some(note("c.example:7443", current)), "start"),
            (Some(note("old:1", current)), "restart"),
            (Some(note("c.example:7443", "1.0.0")), "restart"),
            (None, "restart"),
        ] {
            let machine = Machine::new(CONFIGURED, "echo active >active");
            fs::write(machine.root.path().join("active"), "active").unwrap();
            if let Some(note) = &note {
                let file = machine.root.path().join("var/lib/burrow-host-gateway/status.json");
                fs::write(file, note).unwrap();
            }
            machine.connect().unwrap();
            let calls = machine.calls();
            assert!(
                calls.ends_with(&format!("\n{order} burrow-host-gateway.service\n")),
                "{note:?}: {calls}"
            );
        }
    }

    #[test]
    fn a_unit_that_does_not_come_up_is_an_error() {
        let failed = Machine::new(CONFIGURED, "echo failed >active");
        assert!(failed.connect().unwrap_err().to_string().contains("failed (exit-code)"));
        let slow = Machine::new(CONFIGURED, "echo activating >active");
        assert!(slow.connect().unwrap_err().to_string().contains("activating"));
        let refused = Machine::new(CONFIGURED, "echo no >&2; exit 1");
        assert!(
            refused
                .connect()
                .unwrap_err()
                .to_string()
                .contains("start burrow-host-gateway.service failed")
        );
    }

    #[test]
    fn nothing_is_started_before_it_is_configured() {
        for env in [
            "",
            "BURROW_GATEWAY_ID=x",
            "BURROW_GATEWAY_CONTROLLER_URL=tls://a:1",
            "BURROW_GATEWAY_CONTROLLER_URL=x",
        ] {
            let machine = Machine::new(env, "echo active >active");
            assert!(machine.connect().is_err(), "{env}");
            assert_eq!(machine.calls(), "", "{env}");
        }
    }
}
