//! The embedded store behind the ports.
