//! Data from which the page's script draws smoke: the counts of some thousand cells of time, coarse enough for a page.
//! Zooming sums cells again, so every percentile remains that of the probes themselves.

use super::scope::Scope;
use super::spread::Spread;
use crate::data::Smoke;
use base::sketch::Sketch;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;

/// Number of cells into which the span is divided, if they fit into the page.
const CELLS: usize = 3_200;
/// Delays in µs, 32 steps per octave: a value is shown within 1.6 % of its true value.
type Delays = Sketch<5>;
const STEPS_PER_OCTAVE: u32 = 32;
/// Space for cells in a page, bytes before base64. If that is too small, neighbours are merged.
const MOST: usize = 600_000;

/// Probes of one cell: answers and losses.
#[derive(Clone, Debug, Default)]
struct Cell {
    lost: u64,
    delays: Delays,
}

#[derive(Clone, Debug)]
pub struct Cells {
    cells: Vec<Cell>,
    from_ns: i64,
    to_ns: i64,
    /// Longest interval known only by its distribution: no column is drawn narrower.
    longest_ns: i64,
}

impl Cell {
    fn join(&mut self, other: &Cell) {
        self.lost += other.lost;
        self.delays.merge(&other.delays);
    }

    /// Writes losses, number of steps with answers, then for each the steps skipped and its count: seven bits per byte,
    /// low ones first; the eighth bit means that more follow.
    fn write(&self, out: &mut Vec<u8>) {
        varint(out, self.lost);
        varint(out, self.delays.steps().count() as u64);
        let mut next = 0;
        for (step, n) in self.delays.steps() {
            varint(out, (step - next) as u64);
            varint(out, n);
            next = step + 1;
        }
    }
}

fn varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

impl Cells {
    pub fn new(scope: &Scope) -> Cells {
        Cells {
            cells: vec![Cell::default(); CELLS],
            from_ns: scope.from_ns,
            to_ns: scope.to_ns,
            longest_ns: 0,
        }
    }

    fn at(&mut self, t_ns: i64) -> &mut Cell {
        let since = i128::from(t_ns) - i128::from(self.from_ns);
        let length = i128::from(self.to_ns - self.from_ns).max(1);
        let at = (since * CELLS as i128 / length).clamp(0, CELLS as i128 - 1);
        &mut self.cells[at as usize]
    }

    pub fn probe(&mut self, sent_ns: i64, rtt_ns: Option<i64>) {
        let cell = self.at(sent_ns);
        match rtt_ns {
            Some(ns) => cell.delays.add(ns.max(0) as u64 / 1000),
            None => cell.lost += 1,
        }
    }

    /// Adds an interval known only as a whole, at its middle.
    pub fn interval(&mut self, begin_ns: i64, interval_ns: i64, delays: &Spread, lost: u64) {
        self.longest_ns = self.longest_ns.max(interval_ns);
        let cell = self.at(begin_ns + interval_ns / 2);
        cell.lost += lost;
        for (us, n) in delays.counts_us() {
            cell.delays.add_many(us, n);
        }
    }

    /// Returns the data for the page, with the largest share of losses of each colour.
    pub fn data(&self, losses: Vec<f64>) -> Smoke {
        let mut cells = self.cells.clone();
        let bytes = loop {
            let mut bytes = Vec::new();
            cells.iter().for_each(|c| c.write(&mut bytes));
            if bytes.len() <= MOST || cells.len() < 500 {
                break bytes;
            }
            let joined = cells.chunks(2).map(|two| {
                let mut sum = two[0].clone();
                two.iter().skip(1).for_each(|c| sum.join(c));
                sum
            });
            cells = joined.collect();
        };
        let cell_ns = (self.to_ns - self.from_ns).max(1) as f64 / cells.len() as f64;
        Smoke {
            cells: cells.len(),
            steps_per_octave: STEPS_PER_OCTAVE,
            least: (self.longest_ns as f64 / cell_ns).ceil().max(1.0),
            losses,
            data: BASE64_STANDARD_NO_PAD.encode(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn scope(seconds: i64) -> Scope {
        Scope {
            from_ns: 0,
            to_ns: seconds * 1_000_000_000,
            zone: TimeZone::UTC,
        }
    }

    /// Reads the data as the page does: losses, and (step, count), of each cell.
    fn read(v: &Smoke) -> Vec<(u64, Vec<(u64, u64)>)> {
        let bytes = BASE64_STANDARD_NO_PAD.decode(&v.data).unwrap();
        let mut bytes = bytes.iter();
        let mut next = || {
            let (mut v, mut shift) = (0, 0);
            loop {
                let b = *bytes.next().unwrap();
                v |= u64::from(b & 0x7f) << shift;
                shift += 7;
                if b < 0x80 {
                    return v;
                }
            }
        };
        (0..v.cells)
            .map(|_| {
                let (lost, steps) = (next(), next());
                let mut at = 0;
                let counts = (0..steps).map(|_| {
                    let step = at + next();
                    at = step + 1;
                    (step, next())
                });
                (lost, counts.collect())
            })
            .collect()
    }

    #[test]
    fn every_probe_is_in_its_cell_and_its_step() {
        let mut cells = Cells::new(&scope(3200));
        for i in 0..3200 {
            let t = i * 1_000_000_000 + 5;
            cells.probe(t, Some(20_000_000));
            cells.probe(t, Some(1_000_000 * (i + 1)));
            if i % 100 == 0 {
                cells.probe(t, None);
            }
        }
        let v = cells.data(Vec::new());
        assert_eq!(v.least, 1.0);
        let cells = read(&v);
        assert_eq!(cells.len(), 3200);
        assert_eq!(cells.iter().map(|c| c.0).sum::<u64>(), 32);
        for (i, (_, counts)) in cells.iter().enumerate() {
            assert_eq!(counts.iter().map(|c| c.1).sum::<u64>(), 2);
            for ms in [20.0, i as f64 + 1.0] {
                // Decodes a step as `smoke.ts` does.
                let shown = |step: u64| {
                    let octave = (step / 32).saturating_sub(1);
                    let low = (step - 32 * octave) << octave;
                    (low + (1 << octave) / 2) as f64 / 1e3
                };
                let close = |s: &(u64, u64)| (shown(s.0) / ms - 1.0).abs() <= 1.0 / 64.0;
                assert!(counts.iter().any(close), "{i}: {ms} {counts:?}");
            }
        }
    }

    /// Widely scattered delays: 200 per cell fill 150 of its steps, and the page keeps its size limit.
    #[test]
    fn where_they_would_not_fit_neighbours_are_added_and_none_is_lost() {
        let mut cells = Cells::new(&scope(3200));
        for i in 0..640_000_i64 {
            // Evenly over 18 octaves.
            let us = ((i * 7919 % 18_000) as f64 / 1e3).exp2() as i64;
            cells.probe(i * 5_000_000, (i % 50 > 0).then_some(us * 1_000));
        }
        let v = cells.data(Vec::new());
        let read = read(&v);
        assert!(read.len() < 3200 && read.len() >= 250, "{}", read.len());
        assert!(v.data.len() < 900_000);
        let answers = read.iter().flat_map(|c| &c.1).map(|c| c.1).sum::<u64>();
        let lost = read.iter().map(|c| c.0).sum::<u64>();
        assert_eq!((answers, lost), (640_000 * 49 / 50, 640_000 / 50));
    }

    #[test]
    fn an_interval_longer_than_a_cell_says_how_narrow_a_column_may_be() {
        let mut cells = Cells::new(&scope(3200));
        let mut delays = Spread::default();
        delays.record_ns(20_000_000);
        for i in 0..32 {
            cells.interval(i * 100_000_000_000, 100_000_000_000, &delays, 1);
        }
        let v = cells.data(Vec::new());
        assert_eq!(v.least, 100.0);
        let sent = |c: &(u64, Vec<(u64, u64)>)| c.0 + c.1.iter().map(|n| n.1).sum::<u64>();
        assert!(
            read(&v)
                .chunks(100)
                .all(|c| c.iter().map(sent).sum::<u64>() == 2)
        );
    }
}
