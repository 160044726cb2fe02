//! Spans of time and amounts of bytes, in a few characters.

/// Milliseconds: `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 20 min`.
pub fn duration(milliseconds: f64) -> String {
    let milliseconds = milliseconds.max(0.0);
    if milliseconds < 999.5 {
        return format!("{milliseconds:.0} ms");
    }
    if milliseconds < 59_950.0 {
        return format!("{:.1} s", milliseconds / 1_000.0);
    }
    let seconds = (milliseconds / 1_000.0).round() as u64;
    match seconds {
        ..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..172_800 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// How long before `now` a time was, both in epoch milliseconds: `just now`, `12 s ago`, `3 h ago`.
pub fn ago(then: i64, now: i64) -> String {
    let seconds = now.saturating_sub(then) / 1_000;
    match seconds {
        ..1 => "just now".to_owned(),
        1..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// `12 bytes`, `1 byte`, `3.4 KiB`, `1.0 MiB`.
pub fn bytes(amount: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if amount < 1_024 {
        return format!("{amount} byte{}", if amount == 1 { "" } else { "s" });
    }
    let (mut scaled, mut unit) = (amount as f64 / 1_024.0, 0);
    while scaled >= 1_023.95 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_take_the_unit_that_fits() {
        for (ms, text) in [
            (0.2, "0 ms"),
            (999.4, "999 ms"),
            (999.6, "1.0 s"),
            (59_900.0, "59.9 s"),
            (59_990.0, "1 min 0 s"),
            (3_600_000.0, "1 h 0 min"),
            (259_200_000.0, "3 d 0 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn ages_count_from_now() {
        assert_eq!(ago(5_000, 4_000), "just now");
        assert_eq!(ago(0, 59_999), "59 s ago");
        assert_eq!(ago(0, 7_200_000), "2 h ago");
        assert_eq!(ago(i64::MIN, i64::MAX), "106751991167 d ago");
    }

    #[test]
    fn amounts_take_the_unit_that_fits() {
        for (amount, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1023 bytes"),
            (1_024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(amount), text);
        }
    }
}
