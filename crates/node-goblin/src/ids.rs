//! Identifiers on the command line, and making new ones.

use goblin_protocol::id::{valid_api_operation_id, valid_gateway_id};

/// A gateway's id as an argument.
pub fn gateway(text: &str) -> Result<String, String> {
    match valid_gateway_id(text) {
        true => Ok(text.to_owned()),
        false => Err("an id has letters, digits, '.', '_' and '-', a letter or digit first, at most 255".to_owned()),
    }
}

/// An operation's id as an argument.
pub fn operation(text: &str) -> Result<String, String> {
    match valid_api_operation_id(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("an id has letters, digits, '.', '_', ':' and '-', a letter or digit first, at most 256".to_owned())
        }
    }
}

/// An id for an operation that never was before.
pub fn new_operation() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_before_anything_is_sent() {
        assert!(gateway("worker-01").is_ok() && operation("run:1.2").is_ok());
        assert!(operation(&new_operation()).is_ok());
        for bad in ["", "a/b", "-x", "..", "a b", "ü"] {
            assert!(gateway(bad).is_err() && operation(bad).is_err(), "{bad}");
        }
        assert!(gateway("local").is_err());
    }
}
