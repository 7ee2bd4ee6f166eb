//! Reports over many points. A digest of each stored recording goes to the ledger, once; a report reads the digests only.

use super::Hub;
use super::ledger::Dates;
use base::BitsPerSec;
use ops::points::Point;
use ops::{Event, Progress};

/// Labels that are rates which the point's provider promises.
const PROMISED: [&str; 2] = ["up", "down"];
/// Longest key and value of a label.
const LONGEST: usize = 64;

/// Points of a report, and the recordings that are missing from it.
pub struct Measured {
    /// Points with what they measured.
    pub points: Vec<Point>,
    /// Sentences about recordings that could not be read.
    pub left_out: Vec<String>,
}

impl Hub {
    /// Makes the digests that are missing; an interruption keeps those that are made.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub fn digest(&self, progress: &mut dyn Progress) -> anyhow::Result<()> {
        let all = self.ledger().undigested()?;
        for (i, (point, recording)) in all.iter().enumerate() {
            if progress.interrupted() {
                break;
            }
            progress.tell(Event::Share(i as f64 / all.len() as f64));
            let digest = ops::points::digest(&self.recordings(point).join(recording), &mut ());
            let digest = digest.map_err(|e| format!("{e:#}"));
            self.ledger().add_digest(point, recording, &digest)?;
        }
        progress.tell(Event::Finished);
        Ok(())
    }

    /// All points with what they measured within these dates.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn measured(&self, dates: Dates<'_>) -> anyhow::Result<Measured> {
        let ledger = self.ledger();
        let mut points = Vec::new();
        for point in ledger.points()? {
            let measured = ledger.measured(&point.name, dates)?;
            let promised = PROMISED.map(|key| {
                let rate = measured.labels.get(key)?.parse::<BitsPerSec>().ok()?;
                Some(rate.get() as f64)
            });
            points.push(Point {
                promised,
                ..measured
            });
        }
        let faults = ledger.digest_faults()?.into_iter();
        Ok(Measured {
            points,
            left_out: faults
                .map(|(point, recording, why)| format!("{recording} of {point} is left out: {why}"))
                .collect(),
        })
    }

    /// One point with its hours, beside all points with what they measured within these dates.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn measured_with_hours(&self, name: &str, dates: Dates<'_>) -> anyhow::Result<Measured> {
        let mut measured = self.measured(dates)?;
        if let Some(point) = measured.points.iter_mut().find(|p| p.name == name) {
            point.hours = self.ledger().hours(name, dates)?;
        }
        Ok(measured)
    }

    /// Names of all labels.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn label_keys(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.ledger().label_keys()?)
    }

    /// Sets labels of a point, such as `provider=Acme`; `KEY=` removes one.
    ///
    /// # Errors
    /// There is no such point, or a label that is not allowed.
    pub fn label(&self, name: &str, labels: &[String]) -> anyhow::Result<()> {
        if self.ledger().point(name)?.is_none() {
            return Err(ops::usage(format!("there is no point {name}")));
        }
        let mut parsed = Vec::new();
        for label in labels {
            parsed.push(parse_label(label)?);
        }
        let ledger = self.ledger();
        parsed
            .iter()
            .try_for_each(|(key, value)| ledger.label(name, key, value))?;
        let what = format!("labelled {name}: {}", labels.join(", "));
        Ok(ledger.audit(crate::unix_s(), &ledger.who, &what)?)
    }
}

/// Splits `KEY=VALUE`, and checks both.
pub(super) fn parse_label(label: &str) -> anyhow::Result<(&str, &str)> {
    let (key, value) = label
        .split_once('=')
        .ok_or_else(|| ops::usage(format!("{label:?}: give KEY=VALUE, such as provider=Acme")))?;
    check(key, value)?;
    Ok((key, value))
}

fn check(key: &str, value: &str) -> anyhow::Result<()> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if key.is_empty() || key.len() > LONGEST || !key.bytes().all(allowed) {
        return Err(ops::usage(format!(
            "{key:?}: a label's name has 1 to {LONGEST} lower-case letters, digits and -"
        )));
    }
    if value.len() > LONGEST || value.chars().any(char::is_control) {
        return Err(ops::usage(format!(
            "{key}: a value has at most {LONGEST} printable characters"
        )));
    }
    if PROMISED.contains(&key) && !value.is_empty() && value.parse::<BitsPerSec>().is_err() {
        return Err(ops::usage(format!(
            "{key}={value}: give the promised rate, such as {key}='20 Mbit/s'"
        )));
    }
    Ok(())
}
