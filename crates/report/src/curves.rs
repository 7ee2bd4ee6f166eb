//! Curves of the plots, taken from a recording: thinned so that no peak is lost, in seconds since the start.

use analysis::answer::{Answer, PhaseAnswer};
use analysis::moments::moments;
use analysis::phases;
use base::record::{Delay, Direction, Recording, Status, Text};
use std::collections::BTreeMap;

/// Largest number of points of a curve, twice the pixels of a wide screen, for zooming in. Longer curves are thinned to
/// the extremes of each column.
const MAX_POINTS: usize = 12_000;
/// Largest number of steps of throughput and in-flow RTT.
const MAX_BINS: usize = 1_200;
/// Shortest step of throughput, s: a full queue is released in bursts, so a rate needs several of its RTTs.
const RATE_STEP_S: f64 = 0.5;
/// Shortest step of in-flow RTT, s: the sampling interval of TCP_INFO.
const IN_FLOW_STEP_S: f64 = 0.1;
/// Largest gap between samples that a line bridges, s.
const JOINED_S: f64 = 1.5;
/// Steps of a distribution's curve.
const CDF_STEPS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub t_s: f64,
    /// RTT in ms; `None` interrupts the line because a probe was lost.
    pub ms: Option<f64>,
}

pub struct Phase {
    pub name: String,
    pub from_s: f64,
    pub to_s: f64,
}

/// Payload rates, means over equal steps of time; `None` if nothing was sampled.
#[derive(Default)]
pub struct Bins {
    pub step_s: f64,
    pub down_bps: Vec<Option<f64>>,
    pub up_bps: Vec<Option<f64>>,
}

/// Distribution of one phase: share of its probes answered within a time.
pub struct Cdf {
    pub phase: String,
    /// Points (ms, share from 0 to 1), both rising. The last share is below 1 if probes were lost.
    pub steps: Vec<(f64, f64)>,
}

pub struct Curves {
    /// Start, UNIX ns.
    pub start_ns: i64,
    pub span_s: f64,
    /// Start in UNIX time if the axis shows dates, with the zone's name if it has one.
    pub civil: Option<(f64, Option<String>)>,
    pub phases: Vec<Phase>,
    /// Moments that the user marked: s since the start, and the text.
    pub moments: Vec<(f64, String)>,
    pub probes: Vec<Point>,
    pub lost_s: Vec<f64>,
    /// Number of probes behind `probes` and `lost_s`, before thinning.
    pub probes_seen: usize,
    pub bins: Bins,
    pub in_flow_down: Vec<Point>,
    pub in_flow_up: Vec<Point>,
    pub cdf: Vec<Cdf>,
}

impl Curves {
    pub fn of(answer: &Answer, recording: &Recording) -> Curves {
        let start = answer.started_ns;
        let target = main_name(recording);
        let drawn =
            |d: &&Delay| Some(&d.target) == target && of_the_link(d.status) && d.sent_ns >= start;
        let mut probes: Vec<&Delay> = recording.delay.iter().filter(drawn).collect();
        probes.sort_by_key(|d| d.sent_ns);
        let phases: Vec<Phase> = answer
            .phases
            .iter()
            .map(|p| Phase {
                name: p.name.clone(),
                from_s: seconds(p.from_ns, start),
                to_s: seconds(p.to_ns, start),
            })
            .collect();
        let points: Vec<Point> = probes
            .iter()
            .map(|d| Point {
                t_s: seconds(d.sent_ns, start),
                ms: d.rtt_ms(),
            })
            .collect();
        let last = points.last().map_or(0.0, |p| p.t_s);
        let span_s = phases
            .iter()
            .map(|p| p.to_s)
            .fold(answer.duration_s.max(last), f64::max)
            .max(1e-3);
        let count = ((span_s / RATE_STEP_S).ceil() as usize).clamp(1, MAX_BINS);
        let step_s = span_s / count as f64;
        let rate = |d| throughput(recording, d, start, step_s, count);
        let fine_s = IN_FLOW_STEP_S.max(span_s / MAX_BINS as f64);
        let lost: Vec<f64> = points
            .iter()
            .filter(|p| p.ms.is_none())
            .map(|p| p.t_s)
            .collect();
        let marked = moments(&recording.event).into_iter();
        let marked = marked.map(|m| (seconds(m.t_ns, start), m.text));
        Curves {
            start_ns: start,
            span_s,
            civil: None,
            cdf: cdfs(answer, recording),
            in_flow_down: in_flow(recording, Direction::Down, start, fine_s, &phases),
            in_flow_up: in_flow(recording, Direction::Up, start, fine_s, &phases),
            phases,
            moments: marked.collect(),
            probes_seen: points.len(),
            probes: thin(&points, span_s),
            lost_s: one_a_column(&lost, span_s),
            bins: Bins {
                step_s,
                down_bps: rate(Direction::Down),
                up_bps: rate(Direction::Up),
            },
        }
    }

    /// Returns the largest RTT drawn, ms.
    pub fn top_ms(&self) -> f64 {
        let all = self
            .probes
            .iter()
            .chain(&self.in_flow_down)
            .chain(&self.in_flow_up);
        all.filter_map(|p| p.ms).fold(0.0, f64::max)
    }
    pub fn top_bps(&self) -> f64 {
        self.bins
            .up_bps
            .iter()
            .chain(&self.bins.down_bps)
            .flatten()
            .copied()
            .fold(0.0, f64::max)
    }
}

fn seconds(ns: i64, start: i64) -> f64 {
    (ns - start) as f64 / 1e9
}

/// Returns the one target that the curves show: `udp`, the project's own probes, or else the first target.
fn main_name(recording: &Recording) -> Option<&Text> {
    recording
        .delay
        .iter()
        .map(|d| &d.target)
        .find(|t| &***t == "udp")
        .or(recording.delay.first().map(|d| &d.target))
}

/// True if a row says something about the link; unsent slots, duplicates and invalid times do not, and are not drawn.
fn of_the_link(status: Status) -> bool {
    status.is_answered() || status.is_unanswered()
}

/// Thins a curve to the smallest and largest value of each column of time, in their order, so that peaks and minima
/// survive.
fn thin(points: &[Point], span_s: f64) -> Vec<Point> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let columns = MAX_POINTS / 2;
    let mut kept = Vec::with_capacity(MAX_POINTS);
    for column in points
        .chunk_by(|a, b| column_of(a.t_s, span_s, columns) == column_of(b.t_s, span_s, columns))
    {
        let mut ends: Option<(usize, usize)> = None;
        for (i, ms) in column
            .iter()
            .enumerate()
            .filter_map(|(i, p)| Some((i, p.ms?)))
        {
            let (low, high) = ends.get_or_insert((i, i));
            if Some(ms) < column[*low].ms {
                *low = i;
            }
            if Some(ms) > column[*high].ms {
                *high = i;
            }
        }
        match ends {
            None => kept.push(column[0]),
            Some((low, high)) => {
                kept.push(column[low.min(high)]);
                if low != high {
                    kept.push(column[low.max(high)]);
                }
            }
        }
    }
    kept
}

/// Reduces marks on the same pixel to one.
fn one_a_column(times: &[f64], span_s: f64) -> Vec<f64> {
    if times.len() <= MAX_POINTS / 4 {
        return times.to_vec();
    }
    let mut kept = times.to_vec();
    kept.dedup_by_key(|t| column_of(*t, span_s, MAX_POINTS / 4));
    kept
}

fn column_of(t_s: f64, span_s: f64, columns: usize) -> usize {
    ((t_s / span_s * columns as f64) as usize).min(columns - 1)
}

/// Returns the distributions of the probes behind the answer's figures, without warm-up and exclusions.
fn cdfs(answer: &Answer, recording: &Recording) -> Vec<Cdf> {
    let Some(target) = main_name(recording) else {
        return Vec::new();
    };
    let known = phases::phases(recording, None);
    let of = |p: &PhaseAnswer| {
        let steady = known
            .iter()
            .find(|k| k.name == p.name)
            .map_or(p.from_ns..p.to_ns, phases::Phase::steady);
        let probes = phases::probes(recording, target, steady);
        cdf(
            &p.name,
            probes.into_iter().filter(|d| of_the_link(d.status)),
        )
    };
    answer.phases.iter().filter_map(of).collect()
}

fn cdf<'a>(phase: &str, probes: impl Iterator<Item = &'a Delay>) -> Option<Cdf> {
    let all: Vec<Option<f64>> = probes.map(Delay::rtt_ms).collect();
    let mut ms: Vec<f64> = all.iter().flatten().copied().collect();
    if ms.is_empty() {
        return None;
    }
    ms.sort_by(f64::total_cmp);
    let share = |count: usize| count as f64 / all.len() as f64;
    let mut steps = vec![(ms[0], 0.0)];
    for i in 1..=CDF_STEPS {
        let count = (ms.len() * i).div_ceil(CDF_STEPS);
        steps.push((ms[count - 1], share(count)));
    }
    // The last percent is drawn step by step if it is short: the plot is about the tail.
    let tail = ms.len() - ms.len() / CDF_STEPS;
    if ms.len() - tail <= CDF_STEPS {
        steps.extend((tail..ms.len()).map(|i| (ms[i], share(i + 1))));
    }
    steps.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
    steps.dedup();
    Some(Cdf {
        phase: phase.to_string(),
        steps,
    })
}

/// Returns the RTT of the load's own packets: means over equal steps of time, over all flows of one direction. The line
/// is interrupted between phases, and between samples further apart than `JOINED_S`.
fn in_flow(
    recording: &Recording,
    direction: Direction,
    start: i64,
    step_s: f64,
    phases: &[Phase],
) -> Vec<Point> {
    let mut steps: BTreeMap<usize, (f64, u32)> = BTreeMap::new();
    for f in recording
        .flow
        .iter()
        .filter(|f| f.direction == direction && f.t_ns >= start)
    {
        if let Some(srtt) = f.srtt_ns {
            let (sum, n) = steps
                .entry((seconds(f.t_ns, start) / step_s) as usize)
                .or_default();
            *sum += srtt as f64 / 1e6;
            *n += 1;
        }
    }
    let mut points: Vec<Point> = Vec::with_capacity(steps.len());
    for (at, (sum, n)) in steps {
        let t_s = (at as f64 + 0.5) * step_s;
        if let Some(last) = points.last().map(|p| p.t_s) {
            let between = |edge: f64| last < edge && edge <= t_s;
            if t_s - last > JOINED_S || phases.iter().any(|p| between(p.from_s)) {
                points.push(Point {
                    t_s: (last + t_s) / 2.0,
                    ms: None,
                });
            }
        }
        points.push(Point {
            t_s,
            ms: Some(sum / f64::from(n)),
        });
    }
    points
}

/// Returns the payload rate of all flows of one direction. Each flow's byte count is interpolated between its samples.
/// A bin gets the increase within it, divided by the time in which the flows ran. If no flow was watched, the interface
/// counters are used.
fn throughput(
    recording: &Recording,
    direction: Direction,
    start: i64,
    step_s: f64,
    count: usize,
) -> Vec<Option<f64>> {
    let mut bytes = vec![0.0; count];
    // Seconds of each bin covered by the current flow, and the largest coverage of any flow.
    let (mut mine, mut covered) = (vec![0.0; count], vec![0.0f64; count]);
    let mut add = |bytes: &mut [f64], mine: &mut [f64], from_s: f64, to_s: f64, amount: f64| {
        let (first, last) = (
            (from_s.max(0.0) / step_s) as usize,
            (to_s.max(0.0) / step_s) as usize,
        );
        for at in first..(last + 1).min(count) {
            let inside =
                (to_s.min((at + 1) as f64 * step_s) - from_s.max(at as f64 * step_s)).max(0.0);
            bytes[at] += amount * inside / (to_s - from_s);
            mine[at] += inside;
            covered[at] = covered[at].max(mine[at]);
        }
    };
    let rows: Vec<_> = recording
        .flow
        .iter()
        .filter(|f| f.direction == direction)
        .collect();
    let mut flows: Vec<_> = analysis::rate::counted(&rows, direction)
        .into_iter()
        .map(|(flow, t_ns, bytes)| (flow, seconds(t_ns, start), bytes))
        .collect();
    flows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    for pair in flows.windows(2) {
        let ((flow, from, before), (next, to, after)) = (pair[0], pair[1]);
        if flow != next {
            mine.fill(0.0);
        } else if to > from && after >= before {
            add(&mut bytes, &mut mine, from, to, after - before);
        }
    }
    if recording.flow.is_empty() {
        for t in &recording.traffic {
            let counted = match direction {
                Direction::Down => t.rx_bytes,
                Direction::Up => t.tx_bytes,
            };
            if let Some(n) = counted.filter(|_| t.interval_ns > 0) {
                let (from, to) = (
                    seconds(t.t_ns - t.interval_ns, start),
                    seconds(t.t_ns, start),
                );
                add(&mut bytes, &mut mine, from, to, n as f64);
            }
        }
    }
    // Less than a quarter of a bin is too short for a rate.
    let rate =
        |(bytes, covered): (f64, f64)| (covered >= step_s / 4.0).then(|| bytes * 8.0 / covered);
    bytes.into_iter().zip(covered).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Flow;

    #[test]
    fn thinning_keeps_every_peak_and_every_floor() {
        let mut points: Vec<Point> = (0..1_000_000)
            .map(|i| Point {
                t_s: i as f64 * 1e-3,
                ms: Some(20.0 + (i % 7) as f64 * 0.1),
            })
            .collect();
        points[123_456].ms = Some(900.0);
        points[654_321].ms = Some(1.0);
        let kept = thin(&points, 1_000.0);
        assert!(kept.len() <= MAX_POINTS, "{}", kept.len());
        assert!(kept.contains(&points[123_456]) && kept.contains(&points[654_321]));
        assert!(kept.windows(2).all(|w| w[0].t_s < w[1].t_s));
    }

    #[test]
    fn a_column_in_which_everything_was_lost_stays_a_gap() {
        let points: Vec<Point> = (0..100_000)
            .map(|i| Point {
                t_s: i as f64 * 1e-3,
                ms: (i < 50_000).then_some(5.0),
            })
            .collect();
        let kept = thin(&points, 100.0);
        assert!(kept.iter().all(|p| p.ms.is_some() == (p.t_s < 50.0)));
        assert!(kept.iter().any(|p| p.ms.is_none()));
    }

    fn sample(flow: i64, t_s: f64, bytes: i64) -> Flow {
        Flow {
            bytes_acked: Some(bytes),
            srtt_ns: Some(40_000_000),
            ..Flow::about((t_s * 1e9) as i64, flow, Direction::Up)
        }
    }

    #[test]
    fn throughput_is_what_the_counters_rose_in_each_step() {
        // Two flows, samples not aligned with the bins: 1 000 and 3 000 bytes per second.
        let flow = vec![
            sample(1, 0.25, 0),
            sample(1, 2.25, 2_000),
            sample(2, 0.0, 100),
            sample(2, 4.0, 12_100),
        ];
        let recording = Recording {
            flow,
            ..Recording::default()
        };
        let rate = throughput(&recording, Direction::Up, 0, 1.0, 6);
        let expect = [
            Some(30_000.0),
            Some(32_000.0),
            Some(26_000.0),
            Some(24_000.0),
            None,
            None,
        ];
        for (got, want) in rate.iter().zip(expect) {
            assert_eq!(got.map(f64::round), want);
        }
        assert!(
            throughput(&recording, Direction::Down, 0, 1.0, 6)
                .iter()
                .all(Option::is_none)
        );
    }

    /// A real run showed 60 Mbit/s on a link of 8 Mbit/s, because the sender's count lagged by a full queue.
    #[test]
    fn a_flow_watched_at_both_ends_is_counted_once() {
        let received = |t_s, bytes| Flow {
            direction: Direction::Down,
            bytes_acked: None,
            bytes_received: Some(bytes),
            ..sample(1, t_s, 0)
        };
        let flow = (0..10)
            .flat_map(|i| {
                [
                    received(f64::from(i), 1_000 * i64::from(i)),
                    Flow {
                        direction: Direction::Down,
                        ..sample(1, f64::from(i) + 0.5, 600 * i64::from(i))
                    },
                ]
            })
            .collect();
        let recording = Recording {
            flow,
            ..Recording::default()
        };
        let rate = throughput(&recording, Direction::Down, 0, 1.0, 9);
        assert!(
            rate.iter()
                .all(|r| r.is_some_and(|r| (r - 8_000.0).abs() < 1e-6)),
            "{rate:?}"
        );
    }

    #[test]
    fn in_flow_lines_end_with_their_phase_and_bridge_slow_sampling() {
        let at = |t_s: f64| Flow {
            srtt_ns: Some(40_000_000),
            ..sample(1, t_s, 0)
        };
        let flow = [1.0, 2.0, 3.0, 5.5, 6.0, 6.4].map(at).to_vec();
        let recording = Recording {
            flow,
            ..Recording::default()
        };
        let phase = |name: &str, from_s, to_s| Phase {
            name: name.into(),
            from_s,
            to_s,
        };
        let points = in_flow(
            &recording,
            Direction::Up,
            0,
            0.1,
            &[phase("up", 0.0, 6.1), phase("both", 6.2, 9.0)],
        );
        let drawn: String = points
            .iter()
            .map(|p| if p.ms.is_some() { '-' } else { ' ' })
            .collect();
        assert_eq!(drawn, "--- -- -");
        assert_eq!(
            points[0],
            Point {
                t_s: 1.05,
                ms: Some(40.0)
            }
        );
    }
}
