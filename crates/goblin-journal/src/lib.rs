//! Bounded durable replay: segments, recovery, retention, the baseline's file.
