//! Times of files as text: ISO 8601 in UTC with milliseconds, as ECMAScript's `toISOString` prints them.
//! It must never ask a clock.

use rustix::fs::Stat;

/// Largest distance from 1970, in milliseconds, that an ECMAScript date holds.
const DATE_MAX: i128 = 8_640_000_000_000_000;

/// The time of the last change of content.
pub(crate) fn modified_at(stat: &Stat) -> String {
    iso(i128::from(stat.st_mtime) * 1_000 + i128::from(stat.st_mtime_nsec) / 1_000_000)
}

fn iso(milliseconds: i128) -> String {
    let milliseconds = milliseconds.clamp(-DATE_MAX, DATE_MAX) as i64;
    let (days, rest) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{}{:06}", if year < 0 { '-' } else { '+' }, year.abs()),
    };
    let (hour, minute, second, fraction) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60, rest % 1_000);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// Year, month and day of a number of days since 1970, in the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted in years that begin in March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_ecmascript_prints_them() {
        let cases: [(i128, &str); 9] = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_582_979_696_789, "2020-02-29T12:34:56.789Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (-62_198_755_200_000, "-000001-01-01T00:00:00.000Z"),
            (i128::MAX, "+275760-09-13T00:00:00.000Z"),
            (-DATE_MAX, "-271821-04-20T00:00:00.000Z"),
        ];
        for (milliseconds, expected) in cases {
            assert_eq!(iso(milliseconds), expected, "{milliseconds}");
        }
    }
}
