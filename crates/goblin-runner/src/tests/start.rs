//! Finding and starting a program, what it inherits, and exact failures.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

fn script(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

async fn failure(spec: RunSpec) -> (&'static str, Option<&'static str>) {
    let error = match try_run(spec).await {
        Ok((outcome, _)) => panic!("it started: {outcome:?}"),
        Err(error) => error,
    };
    (error.code(), error.errno())
}

fn path_of(folder: &Path, rest: &str) -> String {
    folder.join(rest).into_os_string().into_string().unwrap()
}

#[tokio::test]
async fn shell_form_is_given_to_sh() {
    let outcome = run(shell("echo \"$0\"; echo err >&2; exit 3")).await;
    assert_eq!(outcome.stdout, "/bin/sh\n");
    assert_eq!(outcome.stderr, "err\n");
    assert_eq!((outcome.exit_code, outcome.signal), (Some(3), None));
    assert!(!outcome.killed && !outcome.cancelled && !outcome.timed_out && !outcome.truncated);
    assert!(!outcome.output_held_open);
}

#[tokio::test]
async fn exec_form_passes_arguments_verbatim() {
    let args = ["%s|", "$HOME", "*", "a  b", "", "'\"", ";echo x", "ü💥"];
    let outcome = run(exec("printf", &args)).await;
    assert_eq!(outcome.stdout, "$HOME|*|a  b||'\"|;echo x|ü💥|");
}

#[tokio::test]
async fn times_and_folder_are_the_real_ones() {
    let outcome = run(shell("pwd; sleep 0.05")).await;
    let own = std::env::current_dir().unwrap();
    assert_eq!(outcome.cwd, own);
    assert_eq!(PathBuf::from(outcome.stdout.trim_end()), own);
    assert!(outcome.duration >= Duration::from_millis(50));
    let wall = outcome.ended_at.duration_since(outcome.started_at).unwrap();
    assert!(wall >= Duration::from_millis(49), "{wall:?}");
}

#[tokio::test]
async fn cwd_may_be_relative_to_our_own() {
    let mut spec = shell("pwd");
    spec.cwd = Some("src".into());
    let outcome = run(spec).await;
    let expected = std::env::current_dir().unwrap().join("src");
    assert_eq!(outcome.cwd, expected);
    assert_eq!(PathBuf::from(outcome.stdout.trim_end()), expected);
}

#[tokio::test]
async fn the_environment_is_complete_and_nothing_else() {
    let mut spec = exec("/usr/bin/env", &[]);
    spec.env = vec![env("ONLY", "this"), env("EMPTY", "")];
    assert_eq!(run(spec).await.stdout, "ONLY=this\nEMPTY=\n");
}

#[tokio::test]
async fn the_program_is_looked_up_on_the_childs_path() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    let shadow = folder.path().join("shadow");
    fs::create_dir_all(shadow.join("tool")).unwrap();
    fs::create_dir(&bin).unwrap();
    script(&bin.join("tool"), "#!/bin/sh\necho \"$0\"\n", 0o755);
    script(&folder.path().join("tool"), "#!/bin/sh\necho here\n", 0o755);
    let named = |path: &str| {
        let mut spec = exec("tool", &[]);
        spec.env = vec![env("PATH", path)];
        spec.cwd = Some(folder.path().into());
        spec
    };

    let found = path_of(&bin, "tool");
    let path = format!("/none:{}:{}", shadow.display(), bin.display());
    assert_eq!(run(named(&path)).await.stdout, format!("{found}\n"));
    // Relative and empty elements are relative to the child's folder.
    assert_eq!(run(named("bin")).await.stdout, "bin/tool\n");
    for empty in ["", ":/none", "/none:", "/none::/none2"] {
        assert_eq!(run(named(empty)).await.stdout, "here\n", "{empty:?}");
    }
    // Found, but nothing that can be executed: the search goes on and remembers it.
    let path = shadow.to_str().unwrap();
    assert_eq!(failure(named(path)).await, ("permission_denied", Some("EACCES")));

    let mut without = exec("true", &[]);
    without.env.clear();
    assert_eq!(run(without).await.exit_code, Some(0));
    let mut with_slash = exec("./tool", &[]);
    with_slash.cwd = Some(folder.path().into());
    assert_eq!(run(with_slash).await.stdout, "here\n");
}

#[tokio::test]
async fn missing_programs() {
    let not_found = ("executable_not_found", Some("ENOENT"));
    assert_eq!(failure(exec("no-such-program", &[])).await, not_found);
    assert_eq!(failure(exec("/no/such/program", &[])).await, not_found);
    assert_eq!(failure(exec("", &[])).await, not_found);
    assert_eq!(failure(exec("./", &[])).await.0, "permission_denied");
    assert_eq!(
        failure(exec("/etc/passwd/x", &[])).await,
        ("executable_not_found", Some("ENOTDIR"))
    );
    let long = "x".repeat(5_000);
    assert_eq!(
        failure(exec(&format!("/{long}"), &[])).await,
        ("executable_not_found", Some("ENAMETOOLONG"))
    );
    assert_eq!(failure(exec(&long, &[])).await.0, "executable_not_found");
    let folder = tempfile::tempdir().unwrap();
    symlink("loop", folder.path().join("loop")).unwrap();
    assert_eq!(
        failure(exec(&path_of(folder.path(), "loop"), &[])).await,
        ("executable_not_found", Some("ELOOP"))
    );
}

#[tokio::test]
async fn missing_folders_come_first() {
    let folder = tempfile::tempdir().unwrap();
    script(&folder.path().join("file"), "x", 0o644);
    for (cwd, errno) in [("none", "ENOENT"), ("file", "ENOTDIR"), ("file/x", "ENOTDIR")] {
        for form in ["shell", "path", "name", "relative"] {
            let mut spec = match form {
                "shell" => shell("true"),
                "path" => exec("/bin/true", &[]),
                "name" => exec("no-such-program", &[]),
                _ => exec("./x", &[]),
            };
            spec.cwd = Some(folder.path().join(cwd));
            let expected = ("cwd_not_found", Some(errno));
            assert_eq!(failure(spec).await, expected, "{cwd} {form}");
        }
    }
}

#[tokio::test]
async fn what_may_not_be_executed() {
    let folder = tempfile::tempdir().unwrap();
    script(&folder.path().join("plain"), "#!/bin/sh\n", 0o644);
    let denied = ("permission_denied", Some("EACCES"));
    assert_eq!(failure(exec(&path_of(folder.path(), "plain"), &[])).await, denied);
    assert_eq!(failure(exec(&path_of(folder.path(), ""), &[])).await, denied);
    let mut named = exec("plain", &[]);
    named.env = vec![env("PATH", folder.path())];
    assert_eq!(failure(named).await, denied);
    // An interpreter that is there and can't be executed.
    let through = format!("#!{}\n", path_of(folder.path(), "plain"));
    script(&folder.path().join("through"), &through, 0o755);
    assert_eq!(failure(exec(&path_of(folder.path(), "through"), &[])).await, denied);
}

#[tokio::test]
async fn files_of_no_known_format() {
    let folder = tempfile::tempdir().unwrap();
    let format = ("exec_format_error", Some("ENOEXEC"));
    for (name, text) in [
        ("broken", "\x7fELF\x02\x01\x01junk"),
        ("script", "echo no interpreter line\n"),
        ("empty", ""),
    ] {
        script(&folder.path().join(name), text, 0o755);
        let spec = exec(&path_of(folder.path(), name), &[]);
        assert_eq!(failure(spec).await, format, "{name}");
        let mut named = exec(name, &[]);
        named.env = vec![env("PATH", folder.path())];
        assert_eq!(failure(named).await, format, "{name}");
    }
}

#[tokio::test]
async fn interpreters_that_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    script(&folder.path().join("a"), "#!/no/such/interpreter\n", 0o755);
    script(&folder.path().join("b"), "#!/etc/passwd/sh\n", 0o755);
    for (name, errno) in [("a", "ENOENT"), ("b", "ENOTDIR")] {
        assert_eq!(
            failure(exec(&path_of(folder.path(), name), &[])).await,
            ("interpreter_not_found", Some(errno))
        );
    }
}

#[tokio::test]
async fn arguments_and_environment_beyond_the_kernels_limits() {
    let too_long = ("argument_list_too_long", Some("E2BIG"));
    let limit = "x".repeat(131_072);
    assert_eq!(failure(exec("/bin/true", &[&limit])).await, too_long);
    assert_eq!(run(exec("/bin/true", &[&limit[1..]])).await.exit_code, Some(0));
    let mut spec = exec("/bin/true", &[]);
    spec.env.push(env("BIG", &limit));
    assert_eq!(failure(spec).await, too_long);
    assert_eq!(failure(shell(&format!(": {limit}"))).await, too_long);
}

#[tokio::test]
async fn a_nul_is_refused() {
    let invalid = ("spawn_failed", Some("EINVAL"));
    assert_eq!(failure(exec("/bin/true", &["a\0b"])).await, invalid);
    assert_eq!(failure(shell("true\0false")).await, invalid);
    let mut spec = shell("true");
    spec.env.push(env("A", "x\0y"));
    assert_eq!(failure(spec).await, invalid);
    let mut spec = shell("true");
    spec.cwd = Some("/\0".into());
    assert_eq!(failure(spec).await.0, "spawn_failed");
}

#[tokio::test]
async fn standard_input_is_dev_null() {
    let outcome = run(shell("readlink /proc/self/fd/0; cat; echo end")).await;
    assert_eq!(outcome.stdout, "/dev/null\nend\n");
}

#[tokio::test]
async fn nothing_is_inherited_but_three_descriptors() {
    // Without close-on-exec, as a careless parent would hand it to us.
    let file = fs::File::open("/dev/zero").unwrap();
    let leaked = rustix::io::fcntl_dupfd_cloexec(&file, 50).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    assert!(leaked.as_raw_fd() >= 50);
    // The fourth is the folder that `ls` itself has opened.
    let outcome = run(exec("ls", &["-l", "/proc/self/fd"])).await;
    let fds: Vec<_> = outcome.stdout.lines().skip(1).collect();
    assert_eq!(fds.len(), 4, "{fds:?}");
    assert!(fds[0].ends_with("0 -> /dev/null"), "{fds:?}");
    assert!(fds[1].contains("1 -> pipe:["), "{fds:?}");
    assert!(fds[2].contains("2 -> pipe:["), "{fds:?}");
    assert!(fds[3].contains("3 -> /proc/"), "{fds:?}");
}

#[tokio::test]
async fn the_childs_pipe_ends_block() {
    let outcome = run(shell("cat /proc/self/fdinfo/1 /proc/self/fdinfo/2")).await;
    let flags: Vec<_> = outcome
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("flags:"))
        .map(|flags| i32::from_str_radix(flags.trim(), 8).unwrap())
        .collect();
    assert_eq!(flags.len(), 2, "{}", outcome.stdout);
    assert!(flags.iter().all(|flags| flags & libc::O_NONBLOCK == 0));
}

#[tokio::test]
async fn signals_are_reset_and_the_session_is_new() {
    // The test program ignores SIGPIPE, as every Rust program does.
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line[name.len()..].trim(), 16).unwrap()
    };
    assert_ne!(field(&own, "SigIgn:") & (1 << (libc::SIGPIPE - 1)), 0);

    let outcome = run(exec("cat", &["/proc/self/status", "/proc/self/stat"])).await;
    assert_eq!(field(&outcome.stdout, "SigBlk:"), 0);
    assert_eq!(field(&outcome.stdout, "SigIgn:"), 0);
    assert_eq!(field(&outcome.stdout, "SigCgt:"), 0);
    let stat = outcome.stdout.lines().last().unwrap();
    let fields: Vec<_> = stat.split(' ').collect();
    let (pid, group, session) = (fields[0], fields[4], fields[5]);
    assert_eq!((pid, pid), (group, session), "{stat}");
}

#[tokio::test]
async fn a_program_that_is_still_being_written_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tool");
    script(&path, "#!/bin/sh\necho done\n", 0o755);
    let spec = || exec(&path_of(folder.path(), "tool"), &[]);
    let open = || fs::OpenOptions::new().append(true).open(&path).unwrap();

    let writer = open();
    let closing = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(writer);
    });
    assert_eq!(run(spec()).await.stdout, "done\n");
    closing.await.unwrap();
    // Not for ever.
    let _writer = open();
    assert_eq!(failure(spec()).await, ("spawn_failed", Some("ETXTBSY")));
}

#[tokio::test]
async fn a_folder_that_may_not_be_entered() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let mut spec = shell("true");
    spec.cwd = Some(folder.path().into());
    // Nothing keeps root out.
    if rustix::process::geteuid().is_root() {
        assert_eq!(run(spec).await.exit_code, Some(0));
    } else {
        assert_eq!(failure(spec).await, ("permission_denied", Some("EACCES")));
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
}
