//! Questions to the person at the terminal.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// Longest secret that is read, in bytes.
const SECRET_MAX: u64 = 64 * 1024;

/// True when there is a person to ask and to read the answer of.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a yes-or-no question; anything but a clear yes is a no, the end of input too.
///
/// The answer is read by a thread of its own, so that whoever waits can stop waiting.
pub async fn confirm(question: &str) -> bool {
    let mut prompt = anstream::stderr();
    let _ = write!(prompt, "{question} [y/N] ").and_then(|()| prompt.flush());
    let (answered, answer) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        // Whoever asked may have gone.
        let _ = answered.send(read.is_ok() && is_yes(&line));
    });
    answer.await.unwrap_or(false)
}

/// Reads a secret from standard input: one line, typed unseen, where that is a terminal, else all of it.
pub async fn secret(prompt: &str) -> io::Result<Zeroizing<String>> {
    let hidden = match io::stdin().is_terminal() {
        true => {
            let mut output = anstream::stderr();
            let _ = write!(output, "{prompt}: ").and_then(|()| output.flush());
            Some(Hidden::start()?)
        }
        false => None,
    };
    let one_line = hidden.is_some();
    let (given, secret) = oneshot::channel();
    std::thread::spawn(move || {
        let mut text = Zeroizing::new(String::new());
        let mut input = io::stdin().lock().take(SECRET_MAX);
        let read = match one_line {
            true => input.read_line(&mut text),
            false => input.read_to_string(&mut text),
        };
        // Whoever asked may have gone.
        let _ = given.send(read.map(|_| text));
    });
    secret
        .await
        .unwrap_or_else(|_| Err(io::Error::other("nothing was read")))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Hidden(Termios);

impl Hidden {
    fn start() -> io::Result<Self> {
        let shown = tcgetattr(io::stdin())?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(shown))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Nothing can be done when the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
        // The line's end was not shown either.
        let _ = writeln!(io::stderr());
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        assert!(is_yes("y\n") && is_yes(" YES \n"));
        assert!(!is_yes("") && !is_yes("\n") && !is_yes("yep\n") && !is_yes("n\n"));
    }
}
