//! The service's environment file: read as systemd reads it, and changed by single assignments.
//!
//! Bytes that a change does not concern stay as they are. It must never know what a variable means.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// A file's text and what it assigns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvFile {
    text: Vec<u8>,
    assignments: Vec<Assignment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Assignment {
    name: String,
    value: String,
    /// From the first byte of its line to before its line's end.
    place: Range<usize>,
}

impl EnvFile {
    /// Reads the file; one that is missing is empty.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let what = || format!("cannot read {}", path.display());
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(what),
        };
        if !file.metadata().with_context(what)?.is_file() {
            bail!("{} is no regular file", path.display());
        }
        let mut text = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut text).with_context(what)?;
        if text.len() as u64 > LONGEST {
            bail!("{} is longer than {LONGEST} bytes", path.display());
        }
        Ok(Self::parse(text))
    }

    /// Never fails: what can't be an assignment is passed over, as systemd does.
    pub fn parse(text: Vec<u8>) -> Self {
        let assignments = Scanner { text: &text, at: 0 }.assignments();
        Self { text, assignments }
    }

    /// The value that counts: that of the last assignment.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.assignments
            .iter()
            .rfind(|assignment| assignment.name == name)
            .map(|assignment| assignment.value.as_str())
    }

    /// As [`EnvFile::get`], where a blank value counts as none.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The bytes.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Assigns a value that needs no quotes. The last assignment of the name is replaced where it stands, earlier ones,
    /// which never counted, go; without any, a line is added at the end.
    pub fn set(&mut self, name: &str, value: &str) {
        let line = format!("{name}={value}");
        let mut places: Vec<Range<usize>> = self
            .assignments
            .iter()
            .filter(|assignment| assignment.name == name)
            .map(|assignment| assignment.place.clone())
            .collect();
        match places.pop() {
            Some(last) => {
                self.text.splice(last, line.bytes());
            }
            None => {
                let ending: &[u8] = if self.text.windows(2).any(|pair| pair == b"\r\n") {
                    b"\r\n"
                } else {
                    b"\n"
                };
                if self.text.last().is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {
                    self.text.extend_from_slice(ending);
                }
                self.text.extend_from_slice(line.as_bytes());
                self.text.extend_from_slice(ending);
            }
        }
        for earlier in places.into_iter().rev() {
            let end = earlier.end + line_ending(&self.text[earlier.end..]);
            self.text.drain(earlier.start..end);
        }
        *self = Self::parse(std::mem::take(&mut self.text));
    }
}

/// Length of the line end that a text begins with.
fn line_ending(text: &[u8]) -> usize {
    match text {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}

/// Reads assignments by systemd's rules: comments begin with `#` or `;`, either quote may span lines, a backslash
/// keeps the next character or joins lines, white space at the end of a bare value goes, CR and LF both end a line.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn assignments(mut self) -> Vec<Assignment> {
        let mut found = Vec::new();
        while self.at < self.text.len() {
            let start = self.at;
            while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
                self.at += 1;
            }
            match self.peek() {
                Some(b'#' | b';') => self.skip_comment(),
                _ => found.extend(self.assignment(start)),
            }
            self.at += line_ending(&self.text[self.at..]).max(usize::from(self.peek().is_some()));
        }
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn line_is_over(&self) -> bool {
        self.peek().is_none_or(|byte| matches!(byte, b'\n' | b'\r'))
    }

    /// A comment goes on where a backslash stands before the line's end.
    fn skip_comment(&mut self) {
        while !self.line_is_over() {
            if self.peek() == Some(b'\\') {
                self.at += 1;
                self.at += line_ending(&self.text[self.at..]);
            } else {
                self.at += 1;
            }
        }
    }

    fn assignment(&mut self, start: usize) -> Option<Assignment> {
        let name_start = self.at;
        while !self.line_is_over() && self.peek() != Some(b'=') {
            self.at += 1;
        }
        if self.peek() != Some(b'=') {
            return None;
        }
        let name = String::from_utf8_lossy(&self.text[name_start..self.at])
            .trim_end()
            .to_owned();
        self.at += 1;
        let value = self.value();
        valid_name(&name).then(|| Assignment {
            name,
            value: String::from_utf8_lossy(&value).into_owned(),
            place: start..self.at,
        })
    }

    fn value(&mut self) -> Vec<u8> {
        let mut value = Vec::new();
        // Up to here white space at the end is meant: it was quoted or escaped.
        let mut kept = 0;
        while !self.line_is_over() {
            match self.peek() {
                Some(b' ' | b'\t') if value.is_empty() => self.at += 1,
                Some(quote @ (b'"' | b'\'')) if value.len() == kept => {
                    self.at += 1;
                    self.quoted(quote, &mut value);
                    kept = value.len();
                }
                Some(b'\\') => {
                    self.at += 1;
                    let ending = line_ending(&self.text[self.at..]);
                    if ending > 0 {
                        self.at += ending;
                    } else if let Some(byte) = self.peek() {
                        value.push(byte);
                        self.at += 1;
                        kept = value.len();
                    }
                }
                Some(byte) => {
                    value.push(byte);
                    self.at += 1;
                }
                None => break,
            }
        }
        while value.len() > kept && value.last().is_some_and(u8::is_ascii_whitespace) {
            value.pop();
        }
        value
    }

    fn quoted(&mut self, quote: u8, value: &mut Vec<u8>) {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                _ if byte == quote => return,
                b'\\' if quote == b'"' => match self.peek() {
                    Some(escaped @ (b'"' | b'\\' | b'`' | b'$')) => {
                        value.push(escaped);
                        self.at += 1;
                    }
                    Some(b'\n' | b'\r') => self.at += line_ending(&self.text[self.at..]),
                    _ => value.push(b'\\'),
                },
                _ => value.push(byte),
            }
        }
    }
}

fn valid_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> EnvFile {
        EnvFile::parse(text.as_bytes().to_vec())
    }

    fn text(file: &EnvFile) -> &str {
        std::str::from_utf8(file.text()).unwrap()
    }

    #[test]
    fn values_are_read_as_systemd_reads_them() {
        for (written, value) in [
            ("A=plain", "plain"),
            ("A=plain   ", "plain"),
            ("A=plain \t\r\n", "plain"),
            ("  A = spaced\n", "spaced"),
            ("A=\"two words \"", "two words "),
            ("A='single $x \\'", "single $x \\"),
            ("A=\"a\\\"b\\$c\\n\"", "a\"b$c\\n"),
            ("A=\"over\ntwo\"\nB=1", "over\ntwo"),
            ("A=joined\\\nlines\nB=1", "joinedlines"),
            ("A=joined\\\r\nlines\r\nB=1", "joinedlines"),
            ("A=kept\\ ", "kept "),
            ("A=# no comment", "# no comment"),
            ("A=1\nA=2", "2"),
            ("A=", ""),
            ("A=tls://[2001:db8::1]:7443", "tls://[2001:db8::1]:7443"),
            ("A=/path/with a space/x", "/path/with a space/x"),
            ("A=\"never closed", "never closed"),
        ] {
            assert_eq!(parse(written).get("A"), Some(value), "{written:?}");
        }
    }

    #[test]
    fn comments_and_nonsense_assign_nothing() {
        for written in [
            "#A=1",
            " ; A=1",
            "# joined \\\nA=1",
            "A",
            "=1",
            "1A=1",
            "A B=1",
            "A-B=1",
            "export A=1",
            "\u{0}",
            "",
        ] {
            assert_eq!(parse(written).assignments, [], "{written:?}");
        }
    }

    #[test]
    fn a_change_touches_its_own_line_alone() {
        let before = "# note\r\nID=old  \r\nOTHER='x y'\r\nURL=\"tls://a:1\"\r\n\r\n# end";
        let mut file = parse(before);
        file.set("URL", "tls://[::1]:7443");
        file.set("ID", "host-1");
        assert_eq!(
            text(&file),
            "# note\r\nID=host-1\r\nOTHER='x y'\r\nURL=tls://[::1]:7443\r\n\r\n# end"
        );
        file.set("NEW", "1");
        assert!(text(&file).ends_with("# end\r\nNEW=1\r\n"));
        assert_eq!(file.get("OTHER"), Some("x y"));
    }

    #[test]
    fn assignments_that_never_counted_go() {
        let mut file = parse("A=1\nB=2\nA=\"x\ny\"\nA=3\nC=4");
        file.set("A", "9");
        assert_eq!(text(&file), "B=2\nA=9\nC=4");
        let mut empty = EnvFile::default();
        empty.set("A", "1");
        assert_eq!(text(&empty), "A=1\n");
        let mut commented = parse("#A=1");
        commented.set("A", "2");
        assert_eq!(text(&commented), "#A=1\nA=2\n");
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let mut file = EnvFile::parse(b"X=\xff\xfe\nA=1\n".to_vec());
        file.set("A", "2");
        assert_eq!(file.text(), b"X=\xff\xfe\nA=2\n");
    }

    #[test]
    fn a_file_that_is_missing_is_empty_and_a_directory_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(EnvFile::read(&folder.path().join("none")).unwrap(), EnvFile::default());
        let error = EnvFile::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
}
