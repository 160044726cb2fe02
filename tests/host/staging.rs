//! A staging root with the packages unpacked beside it, and commands run on it.

use crate::PROGRAM;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Root of the source tree.
pub fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The program without what only debuggers need, which would be compressed again and again.
fn program() -> &'static Path {
    static STRIPPED: OnceLock<PathBuf> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        let stripped = Path::new(env!("CARGO_TARGET_TMPDIR")).join("node-goblin-stripped");
        run(Command::new("strip").arg("-o").arg(&stripped).arg(PROGRAM));
        stripped
    })
}

/// Makes the packages into a folder.
pub fn package(out: &Path, configure: impl FnOnce(&mut Command)) {
    let sbom = out.with_extension("cdx.json");
    fs::write(&sbom, "{}\n").unwrap();
    let mut command = Command::new(tree().join("scripts/package"));
    command.arg("--program").arg(program()).arg("--out").arg(out);
    command.arg("--sbom").arg(sbom).args(["--level", "1"]);
    command.env("SOURCE_DATE_EPOCH", "1796083200");
    configure(&mut command);
    run(&mut command);
}

/// The packages, made once for all tests.
pub fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        package(&out, |_| ());
        out
    })
}

/// The one file with an ending.
pub fn only(folder: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    assert_eq!(found.len(), 1, "{ending}: {found:?}");
    found.remove(0)
}

/// Runs a command that must succeed, and gives what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Everything that a command said.
pub fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs a command as somebody without rights, which tests of a privileged build machine are not by themselves.
pub fn unprivileged(command: &mut Command) {
    if is_root() {
        command.uid(65_534).gid(65_534);
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A root to install into, whose path has a space.
pub struct Staging {
    folder: TempDir,
    archive: PathBuf,
}

impl Staging {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a root")).unwrap();
        run(Command::new("tar")
            .arg("xzf")
            .arg(only(packages(), ".tar.gz"))
            .arg("-C")
            .arg(folder.path()));
        let archive = only(folder.path(), "amd64").canonicalize();
        let archive = archive.unwrap_or_else(|_| only(folder.path(), "arm64"));
        Self { folder, archive }
    }

    /// With the program installed.
    pub fn installed() -> Self {
        let staging = Self::new();
        let output = staging.install();
        assert!(output.status.success(), "{}", said(&output));
        staging
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("a root")
    }

    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root().join(absolute.trim_start_matches('/'))
    }

    pub fn read(&self, absolute: &str) -> String {
        fs::read_to_string(self.path(absolute)).unwrap()
    }

    pub fn write(&self, absolute: &str, text: impl AsRef<[u8]>) {
        let path = self.path(absolute);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn install(&self) -> Output {
        self.script("install.sh")
    }

    pub fn uninstall(&self) -> Output {
        self.script("uninstall.sh")
    }

    fn script(&self, name: &str) -> Output {
        Command::new("sh")
            .arg(self.archive.join(name))
            .env("BURROW_GATEWAY_ROOT", self.root())
            .output()
            .unwrap()
    }

    /// An operator's command, not run yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("BURROW_GATEWAY_ROOT", self.root());
        command.env("SYSTEMCTL", "/nonexistent/systemctl");
        command
    }

    /// An operator's command.
    pub fn goblin(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

/// Every file below a folder with its mode and content, to compare.
pub fn snapshot(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode();
        if metadata.is_dir() {
            found.extend(snapshot(&path));
        } else if metadata.is_file() {
            found.push((path.clone(), mode, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}
