//! The whole program from outside: what an operation costs, beside a floor measured in the same run.
//!
//! `cargo bench` prints one line a figure: the median, the floor, their ratio or difference, and the goal. Machines are
//! shared and noisy, so the two sides of a ratio are measured in turn.

#[path = "../harness.rs"]
mod harness;

use harness::{Controller, Daemon, Row, bare_spawn, median, spawn_rate};
use std::time::{Duration, Instant};

/// Operations per figure.
const SAMPLES: usize = 300;

fn main() {
    // `cargo test --benches` builds and runs this too; only a real benchmark measures.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    println!("{}", Row::HEAD);
    start_up();
    idle_memory();
    sequential();
    through_the_controller();
    outstanding();
    full_journal();
    much_output();
}

fn start_up() {
    let samples = (0..20).map(|_| {
        let begun = Instant::now();
        let daemon = Daemon::start_with_state();
        assert!(
            daemon
                .request(r#"{"id":1,"method":"hello"}"#)
                .contains("burrow-host-gateway")
        );
        begun.elapsed()
    });
    let measured = median(samples.collect());
    Row::absolute("start-up to the first answer", measured, Duration::from_millis(12)).print();
}

fn idle_memory() {
    let daemon = Daemon::start_with_state();
    daemon.request(r#"{"id":1,"method":"hello"}"#);
    let kib = daemon.resident_kib();
    println!(
        "{:44} {:>10.1} MiB {:>36} {}",
        "idle memory",
        kib as f64 / 1024.0,
        "goal ≤ 9 MiB",
        harness::verdict(kib <= 9 * 1024)
    );
}

fn sequential() {
    let daemon = Daemon::start_with_state();
    let (mut through, mut floor) = (Vec::new(), Vec::new());
    for n in 0..SAMPLES {
        floor.push(bare_spawn());
        through.push(daemon.execute_true(&format!("s{n}")));
    }
    Row::ratio(
        "exec of /bin/true over stdio",
        median(through),
        "bare spawn + wait",
        median(floor),
        1.6,
    )
    .print();
}

fn through_the_controller() {
    let controller = Controller::start_with_gateway();
    let mut connection = controller.connect();
    let (mut through, mut floor) = (Vec::new(), Vec::new());
    for n in 0..SAMPLES {
        floor.push(bare_spawn());
        through.push(connection.execute_true(&format!("c{n}")));
    }
    Row::difference(
        "exec through HTTP, controller and TLS",
        median(through),
        "bare spawn + wait",
        median(floor),
        Duration::from_micros(1200),
    )
    .print();
}

fn outstanding() {
    let daemon = Daemon::start_with_state();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..5 {
        floor.push(spawn_rate(2, 600));
        ours.push(daemon.execution_rate(&format!("o{round}"), 32, 600));
    }
    floor.sort_by(f64::total_cmp);
    ours.sort_by(f64::total_cmp);
    let (ours, floor) = (ours[ours.len() / 2], floor[floor.len() / 2]);
    let ratio = ours / floor;
    println!(
        "{:44} {ours:>10.0} /s  {:>20} {floor:>8.0} /s {ratio:>6.2} × goal ≥ 0.60 × {}",
        "32 outstanding operations",
        "two-thread spawn loop",
        harness::verdict(ratio >= 0.6)
    );
}

fn full_journal() {
    let (empty, full) = (Daemon::start_with_state(), Daemon::start_with_state());
    for n in 0..200 {
        full.execute(
            &format!("fill{n}"),
            r#""command":"head -c 200000 /dev/zero | tr '\\0' x""#,
        );
    }
    let (mut into_full, mut into_empty) = (Vec::new(), Vec::new());
    for n in 0..SAMPLES {
        into_empty.push(empty.execute_true(&format!("j{n}")));
        into_full.push(full.execute_true(&format!("j{n}")));
    }
    Row::ratio(
        "exec with 200 × 200 KB in the journal",
        median(into_full),
        "the same, journal empty",
        median(into_empty),
        1.2,
    )
    .print();
}

fn much_output() {
    let daemon = Daemon::start_with_state();
    let file = daemon.scratch().join("output");
    std::fs::write(&file, "x".repeat(900_000)).expect("a scratch file");
    let params = format!(r#""executable":"cat","args":[{:?}]"#, file.display().to_string());
    let samples = (0..50).map(|n| {
        let begun = Instant::now();
        let answer = daemon.execute(&format!("m{n}"), &params);
        assert!(answer.len() > 900_000, "the evidence holds all of it");
        begun.elapsed()
    });
    let measured = median(samples.collect());
    Row::absolute("900 KB of standard output", measured, Duration::from_millis(15)).print();
}
