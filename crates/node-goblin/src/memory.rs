//! How the allocator gives memory back: what one large output took does not stay with an idle daemon.

#![allow(unsafe_code)]

/// Bytes from which an allocation is a mapping of its own, which goes back to the system as soon as it is freed. It is
/// the allocator's initial value; fixing it keeps the allocator from raising it with every large block.
const MAPPED_FROM: libc::c_int = 128 * 1024;

/// Fixes the threshold. To be called before there is a second thread.
pub fn give_back_large_blocks() {
    // SAFETY: mallopt takes two numbers and touches only the allocator's own parameters; no other thread allocates yet.
    // A refusal changes nothing, and all that is lost then is memory.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM) };
}
