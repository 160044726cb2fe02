//! `files_list`: the entries of a tree with their types.

use crate::Call;
use crate::arguments::shown;
use crate::failure::Failure;
use crate::traversal::{Bounds, Traversal};
use crate::walk::{Kind, Walk};
use serde::Serialize;

const DEPTH_DEFAULT: u64 = 4;
const ENTRIES_DEFAULT: u64 = 500;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    dir_path: String,
    entries: Vec<ListedEntry>,
    #[serde(flatten)]
    traversal: Traversal,
}

#[derive(Serialize)]
struct ListedEntry {
    path: String,
    r#type: Kind,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Listed, Failure> {
    let path = call.arguments.path("dirPath")?;
    let bounds = Bounds {
        depth: call.arguments.bound("maxDepth", DEPTH_DEFAULT),
        entries: call.arguments.bound("maxEntries", ENTRIES_DEFAULT),
    };
    let mut walk = Walk::at(&path, bounds, call.cancel)?;
    let mut entries = Vec::new();
    while let Some(entry) = walk.next()? {
        entries.push(ListedEntry {
            path: entry.traversal.show(entry.relative),
            r#type: entry.kind,
        });
    }
    Ok(Listed {
        dir_path: shown(&path),
        entries,
        traversal: walk.traversal.finish(&bounds, None),
    })
}
