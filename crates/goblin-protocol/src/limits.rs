//! Every bound of the wire protocol, with its unit and its reason, in one place.

/// Longest frame in either direction, in bytes, the newline included (protocol 1.0).
pub const FRAME_MAX: usize = 2 * 1024 * 1024;

/// Longest frame before authentication, in bytes: a stranger gets a small buffer.
pub const PRE_AUTH_FRAME_MAX: usize = 64 * 1024;

/// Deepest nesting of arrays and objects in a frame; deeper is `invalid_json`.
pub const NESTING_MAX: usize = 128;

/// Longest request id and longest operation id, in bytes of their text.
pub const ID_MAX: usize = 1024;

/// Milliseconds that a process may run when the request names no valid `timeoutMs`.
pub const TIMEOUT_MS_DEFAULT: u64 = 30_000;

/// Bytes of captured stdout and stderr together when the request names no valid `maxOutputBytes`.
pub const OUTPUT_BYTES_DEFAULT: u64 = 1024 * 1024;

/// Bytes of captured output retained for the evidence, however large the cap: more could not be sent anyway.
pub const OUTPUT_BYTES_RETAINED: usize = FRAME_MAX;

/// Operations running at once on one gateway, unless configured otherwise.
pub const OPERATIONS_MAX: usize = 256;

/// Shortest nonce that a gateway accepts, in characters.
pub const NONCE_MIN: usize = 16;

/// Longest gateway or target id, in characters.
pub const GATEWAY_ID_MAX: usize = 255;

/// Longest `tracestate`, in characters (W3C Trace Context, level 1).
pub const TRACESTATE_MAX: usize = 512;

/// Most members of a `tracestate` (W3C Trace Context, level 1).
pub const TRACESTATE_MEMBERS_MAX: usize = 32;
