//! Any frame from a gateway, as its client reads it: read or refused, no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let _ = goblin_client::Envelope::read(bytes::Bytes::copy_from_slice(frame));
});
