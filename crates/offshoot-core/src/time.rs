//! Moments in time: microseconds since 1970, shown as RFC 3339 in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, in microseconds since the beginning of 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment of a system clock reading.
    pub fn from_system(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(after.as_micros() as i64),
            Err(before) => Timestamp(-(before.duration().as_micros() as i64)),
        }
    }

    /// Now, by the system clock.
    pub fn now() -> Self {
        Self::from_system(SystemTime::now())
    }

    /// Whole seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// From whole seconds and nanoseconds, as `stat` gives them.
    pub fn from_stat(seconds: i64, nanoseconds: i64) -> Self {
        Timestamp(seconds * 1_000_000 + nanoseconds / 1_000)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second_of_day) = (
            self.seconds().div_euclid(86_400),
            self.seconds().rem_euclid(86_400),
        );
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (
            second_of_day / 3600,
            second_of_day / 60 % 60,
            second_of_day % 60,
        );
        let micros = self.0.rem_euclid(1_000_000);
        f.pad(&format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
        ))
    }
}

/// The proleptic Gregorian date of a day number (day 0 is 1970-01-01), counted in 400-year eras.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_794_700_800_123_456, "2026-11-15T00:00:00.123456Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
        }
    }
}
