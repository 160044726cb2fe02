//! The log as files: appending whole lines, and putting full files aside. It must never know what a line says.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::OFlags;
use tracing::{info, warn};

/// A log and its predecessors.
pub(super) struct LogFile {
    path: PathBuf,
    bytes_max: u64,
    kept: u32,
    /// The file and its length; `None` while it could not be opened or after it failed.
    open: Option<(File, u64)>,
    failing: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, bytes_max: u64, kept: u32) -> Self {
        Self {
            path,
            bytes_max,
            kept,
            open: None,
            failing: false,
        }
    }

    /// Appends a line, after one that says how many are missing. When it fails it gives how many are missing now.
    pub(super) fn append(&mut self, line: &[u8], missing: u64, time: &str) -> Result<(), u64> {
        let mut text = Vec::with_capacity(line.len() + 1);
        if missing > 0 {
            text.extend_from_slice(
                format!(
                    "{{\"time\":\"{time}\",\"actor\":\"controller\",\"action\":\"audit.lost\",\"subject\":null,\
                     \"result\":\"{missing}\",\"requestId\":\"\"}}\n"
                )
                .as_bytes(),
            );
        }
        text.extend_from_slice(line);
        text.push(b'\n');
        match self.write(&text) {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    info!("the audit log is written again");
                }
                Ok(())
            }
            Err(error) => {
                self.open = None;
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(path = %self.path.display(), %error, "the audit log cannot be written: records are lost");
                }
                Err(missing + 1)
            }
        }
    }

    pub(super) fn sync(&mut self) {
        if let Some((file, _)) = &self.open
            && let Err(error) = file.sync_data()
        {
            warn!(%error, "the audit log may not have reached the disk");
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let full = |length: u64| length > 0 && length + text.len() as u64 > self.bytes_max;
        let (mut file, mut length) = match self.open.take() {
            Some(open) => open,
            None => self.opened()?,
        };
        if full(length) {
            drop(file);
            self.put_aside()?;
            (file, length) = self.opened()?;
        }
        if let Err(error) = file.write_all(text) {
            // What was written of it would spoil the next line.
            let _ = file.set_len(length);
            return Err(error);
        }
        self.open = Some((file, length + text.len() as u64));
        Ok(())
    }

    fn opened(&self) -> io::Result<(File, u64)> {
        // Non-blocking, so that a FIFO in its place is refused rather than waited for.
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut length = metadata.len();
        if length > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
        Ok((file, length))
    }

    /// Gives each file the next number; the last one is replaced, which removes it.
    fn put_aside(&self) -> io::Result<()> {
        for number in (1..self.kept).rev() {
            let older = self.numbered(number);
            let younger = match number {
                1 => self.path.clone(),
                _ => self.numbered(number - 1),
            };
            match std::fs::rename(younger, older) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }
}
