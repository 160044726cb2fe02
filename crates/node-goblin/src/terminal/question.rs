//! Questions to the person at the terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use tokio::sync::oneshot;

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
