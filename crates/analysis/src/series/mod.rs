//! Delays of weeks: the probes of one target, read once in any order. They are kept so that exact figures of the whole,
//! a day, a window or any requested span come from the same numbers.
//!
//! **Method.** Time is cut into blocks: at midnight, at every requested edge, and at regular intervals in between. A
//! block counts its probes by fate and keeps their round trips in ascending order. Figures of a span are those of the
//! union of its blocks: counts and moments add, quantiles are found among several ascending runs without merging them
//! (`stats::runs`), and the blocks' own means tell how much the samples depend on each other (`stats`). Beside the
//! blocks, short slots serve for gaps, outages, base line and the worst sliding window (`slots`).
//!
//! **Limits.** 12 bytes for each answered probe stay in memory. Probes that were thinned to histograms count with three
//! digits, and have no delay variation.

mod block;
mod kept_back;
pub mod plan;
pub mod slots;
mod successive;

use base::histogram::Histogram;
use base::record::Status;
pub use block::{Block, Counts, Probe, VARIATION_NS, overlaps};
pub use kept_back::KeptBack;
pub use plan::{Cuts, Outline, Plan};
use slots::Slots;
use successive::Successive;

/// Maximum number of thinned round trips in memory, 2 GiB.
const MOST_RTTS: u64 = 1 << 28;
/// Maximum number of thinned probes: slots count with 32 bits.
const MOST_PROBES: u64 = 1 << 31;

/// Error for thinned intervals that hold more probes than figures can be computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the thinned intervals up to here hold more than {most} {what}. Choose a shorter range with --from and --to"
)]
pub struct TooMany {
    most: u64,
    what: &'static str,
}

/// Block of an instant; `at` is the index of the block before, which is mostly the same.
fn block_at<'b>(blocks: &'b mut [Block], at: &mut usize, t_ns: i64) -> Option<&'b mut Block> {
    let holds = |b: &Block| (b.from_ns..b.to_ns).contains(&t_ns);
    if !blocks.get(*at).is_some_and(holds) {
        let after = blocks.partition_point(|b| b.from_ns <= t_ns);
        *at = after.checked_sub(1)?;
    }
    blocks.get_mut(*at).filter(|b| holds(b))
}

/// The probes of one target.
#[derive(Clone, Debug)]
pub struct Series {
    /// Division of time.
    pub plan: Plan,
    /// Blocks in order.
    pub blocks: Vec<Block>,
    /// Slots in order.
    pub slots: Slots,
    /// True if some of the round trips come from histograms.
    pub rounded: bool,
    /// Stretches in which the network kept probes from leaving, in order.
    cut_off: Vec<(i64, i64)>,
    /// Probes that it kept from leaving.
    kept_back: Vec<KeptBack>,
    /// True if round trips are not kept, only the data for gaps and outages.
    holes_only: bool,
    /// Thinned probes and their round trips so far.
    thinned: (u64, u64),
    /// Last probes, for their delay variation.
    successive: Successive,
    /// The block of the last probe: the next one is mostly in it too.
    at: usize,
    /// The block of the last pair of probes, which is older than the last probe.
    pair_at: usize,
    /// Expected number of probes in a block.
    probes_a_block: usize,
}

impl Series {
    /// Creates an empty series.
    pub fn new(plan: Plan) -> Series {
        let blocks: Vec<Block> = plan.blocks();
        Series {
            slots: Slots::new(&plan),
            successive: Successive::new(plan.interval_ns),
            probes_a_block: plan.probes_a_block(),
            blocks,
            plan,
            rounded: false,
            cut_off: Vec::new(),
            kept_back: Vec::new(),
            holes_only: false,
            thinned: (0, 0),
            at: 0,
            pair_at: 0,
        }
    }

    /// Creates a series for gaps, outages and availability alone, which takes no memory for round trips.
    pub fn of_holes(plan: Plan) -> Series {
        Series {
            holes_only: true,
            ..Series::new(plan)
        }
    }

    /// Sets the times in which the network kept probes from leaving, which count as not answered. Call this before
    /// adding a probe.
    pub fn cut_off(&mut self, spans: Vec<(i64, i64)>) {
        self.cut_off = spans;
    }

    /// True if the slot of length `length_ns` overlaps a stretch in which the network kept probes from leaving. The
    /// label of a probe may lie an interval before the refusal that it met.
    fn is_cut_off(&self, t_ns: i64, length_ns: i64) -> bool {
        overlaps(&self.cut_off, t_ns, length_ns.max(self.plan.interval_ns))
    }

    fn block_at(&mut self, t_ns: i64) -> Option<&mut Block> {
        block_at(&mut self.blocks, &mut self.at, t_ns)
    }

    /// Adds a probe; probes outside the plan's span are ignored.
    pub fn add(&mut self, p: Probe) {
        let expected = self.probes_a_block;
        let cut_off = p.status == Status::NotSent && self.is_cut_off(p.sent_ns, 0);
        let keeps_rtts = !self.holes_only;
        let Some(block) = self.block_at(p.sent_ns) else {
            return;
        };
        block.counts.count(p.status);
        block.counts.cut_off += u64::from(cut_off);
        if let (Some(rtt), true) = (p.rtt(), keeps_rtts) {
            if block.rtts.capacity() == 0 {
                block.rtts.reserve_exact(expected);
            }
            block.rtts.push(rtt);
        }
        if block.excluded.is_none() {
            self.slots.add(p, cut_off);
            if cut_off {
                let interval = self.plan.interval_ns;
                kept_back::push(&mut self.kept_back, p.sent_ns, 1, interval);
            }
        }
        if let (Some(rtt), true) = (p.rtt(), keeps_rtts) {
            let pair = self.successive.add(p.sent_ns, rtt);
            self.vary(pair);
        }
    }

    /// Adds the delay variation of a pair to the block of its later probe.
    fn vary(&mut self, pair: Option<(i64, i64)>) {
        let Some((sent_ns, step_ns)) = pair else {
            return;
        };
        let expected = self.probes_a_block;
        if let Some(block) = block_at(&mut self.blocks, &mut self.pair_at, sent_ns) {
            if block.variations.capacity() == 0 {
                block.variations.reserve_exact(expected);
            }
            let size = step_ns.unsigned_abs() / VARIATION_NS.unsigned_abs();
            block
                .variations
                .push(u32::try_from(size).unwrap_or(u32::MAX));
        }
    }

    /// Counts the probes of a thinned interval, before they take memory.
    fn admit(&mut self, counts: &Counts, histogram: &Histogram) -> Result<(), TooMany> {
        let due = counts.sent().saturating_add(counts.not_sent);
        let rtts = if self.holes_only { 0 } else { histogram.len() };
        let (probes, kept) = self.thinned;
        let (probes, kept) = (probes.saturating_add(due), kept.saturating_add(rtts));
        for (n, most, what) in [
            (probes.max(histogram.len()), MOST_PROBES, "probes"),
            (kept, MOST_RTTS, "round trips"),
        ] {
            if n > most {
                return Err(TooMany { most, what });
            }
        }
        self.thinned = (probes, kept);
        Ok(())
    }

    /// An interval whose probes were thinned out to counts and a histogram.
    ///
    /// # Errors
    /// All thinned intervals together hold too many probes.
    pub fn add_thinned(
        &mut self,
        t_ns: i64,
        interval_ns: i64,
        counts: &Counts,
        histogram: &Histogram,
    ) -> Result<(), TooMany> {
        if self.block_at(t_ns).is_none() {
            return Ok(());
        }
        self.admit(counts, histogram)?;
        let cut_off = counts.not_sent > 0 && self.is_cut_off(t_ns, interval_ns);
        let counts = &Counts {
            cut_off: if cut_off { counts.not_sent } else { 0 },
            ..*counts
        };
        let keeps_rtts = !self.holes_only;
        let Some(block) = self.block_at(t_ns) else {
            return Ok(());
        };
        block.counts.add(counts);
        let kept = histogram.counts_us().filter(|_| keeps_rtts);
        for (us, n) in kept {
            let rtt = (us as i64).saturating_mul(1000);
            block.rtts.extend(std::iter::repeat_n(rtt, n as usize));
        }
        let excluded = block.excluded.is_some();
        self.rounded |= !histogram.is_empty();
        if !excluded {
            self.slots.add_thinned(t_ns, interval_ns, counts, histogram);
            if counts.cut_off > 0 {
                let interval = self.plan.interval_ns;
                kept_back::push(&mut self.kept_back, t_ns, counts.cut_off, interval);
            }
        }
        Ok(())
    }

    /// Sorts the round trips, on `threads` threads.
    pub fn finish(&mut self, threads: usize) {
        while !self.successive.is_empty() {
            let pair = self.successive.next();
            self.vary(pair);
        }
        let share = self.blocks.len().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for part in self.blocks.chunks_mut(share) {
                scope.spawn(|| {
                    for b in part {
                        b.rtts.sort_unstable();
                        b.variations.sort_unstable();
                    }
                });
            }
        });
    }

    /// Stretches of the probes that the network kept from leaving, in order and apart.
    pub fn kept_back(&self) -> Vec<KeptBack> {
        kept_back::joined(self.kept_back.clone(), self.plan.interval_ns)
    }

    /// Blocks that figures count, in time order.
    pub fn counted(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|b| b.excluded.is_none())
    }

    /// Blocks of a span whose edges the plan knows.
    pub fn within(&self, from_ns: i64, to_ns: i64) -> Vec<&Block> {
        let first = self.blocks.partition_point(|b| b.from_ns < from_ns);
        self.blocks[first..]
            .iter()
            .take_while(|b| b.to_ns <= to_ns)
            .filter(|b| b.excluded.is_none())
            .collect()
    }
}
