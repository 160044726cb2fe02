//! What `scripts/package` makes.

use crate::staging::{only, package, packages, run, tree};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

#[test]
fn two_packagings_of_one_program_are_equal_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    package(&other, |command| {
        // Whoever packages, wherever, whenever.
        command
            .env("TZ", "Asia/Tokyo")
            .env("LC_ALL", "C.UTF-8")
            .env("TMPDIR", folder.path());
        command.env("XZ_DEFAULTS", "--threads=4");
    });
    for ending in [".deb", ".tar.gz", ".deb.sha256", ".tar.gz.sha256", ".cdx.json"] {
        let (one, two) = (only(packages(), ending), only(&other, ending));
        assert_eq!(one.file_name(), two.file_name());
        assert!(fs::read(one).unwrap() == fs::read(two).unwrap(), "{ending} differs");
    }
}

#[test]
fn checksums_are_those_of_the_files() {
    for ending in [".deb.sha256", ".tar.gz.sha256", ".cdx.json.sha256"] {
        let file = only(packages(), ending);
        run(Command::new("sha256sum").arg("-c").arg(file).current_dir(packages()));
    }
}

#[test]
fn everything_in_the_packages_is_roots_and_of_one_time() {
    let listing = run(Command::new("tar")
        .args(["tvzf"])
        .arg(only(packages(), ".tar.gz"))
        .env("TZ", "UTC"));
    let debian = run(Command::new("dpkg-deb")
        .arg("-c")
        .arg(only(packages(), ".deb"))
        .env("TZ", "UTC"));
    for line in listing.lines() {
        assert!(line.contains(" 0/0 ") && line.contains(" 2026-12-01 00:00 "), "{line}");
    }
    for line in debian.lines() {
        assert!(
            line.contains(" root/root ") && line.contains(" 2026-12-01 00:00 "),
            "{line}"
        );
        assert!(
            !line.starts_with("-rw-rw") && !line.contains("rwxrwxrwx ") || line.starts_with('l'),
            "{line}"
        );
    }
    for part in [
        "./opt/burrow-host-gateway/node-goblin",
        "./opt/burrow-host-gateway/burrow-host-gateway -> node-goblin",
        "./usr/lib/systemd/system/burrow-host-gateway.service",
        "./usr/share/man/man1/node-goblin-configure.1.gz",
        "./usr/share/bash-completion/completions/node-goblin",
        "./usr/share/zsh/vendor-completions/_node-goblin",
        "./usr/share/fish/vendor_completions.d/node-goblin.fish",
        "./usr/bin/burrow-host-gateway",
    ] {
        assert!(debian.contains(part), "{part}: {debian}");
    }
}

#[test]
fn the_debian_package_says_what_it_is() {
    let deb = only(packages(), ".deb");
    let control = run(Command::new("dpkg-deb").arg("-f").arg(&deb));
    let fields: BTreeMap<&str, &str> = control.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(fields["Package"], "burrow-host-gateway");
    let version = run(Command::new(crate::PROGRAM).arg("-V"));
    assert_eq!(version.trim(), format!("node-goblin {}", fields["Version"]));
    assert!(fields["Depends"].starts_with("libc6 (>= 2."), "{}", fields["Depends"]);
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("dpkg-deb").arg("-e").arg(&deb).arg(folder.path()));
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        let path = folder.path().join(script);
        run(Command::new("sh").arg("-n").arg(&path));
        assert!(!fs::read_to_string(&path).unwrap().contains("@include"), "{script}");
    }
}

#[test]
fn the_version_has_one_source_and_names_commit_and_day() {
    let manifest = fs::read_to_string(tree().join("Cargo.toml")).unwrap();
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .unwrap()
        .replace('+', ".");
    let long = run(Command::new(crate::PROGRAM).arg("--version"));
    assert!(long.starts_with(&format!("node-goblin {version} (commit ")), "{long}");
    assert!(long.trim_end().ends_with(')') && long.contains(", built "), "{long}");
    let hello = run(Command::new("sh").arg("-c").arg(format!(
        r#"echo '{{"id":"1","method":"hello","params":{{}}}}' | {} gateway"#,
        crate::PROGRAM
    )));
    assert!(hello.contains(&format!(r#""version":"{version}""#)), "{hello}");
}
