//! Two that claim to be one host.

use crate::fleet::{Fleet, gateway};
use crate::line::Line;
use serde_json::json;

#[test]
fn a_cloned_state_directory_does_not_take_the_place_of_a_live_host() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let clone = fleet.state_of("clone");
    std::fs::create_dir(&clone).unwrap();
    for entry in std::fs::read_dir(fleet.state_of("host-1")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            // Some files come and go.
            let _ = std::fs::copy(entry.path(), clone.join(entry.file_name()));
        }
    }
    std::fs::set_permissions(&clone, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let connected = fleet.snapshot("host-1")["connectedAt"].clone();
    let second = gateway(fleet.port, "host-1", &clone, |_| ());
    second.logged("gateway_already_connected");
    assert_eq!(fleet.snapshot("host-1")["connectedAt"], connected);
    assert_eq!(fleet.shell("host-1", "echo first").good(), "first\n");
    // Once the first is gone, the same key is the same host: nothing tells them apart.
    assert_eq!(host.stop().code, Some(0));
    fleet.is("host-1", "ready");
    assert_eq!(second.stop().code, Some(0));
}

#[test]
fn a_state_directory_serves_one_gateway() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let second = gateway(fleet.port, "host-2", &fleet.state_of("host-1"), |_| ()).end();
    let told = second.bad(1);
    assert!(told.contains(&host.pid().to_string()), "{told}");
    assert_eq!(fleet.shell("host-1", "echo fine").good(), "fine\n");
}

#[test]
fn a_connection_that_is_only_half_there_is_replaced() {
    let fleet = Fleet::new();
    let line = Line::to(fleet.port);
    let host = gateway(line.port, "host-1", &fleet.state_of("host-1"), |_| ());
    fleet.admit("host-1");
    let first = fleet.snapshot("host-1")["connectedAt"].clone();
    // The host crashes, and the network does not say so.
    line.freeze();
    host.kill();
    let _host = fleet.gateway("host-1");
    fleet.controller.logged("is replaced");
    goblin_testkit::eventually("another connection", || {
        let snapshot = fleet.snapshot("host-1");
        (snapshot["status"] == json!("ready") && snapshot["connectedAt"] != first).then_some(())
    });
    assert_eq!(fleet.shell("host-1", "echo again").good(), "again\n");
}
