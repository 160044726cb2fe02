//! `files_search`: the lines of a tree, or of one file, that hold a literal text. One pass over each file, in blocks.
//!
//! It must never know how the tree is walked; [`crate::walk`] says which files there are.

use crate::arguments::shown;
use crate::failure::Failure;
use crate::open::{self, Opened, Regular};
use crate::traversal::{Bounds, Traversal};
use crate::walk::{Kind, Walk};
use crate::{Call, check_cancelled};
use lines::{Line, LineSearch};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicBool;

mod lines;

const DEPTH_DEFAULT: u64 = 8;
const MATCHES_DEFAULT: u64 = 200;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Searched {
    dir_path: String,
    query: String,
    matches: Vec<Match>,
    #[serde(flatten)]
    traversal: Traversal,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Match {
    file_path: String,
    line: u64,
    text: String,
}

/// The matches so far, and the room for more.
struct Matches<'a> {
    search: LineSearch<'a>,
    found: Vec<Match>,
    limit: u64,
    /// Whether there was a match for which there was no room.
    left_out: bool,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Searched, Failure> {
    let path = call.arguments.path("dirPath")?;
    let query = call
        .arguments
        .text("query")
        .filter(|query| !query.is_empty())
        .ok_or(Failure::QueryRequired)?;
    let bounds = Bounds {
        depth: call.arguments.bound("maxDepth", DEPTH_DEFAULT),
        entries: call
            .arguments
            .bound("maxTraversalEntries", call.files.traversal_entries),
    };
    let limit = call.arguments.bound("maxMatches", MATCHES_DEFAULT);
    let mut matches = Matches {
        search: LineSearch::new(query, lines::BLOCK),
        found: Vec::new(),
        limit,
        left_out: false,
    };
    let traversal = match open::open(&path)? {
        Opened::Regular(file) => {
            let mut traversal = Traversal::default();
            let name = path.file_name().map_or(path.as_os_str(), |name| name).as_bytes();
            if matches.add(&file, name, &mut traversal, call.cancel)? == Content::Binary {
                traversal.warn("binary_file", name, None);
            }
            traversal
        }
        Opened::Directory(root) => {
            let mut walk = Walk::new(root, bounds, call.cancel)?;
            while !matches.left_out
                && let Some(entry) = walk.next()?
            {
                match entry.kind {
                    Kind::File => match open::regular_in(entry.directory, entry.name) {
                        Ok(file) => {
                            matches.add(&file, entry.relative, entry.traversal, call.cancel)?;
                        }
                        Err(Failure::System(error)) => {
                            entry.traversal.warn("unreadable_file", entry.relative, Some(error));
                        }
                        Err(_) => entry.traversal.warn("not_a_regular_file", entry.relative, None),
                    },
                    Kind::Other => entry.traversal.warn("not_a_regular_file", entry.relative, None),
                    Kind::Directory | Kind::Symlink => {}
                }
            }
            walk.traversal
        }
    };
    let traversal = traversal.finish(&bounds, matches.left_out.then_some(limit));
    Ok(Searched {
        dir_path: shown(&path),
        query: query.to_owned(),
        matches: matches.found,
        traversal,
    })
}

#[derive(PartialEq, Eq)]
enum Content {
    Text,
    Binary,
}

impl Matches<'_> {
    /// Adds the matching lines of one file.
    fn add(
        &mut self,
        file: &Regular,
        relative: &[u8],
        traversal: &mut Traversal,
        cancel: &AtomicBool,
    ) -> Result<Content, Failure> {
        let mut file_path: Option<String> = None;
        let (found, limit, left_out) = (&mut self.found, self.limit, &mut self.left_out);
        let searched = self
            .search
            .run(file, &mut || check_cancelled(cancel), &mut |Line { number, text }| {
                if found.len() as u64 == limit {
                    *left_out = true;
                    return false;
                }
                let file_path = file_path.get_or_insert_with(|| traversal.show(relative)).clone();
                traversal.count(&file_path);
                traversal.count(&text);
                found.push(Match {
                    file_path,
                    line: number,
                    text,
                });
                !traversal.is_overlong()
            });
        match searched {
            Ok(true) => Ok(Content::Text),
            Ok(false) => Ok(Content::Binary),
            Err(Failure::System(error)) => {
                traversal.warn("unreadable_file", relative, Some(error));
                Ok(Content::Text)
            }
            Err(failure) => Err(failure),
        }
    }
}
