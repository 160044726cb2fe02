//! Arguments of a call: paths, texts and bounds with their coercions. The only place that sees raw JSON.
//! It must never know a tool or touch a file.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Largest bound and offset: the largest integer that a JSON peer represents exactly. Larger ones saturate.
const BOUND_MAX: u64 = 9_007_199_254_740_991;

pub(crate) struct Arguments<'a> {
    values: &'a Map<String, Value>,
    working_directory: &'a Path,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(values: &'a Map<String, Value>, working_directory: &'a Path) -> Self {
        Self {
            values,
            working_directory,
        }
    }

    /// The absolute path under `name`, resolved lexically.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf, Failure> {
        match self.text(name) {
            Some(text) if !text.contains('\0') => Ok(resolve(self.working_directory, text)),
            _ => Err(Failure::PathInvalid),
        }
    }

    /// The path for a failed outcome: resolved, or as it came, or nothing.
    pub(crate) fn path_shown(&self, name: &str) -> Option<String> {
        match self.path(name) {
            Ok(path) => Some(shown(&path)),
            Err(_) => self.text(name).map(str::to_owned),
        }
    }

    /// Whatever is under `name`.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name)
    }

    /// The string under `name`, if it is one.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// The positive integer under `name`; anything else selects `default`. Numeric text counts.
    pub(crate) fn bound(&self, name: &str, default: u64) -> u64 {
        let number = match self.values.get(name) {
            Some(Value::Number(number)) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Some(Value::String(text)) => {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
            }
            _ => None,
        };
        number
            .filter(|number| *number > 0)
            .map_or(default, |number| number.min(BOUND_MAX))
    }
}

/// A float that is a non-negative integer, saturated; `None` for fractions, negatives, infinities and NaN.
fn whole(number: f64) -> Option<u64> {
    (number.is_finite() && number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

/// A path as outcomes show it.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// `text` against `base`, with `.`, `..` and repeated slashes taken out of the text alone: links are not looked at.
fn resolve(base: &Path, text: &str) -> PathBuf {
    let base = if text.starts_with('/') {
        &[]
    } else {
        base.as_os_str().as_bytes()
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in base
        .split(|byte| *byte == b'/')
        .chain(text.as_bytes().split(|byte| *byte == b'/'))
    {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let mut path = vec![b'/'];
    path.extend(parts.join(&b'/'));
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn bounds_take_positive_integers_and_numeric_text_only() {
        for value in [
            json!(null),
            json!(""),
            json!(1.5),
            json!(0),
            json!(-1),
            json!("x"),
            json!("1.5"),
            json!("-3"),
        ] {
            assert_eq!(bound(&value), 7, "{value}");
        }
        for value in [
            json!(true),
            json!([3]),
            json!({}),
            json!("NaN"),
            json!("inf"),
            json!("1 2"),
            json!(-1e300),
        ] {
            assert_eq!(bound(&value), 7, "{value}");
        }
        for (value, expected) in [
            (json!(3), 3),
            (json!("3"), 3),
            (json!(" 12 "), 12),
            (json!(4.0), 4),
            (json!("1e3"), 1000),
        ] {
            assert_eq!(bound(&value), expected, "{value}");
        }
        for value in [json!(u64::MAX), json!(1e30), json!("99999999999999999999999")] {
            assert_eq!(bound(&value), BOUND_MAX, "{value}");
        }
    }

    fn bound(value: &Value) -> u64 {
        Arguments::new(&map(json!({ "n": value })), Path::new("/")).bound("n", 7)
    }

    #[test]
    fn paths_are_resolved_lexically() {
        let cases = [
            ("f", "/w/d/f"),
            ("./sub/.", "/w/d/sub"),
            ("sub/../f", "/w/d/f"),
            ("", "/w/d"),
            ("../../../..", "/"),
            ("/a//b/./c/../d/", "/a/b/d"),
            ("/..", "/"),
            ("a\nb", "/w/d/a\nb"),
        ];
        for (text, expected) in cases {
            assert_eq!(resolve(Path::new("/w/d"), text), Path::new(expected), "{text:?}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_or_holds_nul_is_refused() {
        for value in [
            json!({}),
            json!({"p": 5}),
            json!({"p": null}),
            json!({"p": ["/"]}),
            json!({"p": "a\0b"}),
        ] {
            let values = map(value);
            assert!(
                matches!(
                    Arguments::new(&values, Path::new("/")).path("p"),
                    Err(Failure::PathInvalid)
                ),
                "{values:?}"
            );
        }
    }
}
