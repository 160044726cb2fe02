//! `files_inspect`: type, size, time and link target of one path, without opening or following it.

use crate::Call;
use crate::arguments::shown;
use crate::failure::Failure;
use crate::modified::modified_at;
use crate::open;
use crate::walk::Kind;
use rustix::io::Errno;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inspected {
    path: String,
    exists: bool,
    r#type: Option<Kind>,
    size: Option<u64>,
    modified_at: Option<String>,
    symlink_target: Option<String>,
}

pub(crate) fn run(call: &Call<'_>) -> Result<Inspected, Failure> {
    let path = call.arguments.path("path")?;
    let shown = shown(&path);
    let place = match open::unfollowed(&path) {
        Ok(place) => place,
        // Below a file there is nothing either.
        Err(Errno::NOENT | Errno::NOTDIR) => {
            return Ok(Inspected {
                path: shown,
                exists: false,
                r#type: None,
                size: None,
                modified_at: None,
                symlink_target: None,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let stat = &place.stat;
    let kind = Kind::of(stat);
    let symlink_target = match kind {
        Kind::Symlink => Some(place.link_target()?.to_string_lossy().into_owned()),
        _ => None,
    };
    Ok(Inspected {
        path: shown,
        exists: true,
        r#type: Some(kind),
        size: Some(u64::try_from(stat.st_size).unwrap_or(0)),
        modified_at: Some(modified_at(stat)),
        symlink_target,
    })
}
