//! State of a radio at the near end, as its modem, its driver or the user's command tells it: strength of the signal,
//! technology, cell and handovers; and what the probes saw beside them.
//!
//! **Method.** A reading stands for the time since the one before it, at most two minutes. A *handover* is a reading with
//! another cell or access point than the one before: several between two readings count once, so the number is a lower
//! bound. The *signal* is the first of these that at least half as many readings have as any other: the power of the
//! reference signal, the received power, the modem's own rating. It is *weak* in the weakest quarter of the readings, if
//! they differ by 3 dB, or 3 % of quality, or more. A second is bad if a probe was lost in it, or answered later than its
//! target's 95 % point.
//!
//! **Source.** Chandele 2012, table 3.1.4 (signal strength and handovers beside every other test); 3GPP TS 36.214, section
//! 5.1.1 (RSRP); 3GPP TS 25.215, section 5.1.1 (RSCP).
//!
//! **Limits.** Modems differ by several dB in the same place: figures of two modems say little about the network. A weak
//! signal beside bad seconds is no proof of its cause: a crowded cell is often a far one. Readings are as old as the modem's
//! own interval.

mod beside;
pub mod mmcli;

pub use beside::{Counter, RadioBeside, WithinSeconds};

use crate::modem::{Course, Courses};
use base::record::Radio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Longest time for which a reading stands, ns.
const LONGEST_NS: i64 = 120_000_000_000;
/// Time after the reading of a handover that still counts as beside it, ns.
const AFTER_NS: i64 = 5_000_000_000;
/// Difference of the median and the weakest quarter from which a signal is weak at times: dB, or per cent of quality.
const SPREAD: f64 = 3.0;
/// Most interfaces.
const RADIOS: usize = 16;
/// Most readings of an interface that probes are set beside.
const MOST: usize = 2_000_000;
/// Most different texts of an interface.
const TEXTS: usize = 10_000;
/// Longest text, in characters.
const WORD: usize = 64;
/// Permitted powers, dBm.
const DBM: RangeInclusive<f64> = -200.0..=30.0;
/// Permitted ratios of signal to noise, dB.
const SNR: RangeInclusive<f64> = -60.0..=100.0;

/// Keys of a reading that the user's command prints, with what each takes.
pub const KEYS: [(&str, &str); 8] = [
    ("interface", "its name"),
    ("technology", "a word such as lte"),
    ("cell", "a word that changes with the cell"),
    ("operator", "its name"),
    ("rssi", "dBm between -200 and 30"),
    ("rsrp", "dBm between -200 and 30"),
    ("snr", "dB between -60 and 100"),
    ("quality", "per cent"),
];

/// Word of a stranger that can be kept.
fn word(text: &str) -> Option<String> {
    let clean: String = base::text::clean(text).trim().chars().take(WORD).collect();
    (!clean.is_empty()).then_some(clean)
}

/// Sets a value of the user's command. False if it cannot be what its key takes.
pub(crate) fn set(row: &mut Radio, key: &str, value: &str) -> bool {
    let number = |unit: &str, range: RangeInclusive<f64>| {
        let text = value.strip_suffix(unit).unwrap_or(value).trim_end();
        text.parse().ok().filter(|v| range.contains(v))
    };
    let text = || word(value).map(base::record::Text::from);
    match key {
        "interface" => {
            let name = text();
            row.interface = name.clone().unwrap_or_else(|| "".into());
            name.is_some()
        }
        "technology" => kept(&mut row.technology, text()),
        "cell" => kept(&mut row.cell, text()),
        "operator" => kept(&mut row.operator, text()),
        "rssi" => kept(&mut row.rssi_dbm, number("dBm", DBM)),
        "rsrp" => kept(&mut row.rsrp_dbm, number("dBm", DBM)),
        "snr" => kept(&mut row.snr_db, number("dB", SNR)),
        _ => kept(&mut row.quality_percent, number("%", 0.0..=100.0)),
    }
}

fn kept<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

/// Quantity that stands for the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Power of the cell's reference signal, dBm.
    Rsrp,
    /// Received power in the channel, dBm.
    Rssi,
    /// The modem's own rating, per cent.
    Quality,
}

impl Measure {
    /// All of them, in the order in which they are preferred.
    pub const ALL: [Measure; 3] = [Measure::Rsrp, Measure::Rssi, Measure::Quality];

    /// Place in [`Measure::ALL`] of the one that stands for the signal, by the number of readings with each: the first that
    /// at least half as many have as any other.
    pub fn chosen(readings: [usize; 3]) -> Option<usize> {
        let most = readings.into_iter().max().filter(|n| *n > 0)?;
        readings.iter().position(|n| 2 * n >= most)
    }

    /// The value of a reading; `None` if it lacks it or it cannot be right.
    pub fn of(self, row: &Radio) -> Option<f64> {
        match self {
            Measure::Rsrp => row.rsrp_dbm.filter(|v| DBM.contains(v)),
            Measure::Rssi => row.rssi_dbm.filter(|v| DBM.contains(v)),
            Measure::Quality => row.quality_percent.filter(|v| (0.0..=100.0).contains(v)),
        }
    }
}

/// Cells of one radio, reading by reading.
#[derive(Clone, Debug, Default)]
pub struct Followed(Option<(i64, String)>);

impl Followed {
    /// Takes a reading in the order of time: true if it is a handover. `None` if it has no cell, or if none was told soon
    /// enough before it.
    pub fn handover(&mut self, row: &Radio) -> Option<bool> {
        let cell = row.cell.as_deref().and_then(word)?;
        let before = self.0.replace((row.t_ns, cell.clone()));
        let (_, before) = before.filter(|(at, _)| near(*at, row.t_ns))?;
        Some(before != cell)
    }
}

/// Strength of the signal over the readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Signal {
    /// Quantity: dBm of `rsrp` and `rssi`, per cent of `quality`.
    pub measure: Measure,
    /// Number of readings that have it.
    pub readings: u64,
    /// Weakest.
    pub least: f64,
    /// A quarter of the readings is weaker or as weak.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Strongest.
    pub most: f64,
}

/// Share of the time with a technology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Technology {
    /// Its name; null while the radio was not registered, or told none.
    pub name: Option<String>,
    /// Share of the watched time, 0 to 1.
    pub share: f64,
}

/// State of one radio over a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RadioSummary {
    /// Name of the interface; empty if the readings name none.
    pub interface: String,
    /// Number of readings.
    pub readings: u64,
    /// Time that they stand for, s.
    pub watched_s: f64,
    /// Strength of the signal; null if no reading has it.
    pub signal: Option<Signal>,
    /// Ratio of signal to noise, dB.
    pub snr_db: Option<Course>,
    /// Technologies, the longest first.
    pub technologies: Vec<Technology>,
    /// Names of the networks.
    pub operators: Vec<String>,
    /// Number of different cells or access points.
    pub cells: u64,
    /// Readings with another cell than the one before; null without two readings of a cell in a row.
    pub handovers: Option<u64>,
    /// Readings with another technology than the one before.
    pub technology_changes: u64,
    /// Probes beside it, for each target whose probes pass this interface.
    pub beside: Vec<RadioBeside>,
}

/// Reading, as probes are set beside it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    from_ns: i64,
    to_ns: i64,
    values: [Option<f32>; 3],
    handover: bool,
}

/// Readings of one radio.
#[derive(Default)]
struct One {
    number: u64,
    last: Option<Radio>,
    readings: Vec<Reading>,
    snr: Courses<1>,
    /// Time of each technology, ns.
    technologies: BTreeMap<Option<String>, i64>,
    operators: BTreeSet<String>,
    cells: BTreeSet<String>,
    followed: Followed,
    pairs: u64,
    handovers: u64,
    technology_changes: u64,
}

impl One {
    fn add(&mut self, row: &Radio) {
        self.number += 1;
        let before = self.last.replace(row.clone());
        self.snr.add([row.snr_db.filter(|v| SNR.contains(v))]);
        let handover = self.followed.handover(row);
        self.pairs += u64::from(handover.is_some());
        self.handovers += u64::from(handover == Some(true));
        if let Some(cell) = row.cell.as_deref().and_then(word) {
            noted(&mut self.cells, &cell);
        }
        if let Some(operator) = row.operator.as_deref().and_then(word) {
            noted(&mut self.operators, &operator);
        }
        let Some(before) = before.filter(|b| near(b.t_ns, row.t_ns)) else {
            return;
        };
        let technology = |row: &Radio| row.technology.as_deref().and_then(word);
        let (was, is) = (technology(&before), technology(row));
        self.technology_changes += u64::from(is.is_some() && was.is_some() && is != was);
        if self.technologies.len() < TEXTS || self.technologies.contains_key(&is) {
            *self.technologies.entry(is).or_default() += row.t_ns - before.t_ns;
        }
        if self.readings.len() < MOST {
            self.readings.push(Reading {
                from_ns: before.t_ns,
                to_ns: row.t_ns,
                values: Measure::ALL.map(|m| m.of(row).map(|v| v as f32)),
                handover: handover == Some(true),
            });
        }
    }

    /// Quantity that stands for the signal.
    fn measure(&self) -> Option<(usize, Measure)> {
        let count = |i: usize| {
            self.readings
                .iter()
                .filter(|r| r.values[i].is_some())
                .count()
        };
        let found = Measure::chosen([0, 1, 2].map(count))?;
        Some((found, Measure::ALL[found]))
    }

    fn signal(&self) -> Option<Signal> {
        let (i, measure) = self.measure()?;
        let mut values: Vec<f32> = self.readings.iter().filter_map(|r| r.values[i]).collect();
        values.sort_by(f32::total_cmp);
        let n = values.len();
        // The value that a share of the readings does not exceed.
        let at =
            |share: f64| f64::from(values[((n as f64 * share).ceil() as usize).clamp(1, n) - 1]);
        Some(Signal {
            measure,
            readings: n as u64,
            least: at(0.0),
            p25: at(0.25),
            p50: at(0.5),
            most: at(1.0),
        })
    }

    fn finish(self, interface: String) -> OneRadio {
        let watched: i64 = self.technologies.values().sum();
        let share = |ns: i64| ns as f64 / watched.max(1) as f64;
        let mut technologies: Vec<Technology> = self
            .technologies
            .iter()
            .map(|(name, ns)| Technology {
                name: name.clone(),
                share: share(*ns),
            })
            .collect();
        technologies.sort_by(|a, b| b.share.total_cmp(&a.share));
        let summary = RadioSummary {
            interface,
            readings: self.number,
            watched_s: watched as f64 / 1e9,
            signal: self.signal(),
            snr_db: self.snr.course(0),
            technologies,
            operators: self.operators.iter().cloned().collect(),
            cells: self.cells.len() as u64,
            handovers: (self.pairs > 0).then_some(self.handovers),
            technology_changes: self.technology_changes,
            beside: Vec::new(),
        };
        let measure = self.measure().map(|(i, _)| i);
        let weak = summary.signal.filter(|s| s.p50 - s.p25 >= SPREAD);
        let is_weak = |r: &&Reading| {
            let value = measure.and_then(|i| r.values[i]);
            value.zip(weak).is_some_and(|(v, s)| f64::from(v) <= s.p25)
        };
        let span = |r: &Reading| (r.from_ns, r.to_ns);
        let beside_handover = |r: &Reading| (r.from_ns, r.to_ns.saturating_add(AFTER_NS));
        OneRadio {
            weak: weak.map(|_| joined(self.readings.iter().filter(is_weak).map(span))),
            handovers: (summary.handovers > Some(0)).then(|| {
                joined(
                    self.readings
                        .iter()
                        .filter(|r| r.handover)
                        .map(beside_handover),
                )
            }),
            signal: self
                .readings
                .iter()
                .map(|r| (r.from_ns, r.to_ns, measure.and_then(|i| r.values[i])))
                .collect(),
            summary,
        }
    }
}

/// True if one reading follows the other soon enough.
fn near(before_ns: i64, t_ns: i64) -> bool {
    (1..=LONGEST_NS).contains(&t_ns.saturating_sub(before_ns))
}

fn noted(texts: &mut BTreeSet<String>, text: &str) {
    if texts.len() < TEXTS {
        texts.insert(text.to_owned());
    }
}

/// Times in order, those that touch joined.
fn joined(times: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (from, to) in times {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

/// Radio whose readings are all known.
pub struct OneRadio {
    /// Its figures.
    pub summary: RadioSummary,
    /// Times of a weak signal; `None` if it is steady.
    weak: Option<Vec<(i64, i64)>>,
    /// Times of handovers; `None` without any.
    handovers: Option<Vec<(i64, i64)>>,
    /// Begin, end and signal of each reading.
    signal: Vec<(i64, i64, Option<f32>)>,
}

/// True if the probes of a target are known to pass a radio: they are bound to its interface, or no other was watched.
pub fn passes(target: &str, radio: &str, watched: &BTreeSet<String>, radios: usize) -> bool {
    match target.rsplit_once('%') {
        Some((_, bound)) => bound == radio,
        None if radio.is_empty() => radios == 1,
        None => watched.len() == 1 && watched.contains(radio),
    }
}

/// Readings of all radios, added in the order of time.
#[derive(Default)]
pub struct RadioReadings(BTreeMap<String, One>);

impl RadioReadings {
    /// Adds a reading.
    pub fn add(&mut self, row: &Radio) {
        let name = word(&row.interface).unwrap_or_default();
        if self.0.len() < RADIOS || self.0.contains_key(&name) {
            self.0.entry(name).or_default().add(row);
        }
    }

    /// The radios, by interface.
    pub fn finish(self) -> Vec<OneRadio> {
        let all = self.0.into_iter();
        all.map(|(name, one)| one.finish(name)).collect()
    }
}

#[cfg(test)]
mod tests;
