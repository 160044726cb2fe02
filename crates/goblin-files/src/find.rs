//! `files_find`: the paths of a tree that match a pattern, directories and links included.

use crate::Call;
use crate::arguments::shown;
use crate::failure::Failure;
use crate::glob::Glob;
use crate::traversal::{Bounds, Traversal};
use crate::walk::Walk;
use serde::Serialize;

const DEPTH_DEFAULT: u64 = 8;
const ENTRIES_DEFAULT: u64 = 500;
const PATTERN_DEFAULT: &str = "*";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Found {
    dir_path: String,
    pattern: String,
    paths: Vec<String>,
    #[serde(flatten)]
    traversal: Traversal,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Found, Failure> {
    let path = call.arguments.path("dirPath")?;
    let pattern = call
        .arguments
        .text("pattern")
        .filter(|pattern| !pattern.is_empty())
        .unwrap_or(PATTERN_DEFAULT);
    let limit = call.arguments.bound("maxEntries", ENTRIES_DEFAULT);
    let bounds = Bounds {
        depth: call.arguments.bound("maxDepth", DEPTH_DEFAULT),
        entries: call
            .arguments
            .bound("maxTraversalEntries", call.files.traversal_entries),
    };
    let mut glob = Glob::new(pattern);
    let mut walk = Walk::at(&path, bounds, call.cancel)?;
    let mut paths = Vec::new();
    let mut left_out = None;
    while let Some(entry) = walk.next()? {
        if !glob.matches(entry.relative, call.cancel)? {
            continue;
        }
        if paths.len() as u64 == limit {
            left_out = Some(limit);
            break;
        }
        paths.push(entry.traversal.show(entry.relative));
    }
    let traversal = walk.traversal.finish(&bounds, left_out);
    Ok(Found {
        dir_path: shown(&path),
        pattern: pattern.to_owned(),
        paths,
        traversal,
    })
}
