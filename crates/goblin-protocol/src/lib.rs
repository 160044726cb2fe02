//! Vocabulary of the wire: limits, frames, envelopes, canonical JSON, digests, evidence, authentication texts.
//!
//! Pure: bytes and values in, bytes and values out. It must never know a runtime, a file, a clock or a source
//! of randomness; time and chance are arguments.

pub mod auth;
pub mod canonical;
pub mod code;
pub mod digest;
pub mod envelope;
pub mod evidence;
pub mod frame;
pub mod id;
pub mod json;
pub mod limits;
pub mod process;
pub mod request;
pub mod time;
pub mod trace;

pub use code::Code;
pub use id::RequestId;
