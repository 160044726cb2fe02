//! Starting, pumping and terminating one process; wire-free.
