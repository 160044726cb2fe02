//! Where the tests work: a temporary folder with tools, and processes of their own behind wrappers.

use super::*;
use std::path::Path;
use std::process::Command;

/// A temporary folder with tools that work in it.
pub(super) struct Place {
    folder: tempfile::TempDir,
    pub(super) files: Files,
}

impl Place {
    pub(super) fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// In memory where the system offers that, for very many files.
    pub(super) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        Self::of(
            if memory.is_dir() {
                tempfile::tempdir_in(memory)
            } else {
                tempfile::tempdir()
            }
            .unwrap(),
        )
    }

    pub(super) fn of(folder: tempfile::TempDir) -> Self {
        let working_directory = folder.path().canonicalize().unwrap();
        let files = Files::new(FilesOptions {
            temporary_notes: Some(working_directory.join(".state/temporary")),
            ..FilesOptions::new(working_directory)
        });
        Self { folder, files }
    }

    /// With these shell commands run in it.
    pub(super) fn with(script: &str) -> Self {
        let place = Self::new();
        place.shell(script);
        place
    }

    pub(super) fn path(&self) -> &Path {
        &self.files.working_directory
    }

    pub(super) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Runs a script in the folder; it must succeed.
    pub(super) fn shell(&self, script: &str) -> String {
        let output = Command::new("bash")
            .arg("-ec")
            .arg(script)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(super) fn run(&self, tool: &str, arguments: Value) -> Value {
        run(&self.files, tool, arguments)
    }

    /// The outcome of a call that must succeed.
    pub(super) fn ok(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.run(tool, arguments.clone());
        assert_eq!(outcome["ok"], true, "{tool} {arguments}: {outcome}");
        assert_eq!(outcome["error"], Value::Null);
        outcome
    }

    /// The code of a call that must fail.
    pub(super) fn error(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.run(tool, arguments.clone());
        assert_eq!(outcome["ok"], false, "{tool} {arguments}: {outcome}");
        assert_eq!(outcome["error"], outcome["diagnostic"]["code"]);
        outcome["error"].as_str().unwrap().to_owned()
    }

    /// Names in the folder and in `.state/temporary`, to see what was left behind.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = self.join(folder).read_dir() else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.retain(|name| name != ".state");
        names
    }
}

pub(super) fn run(files: &Files, tool: &str, arguments: Value) -> Value {
    let outcome = files.run(tool, arguments.as_object().unwrap(), &AtomicBool::new(false));
    let value: Value = serde_json::from_str(&outcome.json).unwrap();
    assert_eq!(value["ok"], outcome.ok);
    assert_eq!(value["error"].as_str(), outcome.error.as_deref());
    value
}

/// Tells a helping thread to end, also when the test fails.
pub(super) struct SetOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Set for a child process that runs calls; see [`in_child`].
pub(super) const CALLS: &str = "GOBLIN_FILES_TEST_CALLS";

/// Set for a child process that is killed; see [`crash`].
pub(super) const CRASH: &str = "GOBLIN_FILES_TEST_CRASH";

/// A command that runs one of this program's tests, behind `wrapper`.
pub(super) fn child(wrapper: &[&str], test: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.args(["--exact", test, "--nocapture"]);
    command
}

/// Runs calls in a process of their own, behind `wrapper`; the outcomes also hold that process's `peakKib`.
pub(super) fn in_child(place: &Place, wrapper: &[&str], calls: &[(&str, Value)]) -> Vec<Value> {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}))
        .collect();
    let calls = json!({"folder": place.path(), "calls": calls}).to_string();
    // In a file, since a command line and an environment have their limits.
    std::fs::create_dir_all(place.join(".state")).unwrap();
    let path = place.join(".state/calls");
    std::fs::write(&path, calls).unwrap();
    place.shell("chmod 777 .state");
    let mut command = child(wrapper, "tests::place::child_process");
    let output = command.env(CALLS, path).current_dir(place.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let outcomes = text.lines().filter_map(|line| line.strip_prefix("outcome "));
    outcomes.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The body of child processes; without their variable there is nothing to do.
#[test]
fn child_process() {
    let Ok(path) = std::env::var(CALLS) else { return };
    let calls: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let folder: PathBuf = calls["folder"].as_str().unwrap().into();
    let files = Files::new(FilesOptions {
        temporary_notes: Some(folder.join(".state/temporary")),
        ..FilesOptions::new(folder)
    });
    for call in calls["calls"].as_array().unwrap() {
        let mut outcome = run(&files, call["tool"].as_str().unwrap(), call["arguments"].clone());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        outcome["peakKib"] = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap().into();
        println!("\noutcome {outcome}");
    }
}

/// The wrapper that takes away the superuser's right to override permissions, where there is one.
pub(super) fn without_override() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &[
            "setpriv",
            "--bounding-set",
            "-dac_override,-dac_read_search,-fowner,-chown",
            "--",
        ]
    } else {
        &[]
    }
}

/// Whether this process may do what only the superuser may; such a test says so and ends otherwise.
pub(super) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs the superuser");
    }
    root
}
