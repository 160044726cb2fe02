//! `files_edit`: the one occurrence of a text in a file, replaced. The match is made on bytes, so that every other byte
//! survives, whatever it is.

use crate::arguments::shown;
use crate::failure::Failure;
use crate::open::{self, Regular};
use crate::replace::{Old, Piece, Read, Replacement, Version};
use crate::target::Target;
use crate::write::NOT_ATOMIC;
use crate::{Call, check_cancelled};
use memchr::memmem::Finder;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Bytes read at a time.
const BLOCK: usize = 128 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edited {
    file_path: String,
    replaced: u64,
    changed_files: Vec<String>,
    /// Only where there is something to say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Edited, Failure> {
    let path = call.arguments.path("filePath")?;
    let old_text = call
        .arguments
        .text("oldText")
        .filter(|text| !text.is_empty())
        .ok_or(Failure::OldTextNotFound)?;
    let new_text = call.arguments.text("newText").ok_or(Failure::NewTextInvalid)?;
    let target = Target::resolve(&path, false)?;
    let _turn = call.files.locks.lock(target.key()?, call.cancel)?;
    let old = Old::open(&target)?;
    let regular = open::regular_in(target.directory_handle(), target.name_bytes())?;
    let (at, length) = only_occurrence(&regular, old_text.as_bytes(), call.cancel)?;
    let rest = at + old_text.len() as u64;
    let pieces = [
        Piece::Old {
            file: &regular.file,
            offset: 0,
            length: at,
        },
        Piece::Bytes(new_text.as_bytes()),
        Piece::Old {
            file: &regular.file,
            offset: rest,
            length: length - rest,
        },
    ];
    let replaced = Replacement {
        notes: &call.files.notes,
        target: &target,
        pieces: &pieces,
        read: Some(Read {
            old: &old,
            version: Version::of(&regular.stat),
        }),
        cancel: call.cancel,
    }
    .run()?;
    let file_path = shown(&path);
    Ok(Edited {
        replaced: 1,
        changed_files: vec![file_path.clone()],
        file_path,
        warnings: if replaced.in_place {
            vec![NOT_ATOMIC]
        } else {
            Vec::new()
        },
    })
}

/// Offset of the only occurrence of `text`, and the length of the file. Overlapping occurrences count.
fn only_occurrence(file: &Regular, text: &[u8], cancel: &AtomicBool) -> Result<(u64, u64), Failure> {
    let finder = Finder::new(text);
    let mut buffer = vec![0; BLOCK.max(2 * text.len())];
    // Offset in the file of the buffer's first byte, and how much of it was kept from the block before.
    let (mut offset, mut kept) = (0_u64, 0);
    let mut only = None;
    let mut position = 0;
    loop {
        check_cancelled(cancel)?;
        let wanted = buffer.len() - kept;
        let count = file.fill(&mut buffer[kept..], &mut position)?;
        let data = &buffer[..kept + count];
        let mut from = 0;
        while let Some(at) = finder.find(&data[from..]).map(|at| from + at) {
            if only.replace(offset + at as u64).is_some() {
                return Err(Failure::OldTextNotUnique);
            }
            from = at + 1;
        }
        if count < wanted {
            let length = offset + data.len() as u64;
            return only.map(|at| (at, length)).ok_or(Failure::OldTextNotFound);
        }
        kept = text.len() - 1;
        let done = data.len() - kept;
        offset += done as u64;
        buffer.copy_within(done.., 0);
    }
}
