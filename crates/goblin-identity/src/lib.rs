//! The state directory of a host: identity, pins, trust and pairing files, atomic private files, the lock.
