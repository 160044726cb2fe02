//! The file that holds the key of the secrets: 64 hexadecimal digits, readable by its owner alone.
//! It must never print a key, nor replace one.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use aws_lc_rs::rand;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::{StoreError, state_directory::PartialFile};

/// Name of the key's file in the state directory.
pub(crate) const KEY_FILE: &str = "secrets.key";
const KEY_BYTES: usize = 32;
/// Digits, a line end, and one byte more to notice what is too long.
const FILE_BYTES_MAX: u64 = 2 * KEY_BYTES as u64 + 3;

pub(crate) type Key = Zeroizing<[u8; KEY_BYTES]>;

/// Where the key comes from.
pub(crate) enum KeySource {
    /// The state directory's own file, made where it is missing.
    Own(PathBuf),
    /// A file that someone else provides; it is only read.
    Given(PathBuf),
}

impl KeySource {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Own(path) | Self::Given(path) => path,
        }
    }

    /// The key of a store that exists.
    pub(crate) fn load(&self) -> Result<Key, StoreError> {
        let path = self.path();
        // Non-blocking, so that a FIFO in its place is refused rather than waited for.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path);
        match opened {
            Ok(file) => read(path, &file),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::KeyMissing { path: path.to_owned() }),
            Err(error) => Err(StoreError::io("open", path, error)),
        }
    }

    /// The key of a new store: the one that is there, else a new one where it is ours to make.
    pub(crate) fn load_or_create(&self) -> Result<Key, StoreError> {
        match (self.load(), self) {
            (Err(StoreError::KeyMissing { .. }), Self::Own(path)) => {
                create(path)?;
                self.load()
            }
            (loaded, _) => loaded,
        }
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    let mut key: Key = Zeroizing::new([0; KEY_BYTES]);
    rand::fill(key.as_mut_slice()).map_err(|_| StoreError::Unavailable("no randomness for a key".to_owned()))?;
    let mut text = Zeroizing::new(Vec::with_capacity(2 * KEY_BYTES + 1));
    for byte in key.iter() {
        text.push(HEX[usize::from(byte >> 4)]);
        text.push(HEX[usize::from(byte & 15)]);
    }
    text.push(b'\n');
    let partial = PartialFile::beside(path)?;
    partial.write(&text)?;
    partial.publish(path)
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn read(path: &Path, file: &File) -> Result<Key, StoreError> {
    let metadata = file
        .metadata()
        .map_err(|error| StoreError::io("inspect", path, error))?;
    let invalid = || StoreError::KeyInvalid { path: path.to_owned() };
    if !metadata.is_file() {
        return Err(invalid());
    }
    if exposed(metadata.mode(), metadata.uid(), rustix::process::geteuid().as_raw()) {
        return Err(StoreError::KeyExposed { path: path.to_owned() });
    }
    // Room for the longest accepted content, so that no growth leaves a copy behind.
    let mut content = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut content)
        .map_err(|error| StoreError::io("read", path, error))?;
    let digits = content.trim_ascii_end();
    if digits.len() != 2 * KEY_BYTES || content.len() as u64 == FILE_BYTES_MAX {
        return Err(invalid());
    }
    let mut key: Key = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])
            .zip(digit(pair[1]))
            .map(|(high, low)| high << 4 | low)
            .ok_or_else(invalid)?;
    }
    Ok(key)
}

/// Whether others can read the file, or write it. A file that root hands to an unprivileged service may be readable by
/// its group: service managers pass credentials so (by an access list, which shows as group bits), and only root can
/// mend that.
pub(crate) fn exposed(mode: u32, owner: u32, me: u32) -> bool {
    let handed_over = owner == 0 && me != 0;
    mode & (if handed_over { 0o037 } else { 0o077 }) != 0
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|value| value as u8)
}
