//! Date of a run: recordings have dates, and days start at midnight.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use toml::value::{Datetime, Offset};

/// An instant as TOML and RFC 3339 (Date and Time on the Internet: Timestamps) write it: `2014-05-04T15:55:00Z`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Began {
    text: String,
    unix_ns: i64,
}

impl Began {
    /// Begin of the run, UNIX ns.
    pub fn unix_ns(&self) -> i64 {
        self.unix_ns
    }
}

impl FromStr for Began {
    type Err = String;

    fn from_str(text: &str) -> Result<Began, String> {
        let unix_ns = text.parse::<Datetime>().ok().and_then(|t| unix_ns(&t));
        unix_ns
            .map(|unix_ns| Began {
                text: text.into(),
                unix_ns,
            })
            .ok_or_else(|| {
                format!("\"{text}\" is no instant: write date, time and zone, such as \"2014-05-04T15:55:00Z\"")
            })
    }
}

impl TryFrom<String> for Began {
    type Error = String;
    fn try_from(text: String) -> Result<Began, String> {
        text.parse()
    }
}

impl From<Began> for String {
    fn from(began: Began) -> String {
        began.text
    }
}

impl fmt::Display for Began {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Nanoseconds since 1970; `None` if a part is missing, or outside the range of i64 nanoseconds (1678 to 2261).
fn unix_ns(t: &Datetime) -> Option<i64> {
    let (date, time) = (t.date?, t.time?);
    let east_min = match t.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_of(
        i64::from(date.year),
        i64::from(date.month),
        i64::from(date.day),
    );
    let seconds = days * 86_400
        + i64::from(time.hour) * 3600
        + i64::from(time.minute) * 60
        + i64::from(time.second.unwrap_or(0))
        - east_min * 60;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(i64::from(time.nanosecond.unwrap_or(0)))
}

/// Days since 1 January 1970 in the Gregorian calendar. Years count from March, so that a leap day is the last day of
/// its year.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Five months from March on have 153 days.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-01-01T00:00:00Z", 946_684_800),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2014-05-04T15:55:00Z", 1_399_218_900),
            ("2014-05-04T17:55:00+02:00", 1_399_218_900),
            ("1969-12-31T23:59:59Z", -1),
        ] {
            let began: Began = text.parse().unwrap();
            assert_eq!(began.unix_ns(), seconds * 1_000_000_000, "{text}");
            assert_eq!(began.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "yesterday",
            "2014-05-04",
            "2014-05-04T15:55:00",
            "15:55:00",
            "2014-02-31T00:00:00Z",
            "9999-01-01T00:00:00Z",
        ] {
            let told = text.parse::<Began>().unwrap_err();
            assert!(told.contains("2014-05-04T15:55:00Z"), "{text}: {told}");
        }
    }
}
