//! Chirps: datagrams with ever shorter gaps. The rate at which the delay begins to grow and does not fall back is the
//! available rate.
//!
//! **Source.** Ribeiro, Riedi, Baraniuk, Navratil, Cottrell, "pathChirp: Efficient Available Bandwidth Estimation for
//! Network Paths", PAM 2003, sections 3.2 and 3.3, with its decrease factor 1.5 and busy period 5.
//!
//! **Deviations.** Waits grow only where they do so by more than the stamps' noise. The interval reaches down by the method's
//! bias: a chirp ends before the queue of cross traffic has grown, so it reads up to a third of the capacity too high
//! (docs/book/probe/random.md).

use super::super::trains::of_stage;
use super::pairs::jitter;
use base::Duration;
use base::program::{Shot, Step, Train};
use stats::Figure;

/// Ratio of one gap to the next.
const SPREAD: f64 = 1.1;
/// Lowest rate of a chirp, as a share of the capacity.
const FROM: f64 = 0.1;
const TO: f64 = 1.5;
/// Factor by which the delay must fall for an excursion to end.
const DECREASE: f64 = 1.5;
/// Noise of the stamps: waits that differ by less than this share of a packet's transmission time are equal.
const NOISE: f64 = 0.05;
/// Bias of a chirp beside cross traffic, as a share of the capacity; 0.34 is the largest seen in 150 draws.
const BIAS: f64 = 0.35;
/// Shortest excursion, in packets.
const BUSY: usize = 5;

/// Program of one chirp, repeated, each followed by a silence.
pub fn step(payload: u32, bits: f64, capacity: f64, times: u64, silence: f64) -> Step {
    let mut shots = Vec::new();
    let mut rate = FROM * capacity;
    while rate < TO * capacity {
        shots.push(Shot {
            payload,
            gap: Duration::from_secs_f64(bits / rate),
        });
        rate *= SPREAD;
    }
    shots.push(Shot {
        payload,
        gap: Duration::from_secs_f64(silence),
    });
    Step::new(times, shots)
}

/// Length of a chirp without the silence, s.
pub fn length(bits: f64, capacity: f64) -> f64 {
    bits / (FROM * capacity) / (1.0 - 1.0 / SPREAD)
}

/// Available rate by one chirp: waits and gaps in s. A wait that grows by less than `noise` has not grown.
fn one(waits: &[f64], gaps: &[f64], bits: f64, noise: f64) -> f64 {
    let n = gaps.len();
    let rate = |k: usize| bits / gaps[k];
    let mut each: Vec<Option<f64>> = vec![None; n];
    let mut last = n - 1;
    let mut i = 0;
    while i < n {
        if waits[i + 1] <= waits[i] + noise {
            i += 1;
            continue;
        }
        // An excursion begins: until the wait has fallen to a part of its highest rise.
        let mut top = 0.0_f64;
        let end = (i + 1..=n).find(|j| {
            top = top.max(waits[*j] - waits[i]);
            waits[*j] - waits[i] < top / DECREASE
        });
        match end {
            Some(j) => {
                if j - i >= BUSY {
                    for k in i..j.min(n) {
                        if waits[k] <= waits[k + 1] {
                            each[k] = Some(rate(k));
                        }
                    }
                }
                i = j;
            }
            None => {
                // It lasts to the end of the chirp: from here on the line is full.
                each[i..n].fill(Some(rate(i)));
                last = i;
                break;
            }
        }
    }
    let time: f64 = gaps.iter().sum();
    let sum: f64 = (0..n)
        .map(|k| each[k].unwrap_or(rate(last)) * gaps[k])
        .sum();
    sum / time
}

/// Available rate by all chirps.
pub fn free(trains: &[Train], capacity: f64, bits: f64) -> Figure {
    let mut all = Vec::new();
    let mut gaps_seen = Vec::new();
    for train in of_stage(trains, "chirp") {
        let Some(step) = train.facts.program.steps().first() else {
            continue;
        };
        let gaps: Vec<f64> = step.shots.iter().map(|s| s.gap.as_secs_f64()).collect();
        let gaps = &gaps[..gaps.len() - 1];
        for chirp in train.fates.chunks_exact(step.shots.len()) {
            let delays: Option<Vec<f64>> = chirp
                .iter()
                .map(|f| Some((f.received_ns? - f.sent_ns?) as f64 * 1e-9))
                .collect();
            gaps_seen.extend(chirp.windows(2).filter_map(|two| {
                let gap = two[1].received_ns? - two[0].received_ns?;
                Some(gap as f64 * 1e-9)
            }));
            // The authors leave out chirps that lost a packet.
            if let Some(delays) = delays {
                all.push(one(&delays, gaps, bits, NOISE * bits / capacity).min(capacity));
            }
        }
    }
    if all.len() < 5 {
        return Figure::cannot_tell(format!(
            "{} chirps arrived whole, and five are needed",
            all.len()
        ));
    }
    if let Some(why) = jitter(gaps_seen.into_iter(), bits / capacity) {
        return Figure::cannot_tell(why);
    }
    match stats::mean_figure(&all) {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low: (low - BIAS * capacity).max(0.0),
            high,
        },
        untold => untold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_line_bends_the_delay_where_the_chirp_reaches_its_rate() {
        // 12 kbit at 2 Mbit/s are 6 ms: the delay grows from the first gap below that on.
        let gaps: Vec<f64> = (0..28).map(|k| 0.06 / SPREAD.powi(k)).collect();
        let mut waits = vec![0.0];
        for gap in &gaps {
            let wait: f64 = waits[waits.len() - 1];
            waits.push((wait + 0.006 - gap).max(0.0));
        }
        let said = one(&waits, &gaps, 12_000.0, 0.0);
        assert!((1.8e6..2.3e6).contains(&said), "{said}");
    }
}
