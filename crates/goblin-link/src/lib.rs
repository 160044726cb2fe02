//! Authentication state machines of both ends, and one driver over any byte stream.
