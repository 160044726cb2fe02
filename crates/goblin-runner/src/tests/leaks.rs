//! Ten thousand operations leave nothing behind. It runs in a process of its own, where nobody
//! else opens descriptors or starts children.

use std::process::Command;

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

#[test]
fn ten_thousand_operations_leave_nothing_behind() {
    if std::env::var_os(ALONE).is_none() {
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::leaks::ten_thousand_operations_leave_nothing_behind"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && told.contains("1 passed"), "{told}");
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
