//! Tests of this crate, against golden files and, where it is installed, the real `openssl` program.

mod certificates;
mod handshakes;
mod keys;
mod texts;

use std::path::Path;
use std::process::Command;

/// Runs `openssl` in `directory`. `None` when the program is not installed; a failure of it fails the test, with what
/// it wrote.
fn openssl(directory: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = match Command::new("openssl").current_dir(directory).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("openssl is not installed: what depends on it is left out");
            return None;
        }
        Err(error) => panic!("openssl: {error}"),
    };
    assert!(
        output.status.success(),
        "openssl {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output.stdout)
}
