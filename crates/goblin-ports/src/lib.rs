//! Settings, secrets and operations as traits, their conformance suite, and the in-memory implementation.
