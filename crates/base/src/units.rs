//! Byte counts and rates as types, with one parser and one printer for all units.
//!
//! The printer is exact: the parser reads its output back to the same value. A plan stored in a recording therefore
//! runs again unchanged.

use crate::print::{self, Unit};
use crate::time::Duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

/// Amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// Data rate in bit/s; at the bottleneck it counts whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerSec(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// Largest number of bytes.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// Number of bytes.
    #[inline]
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    /// Bytes as a number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Bits as a number.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0 * 8
    }
    /// Difference; zero if `other` is larger.
    #[inline]
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
    /// Returns the time to put these bytes on a link of this rate, rounded up to the next nanosecond.
    /// A rate of zero never finishes: [`Duration::MAX`].
    #[inline]
    pub fn serialization_delay_ceil(self, rate: BitsPerSec) -> Duration {
        if rate.0 == 0 {
            return Duration::MAX;
        }
        let ns = (u128::from(self.0) * 8 * 1_000_000_000).div_ceil(u128::from(rate.0));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl BitsPerSec {
    /// Rate of zero.
    pub const ZERO: BitsPerSec = BitsPerSec(0);

    /// Rate in bits per second.
    #[inline]
    pub const fn new(bps: u64) -> BitsPerSec {
        BitsPerSec(bps)
    }
    /// Rate in kilobits per second.
    #[inline]
    pub const fn from_kbps(kbps: u64) -> BitsPerSec {
        BitsPerSec(kbps * 1_000)
    }
    /// Rate in megabits per second.
    #[inline]
    pub const fn from_mbps(mbps: u64) -> BitsPerSec {
        BitsPerSec(mbps * 1_000_000)
    }
    /// Bits per second as a number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Returns the whole bytes that pass in `d`, rounded down.
    #[inline]
    pub fn bytes_in_floor(self, d: Duration) -> Bytes {
        Bytes((u128::from(self.0) * u128::from(d.as_nanos()) / 8_000_000_000) as u64)
    }
}

macro_rules! additive {
    ($t:ident) => {
        impl Add for $t {
            type Output = $t;
            #[inline]
            fn add(self, o: $t) -> $t {
                $t(self.0 + o.0)
            }
        }
        impl AddAssign for $t {
            #[inline]
            fn add_assign(&mut self, o: $t) {
                self.0 += o.0;
            }
        }
        impl Sub for $t {
            type Output = $t;
            #[inline]
            fn sub(self, o: $t) -> $t {
                $t(self.0 - o.0)
            }
        }
        impl SubAssign for $t {
            #[inline]
            fn sub_assign(&mut self, o: $t) {
                self.0 -= o.0;
            }
        }
        impl Mul<u64> for $t {
            type Output = $t;
            #[inline]
            fn mul(self, n: u64) -> $t {
                $t(self.0 * n)
            }
        }
        impl Div<u64> for $t {
            type Output = $t;
            #[inline]
            fn div(self, n: u64) -> $t {
                $t(self.0 / n)
            }
        }
    };
}
additive!(Bytes);
additive!(BitsPerSec);

/// Error for a quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseUnitError {
    #[error(
        "\"{text}\" is not a {what}: write a number and a unit, such as \"{example}\" (units: {known})"
    )]
    Malformed {
        text: String,
        what: &'static str,
        example: &'static str,
        known: String,
    },
    #[error("\"{text}\": unknown unit \"{unit}\" for a {what} (units: {known})")]
    UnknownUnit {
        text: String,
        what: &'static str,
        unit: String,
        known: String,
    },
    #[error("\"{text}\" is too large for a {what}")]
    TooLarge { text: String, what: &'static str },
    #[error("\"{text}\" is finer than one {smallest}, the smallest {what} kept")]
    TooFine {
        text: String,
        what: &'static str,
        smallest: &'static str,
    },
}

/// Kind of quantity: its name, and its units with their size in the smallest one. The first unit of each size is the
/// one that is printed.
struct Scale {
    /// Unit in which figures are printed for people.
    figure: Unit,
    what: &'static str,
    example: &'static str,
    smallest: &'static str,
    units: &'static [(&'static str, u64)],
}

const DURATION: Scale = Scale {
    figure: print::TIME,
    what: "duration",
    example: "5 ms",
    smallest: "nanosecond",
    units: &[
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("sec", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("µs", 1_000),
        ("ns", 1),
    ],
};
const RATE: Scale = Scale {
    figure: print::RATE,
    what: "rate",
    example: "20 Mbit/s",
    smallest: "bit per second",
    units: &[
        ("Gbit/s", 1_000_000_000),
        ("Gbps", 1_000_000_000),
        ("gbit", 1_000_000_000),
        ("Mbit/s", 1_000_000),
        ("Mbps", 1_000_000),
        ("mbit", 1_000_000),
        ("kbit/s", 1_000),
        ("kbps", 1_000),
        ("kbit", 1_000),
        ("bit/s", 1),
        ("bps", 1),
        ("bit", 1),
    ],
};
const SIZE: Scale = Scale {
    figure: print::SIZE,
    what: "size",
    example: "64 kB",
    smallest: "byte",
    units: &[
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
        ("byte", 1),
        ("bytes", 1),
    ],
};

impl Scale {
    fn known(&self) -> String {
        self.units
            .iter()
            .map(|(n, _)| *n)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Parses `text` exactly, in integers: "0.1 ms" is 100 000 ns, not a rounded binary fraction.
    fn parse(&self, text: &str) -> Result<u64, ParseUnitError> {
        let s = text.trim();
        let malformed = || ParseUnitError::Malformed {
            text: text.to_string(),
            what: self.what,
            example: self.example,
            known: self.known(),
        };
        let split = s
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
            .unwrap_or(s.len());
        let number: String = s[..split].chars().filter(|c| *c != '_').collect();
        let unit = s[split..].trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        if whole.is_empty() || fraction.contains('.') || (number.ends_with('.')) {
            return Err(malformed());
        }
        let size = if unit.is_empty() {
            // Zero needs no unit; anything else does, because guessing one gives a wrong number.
            if number.chars().all(|c| c == '0' || c == '.') {
                return Ok(0);
            }
            return Err(malformed());
        } else {
            self.units
                .iter()
                .find(|(n, _)| *n == unit)
                .or_else(|| {
                    self.units
                        .iter()
                        .find(|(n, _)| n.eq_ignore_ascii_case(unit))
                })
                .ok_or_else(|| ParseUnitError::UnknownUnit {
                    text: text.to_string(),
                    what: self.what,
                    unit: unit.to_string(),
                    known: self.known(),
                })?
                .1
        };
        let too_large = || ParseUnitError::TooLarge {
            text: text.to_string(),
            what: self.what,
        };
        let digits: u128 = format!("{whole}{fraction}")
            .parse()
            .map_err(|_| too_large())?;
        let divisor = 10u128
            .checked_pow(fraction.len() as u32)
            .ok_or_else(malformed)?;
        let scaled = digits.checked_mul(u128::from(size)).ok_or_else(too_large)?;
        if scaled % divisor != 0 {
            return Err(ParseUnitError::TooFine {
                text: text.to_string(),
                what: self.what,
                smallest: self.smallest,
            });
        }
        u64::try_from(scaled / divisor).map_err(|_| too_large())
    }

    /// Prints in the largest decimal unit that the value reaches, with all digits.
    fn print(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(digits) = f.precision() {
            return f.write_str(&self.figure.print_to(value as f64, digits));
        }
        let decimal = |size: u64| {
            size == 1 || size.is_multiple_of(1_000) && !size.is_multiple_of(60_000_000_000)
        };
        // Zero is printed in the smallest unit.
        let (name, size) = self
            .units
            .iter()
            .find(|(_, size)| decimal(*size) && value.max(1) >= *size)
            .expect("a scale has a unit of one");
        let (whole, rest) = (value / size, value % size);
        let text = if rest == 0 {
            whole.to_string()
        } else {
            let places = size.ilog10() as usize;
            format!(
                "{whole}.{}",
                format!("{rest:0places$}").trim_end_matches('0')
            )
        };
        write!(f, "{text} {name}")
    }
}

macro_rules! textual {
    ($t:ty, $scale:ident, $get:expr, $make:expr) => {
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let get: fn(&$t) -> u64 = $get;
                $scale.print(get(self), f)
            }
        }
        impl FromStr for $t {
            type Err = ParseUnitError;
            fn from_str(s: &str) -> Result<Self, ParseUnitError> {
                let make: fn(u64) -> $t = $make;
                $scale.parse(s).map(make)
            }
        }
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
        impl schemars::JsonSchema for $t {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($t).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": "A number with its unit.",
                    "examples": [$scale.example],
                })
            }
        }
    };
}
textual!(Duration, DURATION, |d| d.as_nanos(), Duration::from_nanos);
textual!(BitsPerSec, RATE, |r| r.get(), BitsPerSec::new);
textual!(Bytes, SIZE, |b| b.get(), Bytes::new);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("100mbit".parse(), Ok(BitsPerSec::from_mbps(100)));
        assert_eq!("0.7 Mbit/s".parse(), Ok(BitsPerSec::from_kbps(700)));
        assert_eq!("5ms".parse(), Ok(Duration::from_millis(5)));
        assert_eq!("0.1 ms".parse(), Ok(Duration::from_micros(100)));
        assert_eq!("1.5KiB".parse(), Ok(Bytes::new(1536)));
        assert_eq!("2 min".parse(), Ok(Duration::from_secs(120)));
        assert_eq!("0".parse(), Ok(Duration::ZERO));
    }

    #[test]
    fn nothing_has_a_unit_too() {
        assert_eq!(Bytes::ZERO.to_string(), "0 B");
        assert_eq!(BitsPerSec::ZERO.to_string(), "0 bit/s");
        assert_eq!(Duration::ZERO.to_string(), "0 ns");
    }

    #[test]
    fn says_which_units_there_are() {
        let e = "5 parsecs".parse::<Duration>().unwrap_err();
        assert_eq!(
            e.to_string(),
            "\"5 parsecs\": unknown unit \"parsecs\" for a duration (units: h, min, m, s, sec, ms, us, µs, ns)"
        );
        assert!(
            "5".parse::<Duration>()
                .unwrap_err()
                .to_string()
                .contains("such as \"5 ms\"")
        );
        assert!("".parse::<Bytes>().is_err());
        assert!("-5 ms".parse::<Duration>().is_err());
        assert!("0.5 B".parse::<Bytes>().is_err());
        assert!("99999999999 Gbit/s".parse::<BitsPerSec>().is_err());
    }

    #[test]
    fn prints_for_people() {
        assert_eq!(Duration::from_millis(5).to_string(), "5 ms");
        assert_eq!(BitsPerSec::from_kbps(700).to_string(), "700 kbit/s");
        assert_eq!(BitsPerSec::from_kbps(1500).to_string(), "1.5 Mbit/s");
        assert_eq!(Duration::from_secs(90).to_string(), "90 s");
        assert_eq!(
            format!("{:.3}", Duration::from_nanos(429_971_234)),
            "430 ms"
        );
        assert_eq!(format!("{:.2}", Duration::from_nanos(12_345)), "12 us");
    }

    #[test]
    fn serialization_takes_the_time_theory_says() {
        // 1500 bytes at 700 kbit/s: 12 000 / 700 000 s = 17.142857… ms, rounded up.
        assert_eq!(
            Bytes::new(1500)
                .serialization_delay_ceil(BitsPerSec::from_kbps(700))
                .as_nanos(),
            17_142_858
        );
        // Borlaug 2014, section 6.1.3: 430 ms at 700 kbit/s hold 301 kbit.
        assert_eq!(
            BitsPerSec::from_kbps(700)
                .bytes_in_floor(Duration::from_millis(430))
                .bits(),
            301_000
        );
        assert_eq!(
            Bytes::new(1).serialization_delay_ceil(BitsPerSec::ZERO),
            Duration::MAX
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_the_same(v in any::<u64>()) {
            prop_assert_eq!(Duration::from_nanos(v).to_string().parse(), Ok(Duration::from_nanos(v)));
            prop_assert_eq!(BitsPerSec::new(v).to_string().parse(), Ok(BitsPerSec::new(v)));
            prop_assert_eq!(Bytes::new(v).to_string().parse(), Ok(Bytes::new(v)));
        }
    }
}
