//! Decoding, redaction, cap, retention, and pipes that are held open.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn both_streams_arrive_live_and_in_the_outcome() {
    let command = "for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done";
    let (outcome, seen) = try_run(shell(command)).await.unwrap();
    assert_eq!(outcome.stdout, "o1\no2\no3\n");
    assert_eq!(outcome.stderr, "e1\ne2\ne3\n");
    let texts: Vec<_> = seen.chunks.iter().map(|c| c.data.as_str()).collect();
    assert_eq!(texts, ["o1\n", "e1\n", "o2\n", "e2\n", "o3\n", "e3\n"]);
    assert!(seen.chunks.iter().all(|chunk| !chunk.truncated));
}
