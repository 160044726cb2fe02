//! What tests share: the program's processes, peers under a test's control, and waiting for events. Never shipped.
//!
//! Everything here ends with its value: processes are killed and reaped, directories removed.

mod daemon;
mod waiting;

pub use daemon::{Answer, StdioDaemon};
pub use waiting::{LIMIT, eventually, is_running};
