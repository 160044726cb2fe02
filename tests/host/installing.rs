//! `install.sh` and `uninstall.sh` below a staging root.

use crate::staging::{Staging, is_root, run, said, snapshot};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn everything_lies_where_it_belongs() {
    let staging = Staging::installed();
    let program = staging.path("/opt/burrow-host-gateway/burrow-host-gateway");
    assert_eq!(fs::read_link(&program).unwrap(), Path::new("node-goblin"));
    assert!(run(Command::new(&program).arg("--version")).starts_with("node-goblin "));
    assert_eq!(mode(&staging.path("/etc/burrow-host-gateway/gateway.env")), 0o640);
    assert_eq!(mode(&staging.path("/var/lib/burrow-host-gateway")), 0o700);
    assert_eq!(mode(&staging.path("/opt/burrow-host-gateway/node-goblin")), 0o755);
    for command in ["node-goblin", "burrow-host-gateway"] {
        let link = fs::read_link(staging.path("/usr/local/bin").join(command)).unwrap();
        assert_eq!(link, Path::new("/opt/burrow-host-gateway").join(command));
    }
    let unit = staging.read("/etc/systemd/system/burrow-host-gateway.service");
    for line in [
        "User=burrow",
        "Group=burrow",
        "UMask=0077",
        "Restart=always",
        "RestartSec=5",
        "PrivateTmp=yes",
        "Type=notify",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    for file in [
        "/usr/local/share/man/man1/node-goblin.1",
        "/opt/burrow-host-gateway/sbom.cdx.json",
    ] {
        assert!(staging.path(file).is_file(), "{file}");
    }
}

#[test]
fn installing_again_changes_neither_configuration_nor_state() {
    let staging = Staging::installed();
    staging.write("/etc/burrow-host-gateway/gateway.env", "MINE=1\r\n");
    staging.write("/var/lib/burrow-host-gateway/operations.json", r#"{"entries":[]}"#);
    staging.write("/var/lib/burrow-host-gateway/node-identity.json", "anything");
    let both = || {
        let mut files = snapshot(&staging.path("/etc/burrow-host-gateway"));
        files.extend(snapshot(&staging.path("/var/lib/burrow-host-gateway")));
        files
    };
    let before = both();
    let output = staging.install();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(both(), before);
}

#[test]
fn uninstalling_keeps_configuration_and_state_and_what_is_not_ours() {
    let staging = Staging::installed();
    staging.write("/var/lib/burrow-host-gateway/operations.json", "{}");
    staging.write("/opt/burrow-host-gateway/notes.txt", "somebody's");
    fs::remove_file(staging.path("/usr/local/bin/node-goblin")).unwrap();
    staging.write("/usr/local/bin/node-goblin", "somebody's own command");
    let output = staging.goblin(&["uninstall"]);
    assert!(output.status.success(), "{}", said(&output));
    for gone in [
        "/opt/burrow-host-gateway/node-goblin",
        "/opt/burrow-host-gateway/uninstall.sh",
        "/etc/systemd/system/burrow-host-gateway.service",
        "/usr/local/bin/burrow-host-gateway",
        "/usr/local/share/man/man1/node-goblin.1",
        "/usr/local/share/fish/vendor_completions.d/node-goblin.fish",
    ] {
        assert!(fs::symlink_metadata(staging.path(gone)).is_err(), "{gone}");
    }
    for kept in [
        "/etc/burrow-host-gateway/gateway.env",
        "/var/lib/burrow-host-gateway/operations.json",
        "/opt/burrow-host-gateway/notes.txt",
        "/usr/local/bin/node-goblin",
    ] {
        assert!(staging.path(kept).is_file(), "{kept}");
    }
    // With nothing installed it says so; the script itself may be run twice.
    assert!(!staging.goblin(&["uninstall"]).status.success());
    assert!(staging.uninstall().status.success());
}

/// The older program as it lies on a host.
fn nodejs(staging: &Staging) {
    staging.write("/opt/burrow-host-gateway/gateway/cli.mjs", "console.log('old')");
    staging.write("/opt/burrow-host-gateway/package.json", "{}");
    staging.write(
        "/etc/systemd/system/burrow-host-gateway.service",
        "[Service]\nExecStart=/usr/bin/node /opt/burrow-host-gateway/gateway/cli.mjs\nUser=burrow\n",
    );
    staging.write(
        "/etc/burrow-host-gateway/gateway.env",
        "BURROW_GATEWAY_CONTROLLER_URL=tls://c.example:7443\nBURROW_GATEWAY_ID=old-host\n",
    );
    staging.write("/var/lib/burrow-host-gateway/node-identity.json", "{}");
    staging.write("/var/lib/burrow-host-gateway/operations.json", r#"{"entries":[]}"#);
}

#[test]
fn the_older_program_is_moved_aside_and_its_host_taken_over() {
    let staging = Staging::new();
    nodejs(&staging);
    let kept = snapshot(&staging.path("/var/lib/burrow-host-gateway"));
    let output = staging.install();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        staging.read("/opt/burrow-host-gateway.nodejs/gateway/cli.mjs"),
        "console.log('old')"
    );
    assert!(
        staging
            .read("/opt/burrow-host-gateway.nodejs/burrow-host-gateway.service")
            .contains("cli.mjs")
    );
    assert!(!staging.path("/opt/burrow-host-gateway/package.json").exists());
    assert!(
        staging
            .read("/etc/systemd/system/burrow-host-gateway.service")
            .contains("ExecStart=/opt/burrow-host-gateway/burrow-host-gateway gateway")
    );
    assert!(
        staging
            .read("/etc/burrow-host-gateway/gateway.env")
            .contains("old-host")
    );
    assert_eq!(snapshot(&staging.path("/var/lib/burrow-host-gateway")), kept);
    // Back and forth again: what was moved first stays.
    fs::remove_dir_all(staging.path("/opt/burrow-host-gateway")).unwrap();
    staging.write("/opt/burrow-host-gateway/gateway/cli.mjs", "second");
    assert!(staging.install().status.success());
    assert_eq!(
        staging.read("/opt/burrow-host-gateway.nodejs.2/gateway/cli.mjs"),
        "second"
    );
    assert!(staging.path("/opt/burrow-host-gateway.nodejs/gateway/cli.mjs").exists());
}

#[test]
fn an_account_of_that_name_with_another_primary_group_is_refused() {
    let staging = Staging::new();
    staging.write("/etc/passwd", "burrow:x:1000:100::/home/burrow:/bin/sh\n");
    staging.write("/etc/group", "users:x:100:\nburrow:x:4226:\n");
    refused(&staging, "primary group is not burrow");
}

#[test]
fn a_number_that_belongs_to_another_is_refused_with_the_way_out() {
    let staging = Staging::new();
    staging.write("/etc/passwd", "backup:x:4226:34::/:/bin/false\n");
    staging.write("/etc/group", "");
    refused(&staging, "UID 4226 belongs to backup");
    staging.write("/etc/passwd", "");
    staging.write("/etc/group", "badgers:x:4226:\n");
    refused(&staging, "GID 4226 belongs to badgers");
}

/// Refused before anything was changed.
fn refused(staging: &Staging, reason: &str) {
    let before = snapshot(&staging.root());
    let output = staging.install();
    assert!(
        !output.status.success() && said(&output).contains(reason),
        "{}",
        said(&output)
    );
    assert_eq!(snapshot(&staging.root()), before);
}

#[test]
fn an_existing_account_is_adopted_whatever_its_number() {
    let staging = Staging::new();
    let accounts = "root:x:0:0::/root:/bin/sh\nburrow:x:991:992::/nonexistent:/usr/sbin/nologin\n";
    staging.write("/etc/passwd", accounts);
    staging.write("/etc/group", "root:x:0:\nburrow:x:992:\n");
    let output = staging.install();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(staging.read("/etc/passwd"), accounts);
    let configured = staging.goblin(&["configure", "c.example:7443", "host-1"]);
    assert!(configured.status.success(), "{}", said(&configured));
    let (env, state) = (
        fs::metadata(staging.path("/etc/burrow-host-gateway/gateway.env")).unwrap(),
        fs::metadata(staging.path("/var/lib/burrow-host-gateway")).unwrap(),
    );
    // Only root can give files away.
    let (owner, group, of_state) = if is_root() {
        (0, 992, 991)
    } else {
        (env.uid(), env.gid(), state.uid())
    };
    assert_eq!((env.uid(), env.gid(), state.uid()), (owner, group, of_state));
    assert_eq!(env.permissions().mode() & 0o7777, 0o640);
}

#[test]
fn where_usr_cannot_be_written_the_program_is_installed_without_conveniences() {
    let staging = Staging::new();
    // What root may not write either.
    staging.write("/usr/local", "no folder");
    let output = staging.install();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("call the program as /opt/burrow-host-gateway/node-goblin"));
    assert!(staging.path("/opt/burrow-host-gateway/node-goblin").exists());
}

#[test]
fn a_destination_must_be_a_folder_that_can_be_written() {
    let staging = Staging::new();
    staging.write("/opt", "no folder");
    let output = staging.install();
    assert!(
        !output.status.success() && said(&output).contains("opt can't be written"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_debian_installation_is_left_to_dpkg() {
    let staging = Staging::installed();
    staging.write("/var/lib/dpkg/info/burrow-host-gateway.md5sums", "");
    for output in [staging.install(), staging.uninstall(), staging.goblin(&["uninstall"])] {
        assert!(
            !output.status.success() && said(&output).contains("apt remove"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn a_link_in_place_of_the_configuration_stays() {
    let staging = Staging::new();
    fs::create_dir_all(staging.path("/etc/burrow-host-gateway")).unwrap();
    symlink("/nowhere", staging.path("/etc/burrow-host-gateway/gateway.env")).unwrap();
    assert!(staging.install().status.success());
    assert_eq!(
        fs::read_link(staging.path("/etc/burrow-host-gateway/gateway.env")).unwrap(),
        Path::new("/nowhere")
    );
}
