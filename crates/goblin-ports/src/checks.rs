//! Bounds that hold in every home, and the checks each store makes before it writes.
//! It must never know what a record means.

use serde_json::Value;

use crate::{PortError, Secret};

/// Longest record name and longest operation field, in bytes of UTF-8. Far above any id of the protocol.
pub const NAME_BYTES_MAX: usize = 2048;

/// Longest setting, in bytes of its compact JSON: some 50 000 gateway records in one list.
pub const SETTING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Deepest nesting of a setting; below what a JSON reader refuses, so what was written can be read.
pub const SETTING_NESTING_MAX: usize = 100;

/// Longest secret, in bytes: a chain of PEM certificates with room to spare.
pub const SECRET_BYTES_MAX: usize = 1024 * 1024;

/// Longest note of an operator, in bytes of UTF-8.
pub const NOTE_BYTES_MAX: usize = 4096;

/// Checks a record name. NUL is refused because not every database stores it.
///
/// # Errors
/// [`PortError::NameInvalid`].
pub fn check_name(name: &str) -> Result<(), PortError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(PortError::NameInvalid);
    }
    Ok(())
}

/// Checks a setting against its bounds and returns its compact JSON text.
///
/// # Errors
/// [`PortError::NameInvalid`], [`PortError::ValueInvalid`].
pub fn check_setting(name: &str, value: &Value) -> Result<String, PortError> {
    check_name(name)?;
    if deeper_than(value, SETTING_NESTING_MAX) {
        return Err(refuse(name, format!("nested deeper than {SETTING_NESTING_MAX}")));
    }
    let text = serde_json::to_string(value).map_err(|error| refuse(name, error.to_string()))?;
    if text.len() > SETTING_BYTES_MAX {
        return Err(refuse(name, format!("longer than {SETTING_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Checks the name and the length of a secret.
///
/// # Errors
/// [`PortError::NameInvalid`], [`PortError::ValueInvalid`].
pub fn check_secret(name: &str, secret: &Secret) -> Result<(), PortError> {
    check_name(name)?;
    if secret.expose().len() > SECRET_BYTES_MAX {
        return Err(refuse(name, format!("longer than {SECRET_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// Checks an operator's note.
///
/// # Errors
/// [`PortError::ValueInvalid`].
pub fn check_note(note: &str) -> Result<(), PortError> {
    if note.len() > NOTE_BYTES_MAX || note.contains('\0') {
        return Err(refuse(
            "note",
            format!("longer than {NOTE_BYTES_MAX} bytes, or with a NUL"),
        ));
    }
    Ok(())
}

fn refuse(name: &str, reason: String) -> PortError {
    PortError::ValueInvalid {
        name: name.to_owned(),
        reason,
    }
}

/// Recursion ends at `levels`, so a hostile value cannot exhaust the stack here.
fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| deeper_than(item, levels - 1)),
        Value::Object(members) => levels == 0 || members.values().any(|member| deeper_than(member, levels - 1)),
        _ => false,
    }
}
