//! `configure`, and what refuses whom.

use crate::PROGRAM;
use crate::staging::{Staging, said, unprivileged};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const ENV: &str = "/etc/burrow-host-gateway/gateway.env";

#[test]
fn only_its_two_lines_change() {
    let staging = Staging::installed();
    let template = staging.read(ENV);
    let output = staging.goblin(&["configure", "controller.example:7443", "host-1"]);
    assert!(output.status.success(), "{}", said(&output));
    let expected = template
        .replace(
            "\nBURROW_GATEWAY_CONTROLLER_URL=\n",
            "\nBURROW_GATEWAY_CONTROLLER_URL=tls://controller.example:7443\n",
        )
        .replace("\nBURROW_GATEWAY_ID=\n", "\nBURROW_GATEWAY_ID=host-1\n");
    assert_eq!(staging.read(ENV), expected);
    assert_ne!(expected, template);
}

#[test]
fn windows_line_ends_and_trailing_spaces_are_no_obstacle() {
    let staging = Staging::installed();
    staging.write(
        ENV,
        "# mine\r\nBURROW_GATEWAY_ID=old   \r\nOTHER=\"a b\"\r\nBURROW_GATEWAY_CONTROLLER_URL=tls://old:1  \r\n",
    );
    let output = staging.goblin(&["configure", "tls://[2001:db8::1]:7443", "host-1"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        staging.read(ENV),
        "# mine\r\nBURROW_GATEWAY_ID=host-1\r\nOTHER=\"a b\"\r\nBURROW_GATEWAY_CONTROLLER_URL=tls://[2001:db8::1]:7443\r\n"
    );
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let staging = Staging::installed();
    let before = staging.read(ENV);
    for (controller, id, reason) in [
        ("https://a:1", "x", "tls://, not https://"),
        ("a.example", "x", "names no port"),
        ("2001:db8::1", "x", "port"),
        ("a:1;reboot", "x", "no place"),
        ("a:1\nX=1", "x", "no place"),
        ("a:1", "a/b", "no letter"),
        ("a:1", "a b", "no letter"),
        ("a:1", "", "can't be"),
        ("a:1", "local", "local"),
    ] {
        let output = staging.goblin(&["configure", controller, id]);
        assert!(!output.status.success(), "{controller:?} {id:?}");
        assert!(
            said(&output).contains(reason),
            "{controller:?} {id:?}: {}",
            said(&output)
        );
    }
    assert_eq!(staging.read(ENV), before);
}

#[test]
fn without_a_terminal_what_is_missing_is_an_error() {
    let staging = Staging::installed();
    for words in [&["configure"][..], &["configure", "a:1"]] {
        let output = staging.command(words).stdin(Stdio::null()).output().unwrap();
        assert!(
            !output.status.success() && said(&output).contains("no terminal"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn on_a_terminal_what_is_missing_is_asked() {
    let staging = Staging::installed();
    // script(1) is a terminal.
    let ask = |answers: &str| {
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command"])
            .arg(format!("'{PROGRAM}' configure"))
            .arg("/dev/null")
            .env("BURROW_GATEWAY_ROOT", staging.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), answers.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = ask("c.example:7443\nhost-7\n");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("Controller (HOST:PORT):"), "{}", said(&output));
    // An empty answer keeps what is there.
    let output = ask("\nhost-8\n");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("[tls://c.example:7443]"), "{}", said(&output));
    let env = staging.read(ENV);
    assert!(
        env.contains("=tls://c.example:7443\n") && env.contains("=host-8\n"),
        "{env}"
    );
}

#[test]
fn a_command_goes_on_when_nobody_reads_what_it_says() {
    let staging = Staging::installed();
    for words in [&["configure", "c.example:7443", "host-9"][..], &["unpair"]] {
        let (nobody, output) = std::io::pipe().unwrap();
        drop(nobody);
        let result = staging.command(words).stdout(output).output().unwrap();
        assert!(result.status.success(), "{words:?}: {}", said(&result));
    }
    assert!(staging.read(ENV).contains("=host-9\n"));
}

#[test]
fn an_unreadable_configuration_is_said_and_kept() {
    let staging = Staging::installed();
    // Even root can't read a folder as a file.
    fs::remove_file(staging.path(ENV)).unwrap();
    fs::create_dir(staging.path(ENV)).unwrap();
    for words in [
        &["configure", "a:1", "x"][..],
        &["pairing-code"],
        &["unpair"],
        &["doctor"],
    ] {
        let output = staging.goblin(words);
        assert!(!output.status.success(), "{words:?}");
        assert!(said(&output).contains("gateway.env"), "{words:?}: {}", said(&output));
    }
    assert!(staging.path(ENV).is_dir());
}

#[test]
fn a_configuration_that_permissions_hide_is_said() {
    let staging = Staging::installed();
    open_to_all(&staging);
    fs::set_permissions(staging.path(ENV), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = staging.command(&["doctor"]);
    unprivileged(&mut command);
    let output = command.output().unwrap();
    let said = said(&output);
    assert!(
        !output.status.success() && said.contains("Permission denied") && said.contains("0640"),
        "{said}"
    );
}

/// Lets an account without rights reach the staging root.
fn open_to_all(staging: &Staging) {
    for folder in [staging.root().parent().unwrap(), &staging.root()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn on_the_machine_itself_root_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where somebody else may start it.
    let program = folder.path().join("node-goblin");
    fs::copy(PROGRAM, &program).unwrap();
    let as_somebody = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env_remove("BURROW_GATEWAY_ROOT").current_dir("/");
        unprivileged(&mut command);
        command.output().unwrap()
    };
    for words in [
        &["configure", "a:1", "x"][..],
        &["connect"],
        &["status"],
        &["pairing-code"],
        &["unpair"],
        &["uninstall"],
        &["doctor"],
    ] {
        let output = as_somebody(words);
        let said = said(&output);
        assert!(
            !output.status.success() && said.contains("needs root: sudo node-goblin"),
            "{words:?}: {said}"
        );
    }
    for words in [["help"], ["--version"]] {
        assert!(as_somebody(&words).status.success(), "{words:?}");
    }
}

#[test]
fn a_staging_root_has_no_service() {
    let staging = Staging::installed();
    for words in [["connect"], ["status"]] {
        let output = staging.goblin(&words);
        assert!(
            !output.status.success() && said(&output).contains("BURROW_GATEWAY_ROOT"),
            "{}",
            said(&output)
        );
    }
    let mut elsewhere = staging.command(&["pairing-code"]);
    let output = elsewhere.env("BURROW_GATEWAY_ROOT", "relative").output().unwrap();
    assert!(!output.status.success() && said(&output).contains("absolute"));
    let output = elsewhere.env("BURROW_GATEWAY_ROOT", "/no/such/root").output().unwrap();
    assert!(!output.status.success() && said(&output).contains("no directory"));
}
