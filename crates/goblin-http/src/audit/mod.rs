//! The audit log: who did what, when, and with what result. A bounded queue before a thread that writes, so that no
//! request ever waits for the disk.
//!
//! It must never be given a secret, output, a body or a query string: its callers hand over ids and codes alone.

mod file;

use file::LogFile;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

/// Name of the log in the state directory. Older ones are `audit.log.1` and so on.
pub const AUDIT_FILE: &str = "audit.log";

/// Length at which the log is put aside, in bytes.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// Logs kept, the one that is written included.
const FILES_KEPT: u32 = 5;

/// Records that wait to be written. Beyond it they are lost, and counted.
const QUEUE: usize = 4096;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// ISO 8601 time at which the request was decided or came.
    pub(crate) time: String,
    /// `uid:UID`, `token:ID`, or `peer:ADDRESS` for a caller that did not prove who it is.
    pub(crate) actor: String,
    /// What was asked for, as `noun.verb`.
    pub(crate) action: String,
    /// Ids that it was about.
    pub(crate) subject: Option<String>,
    /// `ok` or a code.
    pub(crate) result: String,
    /// The answer's `x-request-id`.
    pub(crate) request_id: String,
}

enum Message {
    Write(Record),
    Close(oneshot::Sender<()>),
}

/// The audit log of a state directory. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct AuditLog {
    queue: Option<mpsc::Sender<Message>>,
    lost: Arc<AtomicU64>,
}

impl AuditLog {
    /// The log of a state directory, whose lock the caller holds. What cannot be written is counted and warned of, and
    /// does not keep anything from going on.
    pub fn start(directory: &Path) -> Self {
        Self::with(LogFile::new(directory.join(AUDIT_FILE), FILE_BYTES_MAX, FILES_KEPT))
    }

    fn with(file: LogFile) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let started = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(file, messages, &counted));
        if let Err(error) = started {
            warn!(%error, "there is no thread for the audit log: nothing is audited");
        }
        Self {
            queue: Some(queue),
            lost,
        }
    }

    /// A log that keeps nothing.
    pub fn off() -> Self {
        Self {
            queue: None,
            lost: Arc::default(),
        }
    }

    pub(crate) fn record(&self, record: Record) {
        if let Some(queue) = &self.queue
            && queue.try_send(Message::Write(record)).is_err()
            && self.lost.fetch_add(1, Ordering::Relaxed) == 0
        {
            warn!("the audit log does not keep up: records are lost");
        }
    }

    /// Writes what waits. Records that come later are lost.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if let Some(queue) = &self.queue
            && queue.send(Message::Close(done)).await.is_ok()
        {
            let _ = closed.await;
        }
    }
}

fn write_all(mut file: LogFile, mut messages: mpsc::Receiver<Message>, lost: &AtomicU64) {
    while let Some(message) = messages.blocking_recv() {
        match message {
            Message::Write(record) => {
                let missing = lost.swap(0, Ordering::Relaxed);
                // Plain texts: encoding them cannot fail.
                let line = serde_json::to_vec(&record).unwrap_or_default();
                if let Err(again) = file.append(&line, missing, &record.time) {
                    lost.fetch_add(again, Ordering::Relaxed);
                }
            }
            Message::Close(done) => {
                file.sync();
                let _ = done.send(());
                return;
            }
        }
    }
}

#[cfg(test)]
pub(crate) use tests::read;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::os::unix::fs::PermissionsExt;

    /// The records of a log, oldest first.
    pub(crate) fn read(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(number: usize) -> Record {
        Record {
            time: "2026-12-01T00:00:00.000Z".to_owned(),
            actor: "uid:0".to_owned(),
            action: "token.create".to_owned(),
            subject: None,
            result: "ok".to_owned(),
            request_id: number.to_string(),
        }
    }

    async fn written(file: LogFile, records: std::ops::Range<usize>) {
        let log = AuditLog::with(file);
        records.for_each(|number| log.record(record(number)));
        log.close().await;
    }

    fn numbers(path: &Path) -> Vec<String> {
        let text = |record: &Value| record["requestId"].as_str().unwrap().to_owned();
        read(path).iter().map(text).collect()
    }

    #[tokio::test]
    async fn a_record_is_one_line_that_only_the_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let log = AuditLog::start(directory.path());
        log.record(Record {
            subject: Some("a\nb\u{2028}\"".to_owned()),
            ..record(1)
        });
        log.close().await;
        let path = directory.path().join(AUDIT_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            read(&path),
            [
                serde_json::json!({"time": "2026-12-01T00:00:00.000Z", "actor": "uid:0", "action": "token.create",
                "subject": "a\nb\u{2028}\"", "result": "ok", "requestId": "1"})
            ]
        );
        log.record(record(2));
        assert_eq!(read(&path).len(), 1, "a closed log takes nothing and nobody waits");
        AuditLog::off().record(record(3));
        AuditLog::off().close().await;
    }

    #[tokio::test]
    async fn full_logs_are_put_aside_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(AUDIT_FILE);
        let length = serde_json::to_vec(&record(10)).unwrap().len() as u64 + 1;
        let file = || LogFile::new(path.clone(), 2 * length, 3);
        written(file(), 10..15).await;
        written(file(), 15..17).await;
        assert_eq!(numbers(&path), ["16"]);
        let older = |number: u32| numbers(&directory.path().join(format!("{AUDIT_FILE}.{number}")));
        assert_eq!(
            (older(1), older(2)),
            (vec!["14".into(), "15".into()], vec!["12".into(), "13".into()])
        );
        assert!(!directory.path().join(format!("{AUDIT_FILE}.3")).exists());
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_loses_records_and_says_how_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(AUDIT_FILE);
        std::fs::create_dir(&path).unwrap();
        let mut file = LogFile::new(path.clone(), 1000, 3);
        let lines = [b"{\"requestId\":\"1\"}", b"{\"requestId\":\"2\"}"];
        assert_eq!(file.append(lines[0], 0, "t"), Err(1));
        assert_eq!(file.append(lines[1], 1, "t"), Err(2));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(file.append(lines[1], 2, "t"), Ok(()));
        let records = read(&path);
        assert_eq!(
            (&records[0]["action"], &records[0]["result"], &records[1]["requestId"]),
            (&"audit.lost".into(), &"2".into(), &"2".into())
        );
        // A link could lead anywhere.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert_eq!(LogFile::new(path, 1000, 3).append(lines[0], 0, "t"), Err(1));
    }

    #[tokio::test]
    async fn half_a_line_of_an_earlier_end_spoils_only_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(AUDIT_FILE);
        std::fs::write(&path, "{\"time\":\"2026").unwrap();
        written(LogFile::new(path.clone(), 10_000, 3), 1..2).await;
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(serde_json::from_str::<Value>(lines[1]).is_ok());
    }
}
