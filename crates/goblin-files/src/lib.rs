//! The seven filesystem tools over one traversal and one safe opener.
//!
//! Owns: what `files_read`, `files_inspect`, `files_list`, `files_find`, `files_search`, `files_write` and `files_edit`
//! do, and the JSON text of their outcomes. It must never know the wire, the journal, configuration or the runtime:
//! arguments come in, one outcome goes out, and the caller decides on which thread.

mod arguments;
mod edit;
mod errno;
mod failure;
mod find;
mod glob;
mod inspect;
mod list;
mod metadata;
mod modified;
mod open;
mod outcome;
mod own_process;
mod path_locks;
mod read;
mod replace;
mod search;
mod shorten;
mod target;
mod temporary;
mod text;
mod traversal;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use arguments::Arguments;
use failure::Failure;
use path_locks::PathLocks;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use temporary::Notes;

pub use outcome::ToolOutcome;
pub use shorten::shorten_read;

/// Entries that `files_find` and `files_search` traverse when neither the request nor the daemon names a budget.
pub const TRAVERSAL_ENTRIES_DEFAULT: u64 = 4_000;

/// The seven tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `files_read`: a range of one file.
    Read,
    /// `files_inspect`: type, size and time of one path.
    Inspect,
    /// `files_list`: the entries of a tree.
    List,
    /// `files_find`: the paths of a tree that match a pattern.
    Find,
    /// `files_search`: the lines of a tree that hold a text.
    Search,
    /// `files_write`: one file, replaced whole.
    Write,
    /// `files_edit`: one occurrence of a text in one file, replaced.
    Edit,
}

impl Tool {
    /// Every tool, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Inspect,
        Self::List,
        Self::Find,
        Self::Search,
        Self::Write,
        Self::Edit,
    ];

    /// The tool of this name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "files_read",
            Self::Inspect => "files_inspect",
            Self::List => "files_list",
            Self::Find => "files_find",
            Self::Search => "files_search",
            Self::Write => "files_write",
            Self::Edit => "files_edit",
        }
    }

    /// Whether the tool changes the host.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Edit)
    }

    /// The argument, and the field of the outcome, that names the path.
    const fn path_field(self) -> &'static str {
        match self {
            Self::Read | Self::Write | Self::Edit => "filePath",
            Self::Inspect => "path",
            Self::List | Self::Find | Self::Search => "dirPath",
        }
    }
}

/// What the tools need to know of their host.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Absolute folder against which relative paths are resolved.
    pub working_directory: PathBuf,
    /// Entries that find and search traverse when the request names no budget.
    pub traversal_entries: u64,
    /// A private folder, ours alone, that remembers temporary files until they are gone, so that [`Files::recover`]
    /// can remove what a killed predecessor left. Without it a kill in mid-write can leave one.
    pub temporary_notes: Option<PathBuf>,
}

impl FilesOptions {
    /// Options with the default budget and no notes.
    pub fn new(working_directory: PathBuf) -> Self {
        Self {
            working_directory,
            traversal_entries: TRAVERSAL_ENTRIES_DEFAULT,
            temporary_notes: None,
        }
    }
}

/// The tools of one host. Calls may run in parallel; writes to one path take turns.
#[derive(Debug)]
pub struct Files {
    working_directory: PathBuf,
    traversal_entries: u64,
    notes: Notes,
    locks: PathLocks,
}

/// One call as the tools see it.
struct Call<'a> {
    files: &'a Files,
    arguments: Arguments<'a>,
    cancel: &'a AtomicBool,
}

impl Call<'_> {
    /// Ends the call when somebody asked for it.
    fn check_cancelled(&self) -> Result<(), Failure> {
        check_cancelled(self.cancel)
    }
}

fn check_cancelled(cancel: &AtomicBool) -> Result<(), Failure> {
    if cancel.load(Ordering::Relaxed) {
        Err(Failure::Cancelled)
    } else {
        Ok(())
    }
}

impl Files {
    /// The tools with these options. Touches nothing on disk.
    pub fn new(options: FilesOptions) -> Self {
        Self {
            working_directory: options.working_directory,
            traversal_entries: options.traversal_entries.max(1),
            notes: Notes::new(options.temporary_notes),
            locks: PathLocks::default(),
        }
    }

    /// Runs one tool to its end, on the calling thread. Every fault, an unknown tool included, is a failed outcome.
    ///
    /// Setting `cancel` ends a call early with the code `cancelled`; a replacement that has begun to take
    /// effect is finished.
    pub fn run(&self, tool: &str, arguments: &Map<String, Value>, cancel: &AtomicBool) -> ToolOutcome {
        let started = Instant::now();
        let Some(known) = Tool::parse(tool) else {
            return outcome::failed(tool, None, &Failure::ToolUnsupported, started);
        };
        let call = Call {
            files: self,
            arguments: Arguments::new(arguments, &self.working_directory),
            cancel,
        };
        let result = call.check_cancelled().and_then(|()| match known {
            Tool::Read => read::run(&call).map(|result| outcome::succeeded(known, &result, started)),
            Tool::Inspect => inspect::run(&call).map(|result| outcome::succeeded(known, &result, started)),
            Tool::List => list::run(&call).map(|result| outcome::succeeded(known, &result, started)),
            Tool::Find => find::run(&call).map(|result| outcome::succeeded(known, &result, started)),
            Tool::Search => search::run(&call).map(|result| outcome::succeeded(known, &result, started)),
            Tool::Write => write::run(&call).map(|result| outcome::succeeded(known, &result, started)),
            Tool::Edit => edit::run(&call).map(|result| outcome::succeeded(known, &result, started)),
        });
        result.unwrap_or_else(|failure| {
            let field = known.path_field();
            outcome::failed(tool, Some((field, call.arguments.path_shown(field))), &failure, started)
        })
    }

    /// Removes the temporary files that a killed predecessor left, and returns their paths for the log.
    ///
    /// Call it once, at start, while no other daemon uses the notes folder. It removes only regular files whose
    /// name is of our form and carries the random part that the note itself carries.
    pub fn recover(&self) -> Vec<PathBuf> {
        self.notes.recover()
    }
}
