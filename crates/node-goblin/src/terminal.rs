//! All that a person sees: lines, colours, warnings and questions. The only module that knows colours.
//!
//! Text from elsewhere (names, codes, messages of remote parts) comes through [`safe`], so that it can't steer the
//! terminal. A closed standard output is an error of its own, [`OutputError::Closed`], which ends the program quietly.

mod question;
mod safe;
mod span;
mod table;

pub use question::{can_ask, confirm, secret};
pub use safe::{safe, safe_line};
pub use span::{ago, bytes, duration};
pub use table::Table;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};

/// For what matters most.
pub const STRONG: Style = Style::new().bold();
/// For what is there only for completeness.
pub const FAINT: Style = Style::new().dimmed();
/// For what went well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// For what needs attention.
pub const CAUTION: Style = AnsiColor::Yellow.on_default();
/// For what went wrong.
pub const BAD: Style = AnsiColor::Red.on_default();
/// For what leads elsewhere: directories.
pub const PLACE: Style = AnsiColor::Blue.on_default().bold();
/// For what points elsewhere: links, and commands to type.
pub const POINTER: Style = AnsiColor::Cyan.on_default();
/// For what was looked for.
pub const MATCH: Style = AnsiColor::Red.on_default().bold();

/// Why something could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Whoever read the output went away, as `head` does.
    #[error("the output was closed")]
    Closed,
    /// The system refused.
    #[error("cannot write the output: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

/// `text` in a style, which shows only where a terminal does.
pub fn paint(style: Style, text: impl Display) -> impl Display {
    struct Painted<T>(Style, T);
    impl<T: Display> Display for Painted<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}{}{:#}", self.0, self.1, self.0)
        }
    }
    Painted(style, text)
}

/// Prints text and a newline on standard output.
pub fn line(text: impl Display) -> Result<(), OutputError> {
    let mut output = anstream::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}

/// Styled text as standard output shows it: without the styles where that is no terminal.
pub fn rendered(text: &str) -> String {
    match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
        _ => text.to_owned(),
    }
}

/// Prints a line on standard error. Nobody minds when that is gone.
pub fn note(text: impl Display) {
    let mut output = anstream::stderr().lock();
    let _ = writeln!(output, "{text}");
}

/// Says on standard error what the reader should know before relying on the output.
pub fn warn(text: impl Display) {
    note(format_args!("{} {text}", paint(CAUTION, "warning:")));
}

/// Says on standard error why the program did not do what was asked.
pub fn fail(text: impl Display) {
    // Whatever part of it came from elsewhere steers nothing.
    let lines: Vec<String> = text.to_string().split('\n').map(safe).collect();
    note(format_args!("{} {}", paint(BAD, "node-goblin:"), lines.join("\n")));
}

/// True when a person reads standard error.
pub fn watched() -> bool {
    io::stderr().is_terminal()
}

/// A pairing code as nobody can overlook it.
pub fn code_box(code: &str) -> String {
    let code = safe(code);
    let bar = "─".repeat(code.chars().count() + 8);
    format!("    ┌{bar}┐\n    │    {}    │\n    └{bar}┘", paint(STRONG, &code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_stands_in_a_box_as_wide_as_it_is() {
        let plain = anstream::adapter::strip_str(&code_box("ABCD-EF01-2345")).to_string();
        let widths: Vec<usize> = plain.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [28, 28, 28]);
        assert!(plain.contains("│    ABCD-EF01-2345    │"));
    }

    #[test]
    fn a_closed_pipe_is_told_from_other_faults() {
        assert!(matches!(
            io::Error::from(io::ErrorKind::BrokenPipe).into(),
            OutputError::Closed
        ));
        assert!(matches!(
            io::Error::from(io::ErrorKind::StorageFull).into(),
            OutputError::Failed(_)
        ));
    }
}
