//! State of the modem at the near end, as it tells itself: synchronous rates, noise margins, attenuations and errors.
//!
//! **Method.** A reading is the text of the user's command: lines of `key=value`, or of JSON objects. Each value is checked
//! against the unit and the range of its key. Errors are counters of the modem: their growth between two readings is
//! counted, and a counter that falls was reset, so that its time is unknown. A synchronous rate that differs from the
//! reading before is a change.
//!
//! **Source.** ITU-T G.997.1, sections 7.2 and 7.5 (CRC anomalies, FEC anomalies, noise margin, attenuation, net data rate).
//! **Limits.** Figures are those of the modem, and as wrong as it is. Errors between the last reading before a reset and the
//! reset are lost.

use crate::radio;
use base::BitsPerSec;
use base::record::{Modem, Radio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Largest text of a value that an error repeats, in characters.
const QUOTED: usize = 40;
/// Largest counter: a floating-point number holds it exactly.
const LARGEST: u64 = 1 << 53;
/// Permitted rates, bit/s.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;
/// Permitted margins and attenuations, dB.
const DECIBELS: std::ops::RangeInclusive<f64> = -60.0..=160.0;
/// Longest interval between readings whose errors are counted.
const LONGEST_NS: i64 = 3_600_000_000_000;

/// Keys of a reading, with what each takes.
pub const KEYS: [(&str, &str); 10] = [
    ("rate_down", "a rate such as \"17.5 Mbit/s\""),
    ("rate_up", "a rate such as \"1.2 Mbit/s\""),
    ("margin_down", "dB"),
    ("margin_up", "dB"),
    ("attenuation_down", "dB"),
    ("attenuation_up", "dB"),
    ("crc_down", "a whole number"),
    ("crc_up", "a whole number"),
    ("fec_down", "a whole number"),
    ("fec_up", "a whole number"),
];

/// Content of the text of a user's command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// State of the line; `None` if nothing of it can be used.
    pub modem: Option<Modem>,
    /// State of the radio; `None` if nothing of it can be used.
    pub radio: Option<Radio>,
    /// A sentence for each value that cannot be used.
    pub faults: Vec<String>,
}

/// Reads the text of a user's command.
pub fn read(t_ns: i64, lines: &[String]) -> Told {
    let (mut modem, mut radio) = (Modem::at(t_ns), Radio::at(t_ns, ""));
    let (mut of_modem, mut of_radio, mut faults) = (false, false, Vec::new());
    for line in lines.iter().map(|l| l.trim()).filter(|l| !l.is_empty()) {
        for (key, value) in pairs(line, &mut faults) {
            let takes = radio::KEYS.iter().find(|(k, _)| *k == key);
            let done = match takes {
                Some((_, takes)) if !radio::set(&mut radio, &key, &value) => {
                    Err(format!("{key}={}: must be {takes}", quoted(&value)))
                }
                // Its name alone is no state.
                Some(_) => {
                    of_radio |= key != "interface";
                    Ok(())
                }
                None => set(&mut modem, &key, &value).map(|()| of_modem = true),
            };
            faults.extend(done.err());
        }
    }
    Told {
        modem: of_modem.then_some(modem),
        radio: of_radio.then_some(radio),
        faults,
    }
}

fn quoted(text: &str) -> String {
    base::text::clean(text).chars().take(QUOTED).collect()
}

/// Keys and values of a line.
fn pairs(line: &str, faults: &mut Vec<String>) -> Vec<(String, String)> {
    if line.starts_with('{') {
        let Ok(Value::Object(all)) = serde_json::from_str(line) else {
            faults.push(format!("{:?} is no JSON object", quoted(line)));
            return Vec::new();
        };
        let text = |v: Value| match v {
            Value::String(text) => text,
            other => other.to_string(),
        };
        return all.into_iter().map(|(k, v)| (k, text(v))).collect();
    }
    match line.split_once('=') {
        Some((key, value)) => vec![(key.trim().to_owned(), value.trim().to_owned())],
        None => {
            faults.push(format!("{:?} is no key=value", quoted(line)));
            Vec::new()
        }
    }
}

fn set(row: &mut Modem, key: &str, value: &str) -> Result<(), String> {
    let takes = KEYS
        .iter()
        .find(|(k, _)| *k == key)
        .map(|(_, takes)| *takes);
    let Some(takes) = takes else {
        let known = KEYS.iter().chain(&radio::KEYS);
        let known: Vec<&str> = known.map(|(k, _)| *k).collect();
        return Err(format!(
            "no key {:?}. Known: {}",
            quoted(key),
            known.join(", ")
        ));
    };
    let wrong = || format!("{key}={}: must be {takes}", quoted(value));
    let rate = || {
        let rate: BitsPerSec = value.parse().map_err(|_| wrong())?;
        let bps = Some(rate.get()).filter(|bps| RATES.contains(bps));
        bps.map(|bps| Some(bps.cast_signed())).ok_or_else(wrong)
    };
    let decibels = || {
        let number = value.strip_suffix("dB").unwrap_or(value).trim_end();
        let db: f64 = number.parse().map_err(|_| wrong())?;
        let db = Some(db).filter(|db| DECIBELS.contains(db));
        db.map(Some).ok_or_else(wrong)
    };
    let count = || {
        let n: u64 = value.parse().map_err(|_| wrong())?;
        let n = Some(n).filter(|n| *n <= LARGEST);
        n.map(|n| Some(n.cast_signed())).ok_or_else(wrong)
    };
    match key {
        "rate_down" => row.down_bps = rate()?,
        "rate_up" => row.up_bps = rate()?,
        "margin_down" => row.margin_down_db = decibels()?,
        "margin_up" => row.margin_up_db = decibels()?,
        "attenuation_down" => row.attenuation_down_db = decibels()?,
        "attenuation_up" => row.attenuation_up_db = decibels()?,
        "crc_down" => row.crc_down = count()?,
        "crc_up" => row.crc_up = count()?,
        "fec_down" => row.fec_down = count()?,
        _ => row.fec_up = count()?,
    }
    Ok(())
}

/// State of the modem over a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModemSummary {
    /// Number of readings.
    pub readings: u64,
    /// Synchronous rate down, bit/s; null if it was not told.
    pub rate_down_bps: Option<Course>,
    /// Synchronous rate up, bit/s.
    pub rate_up_bps: Option<Course>,
    /// Noise margin down, dB.
    pub margin_down_db: Option<Course>,
    /// Noise margin up, dB.
    pub margin_up_db: Option<Course>,
    /// Attenuation down, dB.
    pub attenuation_down_db: Option<Course>,
    /// Attenuation up, dB.
    pub attenuation_up_db: Option<Course>,
    /// Blocks with checksum errors, down.
    pub crc_down: Option<Errors>,
    /// Blocks with checksum errors, up.
    pub crc_up: Option<Errors>,
    /// Blocks that forward error correction repaired, down.
    pub fec_down: Option<Errors>,
    /// Blocks that forward error correction repaired, up.
    pub fec_up: Option<Errors>,
}

/// Course of a value over the readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// Smallest value.
    pub least: f64,
    /// Mean of the readings.
    pub mean: f64,
    /// Largest value.
    pub most: f64,
    /// Latest value.
    pub last: f64,
    /// Number of readings that differ from the one before.
    pub changes: u64,
}

/// Errors that a modem counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Growth of the counter, resets left out.
    pub counted: u64,
    /// Time in which it was watched, s.
    pub seconds: f64,
    /// Errors an hour; null without two readings in a row.
    pub per_hour: Option<f64>,
    /// Largest rate between two readings, errors a minute.
    pub most_per_minute: Option<f64>,
    /// Resets of the counter.
    pub resets: u64,
}

/// Growth of a counter between two readings of a modem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// Errors, and the time in which they came, s.
    Counted(u64, f64),
    /// The counter was reset.
    Reset,
}

/// Growth of each counter from one reading to the next: CRC down and up, FEC down and up. `None` if it is unknown.
pub fn growth(before: &Modem, after: &Modem) -> [Option<Growth>; 4] {
    let ns = after.t_ns.saturating_sub(before.t_ns);
    let pairs = counters(before).into_iter().zip(counters(after));
    let mut all = [None; 4];
    for (growth, (a, b)) in all.iter_mut().zip(pairs) {
        let (Some(a), Some(b), true) = (a, b, (1..=LONGEST_NS).contains(&ns)) else {
            continue;
        };
        *growth = Some(match u64::try_from(b.saturating_sub(a)) {
            Ok(more) => Growth::Counted(more, ns as f64 / 1e9),
            Err(_) => Growth::Reset,
        });
    }
    all
}

fn counters(row: &Modem) -> [Option<i64>; 4] {
    [row.crc_down, row.crc_up, row.fec_down, row.fec_up]
}

/// Values of a row that have a course: rates, margins, attenuations, each down and up. Values that cannot be right are
/// unknown.
pub fn values(row: &Modem) -> [Option<f64>; 6] {
    let rate = |bps: Option<i64>| bps.filter(|b| *b > 0).map(|b| b as f64);
    let db = |v: Option<f64>| v.filter(|v| DECIBELS.contains(v));
    [
        rate(row.down_bps),
        rate(row.up_bps),
        db(row.margin_down_db),
        db(row.margin_up_db),
        db(row.attenuation_down_db),
        db(row.attenuation_up_db),
    ]
}

/// Courses of some values, built reading by reading.
pub(crate) struct Courses<const N: usize>([Option<(Course, f64, u64)>; N]);

impl<const N: usize> Default for Courses<N> {
    fn default() -> Courses<N> {
        Courses([None; N])
    }
}

impl<const N: usize> Courses<N> {
    /// Adds the values of a reading.
    pub(crate) fn add(&mut self, values: [Option<f64>; N]) {
        for (course, value) in self.0.iter_mut().zip(values) {
            let Some(v) = value else { continue };
            let (c, sum, n) = course.get_or_insert((
                Course {
                    least: v,
                    mean: v,
                    most: v,
                    last: v,
                    changes: 0,
                },
                0.0,
                0,
            ));
            c.changes += u64::from(c.last != v);
            (c.least, c.most, c.last) = (c.least.min(v), c.most.max(v), v);
            *sum += v;
            *n += 1;
            c.mean = *sum / *n as f64;
        }
    }

    /// Course of a value; `None` if no reading has it.
    pub(crate) fn course(&self, i: usize) -> Option<Course> {
        self.0[i].map(|(c, ..)| c)
    }
}

/// Readings, added in the order of time.
#[derive(Default)]
pub struct Readings {
    number: u64,
    before: Option<Modem>,
    courses: Courses<6>,
    errors: [Option<Errors>; 4],
}

impl Readings {
    /// Adds a reading.
    pub fn add(&mut self, row: &Modem) {
        self.number += 1;
        self.courses.add(values(row));
        if let Some(before) = &self.before {
            for (errors, growth) in self.errors.iter_mut().zip(growth(before, row)) {
                let Some(growth) = growth else { continue };
                let e = errors.get_or_insert(Errors {
                    counted: 0,
                    seconds: 0.0,
                    per_hour: None,
                    most_per_minute: None,
                    resets: 0,
                });
                match growth {
                    Growth::Reset => e.resets += 1,
                    Growth::Counted(more, seconds) => {
                        e.counted = e.counted.saturating_add(more);
                        e.seconds += seconds;
                        e.per_hour = Some(e.counted as f64 / e.seconds * 3600.0);
                        let rate = more as f64 / seconds * 60.0;
                        e.most_per_minute = Some(e.most_per_minute.unwrap_or(0.0).max(rate));
                    }
                }
            }
        }
        self.before = Some(row.clone());
    }

    /// Summary of the readings; `None` if there are none.
    pub fn summary(&self) -> Option<ModemSummary> {
        let course = |i: usize| self.courses.course(i);
        (self.number > 0).then(|| ModemSummary {
            readings: self.number,
            rate_down_bps: course(0),
            rate_up_bps: course(1),
            margin_down_db: course(2),
            margin_up_db: course(3),
            attenuation_down_db: course(4),
            attenuation_up_db: course(5),
            crc_down: self.errors[0],
            crc_up: self.errors[1],
            fec_down: self.errors[2],
            fec_up: self.errors[3],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    const S: i64 = 1_000_000_000;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_and_objects_are_read_with_their_units() {
        let text = "rate_down=17.5 Mbit/s\nmargin_down = 9.5 dB\n{\"rate_up\":\"1200kbit\",\"margin_up\":-1,\"crc_down\":12}\n\n";
        let told = read(7, &lines(text));
        assert_eq!(told.faults, Vec::<String>::new());
        let want = Modem {
            down_bps: Some(17_500_000),
            up_bps: Some(1_200_000),
            margin_down_db: Some(9.5),
            margin_up_db: Some(-1.0),
            crc_down: Some(12),
            ..Modem::at(7)
        };
        assert_eq!((told.modem, told.radio), (Some(want), None));
    }

    #[test]
    fn the_state_of_a_radio_has_a_row_of_its_own() {
        let text = "interface=ppp0\ntechnology=hspa\ncell=4A\nrssi=-71 dBm\nsnr=7.5\nquality=60 %";
        let told = read(3, &lines(text));
        assert_eq!((told.modem, told.faults), (None, Vec::new()));
        let want = Radio {
            technology: Some("hspa".into()),
            cell: Some("4A".into()),
            rssi_dbm: Some(-71.0),
            snr_db: Some(7.5),
            quality_percent: Some(60.0),
            ..Radio::at(3, "ppp0")
        };
        assert_eq!(told.radio, Some(want));
        assert_eq!(read(3, &lines("interface=ppp0")).radio, None);
    }

    #[test]
    fn values_without_their_unit_or_out_of_range_are_refused_one_by_one() {
        for (line, part) in [
            ("rate_down=17500000", "must be a rate"),
            ("rate_down=0 Mbit/s", "must be a rate"),
            ("rate_down=99999 Tbit/s", "must be a rate"),
            ("margin_down=9 %", "must be dB"),
            ("margin_down=NaN", "must be dB"),
            ("margin_down=1e9", "must be dB"),
            ("crc_down=-3", "must be a whole number"),
            ("crc_down=99999999999999999", "must be a whole number"),
            ("crc_down=1.5", "must be a whole number"),
            ("colour=4", "no key"),
            ("rssi=40", "must be dBm between"),
            ("cell=", "must be a word"),
            ("{\"rate_down\"", "no JSON object"),
            ("[1]", "no key=value"),
            ("hello", "no key=value"),
        ] {
            let told = read(0, &lines(&format!("{line}\nfec_up=4")));
            assert_eq!(told.modem.and_then(|r| r.fec_up), Some(4), "{line}");
            let faults = told.faults;
            assert!(
                faults.len() == 1 && faults[0].contains(part),
                "{line}: {faults:?}"
            );
            let alone = read(0, &lines(line));
            assert_eq!((alone.modem, alone.radio), (None, None), "{line}");
        }
    }

    /// Any text: no panic, no control characters in what is told, and only values in range.
    #[test]
    fn hostile_text_gives_values_in_range_or_none() {
        let pieces = [
            "rate_down",
            "margin_up",
            "crc_down",
            "fec_up",
            "=",
            "{",
            "}",
            "\"",
            ":",
            ",",
            "9",
            "-",
            ".",
            "e308",
            "NaN",
            "inf",
            " Mbit/s",
            "dB",
            "\u{1b}[2J",
            "\0",
            "é",
            "null",
            "[",
            "\n",
        ];
        for seed in 0..4000 {
            let mut rng = Streams::new(seed).stream("modem");
            let mut draw = |n: usize| (uniform(&mut rng) * n as f64) as usize;
            let n = draw(30);
            let text: String = (0..n).map(|_| pieces[draw(pieces.len())]).collect();
            let Told { modem, faults, .. } = read(0, &lines(&text));
            assert!(
                !faults.concat().chars().any(char::is_control),
                "seed {seed}: {faults:?}"
            );
            let row = modem.unwrap_or_else(|| Modem::at(0));
            let known = [row.margin_down_db, row.margin_up_db];
            assert!(known.into_iter().flatten().all(|db| DECIBELS.contains(&db)));
            assert!(
                row.down_bps
                    .is_none_or(|bps| RATES.contains(&bps.unsigned_abs()))
            );
            assert!(counters(&row).into_iter().flatten().all(|n| n >= 0));
        }
    }

    /// Random growth, resets and missing readings: the sum is that of the growth that two readings in a row show.
    #[test]
    fn errors_are_the_growth_of_counters_and_resets_are_not_errors() {
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("errors");
            let mut draw = |n: usize| (uniform(&mut rng) * n as f64) as i64;
            let mut readings = Readings::default();
            let (mut counter, mut known) = (draw(1000), None::<i64>);
            let (mut sum, mut seconds, mut resets) = (0, 0, 0);
            for i in 0..100 {
                let reset = draw(10) == 0;
                counter = if reset { 0 } else { counter + draw(50) };
                let told = (draw(8) > 0).then_some(counter);
                readings.add(&Modem {
                    crc_up: told,
                    ..Modem::at(i * 30 * S)
                });
                if let (Some(a), Some(b)) = (known, told) {
                    match b >= a {
                        true => (sum, seconds) = (sum + b - a, seconds + 30),
                        false => resets += 1,
                    }
                }
                known = told;
            }
            let summary = readings.summary().unwrap();
            let errors = summary.crc_up.unwrap();
            assert_eq!(
                (errors.counted as i64, errors.resets),
                (sum, resets),
                "seed {seed}"
            );
            assert!((errors.seconds - f64::from(seconds)).abs() < 1e-6);
            assert_eq!((summary.readings, summary.crc_down), (100, None));
        }
    }

    #[test]
    fn a_rate_that_falls_once_has_one_change() {
        let mut readings = Readings::default();
        for (s, bps) in [(0, 8), (1, 8), (2, 6), (3, 6)] {
            readings.add(&Modem {
                down_bps: Some(bps),
                ..Modem::at(s * S)
            });
        }
        let rate = readings.summary().unwrap().rate_down_bps.unwrap();
        assert_eq!(
            (rate.least, rate.mean, rate.most, rate.last),
            (6.0, 7.0, 8.0, 6.0)
        );
        assert_eq!(rate.changes, 1);
    }
}
