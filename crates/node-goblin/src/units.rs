//! Durations and amounts of bytes as people type them.

use std::time::Duration;

/// `90` and `90s`, `500ms`, `5m`, `24h`, `2d`, and sums such as `1h30m`. Never zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let fault = || format!("{text:?} is no duration: give for example 30s, 5m, 1h30m or 24h");
    let (mut total, mut rest) = (0_u64, text);
    if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()) {
        total = rest
            .parse::<u64>()
            .ok()
            .and_then(|seconds| seconds.checked_mul(1_000))
            .ok_or_else(fault)?;
        rest = "";
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(fault)?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|letter: char| letter.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let scale = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(fault()),
        };
        let part = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(scale))
            .ok_or_else(fault)?;
        total = total.checked_add(part).ok_or_else(fault)?;
        rest = after;
    }
    if total == 0 {
        return Err(fault());
    }
    Ok(Duration::from_millis(total))
}

/// `4096`, `64K`, `1M`, `2G`, in powers of 1 024. Never zero.
pub fn bytes(text: &str) -> Result<u64, String> {
    let fault = || format!("{text:?} is no amount of bytes: give for example 4096, 64K, 1M or 2G");
    let (number, scale) = match text.strip_suffix(|letter: char| letter.is_ascii_alphabetic()) {
        None => (text, 1),
        Some(number) => match text.as_bytes()[text.len() - 1] {
            b'K' | b'k' => (number, 1 << 10),
            b'M' | b'm' => (number, 1 << 20),
            b'G' | b'g' => (number, 1 << 30),
            _ => return Err(fault()),
        },
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let amount = number.parse::<u64>().ok().filter(|_| digits);
    amount
        .and_then(|amount| amount.checked_mul(scale))
        .filter(|amount| *amount > 0)
        .ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("1", 1_000),
            ("90s", 90_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("24h", 86_400_000),
            ("2d1ms", 172_800_001),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in [
            "",
            "0",
            "0s",
            "-1",
            "1.5s",
            "s",
            "1x",
            "1h30",
            " 1s",
            "99999999999999999999",
            "18446744073709551615d",
            "1µs",
        ] {
            assert!(duration(bad).is_err_and(|fault| fault.contains(bad)), "{bad}");
        }
    }

    #[test]
    fn amounts() {
        for (text, amount) in [("1", 1), ("64K", 65_536), ("2m", 2_097_152), ("1G", 1 << 30)] {
            assert_eq!(bytes(text), Ok(amount), "{text}");
        }
        for bad in [
            "",
            "0",
            "K",
            "+1",
            "-1",
            "1.5M",
            "1T",
            "1KB",
            "18446744073709551615K",
            "1é",
        ] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
