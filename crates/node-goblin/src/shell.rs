//! Command lines for people to copy.

/// Words as one line that a POSIX shell takes apart into the same words.
pub fn command_line(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

/// A word as a POSIX shell reads it, on one line that is safe to print.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        let bytes: String = word.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        return format!("\"$(printf '{bytes}')\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(
            command_line(&["a-b_./:=@%+,", "", "it's", "a b", "$x"]),
            r"a-b_./:=@%+, '' 'it'\''s' 'a b' '$x'"
        );
        assert_eq!(command_line(&["\u{1b}"]), r#""$(printf '\033')""#);
    }
}
