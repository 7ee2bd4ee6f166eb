//! Printer of figures for people: a number with its significant digits, and the unit in which it reads best.
//!
//! **Rule.** A unit is used from 1 of it on, milliseconds and microseconds from 0.1 on: `1.5 s`, `430 ms`, `0.42 ms`,
//! `12 us`, `1.2 Mbit/s`, `38 kB`. A figure that rounds up to the next unit is printed in it. Zero has the unit in
//! which the figure is kept. An interval has the unit of its value.
//!
//! The exact printer, whose text the parser reads back, is in `units`; its `{:.3}` follows the rule of this module.

/// Name of a unit, its size, and the smallest figure printed in it; both in the smallest unit.
type Rung = (&'static str, f64, f64);

/// Kind of quantity, and the unit in which its figures are kept.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// Size of the unit in which figures are kept.
    own: f64,
    /// Units, largest first.
    ladder: &'static [Rung],
}

const TIME_LADDER: &[Rung] = &[
    ("s", 1e9, 1e9),
    ("ms", 1e6, 1e5),
    ("us", 1e3, 1e2),
    ("ns", 1.0, 0.0),
];

const fn kept(own: f64, ladder: &'static [Rung]) -> Unit {
    Unit { own, ladder }
}

const fn plain(ladder: &'static [Rung]) -> Unit {
    kept(1.0, ladder)
}

/// Times in nanoseconds.
pub const TIME: Unit = kept(1.0, TIME_LADDER);
/// Delays in milliseconds.
pub const DELAY: Unit = kept(1e6, TIME_LADDER);
/// Spans of time in seconds.
pub const SPAN: Unit = kept(1e9, TIME_LADDER);
/// Rates in bits per second.
pub const RATE: Unit = plain(&[
    ("Gbit/s", 1e9, 1e9),
    ("Mbit/s", 1e6, 1e6),
    ("kbit/s", 1e3, 1e3),
    ("bit/s", 1.0, 0.0),
]);
/// Sizes in bytes.
pub const SIZE: Unit = plain(&[
    ("GB", 1e9, 1e9),
    ("MB", 1e6, 1e6),
    ("kB", 1e3, 1e3),
    ("B", 1.0, 0.0),
]);
/// Ratios.
pub const TIMES: Unit = plain(&[("times", 1.0, 0.0)]);
/// Round trips per minute.
pub const RPM: Unit = plain(&[("round trips per minute", 1.0, 0.0)]);
/// Round trips per minute, for places beside the full words.
pub const RPM_SHORT: Unit = plain(&[("RPM", 1.0, 0.0)]);
/// Parts per million.
pub const PPM: Unit = plain(&[("ppm", 1.0, 0.0)]);
/// Percent.
pub const PERCENT: Unit = plain(&[("%", 1.0, 0.0)]);

impl Unit {
    /// Returns the unit in which `value` reads best: its name, and its size in the unit in which figures are kept.
    pub fn fitting(self, value: f64) -> (&'static str, f64) {
        self.rung(value, DIGITS)
    }

    fn rung(self, value: f64, digits: usize) -> (&'static str, f64) {
        // Margin for the binary rounding of decimals.
        let shown = rounded(value.abs() * self.own, digits) * (1.0 + 1e-12);
        let own = |r: &&Rung| r.1 == self.own;
        let found = if shown > 0.0 && shown.is_finite() {
            self.ladder.iter().find(|r| shown >= r.2)
        } else {
            self.ladder.iter().find(own)
        };
        let (name, size, _) = found
            .or(self.ladder.last())
            .expect("a kind of quantity has a unit");
        (name, size / self.own)
    }

    /// Formats `value` with three digits and its unit: `430 ms`.
    pub fn print(self, value: f64) -> String {
        self.print_to(value, DIGITS)
    }

    /// Formats `value` with this many digits and its unit.
    pub fn print_to(self, value: f64, digits: usize) -> String {
        let (name, size) = self.rung(value, digits);
        format!("{} {name}", told(value / size, digits))
    }

    /// Formats a value and its interval, all in one unit: `430 ms (418 to 441)`. It is the value's unit, unless an end would have
    /// five digits in it.
    pub fn interval(self, value: f64, low: f64, high: f64) -> String {
        let end = low.abs().max(high.abs());
        let (name, size) = match self.fitting(value) {
            (_, size) if end / size >= 1e4 && end.is_finite() => self.fitting(end),
            fitting => fitting,
        };
        let [value, low, high] = [value, low, high].map(|v| number(v / size));
        if low == high {
            format!("{value} {name}")
        } else {
            format!("{value} {name} ({low} to {high})")
        }
    }
}

/// Default number of digits of a figure.
const DIGITS: usize = 3;

/// Rounds `value` to this many digits, at least one.
fn rounded(value: f64, digits: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = digits.max(1) as i32 - 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(places);
    (value * scale).round() / scale
}

/// Formats `value` with `digits` significant digits and no exponent: 429.97 at 3 is "430", 0.01234 is "0.0123".
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    let places = (digits as i32 - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

fn told(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "not a number".into();
    }
    let text = significant(value, digits);
    if text == "-0" { "0".into() } else { text }
}

/// Formats a number with three significant digits, or text for NaN.
pub fn number(value: f64) -> String {
    told(value, DIGITS)
}

/// Formats a share from 0 to 1 in percent. Only exactly 1 reads 100: 0.99996 is `99.99`.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p > 99.0 && p < 100.0 {
        significant((p * 100.0).floor() / 100.0, 4)
    } else {
        number(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Streams, uniform};
    use crate::{BitsPerSec, Bytes, Duration};

    #[test]
    fn a_figure_reads_the_same_whatever_unit_it_is_kept_in() {
        let mut rng = Streams::new(1).stream("print");
        for _ in 0..20_000 {
            let ns = (45.0 * uniform(&mut rng)).exp2().round();
            // Half a digit may round either way, because of binary representation.
            let digits = format!("{ns}");
            let digits = digits.trim_end_matches('0');
            if digits.len() == 4 && digits.ends_with('5') {
                continue;
            }
            let text = TIME.print(ns);
            assert_eq!(DELAY.print(ns / 1e6), text);
            assert_eq!(SPAN.print(ns / 1e9), text);
            assert_eq!(format!("{:.3}", Duration::from_nanos(ns as u64)), text);
            assert_eq!(format!("{:.3}", BitsPerSec::new(ns as u64)), RATE.print(ns));
            assert_eq!(format!("{:.3}", Bytes::new(ns as u64)), SIZE.print(ns));
        }
    }

    #[test]
    fn the_number_beside_the_unit_is_the_value_to_three_digits() {
        let mut rng = Streams::new(2).stream("print");
        let units = [("s", 1e3), ("ms", 1.0), ("us", 1e-3), ("ns", 1e-6)];
        for _ in 0..20_000 {
            let ms = (40.0 * uniform(&mut rng) - 20.0).exp2();
            let text = DELAY.print(-ms);
            let (number, unit) = text.split_once(' ').unwrap();
            let number: f64 = number.parse().unwrap();
            let size = units.iter().find(|u| u.0 == unit).unwrap().1;
            assert!(
                (number * size + ms).abs() <= 0.005_000_1 * ms,
                "{ms}: {text}"
            );
            // A number of 1000 or more would have a larger unit.
            assert!(unit == "s" || number.abs() < 1000.0, "{ms}: {text}");
            assert!(unit == "ns" || number.abs() >= 0.1, "{ms}: {text}");
        }
    }

    #[test]
    fn units_are_those_that_people_use() {
        for (ms, text) in [
            (0.0, "0 ms"),
            (430.2, "430 ms"),
            (-3.217, "-3.22 ms"),
            (0.42, "0.42 ms"),
            (0.0123, "12.3 us"),
            (999.4, "999 ms"),
            (999.6, "1 s"),
            (1500.0, "1.5 s"),
            (12_340.0, "12.3 s"),
            (f64::NAN, "not a number ms"),
        ] {
            assert_eq!(DELAY.print(ms), text);
        }
        assert_eq!(SPAN.print(0.0), "0 s");
        assert_eq!(RATE.print(999_960.0), "1 Mbit/s");
        assert_eq!(RATE.print(0.0), "0 bit/s");
        assert_eq!(SIZE.print(37_625.0), "37.6 kB");
        assert_eq!(format!("{:.0}", Duration::from_millis(59_700)), "60 s");
        assert_eq!(
            DELAY.interval(430.0, 418.2, 1_441.0),
            "430 ms (418 to 1441)"
        );
        assert_eq!(DELAY.interval(430.0, 430.0, 430.0), "430 ms");
        assert_eq!(
            DELAY.interval(0.00296, -93.68, 92.932),
            "0.00296 ms (-93.7 to 92.9)"
        );
    }

    #[test]
    fn only_what_is_whole_reads_100() {
        assert_eq!(percent(0.99996), "99.99");
        assert_eq!(percent(1.0), "100");
        assert_eq!(percent(0.5), "50");
        assert_eq!(number(-0.000_04), "-0.00004");
        assert_eq!(number(-0.0), "0");
    }
}
