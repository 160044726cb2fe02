//! Any bytes, in any pieces, through the frame decoder: bounded memory, no panic.

#![no_main]

use goblin_protocol::frame::FrameDecoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<Vec<u8>>| {
    let mut decoder = FrameDecoder::new(64);
    for piece in pieces {
        decoder.buffer().extend_from_slice(&piece);
        while decoder.next().is_some() {}
        assert!(decoder.buffer().len() < 64);
    }
    decoder.finish();
});
