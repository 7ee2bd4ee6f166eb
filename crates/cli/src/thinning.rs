//! What gives way when a recording would fill the disk: the oldest detail first, never the newest, and each step is
//! taken for all closed days, from the oldest on, before the next one begins.
//!
//! 1. Delays of single probes become distributions of a minute each; traffic and load become means of a minute.
//! 2. Distributions, traffic and load of a minute become those of ten minutes.
//! 3. Whole days go, but for their events and availability.

use base::histogram::Histogram;
use base::record::{Delay, Distribution, HostLoad, Row, Status, TableId, Text, Traffic};
use base::{Bytes, Duration};
use std::collections::BTreeMap;
use std::path::Path;
use store::{DayFile, StoreError, Thin};

/// How much room a recording may take.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// Room to be left for others; a twentieth of the file system or 1 GB, whichever is less, where not given.
    pub keep_free: Option<Bytes>,
    /// Most that the recording may take itself.
    pub max_size: Option<Bytes>,
}

const KEEP_FREE_MOST: u64 = 1_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const TEN_MINUTES_NS: i64 = 10 * MINUTE_NS;

impl Guard {
    /// Bytes that must be given up.
    fn excess(&self, path: &Path, files: &[DayFile]) -> u64 {
        let taken: u64 = files.iter().map(|f| f.bytes).sum();
        let by_size = self
            .max_size
            .map_or(0, |most| taken.saturating_sub(most.get()));
        // Where nobody knows how much is free, only the size counts.
        let by_room = live::host::disk_space(path).map_or(0, |(free, all)| {
            let keep = self.keep_free.map(Bytes::get);
            keep.unwrap_or(KEEP_FREE_MOST.min(all / 20))
                .saturating_sub(free)
        });
        by_size.max(by_room)
    }
}

/// Makes room as long as there is too little; days from `open_day` on are still written to and stay. Gives what is to
/// be told.
pub fn keep_room(path: &Path, open_day: &str, guard: Guard) -> Vec<String> {
    let mut told = Vec::new();
    let mut failed: Vec<DayFile> = Vec::new();
    told.extend(store::finish_thinning(path).err().map(|e| e.to_string()));
    loop {
        let files = match store::files(path) {
            Ok(files) => files,
            Err(e) => {
                told.push(e.to_string());
                return told;
            }
        };
        let excess = guard.excess(path, &files);
        if excess == 0 {
            return told;
        }
        let closed = files.iter().filter(|f| f.sealed && f.day() < open_day);
        let step = closed
            .filter(|f| {
                !failed
                    .iter()
                    .any(|g| (g.table, &g.stem) == (f.table, &f.stem))
            })
            .filter_map(|f| {
                next_step(path, f).map(|step| (step.order(), &f.stem, f.table, step, f))
            })
            .min_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
        let Some((_, _, _, step, file)) = step else {
            told.push(format!(
                "{} more is needed on the disk, and nothing is left to thin: free some space",
                Bytes::new(excess)
            ));
            return told;
        };
        match take(path, file, step) {
            Ok(line) => told.push(line),
            Err(e) => {
                told.push(format!("cannot make room: {e}"));
                failed.push(file.clone());
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Bins(i64),
    Remove,
}

impl Step {
    fn order(self) -> i64 {
        match self {
            Step::Bins(ns) => ns,
            Step::Remove => i64::MAX,
        }
    }
}

/// What can be done next to a file; `None` where it stays as long as the recording does.
fn next_step(path: &Path, file: &DayFile) -> Option<Step> {
    let finer_than = |now: i64| match now {
        n if n < MINUTE_NS => Step::Bins(MINUTE_NS),
        n if n < TEN_MINUTES_NS => Step::Bins(TEN_MINUTES_NS),
        _ => Step::Remove,
    };
    match file.table {
        TableId::Delay => Some(Step::Bins(MINUTE_NS)),
        TableId::Distribution | TableId::Traffic => {
            let now = store::first_value(path, file, "interval_ns").unwrap_or(0);
            Some(finer_than(now))
        }
        // Samples have no length of their own: what is left of a file tells.
        TableId::HostLoad => {
            let now = store::mean_spacing_ns(path, file).unwrap_or(i64::MAX);
            Some(finer_than(now + now / 10))
        }
        TableId::Flow | TableId::Queue | TableId::Datagram | TableId::Segment | TableId::Course => {
            Some(Step::Remove)
        }
        TableId::Event
        | TableId::Availability
        | TableId::Connection
        | TableId::Retransmission
        | TableId::Conversation => None,
    }
}

fn take(path: &Path, file: &DayFile, step: Step) -> Result<String, StoreError> {
    let name = format!("{} of {}", file.table.spec().name, file.stem);
    let Step::Bins(bin_ns) = step else {
        store::remove(path, file)?;
        return Ok(format!("to make room, {name} is gone"));
    };
    let (to, mut thin): (TableId, Box<dyn Thin>) = match file.table {
        TableId::Traffic => (TableId::Traffic, Box::new(TrafficBins::new(bin_ns))),
        TableId::HostLoad => (TableId::HostLoad, Box::new(LoadBins::new(bin_ns))),
        _ => (TableId::Distribution, Box::new(DelayBins::new(bin_ns))),
    };
    let (before, after) = store::thin(path, file, to, &mut *thin)?;
    let every = Duration::from_nanos(bin_ns.unsigned_abs());
    Ok(format!(
        "to make room, {before} rows of {name} became {after}, one each {every}"
    ))
}

/// Distributions of delays, from single ones or from finer distributions.
pub struct DelayBins {
    bin_ns: i64,
    bins: BTreeMap<(i64, Text), Bin>,
    newest: i64,
}

#[derive(Default)]
struct Bin {
    sent: i64,
    ok: i64,
    late: i64,
    lost: i64,
    invalid: i64,
    not_sent: i64,
    /// Kept as they are until the bin is full: a histogram is a hundred times as large.
    rtts_ms: Vec<f64>,
    merged: Option<Histogram>,
}

/// Rows of unanswered probes come three minutes late.
const OPEN_FOR_NS: i64 = 300_000_000_000;

impl DelayBins {
    pub fn new(bin_ns: i64) -> DelayBins {
        DelayBins {
            bin_ns,
            bins: BTreeMap::new(),
            newest: i64::MIN,
        }
    }

    fn bin(&mut self, t_ns: i64, target: &Text) -> &mut Bin {
        self.newest = self.newest.max(t_ns);
        let begin = t_ns.div_euclid(self.bin_ns) * self.bin_ns;
        self.bins.entry((begin, target.clone())).or_default()
    }

    fn add(&mut self, d: &Delay) {
        let bin = self.bin(d.sent_ns, &d.target);
        match d.status {
            // A second answer to a probe that counts already.
            Status::Duplicate => return,
            Status::Ok => bin.ok += 1,
            Status::Late => bin.late += 1,
            Status::Lost | Status::LostUp | Status::LostDown => bin.lost += 1,
            Status::Invalid => bin.invalid += 1,
            Status::NotSent => bin.not_sent += 1,
        }
        bin.sent += i64::from(d.status != Status::NotSent);
        if let (Some(rtt), Status::Ok | Status::Late) = (d.rtt_ns, d.status) {
            bin.rtts_ms.push(rtt as f64 / 1e6);
        }
    }

    fn merge(&mut self, d: &Distribution) {
        let bin = self.bin(d.t_ns, &d.target);
        bin.sent += d.sent_packets;
        bin.ok += d.ok_packets;
        bin.late += d.late_packets;
        bin.lost += d.lost_packets;
        bin.invalid += d.invalid_packets;
        bin.not_sent += d.not_sent_packets;
        if let Ok(h) = Histogram::from_base64(&d.histogram) {
            // All of ours have one range, so they can be added.
            let _ = bin.merged.get_or_insert_with(Histogram::new).add(&h);
        }
    }

    fn give(&mut self, until: i64, out: &mut Vec<Row>) {
        while let Some(((begin, _), _)) = self.bins.first_key_value()
            && *begin < until
        {
            let Some(((t_ns, target), bin)) = self.bins.pop_first() else {
                return;
            };
            let mut histogram = bin.merged.unwrap_or_default();
            bin.rtts_ms.iter().for_each(|ms| histogram.record_ms(*ms));
            out.push(Row::Distribution(Distribution {
                t_ns,
                interval_ns: self.bin_ns,
                target,
                sent_packets: bin.sent,
                ok_packets: bin.ok,
                late_packets: bin.late,
                lost_packets: bin.lost,
                invalid_packets: bin.invalid,
                not_sent_packets: bin.not_sent,
                histogram: histogram.to_base64().into(),
            }));
        }
    }
}

impl Thin for DelayBins {
    fn row(&mut self, row: Row, out: &mut Vec<Row>) {
        match row {
            Row::Delay(d) => self.add(&d),
            Row::Distribution(d) => self.merge(&d),
            other => out.push(other),
        }
        self.give(self.newest - OPEN_FOR_NS - self.bin_ns, out);
    }

    fn end(&mut self, out: &mut Vec<Row>) {
        self.give(i64::MAX, out);
    }
}

/// Sums of bytes over longer intervals. Where one of the counts is not known, the sum is not known.
struct TrafficBins {
    bin_ns: i64,
    open: BTreeMap<Text, Traffic>,
}

impl TrafficBins {
    fn new(bin_ns: i64) -> TrafficBins {
        TrafficBins {
            bin_ns,
            open: BTreeMap::new(),
        }
    }
}

impl Thin for TrafficBins {
    fn row(&mut self, row: Row, out: &mut Vec<Row>) {
        let Row::Traffic(t) = row else { return };
        let bin = |t_ns: i64| (t_ns - 1).div_euclid(self.bin_ns);
        match self.open.get_mut(&t.interface) {
            Some(sum) if bin(sum.t_ns) == bin(t.t_ns) && t.t_ns >= sum.t_ns => {
                let add = |a: Option<i64>, b: Option<i64>| Some(a? + b?);
                sum.rx_bytes = add(sum.rx_bytes, t.rx_bytes);
                sum.tx_bytes = add(sum.tx_bytes, t.tx_bytes);
                sum.interval_ns += t.interval_ns;
                sum.t_ns = t.t_ns;
            }
            _ => out.extend(self.open.insert(t.interface.clone(), t).map(Row::Traffic)),
        }
    }

    fn end(&mut self, out: &mut Vec<Row>) {
        let open = std::mem::take(&mut self.open);
        out.extend(open.into_values().map(Row::Traffic));
    }
}

/// Means of the host's load.
struct LoadBins {
    bin_ns: i64,
    at: Option<i64>,
    sum: f64,
    known: u32,
}

impl LoadBins {
    fn new(bin_ns: i64) -> LoadBins {
        LoadBins {
            bin_ns,
            at: None,
            sum: 0.0,
            known: 0,
        }
    }
}

impl Thin for LoadBins {
    fn row(&mut self, row: Row, out: &mut Vec<Row>) {
        let Row::HostLoad(h) = row else { return };
        let bin = |t_ns: i64| (t_ns - 1).div_euclid(self.bin_ns);
        if self.at.is_some_and(|at| bin(at) != bin(h.t_ns)) {
            self.end(out);
        }
        self.at = Some(h.t_ns);
        if let Some(cpu) = h.cpu {
            self.sum += cpu;
            self.known += 1;
        }
    }

    fn end(&mut self, out: &mut Vec<Row>) {
        if let Some(t_ns) = self.at.take() {
            let cpu = (self.known > 0).then(|| self.sum / f64::from(self.known));
            out.push(Row::HostLoad(HostLoad { t_ns, cpu }));
        }
        (self.sum, self.known) = (0.0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(ms: i64, seq: i64, status: Status, rtt_ms: Option<i64>) -> Row {
        Row::Delay(Delay {
            status,
            rtt_ns: rtt_ms.map(|ms| ms * 1_000_000),
            ..Delay::unanswered(ms * 1_000_000, seq, "udp".into())
        })
    }

    fn through(thin: &mut dyn Thin, rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
        let mut out = Vec::new();
        rows.into_iter().for_each(|r| thin.row(r, &mut out));
        thin.end(&mut out);
        out
    }

    fn distributions(rows: Vec<Row>) -> Vec<Distribution> {
        let all = rows.into_iter().map(|r| match r {
            Row::Distribution(d) => d,
            other => panic!("{other:?}"),
        });
        all.collect()
    }

    /// Two hours of ten a second: RTT 10 to 29 ms in turn, each hundredth lost and written three minutes late.
    fn two_hours() -> Vec<Row> {
        let mut rows = Vec::new();
        for i in 0..72_000 {
            if i % 100 != 7 {
                rows.push(delay(i * 100, i, Status::Ok, Some(10 + i % 20)));
            }
            let old = i - 1800;
            if old >= 0 && old % 100 == 7 {
                rows.push(delay(old * 100, old, Status::Lost, None));
            }
        }
        rows
    }

    #[test]
    fn a_minute_of_delays_becomes_one_row_with_every_probe_in_it() {
        let minutes = distributions(through(&mut DelayBins::new(MINUTE_NS), two_hours()));
        assert_eq!(minutes.len(), 120);
        for (i, d) in minutes.iter().enumerate().take(117) {
            assert_eq!((d.t_ns, d.interval_ns), (i as i64 * MINUTE_NS, MINUTE_NS));
            assert_eq!(
                (d.sent_packets, d.ok_packets, d.lost_packets),
                (600, 594, 6)
            );
            let h = Histogram::from_base64(&d.histogram).unwrap();
            assert_eq!(h.len(), 594);
            let median = h.quantile_ms(0.5).unwrap();
            assert!((median - 19.5).abs() <= 0.6, "{median}");
        }
    }

    #[test]
    fn ten_minutes_of_ten_minutes_are_the_sum_of_their_minutes() {
        let minutes = through(&mut DelayBins::new(MINUTE_NS), two_hours());
        let direct = distributions(through(&mut DelayBins::new(TEN_MINUTES_NS), two_hours()));
        let merged = distributions(through(&mut DelayBins::new(TEN_MINUTES_NS), minutes));
        assert_eq!(merged.len(), 12);
        assert_eq!(merged, direct);
    }

    #[test]
    fn a_duplicate_counts_once_and_an_unsent_probe_was_not_sent() {
        let rows = [
            delay(0, 0, Status::Ok, Some(10)),
            delay(0, 0, Status::Duplicate, Some(12)),
            delay(100, 1, Status::NotSent, None),
            delay(200, 2, Status::Late, Some(11_000)),
            delay(300, 3, Status::Invalid, None),
        ];
        let all = distributions(through(&mut DelayBins::new(MINUTE_NS), rows));
        let d = &all[0];
        assert_eq!(
            [
                d.sent_packets,
                d.ok_packets,
                d.late_packets,
                d.invalid_packets,
                d.not_sent_packets
            ],
            [3, 1, 1, 1, 1]
        );
        assert_eq!(Histogram::from_base64(&d.histogram).unwrap().len(), 2);
    }

    #[test]
    fn bytes_of_a_minute_are_summed_and_what_is_not_known_stays_unknown() {
        let row = |i: i64, rx| {
            Row::Traffic(Traffic {
                t_ns: (i + 1) * 100_000_000,
                interval_ns: 100_000_000,
                interface: "wan".into(),
                rx_bytes: rx,
                tx_bytes: Some(1),
            })
        };
        let rows = (0..1200).map(|i| row(i, (i != 700).then_some(10)));
        let out = through(&mut TrafficBins::new(MINUTE_NS), rows);
        let sums: Vec<_> = out
            .iter()
            .map(|r| match r {
                Row::Traffic(t) => (t.t_ns, t.interval_ns, t.rx_bytes, t.tx_bytes),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            sums,
            [
                (MINUTE_NS, MINUTE_NS, Some(6000), Some(600)),
                (2 * MINUTE_NS, MINUTE_NS, None, Some(600))
            ]
        );
    }

    #[test]
    fn the_load_of_a_minute_is_its_mean() {
        let rows = (1..=120).map(|s| {
            Row::HostLoad(HostLoad {
                t_ns: s * 1_000_000_000,
                cpu: (s != 3).then_some(if s <= 60 { 0.5 } else { 0.25 }),
            })
        });
        let out = through(&mut LoadBins::new(MINUTE_NS), rows);
        let load = |t_ns, cpu| {
            Row::HostLoad(HostLoad {
                t_ns,
                cpu: Some(cpu),
            })
        };
        assert_eq!(out, [load(MINUTE_NS, 0.5), load(2 * MINUTE_NS, 0.25)]);
    }
}
