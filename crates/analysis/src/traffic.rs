//! Traffic as a whole: packets in equal steps of time, their sizes and gaps, for TCP, UDP and both; and the laws that
//! fit (table 3.1 of Thombre 2020).
//!
//! **Method.** Packets are handed in one by one; what is kept does not grow with their number. Gaps go into
//! buckets 0.8 % wide, sizes are counted by the byte, arrivals in steps that double when there are more than a
//! million of them. Packets of one train depend on each other, so intervals rest on an effective size: the
//! variance of the means of up to 64 consecutive stretches, beside the variance of the values.
//!
//! **Source.** Thombre 2020, chapter 3; A. M. Law, *Simulation Modeling and Analysis*, 5th ed., section 9.5.3.
//!
//! **Units.** Times in UNIX nanoseconds, sizes in bytes of the IP packet, rates in packets a second.

use serde::Serialize;
use stats::Figure;
use stats::fit::{Family, Fit, FitError, Rounding, Sample, fit_all};
use stats::hurst::Hurst;

/// Transport protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Other,
}

/// Steps of time kept at most.
const MOST_STEPS: usize = 1 << 20;
/// Greatest size counted by the byte: above any link's packets, below the claims of damaged files.
const LARGEST: u32 = 1 << 20;
/// Latest time, in the year 2116: a damaged file may claim any time, and differences must have room.
const LATEST_NS: i64 = 1 << 62;
/// Finest step, ns.
const FINEST_NS: i64 = 1_000_000;
/// Packets a step that are wanted on average: with fewer, a rate is mostly its rounding.
const PACKETS_A_STEP: f64 = 10.0;
/// Packets a step for self-similarity: steps may be finer, for more of them help, and their noise stays in the first
/// octaves.
const PACKETS_A_FINE_STEP: f64 = 1.0;
/// Number of stretches whose means tell how much packets depend on each other.
const STRETCHES: usize = 64;

/// Numbers of any size counted in buckets of 1/128 of an octave, exactly below 128.
#[derive(Clone, Debug, Default)]
struct Buckets(Vec<u64>);

const FINE: u32 = 7;

impl Buckets {
    #[inline]
    fn index(v: u64) -> usize {
        if v < 1 << FINE {
            return v as usize;
        }
        let octave = 63 - v.leading_zeros();
        let part = (v >> (octave - FINE)) & ((1 << FINE) - 1);
        ((octave - FINE + 1) as usize) << FINE | part as usize
    }

    /// Middle of a bucket, and its width.
    fn value(index: usize) -> (f64, f64) {
        if index < 1 << FINE {
            return (index as f64, 1.0);
        }
        let octave = (index >> FINE) as i32 - 1;
        let width = 2f64.powi(octave);
        let low = ((1 << FINE) + (index & ((1 << FINE) - 1))) as f64 * width;
        (low + (width - 1.0) / 2.0, width)
    }

    #[inline]
    fn count(&mut self, v: u64) -> usize {
        let i = Buckets::index(v);
        if i >= self.0.len() {
            self.0.resize(i + 1, 0);
        }
        self.0[i] += 1;
        i
    }
}

/// Sums over consecutive stretches of equally many values.
#[derive(Clone, Debug)]
struct Stretches {
    sums: Vec<f64>,
    open: f64,
    left: u64,
    length: u64,
    n: f64,
    sum: f64,
    squares: f64,
}

impl Default for Stretches {
    fn default() -> Stretches {
        Stretches {
            sums: Vec::with_capacity(STRETCHES),
            open: 0.0,
            left: 1,
            length: 1,
            n: 0.0,
            sum: 0.0,
            squares: 0.0,
        }
    }
}

impl Stretches {
    #[inline]
    fn add(&mut self, v: f64) {
        self.n += 1.0;
        self.sum += v;
        self.squares += v * v;
        self.open += v;
        self.left -= 1;
        if self.left == 0 {
            self.close();
        }
    }

    fn close(&mut self) {
        self.sums.push(self.open);
        self.open = 0.0;
        if self.sums.len() == STRETCHES {
            self.sums = self.sums.chunks_exact(2).map(|p| p[0] + p[1]).collect();
            self.length *= 2;
        }
        self.left = self.length;
    }

    /// Number of independent values with the same uncertainty of the mean.
    fn effective(&self) -> f64 {
        let mean = self.sum / self.n;
        let variance = self.squares / self.n - mean * mean;
        let means: Vec<f64> = self.sums.iter().map(|s| s / self.length as f64).collect();
        let between = stats::moments(&means).map_or(0.0, |m| m.sd * m.sd);
        if self.length < 4 || variance <= 0.0 || between <= 0.0 {
            return self.n.max(1.0);
        }
        (variance / between * means.len() as f64).clamp(1.0, self.n)
    }
}

#[derive(Clone, Debug, Default)]
struct Class {
    packets: u64,
    bytes: u64,
    last_ns: Option<i64>,
    gaps: Buckets,
    gap_stretches: Stretches,
    sizes: Vec<u64>,
    size_stretches: Stretches,
}

impl Class {
    #[inline]
    fn packet(&mut self, t: i64, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
        if let Some(last) = self.last_ns {
            let bucket = self.gaps.count((t - last) as u64);
            // The bucket's number is the gap's logarithm, near enough to tell stretches apart.
            self.gap_stretches.add(bucket as f64);
        }
        self.last_ns = Some(t);
        let size = bytes as usize;
        if size >= self.sizes.len() {
            self.sizes.resize(size + 1, 0);
        }
        self.sizes[size] += 1;
        self.size_stretches.add(f64::from(bytes));
    }
}

/// Accumulator of packets.
#[derive(Clone, Debug)]
pub struct Traffic {
    classes: [Class; 3],
    other: (u64, u64),
    origin_ns: Option<i64>,
    latest_ns: i64,
    /// Packets of TCP and of UDP in each step.
    steps: Vec<[u32; 2]>,
    step_ns: i64,
    wished_ns: Option<i64>,
    tick_ns: i64,
    backward: u64,
    oversized: u64,
}

impl Traffic {
    /// Creates an accumulator. `step_ns` is the step for arrivals; without it one is chosen.
    pub fn new(step_ns: Option<i64>) -> Traffic {
        Traffic {
            classes: Default::default(),
            other: (0, 0),
            origin_ns: None,
            latest_ns: i64::MIN,
            steps: Vec::new(),
            step_ns: step_ns.unwrap_or(FINEST_NS).max(1),
            wished_ns: step_ns,
            tick_ns: FINEST_NS,
            backward: 0,
            oversized: 0,
        }
    }

    /// Adds one packet; a time before that of the packet ahead counts as that packet's. A packet that claims more than
    /// a MiB is left out, and counted.
    #[inline]
    pub fn packet(&mut self, t_ns: i64, ip_bytes: u32, protocol: Protocol) {
        if ip_bytes > LARGEST {
            self.oversized += 1;
            return;
        }
        let t_ns = t_ns.clamp(0, LATEST_NS);
        while t_ns % self.tick_ns != 0 {
            self.tick_ns /= 10;
        }
        let t = if t_ns < self.latest_ns {
            self.backward += 1;
            self.latest_ns
        } else {
            t_ns
        };
        self.latest_ns = t;
        let origin = *self.origin_ns.get_or_insert(t);
        let [tcp, udp, both] = &mut self.classes;
        let (class, which) = match protocol {
            Protocol::Tcp => (tcp, 0),
            Protocol::Udp => (udp, 1),
            Protocol::Other => {
                self.other.0 += 1;
                self.other.1 += u64::from(ip_bytes);
                return;
            }
        };
        class.packet(t, ip_bytes);
        both.packet(t, ip_bytes);
        let mut at = ((t - origin) / self.step_ns) as usize;
        while at >= MOST_STEPS {
            self.double();
            at /= 2;
        }
        if at >= self.steps.len() {
            self.steps.resize(at + 1, [0; 2]);
        }
        self.steps[at][which] += 1;
    }

    #[cold]
    fn double(&mut self) {
        self.step_ns *= 2;
        self.steps = merged(&self.steps, 2);
    }

    /// Figures of all packets so far.
    pub fn finish(self) -> TrafficAnswer {
        let span_ns = self.origin_ns.map_or(0, |o| self.latest_ns - o);
        let [tcp, udp, both] = &self.classes;
        let share = |a: u64, b: u64| (a + b > 0).then(|| a as f64 / (a + b) as f64);
        let mean = both.packets as f64 / (self.steps.len().max(1)) as f64;
        let widened = |wanted: f64| {
            let factor = (wanted / mean.max(1e-9)).log2().ceil().max(0.0);
            // All of them in one are few enough.
            1usize << (factor as u32).min(MOST_STEPS.ilog2())
        };
        let coarse = if self.wished_ns.is_some() {
            1
        } else {
            widened(PACKETS_A_STEP)
        };
        let fine = if self.wished_ns.is_some() {
            1
        } else {
            widened(PACKETS_A_FINE_STEP)
        };
        let whole = |by: usize| {
            let mut steps = merged(&self.steps, by);
            // The last step ends with the capture, not with the clock.
            steps.pop();
            steps
        };
        let (arrivals, series) = (whole(coarse), whole(fine));
        let picks: [fn(&[u32; 2]) -> u32; 3] = [|s| s[0], |s| s[1], |s| s[0] + s[1]];
        let names = ["TCP", "UDP", "TCP+UDP"];
        let step_ns = self.step_ns * coarse as i64;
        let classes = [tcp, udp, both].into_iter().zip(names).zip(picks);
        TrafficAnswer {
            span_s: span_ns as f64 / 1e9,
            tcp_share_of_packets: share(tcp.packets, udp.packets),
            tcp_share_of_bytes: share(tcp.bytes, udp.bytes),
            other_packets: self.other.0,
            other_bytes: self.other.1,
            backward_packets: self.backward,
            oversized_packets: self.oversized,
            clock_tick_s: self.tick_ns as f64 / 1e9,
            step_s: step_ns as f64 / 1e9,
            hurst_step_s: (self.step_ns * fine as i64) as f64 / 1e9,
            classes: classes
                .map(|((class, name), pick)| {
                    let counts: Vec<u32> = arrivals.iter().map(pick).collect();
                    let hurst = if class.packets == 0 {
                        Err("there are no packets".to_string())
                    } else {
                        let values: Vec<f64> = series.iter().map(|s| f64::from(pick(s))).collect();
                        Hurst::of(&values)
                    };
                    ClassAnswer {
                        name,
                        packets: class.packets,
                        bytes: class.bytes,
                        arrivals: arrival_rates(&counts, step_ns as f64 / 1e9),
                        sizes: sizes(class),
                        gaps: gaps(class, self.tick_ns as f64),
                        hurst: hurst
                            .as_ref()
                            .map_or_else(HurstAnswer::unknown, HurstAnswer::new),
                        scaling: hurst.ok(),
                    }
                })
                .collect(),
        }
    }
}

fn merged(steps: &[[u32; 2]], by: usize) -> Vec<[u32; 2]> {
    let sum = |part: &[[u32; 2]]| {
        part.iter().fold([0u32; 2], |a, b| {
            [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
        })
    };
    steps.chunks(by).map(sum).collect()
}

fn arrival_rates(counts: &[u32], step_s: f64) -> Law {
    let values: Vec<f64> = counts.iter().map(|c| f64::from(*c)).collect();
    let sample = Sample::new(
        values.iter().map(|v| (v / step_s, 1)),
        Rounding::Nearest(1.0 / step_s),
    );
    Law::new(sample, stats::effective_size(&values))
}

fn sizes(class: &Class) -> Law {
    let counted = class.sizes.iter().enumerate();
    let sample = Sample::new(
        counted.map(|(bytes, n)| (bytes as f64, *n)),
        Rounding::Nearest(1.0),
    );
    Law::new(sample, class.size_stretches.effective())
}

fn gaps(class: &Class, tick_ns: f64) -> Law {
    let counted = class.gaps.0.iter().enumerate().map(|(i, n)| {
        let (middle, width) = Buckets::value(i);
        // A bucket narrower than the clock's tick holds one value: that tick.
        let ns = if width < tick_ns {
            (middle / tick_ns).round() * tick_ns
        } else {
            middle
        };
        (ns / 1e9, *n)
    });
    let sample = Sample::new(counted, Rounding::Difference(tick_ns / 1e9));
    Law::new(sample, class.gap_stretches.effective())
}

/// Output of `trace --traffic --json`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct TrafficAnswer {
    /// Time from the first packet to the last, s.
    pub span_s: f64,
    /// Share of TCP among the packets of TCP and UDP.
    pub tcp_share_of_packets: Option<f64>,
    /// Share of TCP among the bytes of TCP and UDP.
    pub tcp_share_of_bytes: Option<f64>,
    /// Packets that are neither TCP nor UDP.
    pub other_packets: u64,
    /// Bytes of these packets.
    pub other_bytes: u64,
    /// Packets that are out of time order in the capture.
    pub backward_packets: u64,
    /// Packets that claim more than a MiB and are left out.
    pub oversized_packets: u64,
    /// Resolution of the capture's clock.
    pub clock_tick_s: f64,
    /// Step of the arrivals.
    pub step_s: f64,
    /// Step of the series whose Hurst parameter is taken.
    pub hurst_step_s: f64,
    /// TCP, UDP and both.
    pub classes: Vec<ClassAnswer>,
}

/// Figures of TCP, UDP or both.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ClassAnswer {
    /// Name: TCP only, UDP only, TCP+UDP.
    pub name: &'static str,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// Arrivals, packets a second.
    pub arrivals: Law,
    /// Sizes, bytes of the IP packet.
    pub sizes: Law,
    /// Gaps, seconds between packets.
    pub gaps: Law,
    /// Hurst parameter of the packets in each step.
    pub hurst: HurstAnswer,
    /// Data of the three estimates, for plots.
    #[serde(skip)]
    pub scaling: Option<Hurst>,
}

/// Sample of a quantity and the families that fit it, best first.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Law {
    /// Number of values.
    pub values: u64,
    /// Number of independent values with the same uncertainty.
    pub effective_values: f64,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Standard deviation over mean.
    pub variation: Option<f64>,
    /// Fits of the families, best first.
    pub fits: Vec<FitAnswer>,
    /// Families that do not fit, or the reason why none could be tried.
    pub without: Vec<String>,
    /// Share of the values up to each value.
    #[serde(skip)]
    pub shares: Vec<(f64, f64)>,
    /// Fitted curves, for plots.
    #[serde(skip)]
    pub curves: Vec<Fit>,
}

/// Points of a distribution's plot.
const SHARES: usize = 400;

impl Law {
    fn new(sample: Result<Sample, FitError>, effective: f64) -> Law {
        let sample = match sample {
            Ok(s) => s,
            Err(why) => {
                return Law {
                    values: 0,
                    effective_values: 0.0,
                    mean: None,
                    variation: None,
                    fits: Vec::new(),
                    without: vec![why.to_string()],
                    shares: Vec::new(),
                    curves: Vec::new(),
                };
            }
        };
        let (curves, not) = fit_all(&sample, effective);
        Law {
            values: sample.len(),
            effective_values: effective,
            mean: Some(sample.mean()),
            variation: Some(sample.variation()),
            fits: curves.iter().map(FitAnswer::new).collect(),
            without: not
                .iter()
                .map(|(family, why)| format!("{}: {why}", family.word()))
                .collect(),
            shares: sample.shares(SHARES),
            curves,
        }
    }

    /// Fit of one family; none if it has none.
    pub fn of(&self, family: Family) -> Option<&FitAnswer> {
        self.fits.iter().find(|f| f.family == family.word())
    }
}

/// Fit of one family.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct FitAnswer {
    /// Name of the family.
    pub family: &'static str,
    /// Parameters in the order of their names.
    pub parameters: Vec<(&'static str, Figure)>,
    /// Akaike's criterion.
    pub aic: f64,
    /// Logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Largest difference between the two distribution functions, as a share.
    pub kolmogorov_smirnov: f64,
    /// Anderson and Darling's A².
    pub anderson_darling: f64,
    /// Value of A² that 95 of 100 samples of the family stay below.
    pub anderson_darling_critical_5pct: f64,
    /// True if the family is rejected at 5 %.
    pub rejected: bool,
}

impl FitAnswer {
    fn new(f: &Fit) -> FitAnswer {
        let names = f.family.parameters().iter().copied();
        FitAnswer {
            family: f.family.word(),
            parameters: names.zip(f.parameters.iter().cloned()).collect(),
            aic: f.aic,
            log_likelihood: f.log_likelihood,
            kolmogorov_smirnov: f.distance,
            anderson_darling: f.anderson_darling,
            anderson_darling_critical_5pct: f.critical_5pct,
            rejected: f.rejected(),
        }
    }
}

/// Hurst parameter of the packets in each step.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct HurstAnswer {
    /// Estimate from variance over time scales.
    pub variance_time: Figure,
    /// Estimate from the rescaled range.
    pub rescaled_range: Figure,
    /// Estimate from wavelet coefficients.
    pub wavelet: Figure,
    /// Scales that each line was fitted over, in steps, in the order above: the value holds for these.
    pub scales: Option<[[f64; 2]; 3]>,
    /// True if the series looks like a rate that changed its level rather than like self-similarity.
    pub unsteady: bool,
}

impl HurstAnswer {
    fn new(h: &Hurst) -> HurstAnswer {
        HurstAnswer {
            variance_time: h.variance_time.h.clone(),
            rescaled_range: h.rescaled_range.h.clone(),
            wavelet: h.wavelet.h.clone(),
            scales: Some([&h.variance_time, &h.rescaled_range, &h.wavelet].map(|e| [e.from, e.to])),
            unsteady: h.unsteady(),
        }
    }

    fn unknown(why: &String) -> HurstAnswer {
        HurstAnswer {
            variance_time: Figure::cannot_tell(why),
            rescaled_range: Figure::cannot_tell(why),
            wavelet: Figure::cannot_tell(why),
            scales: None,
            unsteady: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn a_bucket_holds_its_value_to_four_in_a_thousand() {
        let mut v = 1u64;
        while v < 1 << 60 {
            let (middle, width) = Buckets::value(Buckets::index(v));
            assert!((middle - v as f64).abs() <= width / 2.0, "{v}: {middle}");
            assert!(width / v as f64 <= 1.0 / 128.0 || width == 1.0, "{v}");
            v = v * 5 / 4 + 1;
        }
        let indices: Vec<usize> = (0..5000).map(Buckets::index).collect();
        assert!(indices.windows(2).all(|w| w[1] == w[0] || w[1] == w[0] + 1));
    }

    #[test]
    fn sizes_and_times_that_only_damage_can_claim_take_no_memory_and_count_for_nothing() {
        let mut traffic = Traffic::new(None);
        for t in [i64::MIN, -1, 0, 1_700_000_000_000_000_000, i64::MAX] {
            traffic.packet(t, 40, Protocol::Udp);
            traffic.packet(t, u32::MAX, Protocol::Tcp);
        }
        assert!(traffic.steps.len() <= MOST_STEPS);
        assert!(
            traffic
                .classes
                .iter()
                .all(|c| c.sizes.len() <= LARGEST as usize)
        );
        let answer = traffic.finish();
        assert_eq!(answer.oversized_packets, 5);
        let packets: Vec<u64> = answer.classes.iter().map(|c| c.packets).collect();
        assert_eq!(packets, [0, 5, 5]);
    }

    /// `n` packets of one protocol whose gaps are drawn from a Weibull law.
    fn feed(traffic: &mut Traffic, n: usize, shape: f64, scale_ns: f64, tick: i64, p: Protocol) {
        let mut rng = Streams::new(2).stream("feed");
        let mut t = 0.0;
        for i in 0..n {
            let t_ns = 1_700_000_000_000_000_000 + t as i64 / tick * tick;
            traffic.packet(t_ns, 40 + (i % 3) as u32 * 700, p);
            t += scale_ns * (-(-uniform(&mut rng)).ln_1p()).powf(1.0 / shape);
        }
    }

    #[test]
    fn the_law_of_the_gaps_is_found_through_buckets_and_a_coarse_clock() {
        let mut traffic = Traffic::new(None);
        feed(&mut traffic, 100_000, 0.52, 150_000.0, 1000, Protocol::Tcp);
        let answer = traffic.finish();
        assert_eq!(answer.clock_tick_s, 1e-6);
        let gaps = &answer.classes[0].gaps;
        assert_eq!(gaps.values, 99_999);
        assert_eq!(gaps.fits[0].family, "Weibull");
        assert!(!gaps.fits[0].rejected, "{:?}", gaps.fits[0]);
        for ((name, figure), truth) in gaps.fits[0].parameters.iter().zip([0.52, 150e-6]) {
            let Figure::Is { value, low, high } = figure else {
                panic!("no {name}")
            };
            assert!((value / truth - 1.0).abs() < 0.02, "{name}: {value}");
            assert!((low..=high).contains(&&truth), "{name}: {low} to {high}");
        }
        assert_eq!(answer.tcp_share_of_packets, Some(1.0));
        assert_eq!(answer.classes[1].gaps.fits.len(), 0);
        assert!(answer.classes[1].gaps.without[0].contains("too few"));
    }

    #[test]
    fn independent_arrivals_have_an_h_of_one_half_and_poisson_counts() {
        let mut traffic = Traffic::new(None);
        feed(&mut traffic, 200_000, 1.0, 190_000.0, 1, Protocol::Udp);
        let answer = traffic.finish();
        // 5.3 packets a millisecond: the step is doubled once for ten.
        assert_eq!(answer.step_s, 2e-3);
        let c = &answer.classes[1];
        let mean = c.arrivals.mean.unwrap();
        assert!((mean * 190e-6 - 1.0).abs() < 0.02, "{mean}");
        let Figure::Is { low, high, .. } = c.hurst.wavelet else {
            panic!("no H")
        };
        assert!(low < 0.5 && 0.5 < high, "{low} {high}");
        assert!(!c.hurst.unsteady);
    }

    #[test]
    fn a_long_silence_costs_no_memory() {
        let mut traffic = Traffic::new(None);
        for i in 0..1000i64 {
            // A packet a day for three years.
            traffic.packet(i * 86_400_000_000_000, 100, Protocol::Udp);
        }
        assert!(traffic.steps.len() <= MOST_STEPS);
        let answer = traffic.finish();
        assert_eq!(answer.classes[1].packets, 1000);
        assert_eq!(
            answer.classes[1].gaps.without,
            ["all values are the same: there is nothing to fit"]
        );
    }

    #[test]
    fn packets_that_come_in_trains_count_for_less() {
        let mut traffic = Traffic::new(None);
        let mut rng = Streams::new(2).stream("trains");
        let mut t = 0i64;
        for train in 0..400 {
            let gap = (uniform(&mut rng) * 1e6) as i64;
            for _ in 0..100 {
                t += gap + (uniform(&mut rng) * 1e5) as i64;
                traffic.packet(t, 1500 - train, Protocol::Tcp);
            }
        }
        let gaps = &traffic.finish().classes[0].gaps;
        assert!(gaps.effective_values < 2000.0, "{}", gaps.effective_values);
    }
}
