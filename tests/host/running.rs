//! The daemon as a service manager starts it: by the second name, from the environment, notifying; and what it leaves
//! for the operator's command.

use crate::peer::{Certificate, Peer};
use crate::staging::Staging;
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_service_notifies_and_its_commands_can_not() {
    let staging = Staging::installed();
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path(), "controller");
    let mut controller = Peer::controller(&certificate, json!({"approve": false}));
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let token = folder.path().join("enrollment-token");
    // What systemd leaves where no token was given.
    std::fs::write(&token, "").unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    let state = staging.path("/var/lib/burrow-host-gateway");
    let child = Command::new(staging.path("/opt/burrow-host-gateway/burrow-host-gateway"))
        .arg("gateway")
        .env(
            "BURROW_GATEWAY_CONTROLLER_URL",
            format!("tls://127.0.0.1:{}", controller.port),
        )
        .env("BURROW_GATEWAY_ID", "host-1")
        .env("BURROW_GATEWAY_STATE_DIR", &state)
        .env("BURROW_GATEWAY_ENROLLMENT_TOKEN_FILE", &token)
        .env("CREDENTIALS_DIRECTORY", folder.path())
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "300000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let service = Service(child);
    let hear = |wanted: &str| loop {
        let mut block = [0; 512];
        let length = manager.recv(&mut block).expect(wanted);
        if String::from_utf8_lossy(&block[..length]).contains(wanted) {
            return;
        }
    };
    hear("READY=1");
    hear("STATUS=Waiting for approval");
    hear("WATCHDOG=1");
    let pending = controller.event("pending");
    let code = eventually("the code", || {
        let output = staging.goblin(&["pairing-code"]);
        output
            .status
            .success()
            .then(|| String::from_utf8(output.stdout).unwrap())
    });
    assert_eq!(json!(code.trim()), pending["code"]);
    let long = String::from_utf8(staging.goblin(&["pairing-code", "--long"]).stdout).unwrap();
    assert!(long.starts_with(code.trim()) && long.trim().len() == 39, "{long}");
    controller.order(json!({"approve": true}));
    controller.event("ready");
    hear("STATUS=Connected to 127.0.0.1");
    hear("WATCHDOG=1");
    controller.request(
        "1",
        "process.exec",
        json!({"operationId": "op", "command": "env | grep -E '^(NOTIFY|WATCHDOG|CREDENTIALS|BURROW_GATEWAY)' || echo none"}),
    );
    assert_eq!(controller.answer("1")["result"]["outcome"]["stdout"], json!("none\n"));
    let note =
        || -> Value { serde_json::from_str(&std::fs::read_to_string(state.join("status.json")).unwrap()).unwrap() };
    assert_eq!(
        (&note()["phase"], &note()["gatewayId"]),
        (&json!("connected"), &json!("host-1"))
    );
    assert!(note()["pairingCode"].is_null());
    let mut service = service;
    Command::new("kill").arg(service.0.id().to_string()).status().unwrap();
    let status = eventually("the end", || service.0.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(
        (&note()["phase"], &note()["journalEntries"]),
        (&json!("stopped"), &json!(1))
    );
    hear("STATUS=Stopping");
}
