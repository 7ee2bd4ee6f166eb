//! Numbered lines of a text file, and parsers for their numbers and times.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::io::{self, BufRead};

pub struct Lines {
    source: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Number of the line that `next` returned last, from 1.
    pub number: u64,
}

impl Lines {
    pub fn new(source: Box<dyn BufRead + Send>) -> Lines {
        Lines {
            source,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line without its end and without surrounding blanks.
    ///
    /// # Errors
    /// The errors of the operating system, including an incomplete compressed file.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        if self.source.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(self.line.trim_ascii()))
    }
}

/// Makes a line safe to show: long lines and unprintable bytes are shortened.
pub fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let short: String = text.chars().take(80).collect();
    format!(
        "{:?}{}",
        short,
        if short.len() < text.len() { " …" } else { "" }
    )
}

pub fn int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for d in digits {
        value = value * 10 + i64::from(d.is_ascii_digit().then(|| d - b'0')?);
    }
    Some(if negative { -value } else { value })
}

/// Parses a decimal number such as `154.689190` in billionths: s to ns.
pub fn billionths(text: &[u8]) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let dot = text.iter().position(|c| *c == b'.').unwrap_or(text.len());
    let fraction = text.get(dot + 1..).unwrap_or(b"");
    if dot == 0 && fraction.is_empty() {
        return None;
    }
    let mut value = if dot == 0 { 0 } else { int(&text[..dot])? };
    if value < 0 {
        return None;
    }
    value = value.checked_mul(1_000_000_000)?;
    let mut unit = 100_000_000;
    for d in fraction {
        value = value.checked_add(unit * i64::from(d.is_ascii_digit().then(|| d - b'0')?))?;
        unit /= 10;
    }
    Some(if negative { -value } else { value })
}

/// Parses `1.5` ms to ns: thousandths of `billionths`.
pub fn millis_ns(text: &[u8]) -> Option<i64> {
    let (whole, fraction) = match text.iter().position(|c| *c == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let mut value = int(whole)?.checked_mul(1_000_000)?;
    let sign = if text.first() == Some(&b'-') { -1 } else { 1 };
    let mut unit = 100_000;
    for d in fraction {
        value =
            value.checked_add(sign * unit * i64::from(d.is_ascii_digit().then(|| d - b'0')?))?;
        unit /= 10;
    }
    Some(value)
}

/// Converter of one zone's local times to UNIX times; it looks the offset up once per hour.
pub struct Local<'z> {
    zone: &'z TimeZone,
    hour: Vec<u8>,
    hour_ns: i64,
}

impl<'z> Local<'z> {
    pub fn new(zone: &'z TimeZone) -> Local<'z> {
        Local {
            zone,
            hour: Vec::new(),
            hour_ns: 0,
        }
    }

    /// Parses `yyyy-mm-dd HH:MM:SS`, the first 19 characters of a timestamp.
    pub fn seconds_ns(&mut self, text: &[u8]) -> Option<i64> {
        let (hour, rest) = text.split_at_checked(13)?;
        let &[b':', m1, m0, b':', s1, s0] = rest else {
            return None;
        };
        let two = |a: u8, b: u8| {
            (a.is_ascii_digit() && b.is_ascii_digit())
                .then(|| i64::from(a - b'0') * 10 + i64::from(b - b'0'))
        };
        let (minute, second) = (two(m1, m0)?, two(s1, s0)?);
        if minute > 59 || second > 60 {
            return None;
        }
        if hour != &*self.hour {
            let text = format!("{}:00:00", std::str::from_utf8(hour).ok()?);
            self.hour_ns = self.civil_ns(text.parse().ok()?)?;
            self.hour = hour.to_vec();
        }
        self.hour_ns
            .checked_add((minute * 60 + second) * 1_000_000_000)
    }

    pub fn civil_ns(&self, time: DateTime) -> Option<i64> {
        let zoned = time.to_zoned(self.zone.clone()).ok()?;
        i64::try_from(zoned.timestamp().as_nanosecond()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_the_last_digit_and_nothing_else_is() {
        assert_eq!(billionths(b"154.689190"), Some(154_689_190_000));
        assert_eq!(billionths(b"-0.5"), Some(-500_000_000));
        assert_eq!(billionths(b"7"), Some(7_000_000_000));
        assert_eq!(millis_ns(b"0.0235"), Some(23_500));
        assert_eq!(millis_ns(b"1234"), Some(1_234_000_000));
        assert_eq!(int(b"-17"), Some(-17));
        for wrong in [
            &b""[..],
            b".",
            b"-",
            b"1e3",
            b"nan",
            b"1.2.3",
            b"--1",
            b"99999999999999999999",
        ] {
            assert_eq!(billionths(wrong), None, "{}", shown(wrong));
        }
    }

    #[test]
    fn an_hour_of_local_time_follows_the_zones_summer() {
        let oslo = TimeZone::get("Europe/Oslo").unwrap();
        let mut local = Local::new(&oslo);
        // 2014-05-04 is summer: UTC + 2 h.
        assert_eq!(
            local.seconds_ns(b"2014-05-04 15:55:07"),
            Some(1_399_211_707_000_000_000)
        );
        assert_eq!(
            local.seconds_ns(b"2014-01-04 15:55:07"),
            Some(1_388_847_307_000_000_000)
        );
        assert_eq!(local.seconds_ns(b"2014-13-04 15:55:07"), None);
        assert_eq!(local.seconds_ns(b"2014-01-04 15:5:07"), None);
    }
}
