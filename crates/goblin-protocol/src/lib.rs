//! Vocabulary of the wire: limits, frames, envelopes, canonical JSON, digests, evidence, authentication texts.
//!
//! Pure: bytes and values in, bytes and values out. It must never know a runtime, a file, a clock or a source
//! of randomness; time and chance are arguments.

pub mod canonical;
pub mod digest;
pub mod limits;
