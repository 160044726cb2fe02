//! Decoding, redaction, cap, retention, and pipes that are held open.

use super::*;
use crate::utf8::Decoder;

#[tokio::test]
async fn both_streams_arrive_in_the_stream_and_in_the_outcome() {
    let command = "for i in 1 2 3; do echo o$i; sleep 0.02; echo e$i >&2; sleep 0.02; done";
    let (outcome, seen) = try_run(shell(command)).await.unwrap();
    assert_eq!(outcome.stdout, "o1\no2\no3\n");
    assert_eq!(outcome.stderr, "e1\ne2\ne3\n");
    assert_eq!(seen.text(Stream::Stdout), outcome.stdout);
    assert_eq!(seen.text(Stream::Stderr), outcome.stderr);
    assert!(seen.chunks.len() > 2 && seen.chunks.iter().all(|chunk| !chunk.truncated));
}

#[tokio::test]
async fn output_arrives_while_the_command_runs() {
    let mut running = Running::start(shell("printf early; sleep 20"));
    assert_eq!(running.says("early").await, "early");
    let (outcome, _) = running.cancelled().await;
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
}

#[test]
fn decoding_equals_the_lossy_one_however_it_is_split() {
    let texts: [&[u8]; 8] = [
        "aé√😀z".as_bytes(),
        b"\xff\xfe\x00\x80bad\n",
        b"\xe2\x82",
        b"\xe2\x28\xa1\xf0\x9f\x98",
        b"\xf0\x9f\x41\xf0\x9f\xf0\x9f\x98\x80",
        b"\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf",
        b"\xe0\x9f\x80\xf0\x8f\x80\x80",
        b"\xe2\xe2\xe2\x82\xac\x82\xc3\xc3\xa9",
    ];
    for text in texts {
        let expected = String::from_utf8_lossy(text);
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut decoder = Decoder::default();
                let mut out = String::new();
                for part in [&text[..first], &text[first..second], &text[second..]] {
                    decoder.push(part, &mut out);
                }
                decoder.finish(&mut out);
                assert_eq!(out, expected, "{text:x?} at {first}, {second}");
            }
        }
        let mut decoder = Decoder::default();
        let mut out = String::new();
        for byte in text {
            decoder.push(&[*byte], &mut out);
        }
        decoder.finish(&mut out);
        assert_eq!(out, expected, "{text:x?} byte by byte");
    }
}

#[tokio::test]
async fn characters_split_over_writes_are_whole() {
    let command = "printf 'x\\360\\237'; printf '\\342\\202' >&2; sleep 0.1
        printf '\\230\\200y'; printf '\\254' >&2";
    let (outcome, seen) = try_run(shell(command)).await.unwrap();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("x😀y", "€"));
    assert_eq!(seen.text(Stream::Stdout), "x😀y");
    assert_eq!(seen.text(Stream::Stderr), "€");
}

#[tokio::test]
async fn invalid_bytes_become_replacement_characters() {
    let (outcome, seen) = try_run(shell("printf 'a\\377b\\000'; printf 'end\\342\\202' >&2"))
        .await
        .unwrap();
    assert_eq!(outcome.stdout, "a\u{fffd}b\0");
    assert_eq!(outcome.stderr, "end\u{fffd}");
    assert_eq!(seen.text(Stream::Stderr), "end\u{fffd}");
}

#[tokio::test]
async fn secrets_are_masked_in_both_streams_and_across_reads() {
    let mut spec = shell(
        "printf 'a hunt'; printf 'swordfish' >&2; sleep 0.1
        printf 'er2 and swordfishunter2, hunter2hunter2, hun'; sleep 0.1; printf x",
    );
    spec.secrets = vec![secret("hunter2"), secret("swordfish"), secret("fishunt")];
    let (outcome, seen) = try_run(spec).await.unwrap();
    let expected = "a [redacted] and [redacted], [redacted][redacted], hunx";
    assert_eq!(outcome.stdout, expected);
    assert_eq!(outcome.stderr, "[redacted]");
    assert_eq!(seen.text(Stream::Stdout), expected);
    assert_eq!(seen.text(Stream::Stderr), "[redacted]");
    assert_eq!(seen.chunks[0].data, "a ", "what is decided flows");
}

#[tokio::test]
async fn a_secret_that_is_left_half_written_is_not_told() {
    let mut spec = shell("echo hi; (printf hunter; sleep 4; printf 2) &");
    spec.secrets = vec![secret("hunter2")];
    let (outcome, seen) = try_run(spec).await.unwrap();
    assert!(outcome.output_held_open && outcome.truncated);
    assert_eq!(outcome.stdout, "hi\n");
    assert_eq!(seen.text(Stream::Stdout), "hi\n");
}

#[tokio::test]
async fn output_of_exactly_the_cap_is_whole() {
    let (outcome, seen) = try_run(cap(shell("printf '%01000d' 0"), 1_000)).await.unwrap();
    assert_eq!(outcome.stdout.len(), 1_000);
    assert!(!outcome.truncated && !outcome.killed);
    assert!(seen.chunks.iter().all(|chunk| !chunk.truncated));
}

#[tokio::test]
async fn output_over_the_cap_is_cut_and_the_group_told_to_end() {
    let (outcome, seen) = try_run(cap(exec("yes", &["abcdefghi"]), 1_000)).await.unwrap();
    assert!(outcome.truncated && outcome.killed);
    assert!(!outcome.timed_out && !outcome.cancelled);
    assert_eq!(outcome.signal, Some(libc::SIGTERM));
    assert_eq!(outcome.stdout, "abcdefghi\n".repeat(100));
    assert_eq!(seen.text(Stream::Stdout), outcome.stdout);
    let marks: Vec<_> = seen.chunks.iter().map(|chunk| chunk.truncated).collect();
    assert!(marks.ends_with(&[true]), "{marks:?}");
    assert_eq!(marks.iter().filter(|mark| **mark).count(), 1);
}

#[tokio::test]
async fn the_cap_counts_both_streams_and_marks_an_empty_cut() {
    let command = "printf '%0600d' 0; sleep 0.1; printf '%0600d' 0 >&2; sleep 0.1; echo no";
    let (outcome, _) = try_run(cap(shell(command), 1_000)).await.unwrap();
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (600, 400));
    assert!(outcome.truncated);

    let (outcome, seen) = try_run(cap(shell(command), 600)).await.unwrap();
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (600, 0));
    let last = seen.chunks.last().unwrap();
    assert!(last.truncated && last.data.is_empty() && last.stream == Stream::Stderr);
}

#[tokio::test]
async fn the_cap_cuts_between_characters_and_counts_delivered_text() {
    let command = "i=0; while [ $i -lt 500 ]; do printf '\\342\\200\\273'; i=$((i+1)); done";
    let (outcome, _) = try_run(cap(shell(command), 1_000)).await.unwrap();
    assert_eq!(outcome.stdout, "※".repeat(333));
    assert!(outcome.truncated);
    // One byte in, three bytes out.
    let (outcome, _) = try_run(cap(shell("printf '\\377\\377\\377'"), 6)).await.unwrap();
    assert_eq!(outcome.stdout, "\u{fffd}\u{fffd}");
    // The mark is what counts, not the secret.
    let mut spec = cap(shell("printf 'hunter2-hunter2-hunter2'"), 13);
    spec.secrets = vec![secret("hunter2")];
    assert_eq!(run(spec).await.stdout, "[redacted]-[r");
}

#[tokio::test]
async fn overflow_alone_never_escalates() {
    let command = "trap '' TERM; printf '%02000d' 0; sleep 1.3; exit 7";
    let outcome = run(cap(shell(command), 1_000)).await;
    assert!(outcome.truncated && outcome.killed && !outcome.timed_out);
    assert_eq!((outcome.exit_code, outcome.signal), (Some(7), None));
    assert!(ms(outcome.duration) >= 1_300);
}

#[tokio::test]
async fn what_is_over_the_cap_is_drained_still() {
    // More than a pipe holds: undrained, the command could not end.
    let command = "trap '' TERM; head -c 400000 /dev/zero; exit 6";
    let outcome = run(cap(shell(command), 10)).await;
    assert_eq!((outcome.exit_code, outcome.stdout.len()), (Some(6), 10));
}

#[tokio::test]
async fn retention_cuts_the_outcome_and_not_the_stream() {
    let mut spec = shell("printf '%01000d' 0; sleep 0.1; printf '√√√√' >&2; printf done");
    spec.retain_bytes = 1_008;
    let (outcome, seen) = try_run(spec).await.unwrap();
    assert_eq!(seen.text(Stream::Stdout).len(), 1_004);
    assert_eq!(seen.text(Stream::Stderr), "√√√√");
    assert!(seen.chunks.iter().all(|chunk| !chunk.truncated));
    assert!(outcome.truncated && !outcome.killed);
    assert_eq!(outcome.exit_code, Some(0));
    let kept = outcome.stdout.len() + outcome.stderr.len();
    assert!((1_004..=1_008).contains(&kept), "{kept}");
}

#[tokio::test]
async fn late_output_of_a_background_process_is_kept() {
    let outcome = run(shell("(sleep 0.3; echo late) & echo hi")).await;
    assert_eq!(outcome.stdout, "hi\nlate\n");
    assert_eq!(outcome.exit_code, Some(0));
    assert!(!outcome.output_held_open);
}

#[tokio::test]
async fn a_held_pipe_does_not_hold_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("(sleep 1.2; echo late && head -c 200000 /dev/zero && touch alive) & echo hi; exit 3");
    spec.cwd = Some(folder.path().into());
    spec.timeout = Duration::from_millis(500);
    let runner = Runner::new();
    let mut seen = Seen::default();
    let outcome = runner.run(spec, &CancellationToken::new(), &mut seen).await.unwrap();
    assert!(outcome.output_held_open);
    assert!(!outcome.killed && !outcome.timed_out, "timers stop with the leader");
    assert_eq!((outcome.exit_code, outcome.stdout.as_str()), (Some(3), "hi\n"));
    assert!((1_000..2_000).contains(&ms(outcome.duration)), "{:?}", outcome.duration);
    // Whoever still writes there is read, so it lives and is done.
    let alive = folder.path().join("alive");
    until("the writer goes on", || alive.exists()).await;
    assert_eq!(seen.text(Stream::Stdout), "hi\n");
}

#[tokio::test]
async fn a_leader_may_close_its_output_and_run_on() {
    let outcome = run(shell("echo hi; exec >&- 2>&-; sleep 0.2; exit 4")).await;
    assert_eq!((outcome.exit_code, outcome.stdout.as_str()), (Some(4), "hi\n"));
    assert!(ms(outcome.duration) >= 200 && !outcome.output_held_open);
}

#[tokio::test]
async fn much_output_is_whole_and_fast() {
    for _ in 0..3 {
        let outcome = run(shell("seq -f %09.0f 1 20000")).await;
        assert_eq!(outcome.stdout.len(), 200_000);
    }
    let (outcome, seen) = try_run(exec("head", &["-c", "900000", "/dev/zero"])).await.unwrap();
    assert_eq!(outcome.stdout.len(), 900_000);
    assert_eq!(seen.text(Stream::Stdout).len(), 900_000);
    assert!(!outcome.truncated);
    assert!(ms(outcome.duration) < 900, "{:?}", outcome.duration);
}
