//! The one connection to the database, lent to one call at a time.
//! What is particular to SQLite is here; the statements elsewhere are plain SQL. It must never know a table.

use std::{
    mem,
    path::{Path, PathBuf},
};

use goblin_ports::PortError;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection, Row, any::AnyConnectOptions};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    error::database,
    state_directory::{StateDirectory, utf8},
};

/// What a commit must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The end of the process.
    Process,
    /// A power cut.
    Power,
}

/// The log is folded into the file once it has so many pages of 4 KiB. Folding waits for the disk, so it is rare;
/// reading the log after a crash takes some milliseconds at this length.
const LOG_PAGES: u32 = 2000;

/// Bytes that the log's file keeps for reuse after an unusually large write.
const LOG_BYTES_KEPT: u32 = LOG_PAGES * 4096;

/// Memory for pages. The whole store is rarely larger, and the system caches the file as well.
const CACHE_KIB: u32 = 512;

/// A connection and what is known of it.
pub(crate) struct Session {
    pub(crate) connection: AnyConnection,
    durability: Durability,
}

impl Session {
    /// Connects to an existing file without changing it. A lock held by an outside reader is waited for 5 s.
    pub(crate) async fn connect(path: &Path) -> Result<Self, PortError> {
        sqlx::any::install_default_drivers();
        let path = utf8(path).map_err(|error| PortError::Unavailable(error.to_string()))?;
        let url = format!("sqlite://{}?mode=rw", percent_encoded(path));
        let options: AnyConnectOptions = url.parse().map_err(database)?;
        let connection = options.disable_statement_logging().connect().await.map_err(database)?;
        Ok(Self {
            connection,
            durability: Durability::Process,
        })
    }

    /// Switches to write-ahead logging and sets what a connection does not remember.
    pub(crate) async fn tune(&mut self, pages_max: Option<u32>) -> Result<(), PortError> {
        let mode = sqlx::query("PRAGMA journal_mode = WAL")
            .fetch_one(&mut self.connection)
            .await
            .map_err(database)?;
        let mode: String = mode.try_get(0).map_err(database)?;
        if mode != "wal" {
            return Err(PortError::Unavailable(
                "the file system does not support write-ahead logging".to_owned(),
            ));
        }
        self.run(&format!(
            "PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
             PRAGMA cache_size = -{CACHE_KIB}; PRAGMA wal_autocheckpoint = {LOG_PAGES}; \
             PRAGMA journal_size_limit = {LOG_BYTES_KEPT}"
        ))
        .await?;
        self.durability = Durability::Process;
        if let Some(pages) = pages_max {
            self.run(&format!("PRAGMA max_page_count = {pages}")).await?;
        }
        Ok(())
    }

    /// Starts a transaction that holds the write lock from the beginning, so that it never fails half-way for it.
    pub(crate) async fn begin(&mut self) -> Result<(), PortError> {
        self.statement("BEGIN IMMEDIATE").await
    }

    /// Ends the transaction; only now is anything kept.
    pub(crate) async fn commit(&mut self) -> Result<(), PortError> {
        self.statement("COMMIT").await
    }

    /// Gives the transaction up.
    pub(crate) async fn rollback(&mut self) -> Result<(), PortError> {
        self.statement("ROLLBACK").await
    }

    pub(crate) async fn statement(&mut self, sql: &'static str) -> Result<(), PortError> {
        sqlx::query(sql)
            .execute(&mut self.connection)
            .await
            .map(drop)
            .map_err(database)
    }

    /// Several statements of our own making.
    async fn run(&mut self, sql: &str) -> Result<(), PortError> {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut self.connection)
            .await
            .map(drop)
            .map_err(database)
    }

    /// Folds the log into the file and closes it.
    pub(crate) async fn close(self) {
        if let Err(error) = self.connection.close().await {
            // Everything committed is in the log, which the next opening reads.
            tracing::warn!(%error, "closing the store");
        }
    }

    /// Says what the coming commits must survive.
    pub(crate) async fn make_durable(&mut self, durability: Durability) -> Result<(), PortError> {
        if self.durability != durability {
            self.statement(match durability {
                Durability::Process => "PRAGMA synchronous = NORMAL",
                Durability::Power => "PRAGMA synchronous = FULL",
            })
            .await?;
            self.durability = durability;
        }
        Ok(())
    }
}

enum State {
    Ready(Session),
    /// The last borrower failed or was cancelled: its connection is gone, and with it whatever it had begun.
    Lost,
    Closed,
}

struct Held {
    state: State,
    directory: Option<StateDirectory>,
}

/// The place of the session. A borrower that does not give it back, for an error or because its future was dropped,
/// costs the connection, which rolls back; the next borrower connects anew. So no call ever meets another's half.
pub(crate) struct Slot {
    database: PathBuf,
    pages_max: Option<u32>,
    held: Mutex<Held>,
}

/// The session, lent to one call.
pub(crate) struct Lent<'a> {
    held: MutexGuard<'a, Held>,
    pub(crate) session: Session,
}

impl Lent<'_> {
    /// Returns a session that is in order: no error, no open transaction.
    pub(crate) fn give_back(mut self) {
        self.held.state = State::Ready(self.session);
    }
}

impl Slot {
    pub(crate) fn new(database: PathBuf, pages_max: Option<u32>, session: Session, directory: StateDirectory) -> Self {
        let held = Held {
            state: State::Ready(session),
            directory: Some(directory),
        };
        Self {
            database,
            pages_max,
            held: Mutex::new(held),
        }
    }

    /// Waits for the session; the order of waiting is the order of service.
    pub(crate) async fn lend(&self, durability: Durability) -> Result<Lent<'_>, PortError> {
        let mut held = self.held.lock().await;
        let mut session = match mem::replace(&mut held.state, State::Lost) {
            State::Ready(session) => session,
            State::Lost => {
                let mut session = Session::connect(&self.database).await?;
                session.tune(self.pages_max).await?;
                session
            }
            State::Closed => {
                held.state = State::Closed;
                return Err(PortError::Unavailable("the store is closed".to_owned()));
            }
        };
        session.make_durable(durability).await?;
        Ok(Lent { held, session })
    }

    pub(crate) async fn close(&self) {
        let mut held = self.held.lock().await;
        if let State::Ready(session) = mem::replace(&mut held.state, State::Closed) {
            session.close().await;
        }
        held.directory = None;
    }
}

/// A path as it must stand in the URL that the driver takes.
fn percent_encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
