//! SmokePing's round-robin databases: the files of a 64-bit little-endian host, or the output of `rrdtool dump`.
//!
//! Only the archive at full resolution is read: coarser ones hold means of sorted pings, from which no percentile can
//! be computed. Each step becomes a row of `distribution`: the pings are sorted, so their times within the step are
//! unknown.
//!
//! **Source.** RRDtool 1.7, `rrd_format.h` (version 0003): header, data sources, archives, last update, preparation
//! areas, row pointers, rows. SmokePing 2.7: data sources `loss`, `median` and `ping1` to `pingN`, in seconds.

use super::file::{Fault, Imported};
use super::out::Out;
use base::histogram::Histogram;
use base::record::{Distribution, Text};

struct Rrd {
    step_s: u64,
    last_update_s: i64,
    sources: Vec<String>,
    /// Rows of the archive with single steps, oldest first.
    rows: Vec<Vec<f64>>,
}

pub fn read(bytes: &[u8], name: &Text, out: &mut Out, told: &mut Imported) -> Result<(), Fault> {
    let rrd = if bytes.starts_with(b"RRD\0") {
        binary(bytes)
    } else {
        dump(&String::from_utf8_lossy(bytes))
    };
    let rrd = rrd.map_err(Fault::Unreadable)?;
    let pings: Vec<usize> = (1..)
        .map_while(|n| rrd.sources.iter().position(|s| *s == format!("ping{n}")))
        .collect();
    let loss = rrd.sources.iter().position(|s| s == "loss");
    let (Some(loss), false) = (loss, pings.is_empty()) else {
        return Err(Fault::Unreadable(format!(
            "it has no data sources loss and ping1 to pingN but {}: only SmokePing's are known",
            rrd.sources.join(", ")
        )));
    };
    let step = i64::try_from(rrd.step_s).unwrap_or(i64::MAX);
    // Nanoseconds in an i64 end in 2262.
    if !(0..9_000_000_000).contains(&rrd.last_update_s) || step > 31_536_000 {
        return Err(Fault::Unreadable(format!(
            "its head is damaged: last update at {} s, step {step} s",
            rrd.last_update_s
        )));
    }
    let last_s = rrd.last_update_s.div_euclid(step) * step;
    let total = pings.len() as i64;
    let mut blurred = 0;
    for (back, row) in (0..)
        .zip(rrd.rows.iter().rev())
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let known: Vec<f64> = pings
            .iter()
            .map(|p| row[*p])
            .filter(|v| v.is_finite())
            .collect();
        let lost = match row[loss] {
            l if l.is_finite() => (l.round() as i64).clamp(0, total),
            // Nothing was written in this step.
            _ if known.is_empty() => continue,
            _ => total - known.len() as i64,
        };
        blurred += i64::from(row[loss].fract() != 0.0 || known.len() as i64 != total - lost);
        let mut histogram = Histogram::new();
        known.iter().for_each(|s| histogram.record_ms(s * 1e3));
        out.push(&Distribution {
            t_ns: (last_s - (back + 1) * step).saturating_mul(1_000_000_000),
            interval_ns: step * 1_000_000_000,
            target: name.clone(),
            sent_packets: total,
            ok_packets: total - lost,
            late_packets: 0,
            lost_packets: lost,
            invalid_packets: 0,
            not_sent_packets: 0,
            histogram: histogram.to_base64().into(),
        });
    }
    if blurred > 0 {
        told.notes.push(format!(
            "{blurred} steps are mixtures of two rounds, which RRDtool makes of rounds that do not end on a step: their \
             pings are weighted means, and loss is rounded to whole pings"
        ));
    }
    Ok(())
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    fn take(&mut self, n: usize) -> Result<&'b [u8], String> {
        let part = self
            .at
            .checked_add(n)
            .and_then(|end| self.bytes.get(self.at..end));
        self.at += n;
        part.ok_or_else(|| {
            format!(
                "it ends at byte {}, in the middle of its rows",
                self.bytes.len()
            )
        })
    }
    fn u64(&mut self) -> Result<u64, String> {
        let part = self.take(8)?;
        Ok(u64::from_le_bytes(part.try_into().expect("eight bytes")))
    }
    fn f64(&mut self) -> Result<f64, String> {
        self.u64().map(f64::from_bits)
    }
    fn name(&mut self) -> Result<String, String> {
        let part = self.take(20)?;
        let end = part.iter().position(|c| *c == 0).unwrap_or(part.len());
        Ok(String::from_utf8_lossy(&part[..end]).into_owned())
    }
}

fn binary(bytes: &[u8]) -> Result<Rrd, String> {
    const COOKIE: f64 = 8.642135E130;
    let mut c = Cursor { bytes, at: 16 };
    if c.f64()?.to_bits() != COOKIE.to_bits() {
        return Err(
            "it was written by a host of another kind; run `rrdtool dump` there and give what it prints".into(),
        );
    }
    let counts = [c.u64()?, c.u64()?];
    let step_s = c.u64()?;
    // Each is at least a hundred bytes, so counts beyond the file's length are damage.
    if counts
        .iter()
        .any(|n| *n == 0 || *n > bytes.len() as u64 / 100)
        || step_s == 0
    {
        return Err(format!(
            "its head is damaged: {} data sources, {} archives, step {step_s} s",
            counts[0], counts[1]
        ));
    }
    let [sources, archives] = counts.map(|n| n as usize);
    c.take(80)?;
    let mut names = Vec::new();
    for _ in 0..sources {
        names.push(c.name()?);
        c.take(100)?;
    }
    let mut heads = Vec::new();
    for _ in 0..archives {
        let function = c.name()?;
        c.take(4)?;
        let (rows, steps) = (c.u64()?, c.u64()?);
        c.take(80)?;
        if rows > bytes.len() as u64 / 8 {
            return Err(format!("its head is damaged: an archive of {rows} rows"));
        }
        heads.push((function, rows as usize, steps));
    }
    let last_update_s = c.u64()? as i64;
    c.take(8 + sources * 112 + sources * archives * 80)?;
    let pointers: Vec<u64> = (0..archives).map(|_| c.u64()).collect::<Result<_, _>>()?;
    for ((function, rows, steps), newest) in heads.into_iter().zip(pointers) {
        if function != "AVERAGE" || steps != 1 {
            c.take(rows * sources * 8)?;
            continue;
        }
        let mut ring = Vec::with_capacity(rows);
        for _ in 0..rows {
            ring.push(
                (0..sources)
                    .map(|_| c.f64())
                    .collect::<Result<Vec<f64>, _>>()?,
            );
        }
        // The oldest row follows the newest.
        let oldest = (newest as usize + 1) % rows.max(1);
        ring.rotate_left(oldest);
        return Ok(Rrd {
            step_s,
            last_update_s,
            sources: names,
            rows: ring,
        });
    }
    Err("it has no archive of single steps (AVERAGE, 1 step a row)".into())
}

/// Returns the text between `<tag>` and `</tag>`, and the rest.
fn inside<'t>(text: &'t str, tag: &str) -> Option<(&'t str, &'t str)> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>"))
}

fn dump(text: &str) -> Result<Rrd, String> {
    let number = |tag: &str| {
        let (value, _) = inside(text, tag).ok_or_else(|| format!("there is no <{tag}> in it"))?;
        let value = value.trim();
        value
            .parse::<u64>()
            .map_err(|_| format!("<{tag}> holds {value:?}"))
    };
    let (step_s, last_update_s) = (number("step")?.max(1), number("lastupdate")? as i64);
    let mut sources = Vec::new();
    let mut rest = text;
    while let Some((source, after)) = inside(rest, "ds") {
        if let Some((name, _)) = inside(source, "name") {
            sources.push(name.trim().to_owned());
        }
        // Below the archives <ds> has another meaning.
        rest = after;
        if after.find("<rra>") < after.find("<ds>") {
            break;
        }
    }
    while let Some((archive, after)) = inside(rest, "rra") {
        rest = after;
        let word = |tag| inside(archive, tag).map(|(v, _)| v.trim());
        if word("cf") != Some("AVERAGE") || word("pdp_per_row") != Some("1") {
            continue;
        }
        let mut rows = Vec::new();
        let mut left = archive;
        while let Some((row, after)) = inside(left, "row") {
            left = after;
            let values = row.split("<v>").skip(1).map(|v| {
                let value = v.split("</v>").next().unwrap_or_default().trim();
                value
                    .parse::<f64>()
                    .map_err(|_| format!("row {} holds {value:?}", rows.len() + 1))
            });
            let values = values.collect::<Result<Vec<f64>, String>>()?;
            if values.len() != sources.len() {
                return Err(format!(
                    "row {} has {} values, not {}",
                    rows.len() + 1,
                    values.len(),
                    sources.len()
                ));
            }
            rows.push(values);
        }
        return Ok(Rrd {
            step_s,
            last_update_s,
            sources,
            rows,
        });
    }
    Err("it has no whole archive of single steps (AVERAGE, 1 step a row)".into())
}
