//! Identifiers: request ids, operation ids and their digests, gateway ids.

use crate::canonical::canonical;
use crate::code::Code;
use crate::digest::sha256_hex;
use crate::json;
use crate::limits::{GATEWAY_ID_MAX, ID_MAX};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, value::RawValue};

/// The members of a request's params.
pub type Params = Map<String, Value>;

/// A request's `id`: any JSON scalar, held as its canonical JSON text. It comes back as `requestId`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

impl RequestId {
    /// The id of a request that has none.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// A textual id.
    pub fn text(id: &str) -> Self {
        Self(canonical(&Value::from(id)).into())
    }

    /// The id of a JSON text; `None` when that is no scalar, or too long.
    pub fn from_json(text: &str) -> Option<Self> {
        if matches!(text.as_bytes().first(), Some(b'{' | b'[')) {
            return None;
        }
        let id = Self(canonical(&json::from_text::<Value>(text).ok()?).into());
        (id.plain().len() <= ID_MAX).then_some(id)
    }

    /// The canonical JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The id as JavaScript's `String(id)` prints it, as protected deliveries name it.
    pub fn plain(&self) -> String {
        serde_json::from_str::<String>(&self.0).unwrap_or_else(|_| self.0.to_string())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string())
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

/// Params that are no part of a derived id or a digest.
const EXCLUDED: [&str; 3] = ["protectedValues", "protectedDelivery", "traceContext"];

/// The operation id that a request names, `None` when that is absent or empty. A number is taken as its text.
pub fn named_operation_id(params: &Params) -> Result<Option<String>, Code> {
    let named = match params.get("operationId") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(number @ Value::Number(_)) => canonical(number),
        Some(_) => return Err(Code::OperationIdInvalid),
    };
    match named.len() {
        0 => Ok(None),
        1..=ID_MAX => Ok(Some(named)),
        _ => Err(Code::OperationIdInvalid),
    }
}

/// The operation id of a request: the one that it names, or one derived from method and params.
pub fn operation_id(method: &str, params: &Params) -> Result<String, Code> {
    Ok(
        named_operation_id(params)?
            .unwrap_or_else(|| sha256_hex(request_text(method, params, false, false).as_bytes())),
    )
}

/// The digest that tells whether two requests of one operation id are the same request.
pub fn request_digest(method: &str, params: &Params) -> String {
    sha256_hex(request_text(method, params, true, false).as_bytes())
}

/// The same digest as the Node.js implementation computes it: members that it sets to `undefined` stay in the text.
pub fn baseline_request_digest(method: &str, params: &Params) -> String {
    sha256_hex(request_text(method, params, true, true).as_bytes())
}

/// Canonical `{"method":…,"params":…}` without what is excluded, and without the operation id when told so.
fn request_text(method: &str, params: &Params, without_id: bool, with_undefined: bool) -> String {
    let mut members: Vec<(&str, Option<&Value>)> = params
        .iter()
        .map(|(key, value)| (key.as_str(), Some(value)))
        .filter(|(key, _)| !(EXCLUDED.contains(key) || without_id && *key == "operationId"))
        .collect();
    if with_undefined {
        members.extend(["operationId", "protectedDelivery", "protectedValues"].map(|key| (key, None)));
    }
    members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    let mut text = format!("{{\"method\":{},\"params\":{{", canonical(&Value::from(method)));
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&canonical(&Value::from(key)));
        text.push(':');
        text.push_str(&value.map_or_else(|| "undefined".to_owned(), canonical));
    }
    text.push_str("}}");
    text
}

/// True for a gateway or target id: `[A-Za-z0-9][A-Za-z0-9._-]{0,254}`, not `local`, not beginning `publicKey.`.
pub fn valid_gateway_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= GATEWAY_ID_MAX
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        && id != "local"
        && !id.starts_with("publicKey.")
}

/// True for an operation id that the HTTP API takes: `[A-Za-z0-9][A-Za-z0-9._:-]{0,255}`.
pub fn valid_api_operation_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= 256
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(value: Value) -> Params {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn canonical_texts_match_the_golden_cases() {
        let golden: Value = serde_json::from_str(include_str!("golden/canonical.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 6);
        for case in cases {
            let text = canonical(&json::from_text(case["text"].as_str().unwrap()).unwrap());
            assert_eq!(text, case["canonical"].as_str().unwrap());
            assert_eq!(sha256_hex(text.as_bytes()), case["sha256"].as_str().unwrap());
        }
    }

    #[test]
    fn a_derived_id_is_the_digest_of_method_and_params() {
        let exec = params(
            json!({"executable": "sh", "args": ["-c", "true"], "traceContext": 1, "protectedValues": 2, "protectedDelivery": 3, "operationId": null}),
        );
        let text = r#"{"method":"process.exec","params":{"args":["-c","true"],"executable":"sh","operationId":null}}"#;
        assert_eq!(
            operation_id("process.exec", &exec).unwrap(),
            sha256_hex(text.as_bytes())
        );
        let empty = operation_id("process.exec", &params(json!({"operationId": ""}))).unwrap();
        assert_eq!(
            empty,
            sha256_hex(br#"{"method":"process.exec","params":{"operationId":""}}"#)
        );
    }

    #[test]
    fn an_own_id_is_text_or_a_number_of_bounded_length() {
        let id = |value| operation_id("process.exec", &params(json!({ "operationId": value })));
        assert_eq!(id(json!("a b")).unwrap(), "a b");
        assert_eq!(id(json!(1e21)).unwrap(), "1e+21");
        assert_eq!(id(json!("x".repeat(1024))).unwrap().len(), 1024);
        for bad in [json!("x".repeat(1025)), json!(true), json!([]), json!({})] {
            assert_eq!(id(bad), Err(Code::OperationIdInvalid));
        }
    }

    #[test]
    fn a_digest_leaves_the_operation_id_out_and_knows_the_baselines_form() {
        let request = params(json!({"operationId": "old", "command": "echo taken", "zz": 1}));
        assert_eq!(
            request_digest("process.exec", &request),
            sha256_hex(br#"{"method":"process.exec","params":{"command":"echo taken","zz":1}}"#)
        );
        let baseline = br#"{"method":"process.exec","params":{"command":"echo taken","operationId":undefined,"protectedDelivery":undefined,"protectedValues":undefined,"zz":1}}"#;
        assert_eq!(baseline_request_digest("process.exec", &request), sha256_hex(baseline));
    }

    #[test]
    fn request_ids_are_scalars_in_canonical_text() {
        let id = |text: &str| RequestId::from_json(text).map(|id| (id.as_json().to_owned(), id.plain()));
        assert_eq!(id("1.0"), Some(("1".into(), "1".into())));
        assert_eq!(id("1E400"), Some(("null".into(), "null".into())));
        assert_eq!(
            id(r#""\u00e9\"\ud83d""#),
            Some(("\"é\\\"\u{fffd}\"".into(), "é\"\u{fffd}".into()))
        );
        assert_eq!(id("true"), Some(("true".into(), "true".into())));
        assert_eq!(id("[1]"), None);
        assert_eq!(id("{}"), None);
        assert_eq!(id(&format!("\"{}\"", "x".repeat(1025))), None);
        assert!(id(&format!("\"{}\"", "x".repeat(1024))).is_some());
        assert_eq!(serde_json::to_string(&RequestId::text("a\n")).unwrap(), "\"a\\n\"");
    }

    #[test]
    fn grammars_of_ids() {
        for good in ["a", "Host.With_All-3", "0", &"x".repeat(255)] {
            assert!(valid_gateway_id(good), "{good}");
        }
        for bad in [
            "",
            "local",
            "publicKey.a",
            "-a",
            ".a",
            "a/b",
            "a b",
            "é",
            "a:b",
            &"x".repeat(256),
        ] {
            assert!(!valid_gateway_id(bad), "{bad}");
        }
        assert!(valid_api_operation_id("a:b.c_d-e"));
        assert!(
            !valid_api_operation_id(":a") && !valid_api_operation_id("") && !valid_api_operation_id(&"x".repeat(257))
        );
    }
}
