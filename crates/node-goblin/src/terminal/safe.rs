//! Text from elsewhere, made harmless for a terminal: control characters, and those that turn the direction of text or
//! can't be seen, are written as escapes.

use std::fmt::Write;

/// A name or a word: every control character is escaped.
pub fn safe(text: &str) -> String {
    escaped(text, |_| false)
}

/// A line of content: tabs stay.
pub fn safe_line(text: &str) -> String {
    escaped(text, |character| character == '\t')
}

fn escaped(text: &str, kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            character if kept(character) || !hostile(character) => shown.push(character),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            character if character.is_ascii() => {
                // Writing to a string can't fail.
                let _ = write!(shown, "\\x{:02x}", u32::from(character));
            }
            character => shown.extend(character.escape_unicode()),
        }
    }
    shown
}

/// Control characters of both sets, line and paragraph separators, marks that turn the direction, invisible ones.
fn hostile(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(safe("a\u{1b}[31mred\u{7}"), "a\\x1b[31mred\\x07");
        assert_eq!(safe("two\nlines\r\t"), "two\\nlines\\r\\t");
        assert_eq!(
            safe("\u{9b}2J \u{202e}gpj.exe \u{2028}"),
            "\\u{9b}2J \\u{202e}gpj.exe \\u{2028}"
        );
        assert_eq!(safe("Grüße 日本 👩‍💻 a\\b"), "Grüße 日本 👩‍💻 a\\b");
        assert_eq!(safe_line("\tif x {\u{8}}"), "\tif x {\\x08}");
    }
}
