//! The pairing code's file.

use std::os::unix::fs::symlink;

use super::{NOW, NOW_TEXT, Scratch, mode};
use crate::{PairingCode, read_pairing_code};

#[test]
fn a_code_is_read_beside_the_running_daemon() {
    let scratch = Scratch::new();
    assert_eq!(read_pairing_code(&scratch.folder.path().join("nowhere")).unwrap(), None);
    let state = scratch.open();
    assert_eq!(read_pairing_code(&scratch.state()).unwrap(), None);
    state.write_pairing_code("worker-01", "AAAA-BBBB-CCCC", NOW).unwrap();
    let expected = format!(
        "{{\n  \"gatewayId\": \"worker-01\",\n  \"pairingCode\": \"AAAA-BBBB-CCCC\",\n  \"updatedAt\": \"{NOW_TEXT}\"\n}}\n"
    );
    assert_eq!(scratch.get("pairing-code.json"), expected);
    assert_eq!(mode(&scratch.file("pairing-code.json")), 0o600);
    let code = PairingCode {
        gateway_id: "worker-01".to_owned(),
        code: "AAAA-BBBB-CCCC".to_owned(),
        updated_at: NOW_TEXT.to_owned(),
    };
    assert_eq!(read_pairing_code(&scratch.state()).unwrap(), Some(code.clone()));

    // A reconnection brings a new one.
    state
        .write_pairing_code("worker-01", "DDDD-EEEE-FFFF", NOW + 1_000)
        .unwrap();
    let next = read_pairing_code(&scratch.state()).unwrap().unwrap();
    assert_eq!(
        (next.code.as_str(), next.updated_at.as_str()),
        ("DDDD-EEEE-FFFF", "2026-12-01T00:00:01.123Z")
    );

    state.remove_pairing_code().unwrap();
    state.remove_pairing_code().unwrap();
    assert_eq!(read_pairing_code(&scratch.state()).unwrap(), None);
}

#[test]
fn a_baseline_code_is_read_and_a_broken_one_named() {
    let scratch = Scratch::new();
    scratch.put(
        "pairing-code.json",
        r#"{"gatewayId":"w","pairingCode":"A9D2-665E-4F77","updatedAt":"2026-01-02T03:04:05.678Z","more":1}"#,
    );
    assert_eq!(
        read_pairing_code(&scratch.state()).unwrap().unwrap().code,
        "A9D2-665E-4F77"
    );
    for broken in [
        "",
        "{",
        "{}",
        "[]",
        r#"{"gatewayId":"w","pairingCode":7,"updatedAt":"x"}"#,
    ] {
        scratch.put("pairing-code.json", broken);
        let error = read_pairing_code(&scratch.state()).unwrap_err();
        assert_eq!(error.code(), "state_file_invalid");
        assert!(error.to_string().contains("pairing-code.json"), "{error}");
        // It stops no start: the next pairing replaces it.
        let state = scratch.open();
        state.write_pairing_code("w", "AAAA-BBBB-CCCC", NOW).unwrap();
    }
    std::fs::remove_file(scratch.file("pairing-code.json")).unwrap();
    symlink("/etc/hostname", scratch.file("pairing-code.json")).unwrap();
    assert_eq!(
        read_pairing_code(&scratch.state()).unwrap_err().code(),
        "state_file_not_regular"
    );
}
