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
    loop {
        let files = match store::files(path) {
            Ok(files) => files,
            Err(e) => {
                told.push(e.to_string());
                return told;
            }
        };
        finish_interrupted(path, &files);
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

/// A crash between writing a distribution and removing what it stands for.
fn finish_interrupted(path: &Path, files: &[DayFile]) {
    for f in files
        .iter()
        .filter(|f| f.table == TableId::Delay && f.sealed)
    {
        let twin = files
            .iter()
            .find(|d| d.table == TableId::Distribution && d.stem == f.stem);
        if let Some(twin) = twin {
            // The finer one counts; it is thinned again when its turn comes.
            let _ = store::remove(path, twin);
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
        TableId::Flow | TableId::Queue | TableId::Datagram => Some(Step::Remove),
        TableId::Event | TableId::Availability => None,
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
