//! What a replacement takes over from the file that it replaces: owner, group, mode, access list and other extended
//! attributes. It must never know the content.
//!
//! The mode is kept with its set-user-id, set-group-id and sticky bits: whoever may replace a file in its place is its
//! owner or privileged, and could set them again. File capabilities are dropped, as every write drops them, and so are
//! the signatures of integrity measurement, which belong to the old content.

use rustix::fd::BorrowedFd;
use rustix::fs::{
    Gid, Mode, Uid, XattrFlags, fchown, fgetxattr, flistxattr, flistxattr_query, fremovexattr, fsetxattr, fstat,
};
use rustix::io::Errno;

/// Attributes that belong to the old content.
const OF_CONTENT: [&[u8]; 3] = [b"security.capability", b"security.ima", b"security.evm"];

/// The access list that a new file inherits from its directory, though the old one may have none.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Largest list of names and largest value, in bytes, that Linux has.
const XATTR_MAX: usize = 64 * 1024;

/// Makes `new` like `old` in all but the mode, which it returns: that must come last, since changing the owner and writing
/// both clear bits of it, and an access list lays its mask over it. An error means that `new` can't be made like `old`.
pub(crate) fn copy(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<Mode, Errno> {
    let (stat, created) = (fstat(old)?, fstat(new)?);
    let owner = (created.st_uid != stat.st_uid).then(|| Uid::from_raw(stat.st_uid));
    let group = (created.st_gid != stat.st_gid).then(|| Gid::from_raw(stat.st_gid));
    if owner.is_some() || group.is_some() {
        fchown(new, owner, group)?;
    }
    copy_attributes(old, new)?;
    Ok(Mode::from_raw_mode(stat.st_mode))
}

fn copy_attributes(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<(), Errno> {
    let kept = attribute_names(old)?;
    if attribute_names(new)?.iter().any(|name| name == ACCESS_LIST) && !kept.iter().any(|name| name == ACCESS_LIST) {
        fremovexattr(new, ACCESS_LIST)?;
    }
    if kept.is_empty() {
        return Ok(());
    }
    let (mut value, mut inherited) = (vec![0; XATTR_MAX], vec![0; XATTR_MAX]);
    for name in kept.iter().filter(|name| !OF_CONTENT.contains(&name.as_slice())) {
        let value = match fgetxattr(old, name.as_slice(), value.as_mut_slice()) {
            Ok(length) => &value[..length],
            // Gone in the meantime.
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error),
        };
        // What is the same already, a security label mostly, might not be ours to set.
        let same =
            fgetxattr(new, name.as_slice(), inherited.as_mut_slice()).is_ok_and(|length| inherited[..length] == *value);
        if !same {
            fsetxattr(new, name.as_slice(), value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

fn attribute_names(file: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    // Most files have none; ask for the length first.
    match flistxattr_query(file) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        queried => queried?,
    };
    let mut names = vec![0_u8; XATTR_MAX];
    let length = flistxattr(file, names.as_mut_slice())?;
    names.truncate(length);
    Ok(names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}
