//! Cancel, timeout, deadline, escalation, settlement.

use std::time::SystemTime;

use super::*;

const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.02; done";

fn deadline(mut spec: RunSpec, ms: u64) -> RunSpec {
    spec.deadline = Some(SystemTime::now() + Duration::from_millis(ms));
    spec
}

#[tokio::test]
async fn a_timeout_ends_the_command_with_sigterm() {
    let outcome = run(timeout(shell("echo begun; sleep 20"), 500)).await;
    assert!(outcome.timed_out && outcome.killed && !outcome.cancelled);
    assert_eq!(outcome.timeout_reason, Some(TimeoutReason::Timeout));
    assert_eq!((outcome.exit_code, outcome.signal), (None, Some(libc::SIGTERM)));
    assert_eq!(outcome.stdout, "begun\n");
    assert!((500..1_450).contains(&ms(outcome.duration)), "{:?}", outcome.duration);
}

#[tokio::test]
async fn the_earlier_limit_wins() {
    let first = run(deadline(timeout(shell("sleep 20"), 15_000), 200)).await;
    assert_eq!(first.timeout_reason, Some(TimeoutReason::Deadline));
    let second = run(deadline(timeout(shell("sleep 20"), 200), 15_000)).await;
    assert_eq!(second.timeout_reason, Some(TimeoutReason::Timeout));
    for outcome in [first, second] {
        assert!(outcome.timed_out && ms(outcome.duration) < 3_000);
    }
}

#[tokio::test]
async fn a_deadline_in_the_past_ends_the_command_at_once() {
    let mut spec = shell("sleep 20");
    spec.deadline = Some(SystemTime::UNIX_EPOCH);
    let outcome = run(spec).await;
    assert!(outcome.timed_out && outcome.killed);
    assert_eq!(outcome.timeout_reason, Some(TimeoutReason::Deadline));
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
    assert!(ms(outcome.duration) < 900);
    // It need not be reached to be settled.
    let zero = run(timeout(shell("sleep 20"), 0)).await;
    assert_eq!(zero.timeout_reason, Some(TimeoutReason::Timeout));
}

#[tokio::test]
async fn limits_beyond_any_timer_never_fire() {
    let far = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(8_640_000_000_000_000));
    for (limit, deadline) in [
        (Duration::MAX, None),
        (Duration::from_millis(u64::MAX), far),
        (Duration::from_millis(9_007_199_254_740_993), far),
        (Duration::from_millis(3_000_000_000), None),
        (Duration::from_secs(90_000), far),
    ] {
        let mut spec = shell("sleep 0.1; echo ok");
        spec.timeout = limit;
        spec.deadline = deadline;
        let outcome = run(spec).await;
        assert!(!outcome.timed_out && outcome.stdout == "ok\n", "{limit:?}");
    }
}

#[tokio::test]
async fn cancel_ends_the_command() {
    let mut running = Running::start(shell("echo ready; sleep 20"));
    running.says("ready").await;
    let (outcome, took) = running.cancelled().await;
    assert!(outcome.cancelled && outcome.killed && !outcome.timed_out);
    assert_eq!((outcome.exit_code, outcome.signal), (None, Some(libc::SIGTERM)));
    assert!(ms(took) < 900, "{took:?}");
}

#[tokio::test]
async fn a_cancel_before_the_start_is_honest_too() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut seen = Seen::default();
    let outcome = Runner::new().run(shell("sleep 20"), &cancel, &mut seen).await.unwrap();
    assert!(outcome.cancelled && outcome.killed);
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
}

#[tokio::test]
async fn last_words_and_exit_code_of_a_polite_command() {
    let polite = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    // Some answer so fast that they are gone before anybody looks again: they got the signal all the same.
    for _ in 0..60 {
        let mut running = Running::start(shell(polite));
        running.says("ready").await;
        let (outcome, _) = running.cancelled().await;
        assert_eq!((outcome.exit_code, outcome.signal), (Some(5), None));
        assert!(outcome.cancelled && outcome.killed);
        assert_eq!(outcome.stdout, "ready\nbye\n");
    }
}

#[tokio::test]
async fn who_ignores_sigterm_gets_sigkill_after_a_second() {
    let mut running = Running::start(shell(STUBBORN));
    running.says("ready").await;
    let (outcome, took) = running.cancelled().await;
    assert!(outcome.cancelled && outcome.killed);
    assert_eq!((outcome.exit_code, outcome.signal), (None, Some(libc::SIGKILL)));
    assert!((990..2_000).contains(&ms(took)), "{took:?}");

    let outcome = run(timeout(shell(STUBBORN), 600)).await;
    assert!(outcome.timed_out && !outcome.cancelled);
    assert_eq!(outcome.signal, Some(libc::SIGKILL));
    assert!((1_590..2_800).contains(&ms(outcome.duration)), "{:?}", outcome.duration);
}

#[tokio::test]
async fn a_stopped_command_can_be_ended() {
    let outcome = run(timeout(shell("kill -STOP $$"), 600)).await;
    assert_eq!(outcome.signal, Some(libc::SIGKILL));
    assert!(outcome.timed_out && ms(outcome.duration) < 2_800);
}

#[tokio::test]
async fn a_timeout_after_an_overflow_escalates() {
    let command = "trap '' TERM; printf '%02000d' 0; while :; do sleep 0.02; done";
    let outcome = run(timeout(cap(shell(command), 1_000), 600)).await;
    assert!(outcome.truncated && outcome.timed_out);
    assert_eq!(outcome.signal, Some(libc::SIGKILL));
}

#[tokio::test]
async fn the_first_cause_counts() {
    let mut running = Running::start(timeout(shell(STUBBORN), 600));
    running.says("ready").await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    let (outcome, _) = running.cancelled().await;
    assert!(outcome.timed_out && !outcome.cancelled);
}

#[tokio::test]
async fn a_process_in_its_own_session_cannot_hold_the_answer_of_a_timeout() {
    let command = "setsid sleep 4.77 & echo $!; wait";
    let outcome = run(timeout(shell(command), 600)).await;
    assert!(outcome.timed_out && outcome.output_held_open);
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
    assert!((1_690..3_000).contains(&ms(outcome.duration)), "{:?}", outcome.duration);
}

#[tokio::test]
async fn a_cancel_ends_the_drain_at_once() {
    let mut running = Running::start(shell("sleep 20.2 & echo $! $$ ready; exit 3"));
    let said = running.says("ready").await;
    let pids: Vec<_> = said.split(' ').collect();
    let runner = running.runner.clone();
    // Its member holds the output.
    until("the leader has exited", || !alive(pids[1])).await;
    let (outcome, took) = running.cancelled().await;
    assert_eq!((outcome.exit_code, outcome.signal), (Some(3), None));
    assert!(outcome.cancelled && outcome.killed);
    assert!(ms(took) < 700, "{took:?}");
    runner.settle().await;
    until("the member has ended", || !alive(pids[0])).await;
}

#[tokio::test]
async fn a_sink_that_never_takes_delays_no_limit() {
    let started = Instant::now();
    let runner = Runner::new();
    let token = CancellationToken::new();
    let spec = timeout(shell("echo one; sleep 0.1; echo two; sleep 20"), 600);
    let outcome = runner.run(spec, &token, &mut Stuck { takes: 0 }).await.unwrap();
    assert!(outcome.timed_out);
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
    assert_eq!(
        outcome.stdout, "one\ntwo\n",
        "the outcome has what the sink did not take"
    );
    assert!(ms(started.elapsed()) < 2_900, "{:?}", started.elapsed());

    // More than a pipe holds: back-pressure has stopped the command.
    let spec = timeout(exec("yes", &[]), 300);
    let outcome = runner.run(spec, &token, &mut Stuck { takes: 1 }).await.unwrap();
    assert!(outcome.timed_out && outcome.signal == Some(libc::SIGTERM));
    assert!(ms(outcome.duration) < 2_400, "{:?}", outcome.duration);
}

#[tokio::test]
async fn a_sink_that_never_takes_delays_no_cancel() {
    let (runner, token) = (Runner::new(), CancellationToken::new());
    let trigger = token.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        trigger.cancel();
    });
    let mut sink = Stuck { takes: 0 };
    let outcome = runner
        .run(shell("echo one; sleep 20"), &token, &mut sink)
        .await
        .unwrap();
    assert!(outcome.cancelled && outcome.stdout == "one\n");
    assert!(ms(outcome.duration) < 2_300, "{:?}", outcome.duration);
}

#[tokio::test]
async fn a_stuck_sink_of_an_ended_command_is_left_at_the_limit() {
    let (runner, token) = (Runner::new(), CancellationToken::new());
    // Somebody holds the pipe: the drain is over after a second.
    let spec = shell("echo one; sleep 3 & exit 2");
    let outcome = runner.run(spec, &token, &mut Stuck { takes: 0 }).await.unwrap();
    assert_eq!((outcome.exit_code, outcome.stdout.as_str()), (Some(2), "one\n"));
    assert!(outcome.output_held_open && ms(outcome.duration) < 2_500);
    // Nobody holds it: the sink has until the limit, which nobody has missed.
    let spec = timeout(shell("echo one; echo two >&2; exit 2"), 1_500);
    let outcome = runner.run(spec, &token, &mut Stuck { takes: 0 }).await.unwrap();
    assert_eq!(outcome.exit_code, Some(2));
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("one\n", "two\n"));
    assert!(!outcome.output_held_open && !outcome.timed_out && !outcome.killed);
    assert!((1_500..2_800).contains(&ms(outcome.duration)), "{:?}", outcome.duration);
}

#[tokio::test]
async fn a_slow_sink_gets_all_of_an_ended_commands_output() {
    struct Slow(Seen);
    impl Sink for Slow {
        async fn chunk(&mut self, chunk: Chunk) {
            tokio::time::sleep(Duration::from_millis(700)).await;
            self.0.chunk(chunk).await;
        }
    }
    let mut slow = Slow(Seen::default());
    // Two reads and another stream, all long after the command has ended.
    let spec = exec("sh", &["-c", "head -c 120000 /dev/zero; echo end >&2"]);
    let outcome = Runner::new()
        .run(spec, &CancellationToken::new(), &mut slow)
        .await
        .unwrap();
    assert_eq!(outcome.stdout.len(), 120_000);
    assert_eq!(slow.0.text(Stream::Stdout).len(), 120_000);
    assert_eq!(slow.0.text(Stream::Stderr), "end\n");
    assert!(ms(outcome.duration) > 1_400 && !outcome.output_held_open);
}

/// Waits at its first chunk, the leader's number, until the leader is gone; what follows is read after that.
#[derive(Default)]
struct Late {
    leader: Option<String>,
}

impl Sink for Late {
    async fn chunk(&mut self, chunk: Chunk) {
        if self.leader.is_none() {
            let leader = chunk.data.trim().to_owned();
            until("the leader has exited", || !alive(&leader)).await;
            self.leader = Some(leader);
        }
    }
}

#[tokio::test]
async fn a_signal_that_nobody_alive_got_killed_nobody() {
    // Too much output is noticed when its writer is gone: with nobody left, with somebody in the group, with somebody
    // who has left it.
    for (start, killed) in [("", false), ("sleep 20 &", true), ("setsid sleep 2.2 &", false)] {
        let command = format!("echo $$ >&2; {start} sleep 0.1; printf 1234567890");
        let (runner, token) = (Runner::new(), CancellationToken::new());
        let outcome = runner
            .run(cap(shell(&command), 9), &token, &mut Late::default())
            .await
            .unwrap();
        assert!(outcome.truncated);
        assert_eq!((outcome.exit_code, outcome.signal), (Some(0), None));
        assert_eq!(outcome.killed, killed, "{start}");
        runner.settle_now().await;
    }
}

#[tokio::test]
async fn a_cancel_while_only_an_escapee_holds_the_output_killed_nobody() {
    let mut running = Running::start(shell("echo $$; setsid sh -c 'echo ready; sleep 2.3' & exit 5"));
    // Said by the escapee, who has left the group by then.
    let said = running.says("ready").await;
    let leader = said.lines().next().unwrap().to_owned();
    until("the leader has exited", || !alive(&leader)).await;
    let (outcome, took) = running.cancelled().await;
    assert_eq!((outcome.exit_code, outcome.signal), (Some(5), None));
    assert!(outcome.cancelled && !outcome.killed && outcome.output_held_open);
    assert!(ms(took) < 700, "{took:?}");
}
