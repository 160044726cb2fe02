//! Tests of this crate over real directories, as root and as an ordinary account.

mod directory;
mod files;
mod identity;
mod pairing;
mod readonly;
mod trust;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::StateDir;

/// 2026-12-01T00:00:00.123Z
const NOW: i64 = 1_796_083_200_123;
const NOW_TEXT: &str = "2026-12-01T00:00:00.123Z";

/// A scratch folder with a state directory in it.
struct Scratch {
    folder: TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Self { folder };
        fs::create_dir(scratch.state()).unwrap();
        set_mode(&scratch.state(), 0o700);
        scratch
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.state().join(name)
    }

    fn open(&self) -> StateDir {
        StateDir::open(&self.state()).unwrap()
    }

    /// Puts a private file into the directory, as another version may have left it.
    fn put(&self, name: &str, content: &str) {
        fs::write(self.file(name), content).unwrap();
        set_mode(&self.file(name), 0o600);
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// What is in the directory, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.state()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Tells a test that it runs in a process of its own, and on which directory.
const CHILD: &str = "GOBLIN_IDENTITY_TEST_CHILD";

/// The directory that a parent test gave to this process.
fn given_directory() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Starts one test of this program in a process of its own, under a umask.
fn start_test(name: &str, umask: &str, directory: &Path) -> Child {
    Command::new("sh")
        .args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs `work` under an account for which modes count: this one, or an unprivileged one when this is root. `folder` is
/// given to that account.
fn as_ordinary_user<T: Send>(folder: &Path, work: impl FnOnce() -> T + Send) -> T {
    use rustix::fs::{Gid, Uid};
    if !rustix::process::geteuid().is_root() {
        return work();
    }
    let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
    let mut path = folder;
    rustix::fs::chown(path, Some(user), Some(group)).unwrap();
    // The scratch folder above it is private to root.
    while path.starts_with(std::env::temp_dir()) && path != std::env::temp_dir() {
        rustix::fs::chown(path, Some(user), Some(group)).unwrap();
        path = path.parent().unwrap();
    }
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // Of this thread alone.
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        worker.join().unwrap()
    })
}
