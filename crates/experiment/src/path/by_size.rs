//! Capacity of each hop from packets of several sizes.
//!
//! **Method.** Packets with a hop limit of h are sent in six sizes. The shortest of a few round trips of each size met no
//! queue; it grows with the size by the sum of 1/capacity over the first h links, for an ICMP error has the same size
//! whatever it is about. The growth of hop h less that of the hop before is 1/capacity of its link. Rounds are cut into
//! blocks; the growth of each block is independent, so Student's t over the blocks gives the interval.
//!
//! **Source.** V. Jacobson, "pathchar", 1997; A. B. Downey, "Using pathchar to estimate Internet link characteristics",
//! SIGCOMM 1999; Chandele 2012, section 2.1 (variable packet size).
//!
//! **Deviations.** All packets are larger than what an ICMP error quotes (RFC 1812, section 4.3.2.3: 576 bytes with the
//! error; RFC 4443, section 2.4: 1280), for otherwise the error would grow, too.
//!
//! **Limits.** A switch that stores and forwards between two routers adds its links to theirs. Routers answer with little
//! precision, and once a second. A link that is much faster than the ones before it cannot be told. Parallel channels look
//! slower than they are.
//!
//! **Units.** Bytes of whole IP packets, ms.

use stats::{Figure, mean_interval, moments};

/// Rounds of each size in a block.
pub const TIMES: usize = 3;
/// Fewest blocks, and fewest sizes of a block, that tell.
const LEAST_BLOCKS: usize = 4;
const LEAST_SIZES: usize = 4;

/// Sizes of the packets, bytes.
pub fn sizes(v6: bool) -> [u32; 6] {
    match v6 {
        false => [600, 760, 920, 1080, 1240, 1400],
        true => [1300, 1340, 1380, 1420, 1460, 1500],
    }
}

/// Round trip of a packet to a hop.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Number of its block.
    pub block: usize,
    /// Size of the IP packet.
    pub bytes: u32,
    /// Round trip, ms.
    pub ms: f64,
}

/// Capacity of the link before each hop, bit/s; a hop of which nothing was heard has no samples.
pub fn capacities(hops: &[Vec<Sample>]) -> Vec<Figure> {
    let of = |h: usize| -> Figure {
        let before = h.checked_sub(1).map(|i| &hops[i]);
        if hops[h].is_empty() {
            return Figure::cannot_tell("the hop did not answer");
        }
        if before.is_some_and(Vec::is_empty) {
            return Figure::cannot_tell("the hop before it did not answer");
        }
        let blocks = hops[h].iter().map(|s| s.block).max().map_or(0, |b| b + 1);
        let steps = (0..blocks).filter_map(|block| {
            let here = growth(&hops[h], block)?;
            let there = before.map_or(Some(0.0), |b| growth(b, block))?;
            Some(here - there)
        });
        capacity(&steps.collect::<Vec<f64>>())
    };
    (0..hops.len()).map(of).collect()
}

/// Capacity from the growth of each block, ms a byte.
fn capacity(steps: &[f64]) -> Figure {
    let Some(m) = moments(steps).filter(|_| steps.len() >= LEAST_BLOCKS) else {
        return Figure::cannot_tell("too few of its answers came");
    };
    let Figure::Is { value, low, high } = mean_interval(&m, steps.len() as f64) else {
        return Figure::cannot_tell("too few of its answers came");
    };
    // Eight bits a byte, a thousand ms a second.
    let rate = |ms_per_byte: f64| 8e3 / ms_per_byte;
    if high <= 0.0 {
        return Figure::cannot_tell("the delay does not grow with the size");
    }
    if low <= 0.0 {
        let least = base::print::RATE.print(rate(high));
        return Figure::cannot_tell(format!(
            "the delay hardly grows with the size: the link is faster than {least}"
        ));
    }
    Figure::Is {
        value: rate(value),
        low: rate(high),
        high: rate(low),
    }
}

/// Growth of the shortest round trips with the size, ms a byte: the line of least squares through them.
fn growth(samples: &[Sample], block: usize) -> Option<f64> {
    let mut least = std::collections::BTreeMap::<u32, f64>::new();
    for s in samples.iter().filter(|s| s.block == block) {
        let ms = least.entry(s.bytes).or_insert(s.ms);
        *ms = ms.min(s.ms);
    }
    if least.len() < LEAST_SIZES {
        return None;
    }
    let n = least.len() as f64;
    let x = least.keys().map(|b| f64::from(*b)).sum::<f64>() / n;
    let y = least.values().sum::<f64>() / n;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (bytes, ms) in &least {
        let dx = f64::from(*bytes) - x;
        xy += dx * (ms - y);
        xx += dx * dx;
    }
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    /// Samples of hops with these capacities, bit/s: each packet waits before each link by chance, and now and then long.
    fn draw(rng: &mut Rng, capacities: &[f64], blocks: usize, wait_ms: f64) -> Vec<Vec<Sample>> {
        let mut all = Vec::new();
        for h in 1..=capacities.len() {
            let mut samples = Vec::new();
            for block in 0..blocks {
                for bytes in sizes(false) {
                    for _ in 0..TIMES {
                        let passes = capacities[..h].iter().map(|c| 8e3 * f64::from(bytes) / c);
                        let mut waits = 0.0;
                        for _ in 0..h {
                            let long = if uniform(rng) < 0.2 { 20.0 } else { 1.0 };
                            waits += -wait_ms * long * uniform(rng).max(1e-12).ln();
                        }
                        let ms = 5.0 * h as f64 + passes.sum::<f64>() + waits;
                        samples.push(Sample { block, bytes, ms });
                    }
                }
            }
            all.push(samples);
        }
        all
    }

    #[test]
    fn intervals_hold_the_capacity_as_often_as_they_say() {
        let (mut held, mut told, mut wrong) = (0, 0, 0);
        for seed in 0..300 {
            let mut rng = Streams::new(seed).stream("by-size");
            let capacities: Vec<f64> = (0..3)
                .map(|_| 1e6 * (100.0_f64).powf(uniform(&mut rng)))
                .collect();
            let hops = draw(&mut rng, &capacities, 8, 0.02);
            for (truth, figure) in capacities.iter().zip(super::capacities(&hops)) {
                match figure {
                    Figure::Is { low, high, .. } => {
                        told += 1;
                        held += usize::from((low..=high).contains(truth));
                    }
                    Figure::CannotTell { cannot_tell } => {
                        wrong += usize::from(cannot_tell.contains("does not grow"));
                    }
                }
            }
        }
        eprintln!(
            "seeds 0 to 299: {held} of {told} intervals hold the capacity; {wrong} without a bound"
        );
        assert!(told > 300, "{told}");
        let share = f64::from(held as u32) / f64::from(told as u32);
        assert!((0.92..0.985).contains(&share), "{share}");
        // A hop that seems to answer large packets earlier is rare, for it is outside of an interval of 95 %.
        assert!(wrong < 20, "{wrong}");
    }

    #[test]
    fn without_waits_the_capacity_is_exact_and_silence_is_no_figure() {
        let mut rng = Streams::new(1).stream("by-size");
        let mut hops = draw(&mut rng, &[1e7, 2e6, 5e7], 5, 0.0);
        for (truth, figure) in [1e7, 2e6, 5e7].iter().zip(capacities(&hops)) {
            let Figure::Is { value, low, high } = figure else {
                panic!("{figure:?}")
            };
            assert!((value / truth - 1.0).abs() < 1e-6 && high - low < 1e-3 * value);
        }
        hops[1].clear();
        let silent = capacities(&hops);
        assert!(silent[0].value().is_some() && silent[1].value().is_none());
        assert!(silent[2].value().is_none(), "the link behind a silent hop");
        hops[0].truncate(40);
        assert!(capacities(&hops)[0].value().is_none());
    }
}
