//! Report of a flow in bounded memory, for any length of the flow and any number of samples.
//!
//! All samples of a client, and of all clients together, have a budget. A flow that finds it used up keeps every second
//! sample from then on, and the latest always, so that its totals stay right and its course gets coarser.

use measure::control::{FlowReport, MAX_REPORT_SAMPLES, Sample};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Samples kept for one client: the tests of an hour have fewer. They take about 5 MB.
const OF_CLIENT: usize = 40_000;
/// Samples kept for all clients.
const OF_ALL: usize = 120_000;
const OF_FLOW: usize = 20_000;
const _: () = assert!(OF_CLIENT <= MAX_REPORT_SAMPLES);
/// Number of samples below which a flow is not thinned.
const FEW: usize = 16;

pub struct Kept {
    report: FlowReport,
    /// Interval between kept samples, in samples.
    every: u32,
    /// Samples since the last kept one.
    since: u32,
    /// True if the last sample stands only until the next one comes.
    passing: bool,
    charged: usize,
    client: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl Kept {
    pub fn new(report: FlowReport, client: Arc<AtomicUsize>, all: Arc<AtomicUsize>) -> Kept {
        Kept {
            report,
            every: 1,
            since: 0,
            passing: false,
            charged: 0,
            client,
            all,
        }
    }

    pub fn report_mut(&mut self) -> &mut FlowReport {
        &mut self.report
    }

    pub fn push(&mut self, sample: Sample) {
        self.since += 1;
        if self.passing
            && let Some(last) = self.report.samples.last_mut()
        {
            *last = sample;
            self.passing = self.since < self.every;
        } else if self.has_room() {
            self.charge(1);
            self.report.samples.push(sample);
            self.passing = self.since < self.every;
        } else if self.report.samples.len() >= FEW {
            self.thin();
            self.report.samples.push(sample);
            self.charge(1);
            self.passing = true;
        } else if let Some(last) = self.report.samples.last_mut() {
            *last = sample;
        }
        if !self.passing {
            self.since = 0;
        }
    }

    fn has_room(&self) -> bool {
        self.report.samples.len() < OF_FLOW
            && self.client.load(Ordering::Relaxed) < OF_CLIENT
            && self.all.load(Ordering::Relaxed) < OF_ALL
    }

    fn charge(&mut self, n: usize) {
        self.charged += n;
        self.client.fetch_add(n, Ordering::Relaxed);
        self.all.fetch_add(n, Ordering::Relaxed);
    }

    fn discharge(&mut self, n: usize) {
        self.charged -= n;
        self.client.fetch_sub(n, Ordering::Relaxed);
        self.all.fetch_sub(n, Ordering::Relaxed);
    }

    /// Drops every second sample.
    fn thin(&mut self) {
        let mut number = 0usize;
        self.report.samples.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.report.samples.shrink_to_fit();
        self.discharge(self.charged - self.report.samples.len());
        self.every = self.every.saturating_mul(2);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.discharge(self.charged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use base::record::Direction;
    use measure::control::{Detail, Ended, Limits};

    fn kept(client: &Arc<AtomicUsize>, all: &Arc<AtomicUsize>) -> Kept {
        let report = FlowReport {
            flow: 0,
            direction: Direction::Up,
            start_ns: 0,
            ended: Ended::Running,
            congestion: String::new(),
            limits: Limits::default(),
            samples: Vec::new(),
        };
        Kept::new(report, client.clone(), all.clone())
    }

    fn sample(n: u64) -> Sample {
        Sample {
            at: Duration::from_millis(n),
            bytes: n,
            detail: Detail::Receiver,
        }
    }

    #[test]
    fn a_flow_of_any_length_keeps_a_bounded_even_course_and_its_last_sample() {
        for count in [1u64, 5, 1_000, 20_000, 20_001, 300_000] {
            let (client, all) = (Arc::default(), Arc::default());
            let mut flow = kept(&client, &all);
            for n in 0..count {
                flow.push(sample(n));
                let last = flow.report.samples.last().expect("one");
                assert_eq!(last.bytes, n, "of {count}");
            }
            let samples = &flow.report.samples;
            assert!(samples.len() <= OF_FLOW, "{}", samples.len());
            assert!(samples.len() as u64 >= count.min(OF_FLOW as u64 / 2 - 1));
            assert_eq!(samples[0].bytes, 0);
            let gaps = samples.windows(2).map(|w| w[1].bytes - w[0].bytes);
            assert!(gaps.clone().all(|g| g > 0));
            assert!(gaps.max().unwrap_or(1) <= u64::from(flow.every) * 2);
            assert_eq!(client.load(Ordering::Relaxed), samples.len());
            drop(flow);
            assert_eq!(
                (client.load(Ordering::Relaxed), all.load(Ordering::Relaxed)),
                (0, 0)
            );
        }
    }

    #[test]
    fn clients_together_stay_within_the_budget() {
        let all = Arc::default();
        let mut flows = Vec::new();
        for _ in 0..8 {
            let client = Arc::default();
            flows.extend((0..16).map(|_| kept(&client, &all)));
        }
        for n in 0..3_000 {
            flows.iter_mut().for_each(|f| f.push(sample(n)));
        }
        let kept: usize = flows.iter().map(|f| f.report.samples.len()).sum();
        assert_eq!(kept, all.load(Ordering::Relaxed));
        assert!(kept <= OF_ALL + flows.len() * FEW, "{kept}");
        assert!(
            flows
                .iter()
                .all(|f| f.report.samples.last().map(|s| s.bytes) == Some(2_999))
        );
    }
}
