//! W3C Trace Context, version 00: the checks of `traceparent` and `tracestate`.

use crate::limits::{TRACESTATE_MAX, TRACESTATE_MEMBERS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A validated trace context, carried beside a request and part of no digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// `00-<32 hex>-<16 hex>-<2 hex>`.
    pub traceparent: String,
    /// Vendor members, passed on unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// The trace context of a request's `traceContext` member; `None` when it breaks a rule.
    pub fn from_value(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let traceparent = members
            .get("traceparent")?
            .as_str()
            .filter(|text| valid_traceparent(text))?;
        let tracestate = match members.get("tracestate") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_str().filter(|text| valid_tracestate(text))?.to_owned()),
        };
        Some(Self {
            traceparent: traceparent.to_owned(),
            tracestate,
        })
    }
}

/// True for version 00: lower-case hexadecimal digits, neither id all zero.
pub fn valid_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut digits = |length: usize| {
        parts
            .next()
            .filter(|part| part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    };
    let not_zero = |part: &str| part.bytes().any(|byte| byte != b'0');
    digits(2) == Some("00")
        && digits(32).is_some_and(not_zero)
        && digits(16).is_some_and(not_zero)
        && digits(2).is_some()
        && parts.next().is_none()
}

/// True for a list of at most 32 members and 512 characters whose keys and values keep the grammar, no key twice.
pub fn valid_tracestate(text: &str) -> bool {
    if text.len() > TRACESTATE_MAX {
        return false;
    }
    let mut keys = Vec::new();
    for member in text
        .split(',')
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
    {
        match member.split_once('=') {
            Some((key, value)) if valid_key(key) && valid_value(value) && !keys.contains(&key) => keys.push(key),
            _ => return false,
        }
    }
    keys.len() <= TRACESTATE_MEMBERS_MAX
}

/// `simple` or `tenant@system`, each in its own length.
fn valid_key(key: &str) -> bool {
    let part = |text: &str, longest: usize, digit_first: bool| {
        text.len() <= longest
            && text
                .bytes()
                .next()
                .is_some_and(|first| first.is_ascii_lowercase() || (digit_first && first.is_ascii_digit()))
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/')
            })
    };
    match key.split_once('@') {
        Some((tenant, system)) => part(tenant, 241, true) && part(system, 14, false),
        None => part(key, 256, false),
    }
}

/// Up to 256 printable ASCII characters without `,` and `=`, the last one no space.
fn valid_value(value: &str) -> bool {
    value.len() <= 256
        && !value.is_empty()
        && !value.ends_with(' ')
        && value
            .bytes()
            .all(|byte| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_keeps_version_00() {
        assert!(valid_traceparent(PARENT));
        for bad in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        ] {
            assert!(!valid_traceparent(bad), "{bad}");
        }
    }

    #[test]
    fn tracestate_keeps_grammar_and_bounds() {
        let members = |n: usize| (0..n).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
        for good in ["", "vendor=value,other@sys=1", "a=b , c=d", "1a@b=x", ",,a=b,"] {
            assert!(valid_tracestate(good), "{good}");
        }
        assert!(valid_tracestate(&members(32)));
        for bad in [
            "a", "A=b", "a=", "a=b=c", "1a=b", "a@1=b", "a=b,a=c", "a=\u{7f}", "a=é", "@b=c",
        ] {
            assert!(!valid_tracestate(bad), "{bad}");
        }
        assert!(!valid_tracestate(&members(33)));
        assert!(!valid_tracestate(&format!("a={}", "x".repeat(257))));
        assert!(!valid_tracestate(&format!(
            "a={},b={}",
            "x".repeat(256),
            "y".repeat(256)
        )));
    }

    #[test]
    fn a_context_is_an_object_with_a_parent() {
        assert!(TraceContext::from_value(&json!({"traceparent": PARENT, "tracestate": "a=b"})).is_some());
        for bad in [
            json!({}),
            json!([]),
            json!(PARENT),
            json!(null),
            json!({"traceparent": 5}),
            json!({"traceparent": PARENT, "tracestate": 5}),
        ] {
            assert_eq!(TraceContext::from_value(&bad), None, "{bad}");
        }
    }
}
