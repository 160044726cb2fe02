//! Any secrets in any pieces of output: nothing of a secret is left, however the output was cut.

#![no_main]

use goblin_redact::{MARK, Redactor};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<Vec<u8>>, Vec<Vec<u8>>)| {
    let (secrets, pieces) = input;
    let redactor = Redactor::new(&secrets);
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    for piece in &pieces {
        stream.push(piece, &mut out);
    }
    stream.finish(&mut out);
    assert_eq!(out, redactor.redact(&pieces.concat()), "pieces and whole agree");
    // Where no secret shares a byte with the mark, none is left.
    for secret in secrets.iter().filter(|secret| !secret.is_empty() && !secret.iter().any(|byte| MARK.as_bytes().contains(byte))) {
        assert!(!out.windows(secret.len()).any(|window| window == secret.as_slice()));
    }
});
