//! Times as text. The time itself is always an argument.

use jiff::Timestamp;

/// Epoch milliseconds as ISO 8601 with milliseconds and `Z`, as JavaScript's `toISOString` prints them.
/// A time outside the years -9999 to 9999 is held at the bound.
pub fn iso8601(epoch_ms: i64) -> String {
    let bound = if epoch_ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(epoch_ms)
        .unwrap_or(bound)
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

/// The epoch milliseconds of an ISO 8601 time with an offset.
pub fn from_iso8601(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_javascript_prints_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_796_169_600_123, "2026-12-02T00:00:00.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(ms), text);
            assert_eq!(from_iso8601(text), Some(ms));
        }
        assert!(iso8601(i64::MAX).starts_with("9999-"));
        assert_eq!(from_iso8601("yesterday"), None);
    }
}
