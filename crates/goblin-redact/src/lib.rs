//! Streaming removal of known byte strings.
