//! The seven filesystem tools over one traversal and one safe opener.
