//! Cancel, timeout, deadline, escalation, settlement.

use super::*;

#[tokio::test]
async fn a_timeout_ends_the_command_with_sigterm() {
    let mut spec = shell("echo begun; sleep 20");
    spec.timeout = Duration::from_millis(300);
    let outcome = run(spec).await;
    assert!(outcome.timed_out && outcome.killed && !outcome.cancelled);
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
    assert_eq!(outcome.stdout, "begun\n");
}
