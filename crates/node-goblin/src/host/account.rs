//! The service's account and files that it may read.

use crate::host::layout::{ACCOUNT, Layout};
use anyhow::{Context, bail};
use rustix::fs::{Gid, Uid};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The group's number; none where it does not exist.
pub fn group(layout: &Layout) -> anyhow::Result<Option<u32>> {
    number(layout, "group", 2)
}

/// The user's number; none where it does not exist.
pub fn user(layout: &Layout) -> anyhow::Result<Option<u32>> {
    number(layout, "passwd", 2)
}

/// A field of the account's line: from the root's own file, else, on the machine itself, from wherever the system looks.
fn number(layout: &Layout, database: &str, field: usize) -> anyhow::Result<Option<u32>> {
    let path = layout.path("/etc").join(database);
    let text = fs::read(&path).unwrap_or_default();
    let found = field_of(&String::from_utf8_lossy(&text), field);
    if found.is_some() || layout.is_staging() {
        return Ok(found);
    }
    let Ok(output) = Command::new("getent").args([database, ACCOUNT]).output() else {
        return Ok(None);
    };
    Ok(field_of(&String::from_utf8_lossy(&output.stdout), field))
}

fn field_of(database: &str, field: usize) -> Option<u32> {
    database
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&ACCOUNT))
        .and_then(|fields| fields.get(field)?.parse().ok())
}

/// Replaces a file as a whole by one of mode 0640 that belongs to root and the account's group, which reads it. A link
/// is followed. Without root (below a staging root) the owner is left to who stages.
pub fn replace_configuration(layout: &Layout, path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let what = || format!("cannot write {}", path.display());
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().with_context(what)?;
    fs::create_dir_all(folder).with_context(what)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".gateway.env.")
        .tempfile_in(folder)
        .with_context(what)?;
    temporary.write_all(text).with_context(what)?;
    if rustix::process::geteuid().is_root() {
        match group(layout)? {
            Some(group) => rustix::fs::fchown(temporary.as_file(), Some(Uid::ROOT), Some(Gid::from_raw(group)))
                .with_context(what)?,
            None if layout.is_staging() => {}
            None => bail!("there is no group {ACCOUNT}: install the package first"),
        }
    }
    temporary
        .as_file()
        .set_permissions(Permissions::from_mode(0o640))
        .with_context(what)?;
    temporary.as_file().sync_all().with_context(what)?;
    temporary
        .persist(&target)
        .map_err(|error| error.error)
        .with_context(what)?;
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_found_in_the_roots_own_files() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::of(root.path(), true);
        assert_eq!(group(&layout).unwrap(), None);
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(
            root.path().join("etc/group"),
            "root:x:0:\nburrowers:x:7:\nburrow:x:4226:\n",
        )
        .unwrap();
        fs::write(
            root.path().join("etc/passwd"),
            "burrow:x:991:4226::/nonexistent:/bin/false\n",
        )
        .unwrap();
        assert_eq!(group(&layout).unwrap(), Some(4226));
        assert_eq!(user(&layout).unwrap(), Some(991));
        fs::write(root.path().join("etc/group"), "burrow\nburrow:x\nburrow:x:many:\n").unwrap();
        assert_eq!(group(&layout).unwrap(), None);
    }

    #[test]
    fn configuration_is_private_and_a_link_to_it_stays() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::of(root.path(), true);
        let (real, link) = (root.path().join("real.env"), root.path().join("gateway.env"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace_configuration(&layout, &link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
