//! Decoding a stream of bytes as UTF-8.
//!
//! Owns: characters that reads split, and what invalid bytes become: one U+FFFD for each maximal
//! beginning of a character, as `String::from_utf8_lossy` does. Must never know: limits.

/// The state between two reads: the beginning of a character.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    begun: [u8; 4],
    length: usize,
}

impl Decoder {
    /// Appends the text of the next bytes.
    pub(crate) fn push(&mut self, mut input: &[u8], text: &mut String) {
        while self.length > 0 {
            let Some((&byte, rest)) = input.split_first() else {
                return;
            };
            self.begun[self.length] = byte;
            match std::str::from_utf8(&self.begun[..=self.length]) {
                Ok(character) => {
                    text.push_str(character);
                    self.length = 0;
                    input = rest;
                }
                Err(error) if error.error_len().is_none() => {
                    self.length += 1;
                    input = rest;
                }
                // What had begun is over, and this byte is not part of it.
                Err(_) => self.finish(text),
            }
        }
        loop {
            match std::str::from_utf8(input) {
                Ok(valid) => {
                    text.push_str(valid);
                    return;
                }
                Err(error) => {
                    let (valid, rest) = input.split_at(error.valid_up_to());
                    // Just checked; the loop never replaces anything here.
                    text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        Some(length) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            input = &rest[length..];
                        }
                        None => {
                            self.length = rest.len();
                            self.begun[..rest.len()].copy_from_slice(rest);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// The stream has ended: a character that had begun becomes U+FFFD.
    pub(crate) fn finish(&mut self, text: &mut String) {
        if self.length > 0 {
            text.push(char::REPLACEMENT_CHARACTER);
            self.length = 0;
        }
    }
}
