//! Canonical JSON: the one text of a value, exactly as ECMAScript's `JSON.stringify` prints it with
//! the keys of every object sorted by UTF-16 code units (RFC 8785).

use serde_json::Value;

/// The canonical text of a value.
pub fn canonical(value: &Value) -> String {
    // A `Value` holds string keys and finite numbers only, so there is nothing that could fail.
    serde_json_canonicalizer::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_utf16_units_and_numbers_print_as_ecmascript() {
        let value: Value =
            serde_json::from_str(r#"{"\ufb01":1,"\ud83d\ude00":2,"a":[-0.0,1e21,1E-7,9007199254740993]}"#).unwrap();
        assert_eq!(
            canonical(&value),
            "{\"a\":[0,1e+21,1e-7,9007199254740992],\"😀\":2,\"ﬁ\":1}"
        );
    }
}
