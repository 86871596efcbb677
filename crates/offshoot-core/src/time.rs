//! Moments in time: microseconds since 1970, shown as RFC 3339 in UTC.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first moment that RFC 3339 can write.
const YEAR_0: i64 = -62_167_219_200_000_000;
/// The last whole second that [`jiff::Timestamp`] has: it leaves room for every time zone.
const END_OF_YEAR_9999: i64 = 253_402_207_200_000_000;

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

    /// This moment as a time of the standard library.
    pub fn to_system(self) -> SystemTime {
        let apart = Duration::from_micros(self.0.unsigned_abs());
        match self.0 < 0 {
            true => UNIX_EPOCH - apart,
            false => UNIX_EPOCH + apart,
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
        // A commit of a stranger may have any date.
        let micros = seconds.saturating_mul(1_000_000);
        Timestamp(micros.saturating_add(nanoseconds / 1_000))
    }

    /// As HTTP writes it in headers: `Sun, 15 Nov 2026 00:00:00 GMT`.
    pub fn to_http_date(self) -> String {
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        printer
            .timestamp_to_rfc9110_string(&self.in_calendar())
            .unwrap_or_default()
    }

    /// Limits a moment to the years 0 to 9999, which RFC 3339 can write: a file may have any time.
    fn in_calendar(self) -> jiff::Timestamp {
        let shown = self.0.clamp(YEAR_0, END_OF_YEAR_9999);
        jiff::Timestamp::from_microsecond(shown).unwrap_or(jiff::Timestamp::MAX)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.6}", self.in_calendar()))
    }
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
            (i64::MIN, "0000-01-01T00:00:00.000000Z"),
            (i64::MAX, "9999-12-30T22:00:00.000000Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
        }
    }

    #[test]
    fn shown_as_http_has_it() {
        for (micros, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (784_111_777_000_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (i64::MAX, "Thu, 30 Dec 9999 22:00:00 GMT"),
        ] {
            assert_eq!(Timestamp(micros).to_http_date(), text);
        }
    }
}
