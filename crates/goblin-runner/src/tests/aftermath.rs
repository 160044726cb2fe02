//! What outlives an answer: late kills, dropped operations, held pipes.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::*;
use crate::background::{Background, HELD_PIPES};
use crate::pipes::Pipes;

/// The leader and its output end at SIGTERM; a member of the group ignores it.
const LEAVES_ONE: &str = "trap '' TERM; (while :; do sleep 0.02; done) >/dev/null 2>&1 &
    trap - TERM; echo $$ $! ready; exec sleep 20";

/// The leader and the member.
async fn pids(running: &mut Running) -> (String, String) {
    let said = running.says("ready").await;
    let mut words = said.split(' ').map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test]
async fn a_cancelled_group_leaves_no_member_alive() {
    let mut running = Running::start(shell(LEAVES_ONE));
    let (leader, member) = pids(&mut running).await;
    let runner = running.runner.clone();
    let started = Instant::now();
    let (outcome, took) = running.cancelled().await;
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
    assert!(ms(took) < 900, "the answer does not wait for it: {took:?}");
    assert!(alive(&member), "it ignores SIGTERM");
    assert!(exists(&leader) && !alive(&leader), "its number is still taken");

    runner.settle().await;
    assert!((900..2_000).contains(&ms(started.elapsed())), "{:?}", started.elapsed());
    until("the member has ended", || !alive(&member)).await;
    assert!(!exists(&leader), "reaped");
    runner.settle().await;
}

#[tokio::test]
async fn an_ended_leader_that_waits_for_the_late_kill_takes_no_descriptor() {
    let pidfds = || {
        let all = std::fs::read_dir("/proc/self/fdinfo").unwrap();
        let texts = all.filter_map(|fd| std::fs::read_to_string(fd.ok()?.path()).ok());
        texts.collect::<String>()
    };
    let mut running = Running::start(shell(LEAVES_ONE));
    let (leader, _) = pids(&mut running).await;
    let mark = format!("Pid:\t{leader}\n");
    assert!(pidfds().contains(&mark));
    let runner = running.runner.clone();
    running.cancelled().await;
    assert!(exists(&leader) && !pidfds().contains(&mark));
    runner.settle_now().await;
    assert!(!exists(&leader));
}

#[tokio::test]
async fn the_late_kill_needs_nobody_to_wait_for_it() {
    let mut running = Running::start(shell(LEAVES_ONE));
    let (leader, member) = pids(&mut running).await;
    let (outcome, _) = running.cancelled().await;
    assert!(outcome.cancelled);
    until("the member has ended", || !alive(&member)).await;
    until("the leader is reaped", || !exists(&leader)).await;
}

#[tokio::test]
async fn settling_now_waits_for_no_grace() {
    let mut running = Running::start(timeout(shell(LEAVES_ONE), 600));
    let (leader, member) = pids(&mut running).await;
    let runner = running.runner.clone();
    let outcome = running.outcome().await;
    assert!(outcome.timed_out);
    let started = Instant::now();
    runner.settle_now().await;
    assert!(ms(started.elapsed()) < 800, "{:?}", started.elapsed());
    until("the member has ended", || !alive(&member)).await;
    assert!(!exists(&leader));
}

#[tokio::test]
async fn an_ended_commands_background_processes_are_left_alone() {
    let mut running = Running::start(shell("sleep 2.1 >/dev/null 2>&1 & echo $$ $! ready"));
    let (leader, member) = pids(&mut running).await;
    let runner = running.runner.clone();
    let outcome = running.outcome().await;
    assert!(!outcome.killed && !outcome.output_held_open);
    runner.settle_now().await;
    assert!(alive(&member) && !exists(&leader));
}

#[tokio::test]
async fn a_dropped_operation_leaves_nothing() {
    let mut running = Running::start(shell(
        "trap '' TERM; (trap '' TERM; sleep 20.3) & echo $$ $! ready; while :; do sleep 0.02; done",
    ));
    let (leader, member) = pids(&mut running).await;
    running.task.abort();
    until("the leader is reaped", || !exists(&leader)).await;
    until("the member has ended", || !alive(&member)).await;
    running.runner.settle().await;
}

#[test]
fn a_runtime_that_goes_down_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (live, late) = runtime.block_on(async {
        let mut live = Running::start(shell("echo $$ $$ ready; sleep 20.4"));
        let mut late = Running::start(shell(LEAVES_ONE));
        let live = pids(&mut live).await.0;
        let (leader, member) = pids(&mut late).await;
        late.cancelled().await;
        assert!(alive(&member));
        (live, (leader, member))
    });
    drop(runtime);
    let check = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    check.block_on(async {
        until("the live one is reaped", || !exists(&live)).await;
        until("the late leader is reaped", || !exists(&late.0)).await;
        until("the late member has ended", || !alive(&late.1)).await;
    });
}

#[tokio::test]
async fn held_pipes_are_bounded_and_the_oldest_is_closed() {
    let background = Background::new();
    let mut writers = Vec::new();
    for _ in 0..HELD_PIPES / 2 + 1 {
        let (pipes, ends) = Pipes::new().unwrap();
        pipes.into_open().for_each(|pipe| background.hold(pipe));
        writers.push(ends);
    }
    let write = |fd: std::os::fd::BorrowedFd<'_>| rustix::io::write(fd, b"x");
    until("the oldest two are closed", || {
        write(writers[0].stdout.as_fd()) == Err(Errno::PIPE) && write(writers[0].stderr.as_fd()) == Err(Errno::PIPE)
    })
    .await;
    for ends in &writers[1..] {
        assert_eq!(write(ends.stdout.as_fd()), Ok(1));
        assert_eq!(write(ends.stderr.as_fd()), Ok(1));
    }
    drop(background);
    until("the rest goes with its owner", || {
        write(writers[1].stdout.as_fd()) == Err(Errno::PIPE)
    })
    .await;
}

#[test]
fn signals_have_their_names() {
    use crate::signal_name;
    assert_eq!(signal_name(libc::SIGKILL), "SIGKILL");
    assert_eq!(signal_name(libc::SIGTERM), "SIGTERM");
    assert_eq!(signal_name(libc::SIGRTMIN()), "SIGRTMIN");
    assert_eq!(signal_name(libc::SIGRTMIN() + 3), "SIGRTMIN+3");
    assert_eq!(
        signal_name(libc::SIGRTMAX()),
        format!("SIGRTMIN+{}", libc::SIGRTMAX() - libc::SIGRTMIN())
    );
    assert_eq!(signal_name(0), "SIG0");
    assert_eq!(signal_name(-1), "SIG-1");
    assert_eq!(signal_name(99), "SIG99");
    // All the classic ones, as the shell knows them; it has no name for one and an older for one.
    for number in (1..32).filter(|number| ![libc::SIGSTKFLT, libc::SIGIO].contains(number)) {
        let known = std::process::Command::new("sh")
            .args(["-c", &format!("kill -l {number}")])
            .output()
            .unwrap();
        let known = String::from_utf8(known.stdout).unwrap();
        assert_eq!(signal_name(number), format!("SIG{}", known.trim()));
    }
}

#[tokio::test]
async fn the_signal_that_ended_a_command_is_told() {
    for (name, number) in [("USR1", libc::SIGUSR1), ("SEGV", libc::SIGSEGV)] {
        let outcome = run(shell(&format!("kill -{name} $$"))).await;
        assert_eq!((outcome.exit_code, outcome.signal), (None, Some(number)));
        assert!(!outcome.killed && !outcome.cancelled && !outcome.timed_out);
    }
}
