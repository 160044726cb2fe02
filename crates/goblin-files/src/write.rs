//! `files_write`: one file, created or replaced whole, with its missing parents.

use crate::Call;
use crate::arguments::shown;
use crate::failure::Failure;
use crate::replace::{Piece, Replacement};
use crate::target::Target;
use serde::Serialize;

/// Said of a file that was written in place.
pub(crate) const NOT_ATOMIC: &str = "not_atomic";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    file_path: String,
    workspace_root: Option<String>,
    encoding: &'static str,
    created: bool,
    overwrote: bool,
    bytes_written: u64,
    /// Only where there is something to say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Written, Failure> {
    let path = call.arguments.path("filePath")?;
    let content = call
        .arguments
        .text("content")
        .ok_or(Failure::ContentInvalid)?
        .as_bytes();
    let target = Target::resolve(&path, true)?;
    let _turn = call.files.locks.lock(target.key()?, call.cancel)?;
    let pieces = [Piece::Bytes(content)];
    let replaced = Replacement {
        notes: &call.files.notes,
        target: &target,
        pieces: &pieces,
        read: None,
        cancel: call.cancel,
    }
    .run()?;
    Ok(Written {
        file_path: shown(&path),
        workspace_root: call.arguments.text("workspaceRoot").map(str::to_owned),
        encoding: "utf8",
        created: replaced.created,
        overwrote: !replaced.created,
        bytes_written: content.len() as u64,
        warnings: if replaced.in_place {
            vec![NOT_ATOMIC]
        } else {
            Vec::new()
        },
    })
}
