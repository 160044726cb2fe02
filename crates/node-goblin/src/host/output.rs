//! Lines for the operator on standard output.

/// Prints a line, as `println!` does, but goes on where nobody reads any more: what the command does must not depend on
/// who looks (`connect | head -n 1`).
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub(crate) use say;
