//! Division of time into blocks and slots, made before the probes are read.

use super::block::{Block, Counts};
use base::record::Exclusion;

const S: i64 = 1_000_000_000;
const MIN: i64 = 60 * S;
const HOUR: i64 = 3600 * S;

/// Lengths that divide an hour or a day without remainder.
const LENGTHS: [i64; 27] = [
    S / 1000,
    S / 500,
    S / 200,
    S / 100,
    S / 50,
    S / 20,
    S / 10,
    S / 5,
    S / 2,
    S,
    2 * S,
    5 * S,
    10 * S,
    20 * S,
    30 * S,
    MIN,
    2 * MIN,
    5 * MIN,
    10 * MIN,
    20 * MIN,
    30 * MIN,
    HOUR,
    2 * HOUR,
    4 * HOUR,
    6 * HOUR,
    12 * HOUR,
    24 * HOUR,
];

/// Number of blocks of a whole recording: enough to tell how samples depend on each other over time.
const BLOCKS: i64 = 480;
/// Number of blocks of a window or a span.
const PARTS: i64 = 24;
/// Number of ends of spans with which some blocks are in each union of them.
const MANY: usize = 400;
/// Greatest number of slots of a recording.
const SLOTS: i64 = 200_000;
/// Number of probes that makes a slot worth keeping: an outage is no shorter.
const PROBES_A_SLOT: i64 = 10;

/// Result of a first pass over the send times.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    span: Option<(i64, i64)>,
    rows: u64,
    last: Option<i64>,
    steps: Vec<i64>,
}

/// Number of steps between probes that are kept to find the usual interval.
const STEPS: usize = 200_000;

impl Outline {
    /// Adds a send time.
    pub fn add(&mut self, sent_ns: i64) {
        let (first, last) = self.span.unwrap_or((sent_ns, sent_ns));
        self.span = Some((first.min(sent_ns), last.max(sent_ns)));
        self.rows += 1;
        if self.steps.len() < STEPS {
            let step = self.last.map(|l| sent_ns.saturating_sub(l));
            self.steps.extend(step.filter(|s| *s > 0));
            self.last = Some(sent_ns);
        }
    }

    /// Adds a stretch of which only counts are left.
    pub fn add_thinned(&mut self, t_ns: i64, interval_ns: i64, sent: u64) {
        let end = t_ns.saturating_add((interval_ns - 1).max(0));
        let (first, last) = self.span.unwrap_or((t_ns, end));
        self.span = Some((first.min(t_ns), last.max(end)));
        self.rows = self.rows.saturating_add(sent);
        if self.steps.len() < STEPS && sent > 1 {
            let sent = i64::try_from(sent).unwrap_or(i64::MAX);
            self.steps.push(interval_ns / sent);
        }
    }

    /// Send times of the first and the last probe.
    pub fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// Number of send times.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Usual interval from one probe to the next; one second if there are not two probes.
    pub fn interval_ns(&self) -> i64 {
        let mut steps = self.steps.clone();
        if steps.is_empty() {
            return S;
        }
        let middle = steps.len() / 2;
        *steps.select_nth_unstable(middle).1
    }
}

/// Times between which figures are kept apart.
#[derive(Clone, Debug, Default)]
pub struct Cuts {
    /// Begins of days, ascending, the first not after the recording's begin; the last entry ends the last day.
    pub days: Vec<i64>,
    /// Length of the windows that each day is divided into.
    pub window_ns: Option<i64>,
    /// Further instants: ends of phases and spans.
    pub edges: Vec<i64>,
    /// Excluded times.
    pub exclusions: Vec<Exclusion>,
    /// Limits of reliability, ascending.
    pub limits_ns: Vec<i64>,
}

/// Division of time into blocks and slots.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End of the plan, after the last probe.
    pub to_ns: i64,
    /// Usual interval between probes, ns.
    pub interval_ns: i64,
    /// Length of a slot, ns.
    pub slot_ns: i64,
    /// Length of a block, ns.
    pub block_ns: i64,
    /// Times between which figures are kept apart.
    pub cuts: Cuts,
}

impl Plan {
    /// Divides the time of `outline`; `None` if no probe was sent.
    pub fn new(outline: &Outline, cuts: Cuts) -> Option<Plan> {
        let (from_ns, last) = outline.span()?;
        let to_ns = last.saturating_add(1);
        let span = to_ns.saturating_sub(from_ns).max(1);
        // Two probes years apart are no interval, and its multiples overflow.
        let interval_ns = outline.interval_ns().clamp(1, 7 * 86_400 * S);
        let down = |most: i64| {
            *LENGTHS
                .iter()
                .rev()
                .find(|l| **l <= most)
                .unwrap_or(&LENGTHS[0])
        };
        let up = |least: i64| {
            *LENGTHS
                .iter()
                .find(|l| **l >= least)
                .unwrap_or(&LENGTHS[26])
        };
        // A window should have some blocks of its own, to know its own doubt.
        let wanted = cuts
            .window_ns
            .map_or(i64::MAX, |w| w / PARTS)
            .min(span / BLOCKS);
        Some(Plan {
            from_ns,
            to_ns,
            interval_ns,
            // An interval of 100.01 ms, as stamps tell it, is one of 100 ms.
            slot_ns: up((PROBES_A_SLOT * (interval_ns - interval_ns / 20)).max(span / SLOTS)),
            block_ns: down(wanted).max(up(interval_ns)),
            cuts,
        })
    }

    /// Least length of the gaps and outages that are looked for.
    pub fn shortest_hole_ns(&self) -> i64 {
        self.slot_ns.max(PROBES_A_SLOT * self.interval_ns)
    }

    pub(super) fn probes_a_block(&self) -> usize {
        (self.block_ns / self.interval_ns + 2).min(1_000_000) as usize
    }

    /// Further cuts, for a short span to have some blocks of its own, too. Where there are many spans, they have.
    fn parts(&self) -> Vec<i64> {
        let mut edges = self.cuts.edges.clone();
        edges.retain(|t| (self.from_ns..=self.to_ns).contains(t));
        edges.sort_unstable();
        let cut = |e: &[i64]| {
            let length = e[1] - e[0];
            let part = (length / PARTS).max(PROBES_A_SLOT * self.interval_ns);
            let count = if part < self.block_ns {
                length / part
            } else {
                0
            };
            let from = e[0];
            (1..count).map(move |k| from + k * part)
        };
        match edges.len() {
            0..=MANY => edges.windows(2).flat_map(cut).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut edges = vec![self.from_ns, self.to_ns];
        let days = &self.cuts.days;
        let ends = days.iter().skip(1).copied().chain([i64::MAX]);
        for (begin, end) in days.iter().zip(ends) {
            let (from, to) = (self.from_ns.max(*begin), self.to_ns.min(end));
            edges.push(*begin);
            for length in [Some(self.block_ns), self.cuts.window_ns]
                .into_iter()
                .flatten()
            {
                let first = (from - begin).div_euclid(length);
                edges.extend(
                    (first..)
                        .map(|k| begin + k * length)
                        .take_while(|t| *t < to),
                );
            }
        }
        edges.extend(&self.cuts.edges);
        edges.extend(self.parts());
        for x in &self.cuts.exclusions {
            edges.extend([x.from_ns, x.to_ns]);
        }
        edges.retain(|t| (self.from_ns..=self.to_ns).contains(t));
        edges.sort_unstable();
        edges.dedup();
        let block = |e: &[i64]| Block {
            from_ns: e[0],
            to_ns: e[1],
            counts: Counts::default(),
            rtts: Vec::new(),
            variations: Vec::new(),
            excluded: self
                .cuts
                .exclusions
                .iter()
                .position(|x| x.from_ns <= e[0] && e[1] <= x.to_ns),
        };
        edges.windows(2).map(block).collect()
    }
}
