//! The journal over real files: what a daemon, an operator or a crash can do to it, and what must come out.

mod baseline;
mod bounds;
mod damage;
mod faults;
mod kill;
mod model;
mod places;
mod replay;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::state::{TUNING, Tuning};
use crate::{Journal, Lookup, Opened, Options, RETENTION_MS_DEFAULT, StartRecord, Sync};

/// Some time; every test counts from here.
const T0: u64 = 1_800_000_000_000;

/// Measures so small that segments are cut and folded all the time.
const SMALL: Tuning = Tuning {
    segment_bytes: 2_000,
    fold_bytes: 8_000,
    group: Duration::from_millis(1),
    ..TUNING
};

/// A folder with a journal in it.
struct Place {
    folder: tempfile::TempDir,
    options: Options,
    tuning: Tuning,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(Some(folder.path().join("operations.json")));
        options.sync = Sync::Never;
        Self {
            folder,
            options,
            tuning: TUNING,
        }
    }

    fn snapshot(&self) -> PathBuf {
        self.folder.path().join("operations.json")
    }

    fn open_all(&self, now_ms: u64) -> Opened {
        Journal::open_tuned(self.options.clone(), self.tuning, now_ms).unwrap()
    }

    fn open(&self, now_ms: u64) -> Journal {
        let opened = self.open_all(now_ms);
        assert_eq!(opened.notices, Vec::<String>::new());
        opened.journal
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != "operations.log.lock");
        names.sort();
        names
    }

    fn segments(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| name.starts_with("operations.log.") && !name.contains("corrupt"));
        names
    }

    /// Whether the text lies in any file of the folder.
    fn on_disk(&self, text: &str) -> bool {
        let holds = |name: &String| {
            let bytes = fs::read(self.folder.path().join(name)).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
        self.names().iter().any(holds)
    }

    fn ids_in_snapshot(&self) -> Vec<String> {
        let text = fs::read_to_string(self.snapshot()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn started(id: &str, now_ms: u64) -> StartRecord {
    StartRecord {
        id: id.to_owned(),
        digest: digest(id),
        started_at_ms: now_ms,
        boot_id: "boot".to_owned(),
        mark: format!("mark of {id}"),
    }
}

fn digest(id: &str) -> String {
    format!("digest of {id}")
}

fn outcome(id: &str) -> String {
    format!(r#"{{"stdout":"says {id}"}}"#)
}

/// Starts and completes an operation.
fn run(journal: &Journal, id: &str, now_ms: u64) {
    journal.start(&started(id, now_ms), now_ms).unwrap();
    journal.complete(id, &digest(id), outcome(id), now_ms).unwrap();
}

fn look(journal: &Journal, id: &str, now_ms: u64) -> Lookup {
    journal.lookup(id, &digest(id), || "no baseline".to_owned(), now_ms)
}

fn completed(id: &str) -> Lookup {
    Lookup::Completed {
        outcome: Arc::from(outcome(id)),
    }
}

const RETENTION: u64 = RETENTION_MS_DEFAULT;
