//! The date of a report, without a calendar library.

use std::time::{SystemTime, UNIX_EPOCH};

/// Today and the time of day in UTC: `2026-01-31` and `12:34`.
pub(crate) fn now() -> (String, String) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let minutes = seconds / 60 % (24 * 60);
    (
        date_of_day(seconds / 86_400),
        format!("{:02}:{:02}", minutes / 60, minutes % 60),
    )
}

/// The Gregorian date of a day counted from 1970-01-01.
fn date_of_day(mut day: u64) -> String {
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if day < length {
            break;
        }
        day -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::date_of_day;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date_of_day(0), "1970-01-01");
        assert_eq!(date_of_day(58), "1970-02-28");
        assert_eq!(date_of_day(59), "1970-03-01");
        assert_eq!(date_of_day(11_016), "2000-02-29");
        assert_eq!(date_of_day(20_453), "2025-12-31");
        assert_eq!(date_of_day(20_454), "2026-01-01");
    }
}
