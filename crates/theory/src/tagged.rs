//! A tagged flow through a finite queue in slots of time, solved by convolutions: what each of its datagrams finds before
//! it, and how far consecutive ones differ.
//!
//! In a slot the background brings work W (the mixture of [`super::mixture`]) and the link serves one datagram of mean
//! size. A datagram of the flow that arrives in a slot waits for the queue L and for that slot's W, which is served before
//! it; then come k slots to the next of its kind.
//!
//! **Source.** Thombre 2020, sections 4.2 and 4.3, (4.11)–(4.26).
//!
//! **Deviations.** The printed equations cannot be right in four places; in each the law that the text describes is taken:
//! - (4.11) takes the Weibull *density* at whole numbers for probabilities; for shapes below 1 it is infinite at 0, and
//!   the sum is not 1. Here a gap has k slots where the Weibull variable lies between k−1 and k.
//! - (4.12), (4.15) and (4.16) add densities where random variables are added. A sum of variables has the convolution
//!   of their densities, as (4.6) and (4.21) say: q₁ = q₀ ⊗ w shifted by the datagram itself, q_{k+1} = q_k ⊗ w.
//! - (4.17) serves a datagram in each slot, which (4.14)–(4.16) leave out; the buffer's end I cuts nothing off there. Here
//!   a slot is L ← max(min(L + W, I) − 1, 0).
//! - (4.22) sums L·q over j; the mean is Σ j·q(j). (4.24) needs the joint law of two consecutive delays, not the
//!   difference of two laws: each starting state is carried through the gap by itself.
//!
//! **Units.** Work in cells, a few to a datagram of mean size; what falls between two cells is parted so that its mean stays.

use crate::mixture::{Mixture, MixtureParams, Sizes};
use crate::model::{
    Example, Measure, Model, OutOfModel, RATES, SHARES, SURE, TIMES, output, seconds,
};
use base::spec::{Params as _, params};
use base::{BitsPerSec, Duration};
use statrs::function::gamma::{gamma_ur, ln_gamma};
use std::cmp::Ordering;

/// Cells of a buffer, where a datagram has at least one.
const CELLS: usize = 120;
/// Steps to a cell while the background's law is put together.
const FINER: usize = 8;
/// Probability mass that a sum may leave out.
const NEGLIGIBLE: f64 = 1e-10;
/// Peak jitter is exceeded by one datagram in this many.
const PEAK: f64 = 1000.0;

params! {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct TaggedParams for "tagged": "Delay and jitter of one flow beside TCP and UDP, in slots of time, by convolution", ["Thombre 2020, sections 4.2, 4.3, (4.11)-(4.26), put right where they cannot hold"] {
        /// share α of TCP in the traffic
        share: f64 as Probability = "0.92" [SHARES], "Thombre 2020, section 3.1";
        /// datagrams of mean size that fit
        buffer: usize as Packets = "50" ["2".."200"], "ns-2's default";
        /// number n of the flow's datagram, counted from an empty queue
        number: u64 = "20" ["1".."100000"], "Thombre 2020, figure 4.3";
        /// shape of the gaps between the tagged flow's datagrams
        gap_shape: f64 = "0.52512" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of these gaps, in slots
        gap_scale: f64 = "1.50925" ["0.01".."1000"], "Thombre 2020, table 3.1";
        /// datagrams that the link serves in a unit of time, θ
        served: f64 = "10" ["0.000001".."1000000000"], "none: Thombre 2020 prints none";
        /// if given, rate of the link, from which θ follows; `served` is then ignored
        rate: Option<BitsPerSec> [RATES];
        /// random: Weibull; fixed: 1500 bytes of TCP and 210 of UDP
        sizes: Sizes = "random", "Thombre 2020, section 4.1";
        /// unit of time in which datagrams are counted
        unit: Duration = "1ms" [TIMES], "none: Thombre 2020 prints none";
        /// shape β of TCP's arrival rate
        tcp_rate_shape: f64 = "1.34266" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale η of TCP's arrival rate, in datagrams in a unit of time
        tcp_rate_scale: f64 = "10.8176" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
        /// shape of the size of a TCP segment
        tcp_size_shape: f64 = "0.811221" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of the size of a TCP segment, in bytes
        tcp_size_scale: f64 = "712.344" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
        /// shape of UDP's arrival rate
        udp_rate_shape: f64 = "1.29519" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of UDP's arrival rate, in datagrams in a unit of time
        udp_rate_scale: f64 = "2.72557" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
        /// shape of the size of a UDP datagram
        udp_size_shape: f64 = "1.10141" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of the size of a UDP datagram, in bytes
        udp_size_scale: f64 = "826.505" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
    }
}

/// Model of one flow beside background traffic.
pub static TAGGED: Model = Model {
    entry: TaggedParams::ENTRY,
    formula: "a slot = unit/θ: L ← max(min(L + W, I) − 1, 0), law of L + W = q ⊗ w;  gap of k slots: f(k) = e^(−((k−1)/η)^β) − e^(−(k/η)^β);  q of the next datagram = Σ f(k)·q_k;  delay = (L + W) slots;  jitter = delay of the next − its own, by their joint law",
    limits: "Background work is independent from slot to slot, a datagram of the flow has the mean size, and the buffer holds work. (4.12) and (4.15)-(4.16) as printed add densities where convolutions belong; (4.11) takes a density for a probability.",
    outputs: &[
        output(
            "load",
            Measure::Share,
            "background and the flow over what is served",
        ),
        output(
            "delay",
            Measure::Time,
            "mean of the nth datagram that gets in",
        ),
        output("steady", Measure::Time, "the same, long after the begin"),
        output("loss", Measure::Share, "of the flow's datagrams, then"),
        output(
            "jitter",
            Measure::Time,
            "mean difference of two delays in a row, longer or shorter",
        ),
        output(
            "peak",
            Measure::Time,
            "what one of 1000 differences exceeds",
        ),
    ],
    example: Example {
        given: "share=1,served=10,sizes=fixed,tcp_rate_shape=1,tcp_rate_scale=5,gap_shape=1,gap_scale=10,number=1,unit=10ms",
        by_hand: "A slot is 10 ms/10 = 1 ms. The background brings 5/10 = 0.5 datagrams in it, and the first of the flow waits for just these: 0.5 ms. Gaps are geometric, 1/(1 − e^(−0.1)) = 10.51 slots: load 0.5 + 0.09516.",
        gives: &[("delay", 0.5e-3), ("load", 0.595_16)],
    },
    doubt: SURE,
    compute: |w| {
        let given: TaggedParams = w.read();
        let law = Tagged::of(&given)?;
        let slot = seconds(given.unit) / law.served;
        let number = given.number;
        let first = law.at(number);
        let steady = law.steady();
        let (delay, _) = law.delay(&first);
        let (late, loss) = law.delay(&steady);
        let (jitter, peak) = law.jitter(&steady);
        Ok(vec![
            Some(law.load),
            Some(delay * slot),
            Some(late * slot),
            Some(loss),
            Some(jitter * slot),
            Some(peak * slot),
        ])
    },
};

macro_rules! background {
    ($given:ident: $($field:ident),+) => { MixtureParams { $($field: $given.$field),+ } };
}

impl TaggedParams {
    /// The background alone.
    fn background(&self) -> MixtureParams {
        background!(self: share, served, rate, sizes, unit, tcp_rate_shape, tcp_rate_scale,
            tcp_size_shape, tcp_size_scale, udp_rate_shape, udp_rate_scale, udp_size_shape, udp_size_scale)
    }
}

/// Mean gap in slots: the sum of the shares beyond 0, 1, 2, …, continued as an integral where they change slowly.
fn mean_gap(shape: f64, scale: f64) -> f64 {
    const SUMMED: u32 = 10_000;
    let reach = |k: f64| (k / scale).powf(shape);
    let summed: f64 = (0..SUMMED).map(|k| (-reach(f64::from(k))).exp()).sum();
    let from = reach(f64::from(SUMMED) - 0.5);
    let rest = (scale.ln() + ln_gamma(1.0 + 1.0 / shape)).exp() * gamma_ur(1.0 / shape, from);
    summed + rest
}

/// The queue as the tagged flow meets it.
struct Tagged {
    load: f64,
    served: f64,
    /// Cells of a datagram, and of the buffer.
    datagram: usize,
    cells: usize,
    /// Law of the background's work in a slot; the last entry holds all beyond.
    work: Vec<f64>,
    /// Share of it that is as much as that or more.
    beyond: Vec<f64>,
    /// Transition from the queue after one datagram of the flow to the queue that the next one finds: the slots'
    /// transitions summed over the law of the gap.
    over: Vec<Vec<f64>>,
}

impl Tagged {
    fn of(given: &TaggedParams) -> Result<Tagged, OutOfModel> {
        let mixture = Mixture::of(&given.background());
        let buffer = given.buffer;
        let datagram = (CELLS / buffer).max(1);
        let cells = buffer * datagram;
        let (shape, scale) = (given.gap_shape, given.gap_scale);
        let beyond = |k: usize| (-(k as f64 / scale).powf(shape)).exp();
        let mean = mean_gap(shape, scale);
        let work = work(&mixture, datagram, cells);
        let mut beyond_work = vec![0.0; work.len() + 1];
        for (i, p) in work.iter().enumerate().rev() {
            beyond_work[i] = beyond_work[i + 1] + p;
        }
        let mut tagged = Tagged {
            load: mixture.load() + 1.0 / mean,
            served: mixture.served,
            datagram,
            cells,
            work,
            beyond: beyond_work,
            over: Vec::new(),
        };
        tagged.over = tagged.through_a_gap(beyond);
        Ok(tagged)
    }

    /// Work ahead of the datagram that arrives in a slot: the queue and the background's work.
    fn ahead(&self, queue: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.cells + 1];
        for (l, q) in queue.iter().enumerate().filter(|(_, q)| **q > 0.0) {
            let room = (self.cells - l).min(self.work.len());
            for (s, p) in sum[l..].iter_mut().zip(&self.work[..room]) {
                *s += q * p;
            }
            sum[self.cells] += q * self.beyond[room];
        }
        sum
    }

    /// Queue after the service of one datagram.
    fn serve(&self, mut queue: Vec<f64>) -> Vec<f64> {
        let gone: f64 = queue.drain(..self.datagram).sum();
        queue[0] += gone;
        queue.resize(self.cells + 1, 0.0);
        queue
    }

    fn through_a_gap(&self, beyond: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
        let n = self.cells + 1;
        (0..n)
            .map(|from| {
                let mut queue = vec![0.0; n];
                queue[from] = 1.0;
                let mut found = vec![0.0; n];
                for k in 1.. {
                    let share = beyond(k - 1) - beyond(k);
                    for (f, q) in found.iter_mut().zip(&queue) {
                        *f += share * q;
                    }
                    let next = self.serve(self.ahead(&queue));
                    let change: f64 = next.iter().zip(&queue).map(|(a, b)| (a - b).abs()).sum();
                    let left = beyond(k);
                    queue = next;
                    if left * change < NEGLIGIBLE {
                        // What is left no longer depends on how long the gap is.
                        for (f, q) in found.iter_mut().zip(&queue) {
                            *f += left * q;
                        }
                        break;
                    }
                }
                found
            })
            .collect()
    }

    /// Share of the datagrams that fit behind this backlog: a cell stands for half a cell more or less.
    fn fits(&self, ahead: usize) -> f64 {
        match (ahead + self.datagram).cmp(&self.cells) {
            Ordering::Less => 1.0,
            Ordering::Equal => 0.5,
            Ordering::Greater => 0.0,
        }
    }

    /// Law of the queue that the next datagram finds, given that of the one before.
    fn next(&self, queue: &[f64]) -> Vec<f64> {
        let mut after = vec![0.0; self.cells + 1];
        for (ahead, p) in self.ahead(queue).into_iter().enumerate() {
            let fits = self.fits(ahead);
            after[ahead] += p * (1.0 - fits);
            if fits > 0.0 {
                after[ahead + self.datagram] += p * fits;
            }
        }
        let after = self.serve(after);
        let mut found = vec![0.0; self.cells + 1];
        for (row, p) in self.over.iter().zip(&after).filter(|(_, p)| **p > 0.0) {
            for (f, q) in found.iter_mut().zip(row) {
                *f += p * q;
            }
        }
        found
    }

    fn empty(&self) -> Vec<f64> {
        let mut queue = vec![0.0; self.cells + 1];
        queue[0] = 1.0;
        queue
    }

    /// Law of the queue that the datagram of this number finds; the first finds it empty.
    fn at(&self, number: u64) -> Vec<f64> {
        let mut queue = self.empty();
        for _ in 1..number {
            let next = self.next(&queue);
            let change: f64 = next.iter().zip(&queue).map(|(a, b)| (a - b).abs()).sum();
            queue = next;
            if change < NEGLIGIBLE {
                break;
            }
        }
        queue
    }

    /// Stationary law: the one that the step to the next datagram leaves unchanged. It is found by eliminating the
    /// states one by one without a subtraction (Grassmann, Taksar and Heyman 1985).
    fn steady(&self) -> Vec<f64> {
        let n = self.cells + 1;
        let mut chain: Vec<Vec<f64>> = (0..n)
            .map(|from| {
                let mut queue = vec![0.0; n];
                queue[from] = 1.0;
                self.next(&queue)
            })
            .collect();
        for out in (1..n).rev() {
            let row = chain[out].clone();
            let leaves: f64 = row[..out].iter().sum();
            for from in chain[..out].iter_mut() {
                let share = from[out] / leaves;
                from[out] = share;
                for (to, p) in from[..out].iter_mut().zip(&row) {
                    *to += share * p;
                }
            }
        }
        let mut law = vec![1.0; n];
        for to in 1..n {
            law[to] = (0..to).map(|from| law[from] * chain[from][to]).sum();
        }
        let all: f64 = law.iter().sum();
        law.iter().map(|p| p / all).collect()
    }

    /// Mean delay of the datagrams that enter the queue, in slots, and the share that does not.
    fn delay(&self, queue: &[f64]) -> (f64, f64) {
        let ahead = self.ahead(queue);
        let inside = || ahead.iter().enumerate().map(|(a, p)| (a, p * self.fits(a)));
        let share: f64 = inside().map(|(_, p)| p).sum();
        let sum: f64 = inside().map(|(a, p)| a as f64 * p).sum();
        (sum / share / self.datagram as f64, (1.0 - share).max(0.0))
    }

    /// Jitter of two successive datagrams that both enter the queue: the mean difference of their delays, and the peak.
    fn jitter(&self, queue: &[f64]) -> (f64, f64) {
        let mut differences = vec![0.0; self.cells + 1];
        for (ahead, p) in self.ahead(queue).into_iter().enumerate() {
            let fits = self.fits(ahead);
            if fits == 0.0 {
                continue;
            }
            // Served for a slot, it leaves as much as was there before it.
            for (then, q) in self.ahead(&self.over[ahead]).into_iter().enumerate() {
                differences[ahead.abs_diff(then)] += p * fits * q * self.fits(then);
            }
        }
        let all: f64 = differences.iter().sum();
        let mean = differences
            .iter()
            .enumerate()
            .map(|(d, p)| d as f64 * p)
            .sum::<f64>()
            / all;
        let mut beyond = all;
        let peak = differences.iter().position(|p| {
            beyond -= p;
            beyond <= all / PEAK
        });
        let slots = self.datagram as f64;
        (mean / slots, peak.unwrap_or(self.cells) as f64 / slots)
    }
}

/// ∫S from 0 to 1, where S may fall infinitely steeply at 0: summed in equal steps of the logarithm.
fn begin(above: impl Fn(f64) -> f64) -> f64 {
    const STEP: f64 = 0.125;
    let sum: f64 = (0..320)
        .map(|i| {
            let x = (-(f64::from(i) + 0.5) * STEP).exp();
            x * above(x)
        })
        .sum();
    sum * STEP
}

/// The law of the background's work in a slot, in cells: the convolution of what TCP and what UDP bring.
fn work(mixture: &Mixture, datagram: usize, cells: usize) -> Vec<f64> {
    // Bytes of a step: a slot is the time of one datagram of mean size, so a slot's work is that of a unit over θ.
    let step = mixture.mean_size() / (datagram * FINER) as f64 * mixture.served;
    let steps = cells * FINER;
    let [tcp, udp] = mixture.parts().map(|(weight, stream)| {
        let mut law = vec![0.0; steps + 1];
        if weight == 0.0 {
            law[0] = 1.0;
            return law;
        }
        let above = |x: f64| stream.above(x * step / weight);
        let mut low = 1.0;
        for i in 0..steps {
            let from = i as f64;
            let high = above(from + 1.0);
            // The mean of what lies between two steps is from + (∫S − S(from + 1)) over its mass.
            let under = match i {
                0 => begin(above),
                _ => (low + 4.0 * above(from + 0.5) + high) / 6.0,
            };
            let mass = low - high;
            let up = (under - high).clamp(0.0, mass);
            law[i] += mass - up;
            law[i + 1] += up;
            low = high;
        }
        law[steps] += low;
        law
    });
    let mut fine = vec![0.0; steps + 1];
    for (i, p) in tcp.iter().enumerate().filter(|(_, p)| **p > 1e-18) {
        for (j, q) in udp.iter().enumerate() {
            fine[(i + j).min(steps)] += p * q;
        }
    }
    let mut law = vec![0.0; cells + 1];
    for (i, p) in fine.into_iter().enumerate() {
        let part = (i % FINER) as f64 / FINER as f64;
        law[i / FINER] += p * (1.0 - part);
        if part > 0.0 {
            law[i / FINER + 1] += p * part;
        }
    }
    // What is nothing at the end only costs time.
    while law.len() > 1 && law.last().is_some_and(|p| *p < 1e-16) {
        law.pop();
    }
    law
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::tests::draw;
    use crate::tests::figure;
    use base::rng::Streams;

    fn tagged(text: &str) -> Tagged {
        Tagged::of(&crate::parse(text).unwrap().1.read()).unwrap()
    }

    /// Mean delay and loss, mean jitter and what one in 1000 exceeds, in slots: each random number drawn, nothing in cells.
    fn simulated(text: &str, arrivals: usize) -> [f64; 4] {
        let words = crate::parse(text).unwrap().1;
        let given: TaggedParams = words.read();
        let m = Mixture::of(&given.background());
        let gap = crate::mixture::Variable::Weibull {
            shape: given.gap_shape,
            scale: given.gap_scale,
        };
        let buffer = given.buffer as f64;
        let mut rng = Streams::new(3).stream("tagged");
        let (mut queue, mut left) = (0.0f64, 0u64);
        let (mut delays, mut lost, mut seen, mut differences) = (0.0, 0.0, 0, Vec::new());
        let mut before = None;
        while seen < arrivals {
            let mut work = 0.0;
            for (weight, stream) in m.parts() {
                work += weight * draw(stream.rate, &mut rng) * draw(stream.size, &mut rng);
            }
            queue = (queue + work / (m.served * m.mean_size())).min(buffer);
            if left == 0 {
                seen += 1;
                left = draw(gap, &mut rng).ceil().max(1.0) as u64;
                let fits = queue + 1.0 <= buffer;
                if fits {
                    delays += queue;
                    differences.extend(before.map(|b: f64| (b - queue).abs()));
                    before = Some(queue);
                    queue += 1.0;
                } else {
                    lost += 1.0;
                    before = None;
                }
            }
            left -= 1;
            queue = (queue - 1.0).max(0.0);
        }
        let n = seen as f64;
        let jitter = differences.iter().sum::<f64>() / differences.len() as f64;
        differences.sort_by(f64::total_cmp);
        let peak = differences[differences.len() * 999 / 1000];
        [delays / (n - lost), lost / n, jitter, peak]
    }

    #[test]
    fn delay_jitter_and_loss_agree_with_a_simulation_to_1_percent() {
        for text in [
            "tagged:share=1,buffer=10",
            "tagged:share=0.5,served=10,buffer=10",
            "tagged:share=0.9,sizes=fixed,served=12,gap_shape=1,gap_scale=4,buffer=8",
        ] {
            let law = tagged(text);
            let steady = law.steady();
            let ((delay, loss), (jitter, peak)) = (law.delay(&steady), law.jitter(&steady));
            let drawn = simulated(text, 1_500_000);
            for (name, ours, drawn) in [("delay", delay, drawn[0]), ("jitter", jitter, drawn[2])] {
                assert!(
                    (ours / drawn - 1.0).abs() < 0.01,
                    "{text}: {name} {ours}, drawn {drawn}"
                );
            }
            assert!(
                (loss - drawn[1]).abs() < 0.01 * drawn[1] + 2e-5,
                "{text}: {loss} {}",
                drawn[1]
            );
            // A cell is the step of the law of differences.
            let cell = 1.0 / law.datagram as f64;
            assert!(
                (peak - drawn[3]).abs() < 0.01 * peak + cell,
                "{text}: {peak} {}",
                drawn[3]
            );
        }
    }

    #[test]
    fn laws_sum_to_1_and_keep_their_mean_for_shapes_from_0_2_to_5() {
        for shape in [0.2, 0.5, 1.0, 2.0, 5.0] {
            let text = format!(
                "tagged:share=0.6,served=30,tcp_size_shape={shape},tcp_rate_shape={shape},udp_size_shape={shape},gap_shape={shape},gap_scale=3"
            );
            let law = tagged(&text);
            for sum in [
                law.work.iter().sum::<f64>(),
                law.steady().iter().sum(),
                law.over[law.cells].iter().sum(),
            ] {
                assert!((sum - 1.0).abs() < 1e-7, "{shape}: {sum}");
            }
            // Of heavy tails a part lies beyond the buffer; the others keep all of their mean.
            if shape >= 1.0 {
                let words = crate::parse(&text).unwrap().1;
                let cells: f64 = law.work.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
                let mean = Mixture::of(&words.read::<TaggedParams>().background()).load();
                let got = cells / law.datagram as f64;
                assert!((got / mean - 1.0).abs() < 2e-3, "{shape}: {got} {mean}");
            }
        }
    }

    #[test]
    fn the_mean_gap_of_an_exponential_in_whole_slots_is_a_geometric_one() {
        // 1/(1 − e^(−1/η)).
        for scale in [0.01, 2.0, 1000.0] {
            let geometric = 1.0 / -f64::exp_m1(-1.0 / scale);
            assert!(
                (mean_gap(1.0, scale) / geometric - 1.0).abs() < 1e-9,
                "{scale}"
            );
        }
        // For large scales half a slot more than the Weibull mean, 1000·Γ(6) = 120 000.
        assert!((mean_gap(0.2, 1000.0) / 120_000.5 - 1.0).abs() < 1e-4);
    }

    #[test]
    fn a_queue_without_background_is_a_d_d_1_of_the_gaps() {
        // A datagram every second slot and next to no background: each finds an empty queue.
        let text = "tagged:share=1,sizes=fixed,tcp_rate_shape=20,tcp_rate_scale=0.00001,gap_shape=20,gap_scale=1.7";
        assert!((figure(text, "load") - 0.5).abs() < 1e-3);
        assert!(figure(text, "steady").abs() < 1e-3 / 10.0);
    }

    #[test]
    fn the_first_datagram_waits_for_its_slot_s_background_alone() {
        let law = tagged("tagged:share=0.5,buffer=100");
        let (delay, loss) = law.delay(&law.at(1));
        let mean: f64 = law.work.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
        assert!((delay - mean / law.datagram as f64).abs() < 1e-6 && loss < 1e-6);
    }
}
