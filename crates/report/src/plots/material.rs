//! Data for the plots of long recordings, gathered in one pass over the rows, in constant space. Rows of `delay` and of
//! `distribution` alike are added to their stretch of time. No row is selected: a stretch is drawn by the distribution
//! of all of its probes.

use super::calendar::{Clock, weekday};
use super::cells::Cells;
use super::scope::Scope;
use super::spread::Spread;
use crate::curves::{Bins, Cdf, Curves, Point};
use analysis::modem::{self, Growth};
use analysis::moments::Moment;
use analysis::radio::{Followed, Measure};
use base::histogram::HistogramError;
use base::record::{Distribution, HostLoad, Modem, Radio, Status, Text};
use std::collections::BTreeMap;

/// Number of stretches that divide the span: about one per pixel.
pub const STRETCHES: usize = 800;
/// Time without a probe that interrupts a drawing, in usual intervals between two.
const GAP: i64 = 5;
/// Number of probes above which single ones are not drawn.
const MOST_POINTS: usize = 12_000;
const MINUTE_NS: i64 = 60_000_000_000;
const QUARTER_NS: i64 = 15 * MINUTE_NS;

/// Delays and losses of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// Delays of probes answered in time or late.
    pub delays: Spread,
    pub lost: u64,
}

impl Stretch {
    pub fn add(&mut self, other: &Stretch) {
        self.delays.add(&other.delays);
        self.lost = self.lost.saturating_add(other.lost);
    }
    pub fn sent(&self) -> u64 {
        self.delays.len().saturating_add(self.lost)
    }
    pub fn loss(&self) -> Option<f64> {
        (self.sent() > 0).then(|| self.lost as f64 / self.sent() as f64)
    }
}

/// Neighbouring stretches drawn as one: from `from` to before `to`.
#[derive(Clone, Debug)]
pub struct Column {
    pub from: usize,
    pub to: usize,
    pub stretch: Stretch,
}

/// Bytes, and the time in which they were counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    pub bytes: f64,
    pub seconds: f64,
}

impl Carried {
    pub fn bps(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes * 8.0 / self.seconds)
    }
}

/// Number of shares of a sample of the host's load.
pub const LOADS: usize = 5;

/// Load of the host in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostStretch {
    /// Sum and number of the known values of each share.
    sums: [(f64, u32); LOADS],
    /// Least and largest busy share.
    range: Option<(f64, f64)>,
}

impl HostStretch {
    fn add(&mut self, shares: [Option<f64>; LOADS]) {
        for ((sum, n), share) in self.sums.iter_mut().zip(shares) {
            if let Some(share) = share {
                *sum += share;
                *n += 1;
            }
        }
        if let Some(busy) = shares[0] {
            let (low, high) = self.range.unwrap_or((busy, busy));
            self.range = Some((low.min(busy), high.max(busy)));
        }
    }

    /// Mean of a share, in the order of `HostLoad::shares`.
    pub fn mean(&self, share: usize) -> Option<f64> {
        let (sum, n) = self.sums[share];
        (n > 0).then(|| sum / f64::from(n))
    }

    /// Least and largest busy share.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.range
    }
}

/// Most radios that are drawn.
const RADIOS: usize = 16;

/// Readings of the modem in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModemStretch {
    /// Sum and number of the known values: rates and margins, each down and up.
    values: [(f64, u32); 4],
    /// Errors and the time in which they came, s: CRC and FEC, each down and up.
    errors: [(f64, f64); 4],
    /// True if the counter was reset.
    reset: [bool; 4],
}

impl ModemStretch {
    /// Mean of a rate or a margin.
    pub fn value(&self, i: usize) -> Option<f64> {
        let (sum, n) = self.values[i];
        (n > 0).then(|| sum / f64::from(n))
    }

    /// True if a counter was reset.
    pub fn was_reset(&self, i: usize) -> bool {
        self.reset[i]
    }

    /// Errors a minute.
    pub fn errors_a_minute(&self, i: usize) -> Option<f64> {
        let (errors, seconds) = self.errors[i];
        (seconds > 0.0).then(|| errors / seconds * 60.0)
    }
}

/// Signal of a radio over the stretches.
#[derive(Clone, Debug, Default)]
pub struct RadioStretches {
    /// Sum and number of the readings of each stretch with one, for each measure.
    sums: [BTreeMap<usize, (f64, u32)>; 3],
    /// Times of its handovers, UNIX ns.
    pub handovers: Vec<i64>,
    followed: Followed,
}

impl RadioStretches {
    fn add(&mut self, place: usize, row: &Radio) {
        for (sums, measure) in self.sums.iter_mut().zip(Measure::ALL) {
            if let Some(v) = measure.of(row) {
                let (sum, n) = sums.entry(place).or_default();
                *sum += v;
                *n += 1;
            }
        }
        if self.followed.handover(row) == Some(true) {
            self.handovers.push(row.t_ns);
        }
    }

    /// Place of the measure that stands for the signal.
    pub fn measure(&self) -> Option<usize> {
        Measure::chosen(self.sums.each_ref().map(BTreeMap::len))
    }

    /// Means of a measure, by stretch.
    pub fn means(&self, measure: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let sums = self.sums[measure].iter();
        sums.map(|(place, (sum, n))| (*place, sum / f64::from(*n)))
    }
}

/// Host's own observations of an interface: an interval is successful if the interface was up, had an address and got
/// an answer (Chandele 2012, chapter 5: stability is the share of successful intervals).
#[derive(Clone, Debug)]
pub struct Stability {
    pub interface: String,
    pub interval_ns: i64,
    /// True if a host beyond the interface was asked for an answer.
    pub asked: bool,
    /// Intervals by day and hour of the zone.
    pub hours: BTreeMap<(i64, usize), Intervals>,
}

/// State of an interface in an interval, as its host saw it.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// True if it was up, had an address, and nobody who was asked stayed silent.
    pub successful: bool,
    /// True if a host beyond it was asked for an answer.
    pub asked: bool,
}

/// Number of an interface's intervals, and of successful ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    pub all: u32,
    pub successful: u32,
}

/// Time observed, and the part of it with availability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    pub all: f64,
    pub good: f64,
}

impl Part {
    pub fn add(&mut self, other: Part) {
        self.all += other.all;
        self.good += other.good;
    }

    pub fn share(&self) -> f64 {
        self.good / self.all.max(f64::MIN_POSITIVE)
    }
}

pub struct Material {
    pub scope: Scope,
    pub title: String,
    /// Target whose probes it holds; empty if there is only one, or none.
    pub target: String,
    /// Interface whose traffic it holds, if there is any.
    pub interface: Option<String>,
    clock: Clock,
    pub stretches: Vec<Stretch>,
    /// Cells for the page's plots of many probes.
    pub cells: Cells,
    /// Readings of the modem in each stretch, and the latest reading.
    pub modem: Vec<ModemStretch>,
    last_reading: Option<Modem>,
    /// Signals of the radios, by interface; of 16 at most.
    pub radios: BTreeMap<Text, RadioStretches>,
    /// Load of the host in each stretch.
    pub host: Vec<HostStretch>,
    pub down: Vec<Carried>,
    pub up: Vec<Carried>,
    /// Stretches of the week: seven days of 24 hours, from Monday.
    pub week: Vec<Stretch>,
    /// Bytes down and up by day.
    pub days: BTreeMap<i64, [f64; 2]>,
    pub whole: Stretch,
    /// Single probes, while they are few: time, and ms unless lost.
    points: Option<Vec<(i64, Option<f64>)>>,
    /// Seconds in which probes were due, and seconds outside outages, by day and hour of the zone.
    pub available: BTreeMap<(i64, usize), Part>,
    pub stability: Option<Stability>,
    /// True if part of it is known only by distributions of intervals longer than one minute.
    pub thinned: bool,
    /// Marked moments within the span: s since its start, and the text.
    pub moments: Vec<(f64, String)>,
}

impl Material {
    pub fn new(scope: Scope, title: &str) -> Material {
        Material {
            clock: Clock::new(scope.zone.clone()),
            title: title.to_owned(),
            target: String::new(),
            interface: None,
            stretches: vec![Stretch::default(); STRETCHES],
            cells: Cells::new(&scope),
            modem: vec![ModemStretch::default(); STRETCHES],
            last_reading: None,
            radios: BTreeMap::new(),
            host: vec![HostStretch::default(); STRETCHES],
            down: vec![Carried::default(); STRETCHES],
            up: vec![Carried::default(); STRETCHES],
            week: vec![Stretch::default(); 7 * 24],
            days: BTreeMap::new(),
            whole: Stretch::default(),
            points: Some(Vec::new()),
            available: BTreeMap::new(),
            stability: None,
            thinned: false,
            moments: Vec::new(),
            scope,
        }
    }

    pub fn length_ns(&self) -> i64 {
        (self.scope.to_ns - self.scope.from_ns).max(1)
    }

    fn place(&self, t_ns: i64) -> Option<usize> {
        let inside = (self.scope.from_ns..self.scope.to_ns).contains(&t_ns);
        let since = i128::from(t_ns) - i128::from(self.scope.from_ns);
        inside.then(|| (since * STRETCHES as i128 / i128::from(self.length_ns())) as usize)
    }

    /// Adds a row of `delay`. Unsent slots, duplicates and invalid times say nothing about the link.
    pub fn probe(&mut self, sent_ns: i64, rtt_ns: Option<i64>, status: Status) {
        let answered = match status {
            Status::Ok | Status::Late => true,
            Status::Lost | Status::LostUp | Status::LostDown => false,
            Status::Duplicate | Status::Invalid | Status::NotSent => return,
        };
        let Some(place) = self.place(sent_ns) else {
            return;
        };
        let at = self.clock.local(sent_ns);
        let hour = weekday(at.day) * 24 + at.hour;
        let rtt_ns = rtt_ns.filter(|_| answered);
        self.cells.probe(sent_ns, rtt_ns);
        for stretch in [
            &mut self.stretches[place],
            &mut self.week[hour],
            &mut self.whole,
        ] {
            match rtt_ns {
                Some(ns) => stretch.delays.record_ns(ns),
                None => stretch.lost += 1,
            }
        }
        if let Some(points) = &mut self.points {
            points.push((sent_ns, rtt_ns.map(|ns| ns as f64 / 1e6)));
            if points.len() > MOST_POINTS {
                self.points = None;
            }
        }
    }

    /// Round trips of single probes if they are few, and times of loss, s. The page draws many by the bounds of its cells.
    fn probes(&self) -> (Vec<Point>, Vec<f64>) {
        let since = |t: i64| (t - self.scope.from_ns) as f64 / 1e9;
        let Some(points) = self.points() else {
            return (Vec::new(), Vec::new());
        };
        let lost = points.iter().filter(|p| p.1.is_none());
        let lost_s = lost.map(|p| since(p.0)).collect();
        let line = interrupted(&points).into_iter();
        let point = |(t, ms): (i64, Option<f64>)| Point { t_s: since(t), ms };
        (line.map(point).collect(), lost_s)
    }

    /// Returns curves for the page's script, with single probes if they are few.
    pub fn curves(&self) -> Curves {
        let step_s = self.length_ns() as f64 / 1e9 / STRETCHES as f64;
        let (probes, lost_s) = self.probes();
        let answered = self.whole.delays.len() as f64 / self.whole.sent().max(1) as f64;
        let steps = self.whole.delays.shares();
        let steps: Vec<(f64, f64)> = steps
            .into_iter()
            .map(|(ms, share)| (ms, share * answered))
            .collect();
        let cdf = Cdf {
            phase: "all probes".into(),
            steps,
        };
        Curves {
            start_ns: self.scope.from_ns,
            span_s: self.length_ns() as f64 / 1e9,
            civil: Some((
                self.scope.from_ns as f64 / 1e9,
                self.scope.zone.iana_name().map(str::to_owned),
            )),
            phases: Vec::new(),
            moments: self.moments.clone(),
            probes,
            lost_s,
            probes_seen: self.whole.sent() as usize,
            bins: Bins {
                step_s,
                down_bps: self.down.iter().map(|c| c.bps()).collect(),
                up_bps: self.up.iter().map(|c| c.bps()).collect(),
            },
            in_flow_down: Vec::new(),
            in_flow_up: Vec::new(),
            cdf: if self.whole.delays.is_empty() {
                Vec::new()
            } else {
                vec![cdf]
            },
        }
    }

    /// Adds a row of `distribution`, drawn over the whole of its interval and counted once.
    ///
    /// # Errors
    /// The same as [`Distribution::rtts`].
    pub fn distribution(&mut self, row: &Distribution) -> Result<(), HistogramError> {
        let end_ns = row.t_ns.saturating_add(row.interval_ns.max(1));
        if end_ns <= self.scope.from_ns || row.t_ns >= self.scope.to_ns {
            return Ok(());
        }
        let mut stretch = Stretch {
            lost: row.lost_packets.max(0) as u64,
            ..Stretch::default()
        };
        stretch.delays.add_histogram(&row.rtts()?);
        if stretch.sent() == 0 {
            return Ok(());
        }
        let begin = row.t_ns.max(self.scope.from_ns);
        // Stretches whose middle lies within the interval, so that each is drawn by one interval, or the one that
        // contains it.
        let middles = |t: i64| {
            let since = i128::from(t) - i128::from(self.scope.from_ns);
            let doubled = since * 2 * STRETCHES as i128 / i128::from(self.length_ns());
            ((doubled + 1).div_euclid(2)).clamp(0, STRETCHES as i128) as usize
        };
        let end = end_ns.min(self.scope.to_ns);
        let (first, last) = match (middles(begin), middles(end)) {
            (first, after) if first < after => (first, after - 1),
            _ => {
                let within = self.place(begin + (end - begin) / 2).unwrap_or_default();
                (within, within)
            }
        };
        self.stretches[first..=last]
            .iter_mut()
            .for_each(|s| s.add(&stretch));
        let at = self.clock.local(row.t_ns + row.interval_ns / 2);
        self.week[weekday(at.day) * 24 + at.hour].add(&stretch);
        self.whole.add(&stretch);
        self.cells
            .interval(row.t_ns, row.interval_ns, &stretch.delays, stretch.lost);
        self.thinned |= row.interval_ns > MINUTE_NS;
        self.points = None;
        Ok(())
    }

    /// Adds an interval of an interface that ends at `t_ns`; all of them are of one interface.
    pub fn interval(&mut self, interface: &str, t_ns: i64, interval_ns: i64, seen: Interval) {
        let begin = t_ns.saturating_sub(interval_ns);
        if begin < self.scope.from_ns || t_ns > self.scope.to_ns {
            return;
        }
        let at = self.clock.local(begin);
        let stability = self.stability.get_or_insert_with(|| Stability {
            interface: interface.to_owned(),
            interval_ns,
            asked: false,
            hours: BTreeMap::new(),
        });
        stability.asked |= seen.asked;
        let hour = stability.hours.entry((at.day, at.hour)).or_default();
        hour.all += 1;
        hour.successful += u32::from(seen.successful);
    }

    /// Adds the bytes that passed in an interval that ends at `t_ns`.
    pub fn traffic(&mut self, t_ns: i64, interval_ns: i64, down: Option<i64>, up: Option<i64>) {
        let begin = t_ns.saturating_sub(interval_ns);
        if interval_ns <= 0 || t_ns <= self.scope.from_ns || begin >= self.scope.to_ns {
            return;
        }
        let from = begin.max(self.scope.from_ns);
        let to = t_ns.min(self.scope.to_ns);
        let (Some(first), Some(last)) = (self.place(from), self.place(to - 1)) else {
            return;
        };
        let day = self.clock.local(begin).day;
        for (way, bytes) in [(0, down), (1, up)] {
            let Some(bytes) = bytes else { continue };
            let inside = (to - from) as f64 / interval_ns as f64;
            self.days.entry(day).or_default()[way] += bytes as f64 * inside;
            for place in first..=last {
                let edge = |i: usize| {
                    self.scope.from_ns
                        + (i128::from(self.length_ns()) * i as i128 / STRETCHES as i128) as i64
                };
                let (a, b) = (edge(place).max(from), edge(place + 1).min(to));
                if b <= a {
                    continue;
                }
                let carried = if way == 0 {
                    &mut self.down
                } else {
                    &mut self.up
                };
                carried[place].bytes += bytes as f64 * (b - a) as f64 / interval_ns as f64;
                carried[place].seconds += (b - a) as f64 / 1e9;
            }
        }
    }

    /// Adds a sample of the host's load. Shares that cannot be right count as unknown.
    pub fn host_load(&mut self, row: &HostLoad) {
        if let Some(place) = self.place(row.t_ns.saturating_sub(1)) {
            let sound = |v: &f64| (0.0..=1.0).contains(v);
            self.host[place].add(row.shares().map(|s| s.filter(sound)));
        }
    }

    /// Adds a reading of the modem, in the order of time.
    pub fn modem(&mut self, row: Modem) {
        let Some(place) = self.place(row.t_ns) else {
            return;
        };
        let stretch = &mut self.modem[place];
        for ((sum, n), value) in stretch.values.iter_mut().zip(modem::values(&row)) {
            if let Some(v) = value {
                *sum += v;
                *n += 1;
            }
        }
        if let Some(before) = self.last_reading.replace(row.clone()) {
            let grown = modem::growth(&before, &row);
            for (i, growth) in grown.into_iter().enumerate() {
                match growth {
                    Some(Growth::Counted(more, s)) => {
                        let (errors, seconds) = &mut stretch.errors[i];
                        *errors += more as f64;
                        *seconds += s;
                    }
                    Some(Growth::Reset) => stretch.reset[i] = true,
                    None => {}
                }
            }
        }
    }

    /// Adds a reading of a radio, in the order of time.
    pub fn radio(&mut self, row: &Radio) {
        let Some(place) = self.place(row.t_ns) else {
            return;
        };
        let is_known = self.radios.contains_key(&row.interface);
        if is_known || self.radios.len() < RADIOS {
            let radio = self.radios.entry(row.interface.clone()).or_default();
            radio.add(place, row);
        }
    }

    /// True if the modem was read.
    pub fn has_modem(&self) -> bool {
        self.last_reading.is_some()
    }

    /// True if the load of the host is known at some time.
    pub fn has_host_load(&self) -> bool {
        self.host.iter().any(|h| h.range.is_some())
    }

    /// Adds the moments that the user marked, in the order of time.
    pub fn mark(&mut self, moments: &[Moment]) {
        self.moments.extend(self.scope.marked(moments));
    }

    /// Returns all single probes in order of time, or `None` if they are too many.
    pub fn points(&self) -> Option<Vec<(i64, Option<f64>)>> {
        let mut points = self.points.clone().filter(|p| !p.is_empty())?;
        points.sort_by_key(|p| p.0);
        Some(points)
    }

    /// Merges neighbouring stretches, at least `width` each, until most columns have at least `least` probes.
    pub fn joined(&self, least: u64, mut width: usize) -> Vec<Column> {
        loop {
            let joined = self.columns(width);
            let mut sent: Vec<u64> = joined
                .iter()
                .map(|c| c.stretch.sent())
                .filter(|n| *n > 0)
                .collect();
            sent.sort_unstable();
            if width >= 40 || sent.get(sent.len() / 2).is_none_or(|n| *n >= least) {
                return joined;
            }
            width *= 2;
        }
    }

    /// Merges stretches into columns of `width`. A column ends where probing ends, so none shows delays of time without probes.
    pub fn columns(&self, width: usize) -> Vec<Column> {
        let sent: Vec<u64> = self.stretches.iter().map(Stretch::sent).collect();
        let mut edges: Vec<usize> = probed(&sent)
            .into_iter()
            .flat_map(|(a, b)| [a, b])
            .collect();
        edges.extend((0..=STRETCHES).step_by(width));
        edges.push(STRETCHES);
        edges.sort_unstable();
        edges.dedup();
        let column = |w: &[usize]| Column {
            from: w[0],
            to: w[1],
            stretch: sum(&self.stretches[w[0]..w[1]]),
        };
        edges.windows(2).map(column).collect()
    }

    pub fn has_delays(&self) -> bool {
        self.whole.sent() > 0
    }

    pub fn has_traffic(&self) -> bool {
        self.down.iter().chain(&self.up).any(|c| c.seconds > 0.0)
    }

    /// Sets the stretches in which probes were due, and the outages among them: availability as in the analysis, of the
    /// same span, so that the share agrees to the last digit.
    pub fn holes(&mut self, due: &[(i64, i64)], outages: &[(i64, i64)]) {
        for (from, to) in due {
            self.each_hour(*from, *to, |hour, s| {
                hour.all += s;
                hour.good += s;
            });
        }
        for (from, to) in outages {
            self.each_hour(*from, *to, |hour, s| hour.good -= s);
        }
    }

    /// Passes the seconds of a span to `each`, hour by hour of the zone.
    fn each_hour(&mut self, from_ns: i64, to_ns: i64, each: impl Fn(&mut Part, f64)) {
        let mut at = from_ns;
        while at < to_ns {
            // Zones differ from UTC by whole quarters of an hour.
            let next = ((at.div_euclid(QUARTER_NS) + 1) * QUARTER_NS).min(to_ns);
            let local = self.clock.local(at);
            let hour = self.available.entry((local.day, local.hour)).or_default();
            each(hour, (next - at) as f64 / 1e9);
            at = next;
        }
    }
}

/// Interrupts the line through probes where none was sent for long: a line across would claim delays that nobody
/// measured.
pub(super) fn interrupted(points: &[(i64, Option<f64>)]) -> Vec<(i64, Option<f64>)> {
    let mut gaps: Vec<i64> = points.windows(2).map(|w| w[1].0 - w[0].0).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    let mut line = Vec::with_capacity(points.len());
    let mut before: Option<i64> = None;
    for (t, ms) in points {
        if let Some(b) = before.filter(|b| t - b > usual.saturating_mul(GAP)) {
            line.push((b + (t - b) / 2, None));
        }
        before = Some(*t);
        line.push((*t, *ms));
    }
    line
}

/// Returns the spans of stretches in which probes were sent, each as its first stretch and the one after its last. Among
/// them lies a time that is longer than five usual intervals between probes. `probed` of the page's script is the same.
pub(super) fn probed(sent: &[u64]) -> Vec<(usize, usize)> {
    let filled: Vec<usize> = (0..sent.len()).filter(|i| sent[*i] > 0).collect();
    let middle = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(1)
    };
    let apart = middle(filled.windows(2).map(|w| (w[1] - w[0]) as u64).collect());
    let each = middle(filled.iter().map(|i| sent[*i]).collect());
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for i in filled {
        match spans.last_mut() {
            Some((_, end)) if (i - *end) as u64 * each <= GAP as u64 * apart => *end = i + 1,
            _ => spans.push((i, i + 1)),
        }
    }
    spans
}

pub fn sum(parts: &[Stretch]) -> Stretch {
    let mut sum = Stretch::default();
    parts.iter().for_each(|p| sum.add(p));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::histogram::Histogram;

    const SECOND: i64 = 1_000_000_000;
    const HOUR: i64 = 3600 * SECOND;

    fn scope(hours: i64) -> Scope {
        Scope {
            from_ns: 0,
            to_ns: hours * HOUR,
            zone: jiff::tz::TimeZone::UTC,
        }
    }

    /// Rows of thinned detail are drawn like their original rows.
    #[test]
    fn distributions_and_probes_give_the_same_stretches() {
        let mut single = Material::new(scope(800), "");
        let mut thinned = Material::new(scope(800), "");
        for hour in 0..800 {
            let mut h = Histogram::new();
            let mut lost = 0;
            for i in 0..60 {
                let rtt_ns = (20 + (i * 37 + hour) % 200) * 1_000_000;
                let sent = hour * HOUR + i * 60 * SECOND;
                if i % 20 == 7 {
                    single.probe(sent, None, Status::Lost);
                    lost += 1;
                } else {
                    single.probe(sent, Some(rtt_ns), Status::Ok);
                    h.record_ms(rtt_ns as f64 / 1e6);
                }
            }
            thinned
                .distribution(&Distribution {
                    t_ns: hour * HOUR,
                    interval_ns: HOUR,
                    target: "udp".into(),
                    sent_packets: 60,
                    ok_packets: 60 - lost,
                    late_packets: 0,
                    lost_packets: lost,
                    invalid_packets: 0,
                    not_sent_packets: 0,
                    histogram: h.to_base64().into(),
                })
                .unwrap();
        }
        assert_eq!(single.whole.sent(), 48_000);
        let pairs = single.stretches.iter().zip(&thinned.stretches);
        for (a, b) in pairs.chain(single.week.iter().zip(&thinned.week)) {
            assert_eq!((a.sent(), a.lost), (b.sent(), b.lost));
            for p in [0.01, 0.5, 0.99] {
                let (a, b) = (
                    a.delays.quantile_ms(p).unwrap(),
                    b.delays.quantile_ms(p).unwrap(),
                );
                assert!((a - b).abs() <= 0.005 * a, "{a} {b}");
            }
        }
        assert!(thinned.thinned && !single.thinned);
    }

    #[test]
    fn rows_that_claim_more_than_can_be_are_refused_and_sums_do_not_overflow() {
        let mut h = Histogram::new();
        h.record_ms(20.0);
        for _ in 0..63 {
            h.add(&h.clone());
        }
        let row = |sent: i64, histogram: &Histogram| Distribution {
            t_ns: 0,
            interval_ns: HOUR,
            target: "x".into(),
            sent_packets: sent,
            ok_packets: 0,
            late_packets: 0,
            lost_packets: sent,
            invalid_packets: 0,
            not_sent_packets: 0,
            histogram: histogram.to_base64().into(),
        };
        let mut m = Material::new(scope(1), "");
        for sent in [60, i64::MAX] {
            assert!(m.distribution(&row(sent, &h)).is_err(), "{sent}");
        }
        assert_eq!(m.whole.sent(), 0);
        // One probe a microsecond is the most that a row may claim.
        for _ in 0..1000 {
            let most = row(HOUR / 1000, &Histogram::new());
            m.distribution(&most).unwrap();
        }
        assert_eq!(m.whole.sent(), 1000 * HOUR as u64 / 1000);
    }

    /// SmokePing's rounds over one day: several stretches per round, none with two rounds.
    #[test]
    fn an_interval_longer_than_a_stretch_is_drawn_by_itself() {
        let mut m = Material::new(scope(24), "");
        for i in 0..288 {
            let mut h = Histogram::new();
            h.record_ms(10.0 + i as f64);
            m.distribution(&Distribution {
                t_ns: i * 300 * SECOND,
                interval_ns: 300 * SECOND,
                target: "x".into(),
                sent_packets: 1,
                ok_packets: 1,
                late_packets: 0,
                lost_packets: 0,
                invalid_packets: 0,
                not_sent_packets: 0,
                histogram: h.to_base64().into(),
            })
            .unwrap();
        }
        assert!(m.stretches.iter().all(|s| s.sent() == 1));
        assert_eq!(m.whole.sent(), 288);
        // 108 s per stretch: its middle determines its round.
        let ms = m.stretches[4].delays.quantile_ms(0.5).unwrap();
        assert!((ms - 11.0).abs() < 0.1, "{ms}");
    }

    #[test]
    fn traffic_is_spread_over_its_interval_and_no_byte_is_lost() {
        let mut m = Material::new(scope(48), "");
        for i in 1..=48 {
            m.traffic(i * HOUR, HOUR, Some(3_600_000), None);
        }
        let total: f64 = m.down.iter().map(|c| c.bytes).sum();
        assert!((total - 48.0 * 3_600_000.0).abs() < 1.0, "{total}");
        assert!(
            m.down
                .iter()
                .all(|c| (c.bps().unwrap() - 8_000.0).abs() < 0.1)
        );
        assert!(m.up.iter().all(|c| c.bps().is_none()));
        assert_eq!(
            m.days.values().map(|d| d[0] / 1e6).collect::<Vec<_>>(),
            [86.4, 86.4]
        );
    }

    #[test]
    fn what_a_host_noted_of_its_interface_is_its_stability() {
        let mut m = Material::new(scope(3), "");
        for i in 0..720 {
            // Absent for one minute: twelve intervals of 5 s.
            let gone = (100..112).contains(&i);
            let seen = Interval {
                successful: !gone,
                asked: true,
            };
            m.interval("wan", (i + 1) * 5 * SECOND, 5 * SECOND, seen);
        }
        let s = m.stability.as_ref().unwrap();
        assert_eq!((&*s.interface, s.interval_ns), ("wan", 5 * SECOND));
        let hour = s.hours[&(0, 0)];
        assert_eq!((hour.all, hour.successful), (720, 708));
        let picture = crate::plots::Plot::Availability.spec(&m).unwrap().svg();
        assert!(
            picture.contains("98.33 % of 720 intervals of 5 s of wan"),
            "{picture}"
        );
        // Availability comes from the probes if there are any; the interface is shown beside it.
        m.holes(
            &[(0, HOUR), (HOUR + 1800 * SECOND, 3 * HOUR)],
            &[
                (500 * SECOND, 515 * SECOND),
                (2 * HOUR - SECOND, 2 * HOUR + SECOND),
            ],
        );
        assert_eq!(
            m.available[&(0, 0)],
            Part {
                all: 3600.0,
                good: 3585.0
            }
        );
        assert_eq!(
            m.available[&(0, 1)],
            Part {
                all: 1800.0,
                good: 1799.0
            }
        );
        assert_eq!(
            m.available[&(0, 2)],
            Part {
                all: 3600.0,
                good: 3599.0
            }
        );
        let picture = crate::plots::Plot::Availability.spec(&m).unwrap().svg();
        assert!(
            picture.contains("Available for 99.81 % of the probed time")
                && picture.contains("98.33 %"),
            "{picture}"
        );
    }

    /// Users saw a line across fifteen seconds in which the interface was down and no probe was sent.
    #[test]
    fn nothing_is_drawn_where_nothing_was_probed() {
        for seed in 0..50 {
            let mut rng = base::rng::Streams::new(seed).stream("gap");
            let mut draw = |most: f64| (base::rng::uniform(&mut rng) * most) as i64;
            let (from, length) = (10 + draw(60.0), 6 + draw(20.0));
            let mut m = Material::new(scope(1), "");
            for i in (0..100).filter(|i| !(from..from + length).contains(i)) {
                m.probe(i * SECOND, Some(20_000_000), Status::Ok);
            }
            let (line, lost) = m.probes();
            assert!(lost.is_empty());
            let inside = |p: &&Point| (from as f64..(from + length) as f64).contains(&p.t_s);
            let inside: Vec<_> = line.iter().filter(inside).map(|p| p.ms).collect();
            assert_eq!(inside, [None], "seed {seed}");
            assert_eq!(
                line.iter().filter(|p| p.ms.is_none()).count(),
                1,
                "seed {seed}"
            );
        }
    }

    /// Users saw smoke across hours without a probe. Rates of probes, gaps and spans are drawn; all bands and lines of
    /// all plots stay within the time of the probes, and each of them reaches both its ends.
    #[test]
    fn no_band_reaches_into_a_gap() {
        use crate::plot::Shape;
        use crate::plots::Plot;
        for seed in 0..200 {
            let mut rng = base::rng::Streams::new(seed).stream("smoke");
            let mut draw = |from: f64, to: f64| from + base::rng::uniform(&mut rng) * (to - from);
            let hours = draw(1.0, 300.0) as i64;
            let span_s = (hours * 3600) as f64;
            // From three probes a stretch to one in four of them, or too many to keep.
            let every_s = span_s / draw(200.0, 20_000.0);
            let from_s = span_s * draw(0.1, 0.8);
            let to_s = from_s + (every_s * 8.0 + 3.0 * span_s / STRETCHES as f64) * draw(1.0, 4.0);
            let mut m = Material::new(scope(hours), "");
            let probes = (0..)
                .map(|i| f64::from(i) * every_s)
                .take_while(|t| *t < span_s);
            for t in probes.filter(|t| !(from_s..to_s).contains(t)) {
                let rtt_ms = draw(20.0, 30.0);
                m.probe((t * 1e9) as i64, Some((rtt_ms * 1e6) as i64), Status::Ok);
            }
            let slack = every_s + span_s / STRETCHES as f64;
            for plot in [Plot::Smoke, Plot::Bounds, Plot::Rtt, Plot::Smoothed] {
                for s in &plot.spec(&m).unwrap().panels[0].series {
                    let drawn: Vec<(f64, bool)> = match &s.shape {
                        Shape::Band(points) => points
                            .iter()
                            .map(|p| p.map_or((0.0, false), |p| (p.0, true)))
                            .collect(),
                        Shape::Line(points) => {
                            points.iter().map(|(x, y)| (*x, y.is_some())).collect()
                        }
                        Shape::Strokes(s) => s
                            .iter()
                            .flat_map(|(a, b, _)| [(*a, true), (*b, true), (0.0, false)])
                            .collect(),
                        _ => continue,
                    };
                    let what = format!("{plot:?} {} of seed {seed}", s.class);
                    for w in drawn.windows(2).filter(|w| w[0].1 && w[1].1) {
                        let inside = w[1].0.min(to_s - slack) - w[0].0.max(from_s + slack);
                        assert!(
                            inside <= 0.0,
                            "{what}: drawn from {} to {} s, no probes from {from_s} to {to_s} s",
                            w[0].0,
                            w[1].0
                        );
                    }
                    let near = |t: f64| {
                        drawn
                            .iter()
                            .any(|(x, there)| *there && (x - t).abs() <= slack)
                    };
                    let empty = drawn.iter().all(|p| !p.1);
                    assert!(
                        empty || near(from_s) && near(to_s),
                        "{what}: ends before the gap"
                    );
                }
            }
        }
    }

    #[test]
    fn one_answer_after_minutes_does_not_flatten_the_rest() {
        let mut m = Material::new(scope(24 * 14), "");
        for i in 0..14 * 24 * 3600_i64 {
            let late = i == 700_000;
            let rtt = if late { 154 * SECOND } else { 20_000_000 };
            m.probe(
                i * SECOND,
                Some(rtt),
                if late { Status::Late } else { Status::Ok },
            );
        }
        for plot in [crate::plots::Plot::Rtt, crate::plots::Plot::Bounds] {
            let picture = plot.spec(&m).unwrap().svg();
            assert!(
                picture.contains("largest 154 s cut off"),
                "{}",
                &picture[..3000]
            );
        }
    }
}
