//! Tests that need a process of their own, where nobody else opens descriptors or starts
//! children: what ten thousand operations leave behind, and starts under odd conditions.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::*;

const ALONE: &str = "GOBLIN_RUNNER_TEST_ALONE";

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Our children, zombies too.
fn children() -> String {
    let mut all = String::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("children");
        all.push_str(&std::fs::read_to_string(path).unwrap_or_default());
    }
    all
}

/// Runs this very test in a process of its own. Returns whether this is that process.
fn alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tests::alone::{test}")])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    false
}

#[test]
fn ten_thousand_operations_leave_nothing_behind() {
    if !alone("ten_thousand_operations_leave_nothing_behind") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let runner = Runner::new();
        run(shell("true")).await;
        let before = descriptors();
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..32 {
            let runner = runner.clone();
            workers.spawn(async move {
                for turn in 0..313 {
                    let token = CancellationToken::new();
                    let mut seen = Seen::default();
                    // Every kind of end has its share.
                    let result = match (worker, turn % 100) {
                        (_, 1) => {
                            let spec = exec("/no/such/program", &[]);
                            assert!(runner.run(spec, &token, &mut seen).await.is_err());
                            continue;
                        }
                        (0, 2) => runner.run(timeout(shell("sleep 9"), 1), &token, &mut seen).await,
                        (1, 2) => {
                            token.cancel();
                            runner.run(shell("sleep 9"), &token, &mut seen).await
                        }
                        (2, 2) => {
                            let mut dropped = Box::pin(runner.run(shell("sleep 9"), &token, &mut seen));
                            let short = Duration::from_millis(1);
                            assert!(tokio::time::timeout(short, &mut dropped).await.is_err());
                            continue;
                        }
                        (_, 3) => runner.run(cap(shell("echo long"), 2), &token, &mut seen).await,
                        _ => runner.run(exec("/bin/true", &[]), &token, &mut seen).await,
                    };
                    let outcome = result.unwrap();
                    assert!(outcome.exit_code.is_some() || outcome.killed, "{outcome:?}");
                }
            });
        }
        while let Some(done) = workers.join_next().await {
            done.unwrap();
        }
        runner.settle().await;
        assert_eq!(children(), "");
        assert_eq!(descriptors(), before);
    });
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

#[test]
#[allow(unsafe_code)]
fn exit_codes_survive_a_parent_that_ignored_sigchld() {
    if !alone("exit_codes_survive_a_parent_that_ignored_sigchld") {
        return;
    }
    // SAFETY: sets no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let outcome = block_on(run(shell("exit 3")));
    assert_eq!(outcome.exit_code, Some(3));
}

#[test]
fn a_lack_of_descriptors_is_told_before_anything_runs() {
    if !alone("a_lack_of_descriptors_is_told_before_anything_runs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = format!("echo x >> {}", folder.path().join("ran").display());
    block_on(async {
        // Two pipes have four ends; the pidfd takes the place of one that is closed by then.
        let free: Vec<u64> = (0..100)
            .filter(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_err())
            .collect();
        for (room, started) in [(0, false), (1, false), (3, false), (4, true)] {
            let limit = Rlimit {
                current: Some(free[room]),
                maximum: Some(1_024),
            };
            setrlimit(Resource::Nofile, limit).unwrap();
            match try_run(shell(&command)).await {
                Ok((outcome, _)) => assert!(started && outcome.exit_code == Some(0), "{room}"),
                Err(error) => {
                    assert!(!started, "{room}");
                    assert_eq!((error.code(), error.errno()), ("spawn_failed", Some("EMFILE")));
                }
            }
        }
    });
    assert_eq!(std::fs::read_to_string(folder.path().join("ran")).unwrap(), "x\n");
}

#[test]
#[allow(unsafe_code)]
fn a_daemon_without_standard_descriptors_starts_commands() {
    use std::os::fd::FromRawFd;
    if !alone("a_daemon_without_standard_descriptors_starts_commands") {
        return;
    }
    let keep: Vec<OwnedFd> = (0..3)
        .map(|fd| {
            // SAFETY: 0 to 2 are open, and nobody else runs in this process.
            let standard = unsafe { OwnedFd::from_raw_fd(fd) };
            rustix::io::fcntl_dupfd_cloexec(&standard, 10).unwrap()
        })
        .collect();
    let low = std::fs::read_dir("/proc/self/fd").unwrap();
    let low = low
        .filter(|fd| ["0", "1", "2"].contains(&fd.as_ref().unwrap().file_name().to_str().unwrap()))
        .count();
    let outcome = block_on(run(shell("readlink /proc/self/fd/0; echo err >&2; exit 5")));
    for (fd, kept) in keep.iter().enumerate() {
        // SAFETY: gives the test harness its descriptors back; nothing owns these numbers.
        assert_ne!(unsafe { libc::dup2(kept.as_raw_fd(), fd as i32) }, -1);
    }
    assert!(low <= 1, "only the listing itself is there");
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("/dev/null\n", "err\n")
    );
    assert_eq!(outcome.exit_code, Some(5));
}

#[test]
fn a_stranger_that_reaps_our_children_costs_the_status_and_no_more() {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    if !alone("a_stranger_that_reaps_our_children_costs_the_status_and_no_more") {
        return;
    }
    let outcome = block_on(async {
        let mut running = Running::start(shell("echo ready; exec sleep 0.1"));
        running.says("ready").await;
        let stranger = std::thread::spawn(|| waitid(WaitId::All, WaitIdOptions::EXITED).unwrap());
        assert_eq!(stranger.join().unwrap().unwrap().exit_status(), Some(0));
        running.cancel.cancel();
        running.outcome().await
    });
    assert_eq!((outcome.exit_code, outcome.signal), (None, None));
    assert!(
        outcome.cancelled && !outcome.killed,
        "no signal goes to a number that is free"
    );
}
