//! Thinning: the oldest detail goes when a recording would fill the disk, never the newest. Each step is taken for all
//! closed days, from the oldest on, before the next step begins.
//!
//! 1. Delays of single probes become distributions of a minute each; traffic and load become means of a minute.
//! 2. Distributions, traffic and load of a minute become those of ten minutes.
//! 3. Whole days go, but for their events and availability.

use base::histogram::Histogram;
use base::record::{Delay, Distribution, HostLoad, Row, Status, TableId, Text, Traffic};
use base::{Bytes, Duration};
use std::collections::BTreeMap;
use std::path::Path;
use store::{DayFile, StoreError, Thin, Thinned};

/// Limits on the size of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// Free space to leave on the disk; by default a twentieth of the file system or 1 GB, the smaller of both.
    pub keep_free: Option<Bytes>,
    /// Largest size of the recording.
    pub max_size: Option<Bytes>,
}

const KEEP_FREE_MOST: u64 = 1_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const TEN_MINUTES_NS: i64 = 10 * MINUTE_NS;

impl Guard {
    /// Bytes that must be freed.
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

/// Result of thinning: the steps taken, and the problems met.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Steps in order, one line each.
    pub steps: Vec<String>,
    /// Steps that failed; the same problem gives the same line each time.
    pub troubles: Vec<String>,
}

/// Stages of a file's detail, from fine to none. A file goes through them in this order and never back, so thinning
/// ends: after three stages nothing of the file is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Minutes,
    TenMinutes,
    Gone,
}

impl Stage {
    fn after(self) -> Option<Stage> {
        match self {
            Stage::Minutes => Some(Stage::TenMinutes),
            Stage::TenMinutes => Some(Stage::Gone),
            Stage::Gone => None,
        }
    }

    /// First stage that a table's files can be brought to; `None` for files that stay as long as the recording.
    fn first(table: TableId) -> Option<Stage> {
        match table {
            TableId::Delay | TableId::Distribution | TableId::Traffic | TableId::HostLoad => {
                Some(Stage::Minutes)
            }
            TableId::Counter
            | TableId::Flow
            | TableId::Queue
            | TableId::Datagram
            | TableId::Decision
            | TableId::Modem
            | TableId::Radio
            | TableId::Segment
            | TableId::Course => Some(Stage::Gone),
            TableId::Event
            | TableId::Availability
            | TableId::Connection
            | TableId::Retransmission
            | TableId::Conversation => None,
        }
    }
}

/// Table and name of a file; a thinned one keeps its name.
type Key = (TableId, String);

/// Round of thinning.
struct Round<'r> {
    path: &'r Path,
    /// Next stage of each file that was tried in this round; `None` if there is no further one.
    next: BTreeMap<Key, Option<Stage>>,
    /// Stages that failed because the disk was full: each removal frees some of it.
    full: Vec<(Key, Stage)>,
    kept: Kept,
}

/// Frees space as long as there is too little and `go_on` says yes; days from `open_day` on are still written to and
/// stay.
pub fn keep_room(path: &Path, open_day: &str, guard: Guard, go_on: &dyn Fn() -> bool) -> Kept {
    let mut round = Round {
        path,
        next: BTreeMap::new(),
        full: Vec::new(),
        kept: Kept::default(),
    };
    let finished = store::finish_thinning(path);
    round
        .kept
        .troubles
        .extend(finished.err().map(|e| e.to_string()));
    while go_on() {
        let files = match store::files(path) {
            Ok(files) => files,
            Err(e) => {
                round.kept.troubles.push(e.to_string());
                break;
            }
        };
        if guard.excess(path, &files) == 0 {
            break;
        }
        let closed = files.iter().filter(|f| f.sealed && f.day() < open_day);
        let step = closed
            .filter_map(|f| round.stage(f).map(|stage| (stage, &f.stem, f.table, f)))
            .min_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
        let Some((stage, _, _, file)) = step else {
            round.kept.troubles.push(NOTHING_LEFT.to_owned());
            break;
        };
        round.take(file, stage, go_on);
    }
    round.kept
}

const NOTHING_LEFT: &str = "more room is needed on the disk, or the recording may be no larger, and nothing is left to \
     thin: free some space, or raise --max-size";

impl Round<'_> {
    fn stage(&self, file: &DayFile) -> Option<Stage> {
        match self.next.get(&(file.table, file.stem.clone())) {
            Some(stage) => *stage,
            None => Stage::first(file.table),
        }
    }

    /// Tries one stage of one file. After that, this stage of the file is not tried again in this round, unless a
    /// removal has freed space meanwhile; files are removed once.
    fn take(&mut self, file: &DayFile, stage: Stage, go_on: &dyn Fn() -> bool) {
        let name = format!("{} of {}", file.table.spec().name, file.stem);
        let key = (file.table, file.stem.clone());
        self.next.insert(key.clone(), stage.after());
        let bin_ns = match stage {
            Stage::Minutes => MINUTE_NS,
            Stage::TenMinutes => TEN_MINUTES_NS,
            Stage::Gone => {
                match store::remove(self.path, file) {
                    Ok(()) => self.removed(&name),
                    Err(e) => self.trouble(&e),
                }
                return;
            }
        };
        let (to, mut thin): (TableId, Box<dyn Thin>) = match file.table {
            TableId::Traffic => (TableId::Traffic, Box::new(TrafficBins::new(bin_ns))),
            TableId::HostLoad => (TableId::HostLoad, Box::new(LoadBins::new(bin_ns))),
            _ => (TableId::Distribution, Box::new(DelayBins::new(bin_ns))),
        };
        match store::thin(self.path, file, to, &mut *thin, go_on) {
            Ok(Thinned::Smaller { before, after, .. }) => {
                self.next.insert((to, file.stem.clone()), stage.after());
                let every = Duration::from_nanos(bin_ns.unsigned_abs());
                self.kept.steps.push(format!(
                    "to make room, {before} rows of {name} became {after}, one each {every}"
                ));
            }
            Ok(Thinned::NoGain | Thinned::Stopped) => {}
            Err(e) => {
                if matches!(e, StoreError::DiskFull { .. }) {
                    self.full.push((key, stage));
                }
                self.trouble(&e);
            }
        }
    }

    fn removed(&mut self, name: &str) {
        let step = format!("to make room, {name} is gone");
        self.kept.steps.push(step);
        // The earliest stage of a file counts.
        for (key, stage) in std::mem::take(&mut self.full).into_iter().rev() {
            self.next.insert(key, Some(stage));
        }
    }

    fn trouble(&mut self, e: &StoreError) {
        let line = format!("cannot make room: {e}");
        if !self.kept.troubles.contains(&line) {
            self.kept.troubles.push(line);
        }
    }
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
    /// Single round trips, kept until the bin is full: a histogram is a hundred times as large.
    rtts_ms: Vec<f64>,
    merged: Option<Histogram>,
}

/// Time for which a bin stays open: rows of unanswered probes come three minutes late.
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
        for (sum, n) in [
            (&mut bin.sent, d.sent_packets),
            (&mut bin.ok, d.ok_packets),
            (&mut bin.late, d.late_packets),
            (&mut bin.lost, d.lost_packets),
            (&mut bin.invalid, d.invalid_packets),
            (&mut bin.not_sent, d.not_sent_packets),
        ] {
            *sum = sum.saturating_add(n);
        }
        if let Ok(h) = d.rtts() {
            bin.merged.get_or_insert_with(Histogram::new).add(&h);
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

/// Sums of bytes over longer intervals. If one count is unknown, the sum is unknown.
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

/// Means of the host's load over longer intervals, each of the known values of its column.
struct LoadBins {
    bin_ns: i64,
    at: Option<i64>,
    /// Sum and number of the known values of each column.
    sums: [(f64, u32); 5],
}

impl LoadBins {
    fn new(bin_ns: i64) -> LoadBins {
        LoadBins {
            bin_ns,
            at: None,
            sums: [(0.0, 0); 5],
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
        for ((sum, known), share) in self.sums.iter_mut().zip(h.shares()) {
            if let Some(share) = share {
                *sum += share;
                *known += 1;
            }
        }
    }

    fn end(&mut self, out: &mut Vec<Row>) {
        if let Some(t_ns) = self.at.take() {
            let mean = |(sum, known)| (known > 0).then(|| sum / f64::from(known));
            out.push(Row::HostLoad(HostLoad::of(t_ns, self.sums.map(mean))));
        }
        self.sums = [(0.0, 0); 5];
    }
}

#[cfg(test)]
mod tests;
