//! Equality whose time doesn't depend on where two values differ. It must never know what is compared.

/// Whether two byte strings are equal. Only their lengths can be learnt from the time taken.
pub fn bytes(left: &[u8], right: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(left, right).is_ok()
}

/// Whether two texts are equal, byte for byte. Only their lengths can be learnt from the time taken.
pub fn text(left: &str, right: &str) -> bool {
    bytes(left.as_bytes(), right.as_bytes())
}
