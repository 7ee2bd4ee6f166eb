//! One run of a cure: rest, load, and a page fetched beside it.

use super::cure::{Home, mean_bps};
use super::figures::{Figures, PAGE_BYTES};
use super::{Filled, TwinError};
use crate::load::Load;
use crate::service::at_another_time;
use analysis::phases;
use base::record::{Direction, Recording};
use base::{Bytes, Duration};
use experiment::ask::{Answer, Ask, Transfer};
use experiment::steps::{Action, Planned, Seen};
use experiment::{Bounds, Steps};
use link::LinkSpec;
use sim::bufferbloat::{self, Cross};
use sim::tcp::Settings;

/// Packets of a run, so that a dozen cures take seconds.
const PACKETS: f64 = 30_000.0;
/// Shortest and longest steady part, s.
const STEADY_S: (f64, f64) = (1.5, 12.0);
/// Shortest and longest warm-up, s.
const WARM_S: (f64, f64) = (1.0, 8.0);
/// Packets of a warm-up; a longer one is cut.
const WARM_PACKETS: f64 = 60_000.0;
/// Interval between probes: the packets of a call.
const CALL: Duration = Duration::from_millis(20);
/// Pages fetched in a run.
const PAGES: usize = 2;
/// Time after which a page is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of the first page in the table of flows.
const FIRST_PAGE: i64 = 9_000_000;

/// Load of all runs.
pub struct Scene {
    load: Load,
    /// Traffic beside the load, in simulations.
    cross: Vec<Cross>,
}

impl Scene {
    /// Load for a link: long enough for its queue to fill, short enough for its rate.
    pub fn of(link: &LinkSpec, filled: Filled) -> Scene {
        let rates = [&link.up, &link.down].map(mean_bps);
        let flows = filled.flows(rates);
        let loaded: f64 = (rates.iter().zip(flows))
            .filter(|p| p.1 > 0)
            .map(|p| p.0)
            .sum();
        let steady_s = (PACKETS * 12e3 / loaded.max(1.0)).clamp(STEADY_S.0, STEADY_S.1);
        let drain_s = [(&link.up, rates[0]), (&link.down, rates[1])].map(|(spec, bps)| {
            let limits = spec.queue.limits();
            let packets = limits.packets.map_or(f64::INFINITY, |n| n as f64 * 1500.0);
            let bytes = limits.bytes.map_or(f64::INFINITY, |b| b.get() as f64);
            (packets.min(bytes) * 8.0 / bps.max(1.0)).min(4.0)
        });
        let rtt_s = link.propagation_rtt().as_secs_f64();
        let fill_s = drain_s[0].max(drain_s[1]);
        let warm_s = (6.0 * rtt_s + 2.0 * fill_s).clamp(
            WARM_S.0,
            WARM_S
                .1
                .min(WARM_PACKETS * 12e3 / loaded.max(1.0))
                .max(WARM_S.0),
        );
        Scene {
            cross: filled.cross(rates),
            load: Load {
                name: filled.phase().into(),
                flows,
                warm: Duration::from_secs_f64(warm_s),
                steady: Duration::from_secs_f64(steady_s),
                drain: Duration::from_millis(200),
                interval: CALL,
                fresh: None,
                controller: std::sync::Arc::new("cubic".parse().expect("cubic is in the table")),
                burst: 1,
            },
        }
    }

    /// Load for a link whose rate is unknown: so many flows in each loaded direction, and times that are given.
    pub fn blocks(filled: Filled, flows: u32, wash_out: Duration, block: Duration) -> Scene {
        // Profiles have streams beside them, which only a simulation makes.
        let each = filled
            .flows([1.0; 2])
            .map(|n| if n > 0 { flows } else { 0 });
        Scene {
            cross: Vec::new(),
            load: Load {
                name: filled.phase().into(),
                flows: each,
                warm: wash_out,
                steady: block,
                drain: Duration::from_secs(1),
                interval: CALL,
                fresh: None,
                controller: std::sync::Arc::new("cubic".parse().expect("cubic is in the table")),
                burst: 1,
            },
        }
    }

    /// Simulated time of a run without its pages, s.
    pub fn seconds(&self) -> f64 {
        (self.load.warm + self.load.steady).as_secs_f64()
    }

    /// The same load with a steady part of this length.
    pub fn lasting(mut self, steady: Duration) -> Scene {
        self.load.steady = steady;
        self
    }

    /// Steps of the load alone, for a host of any kind.
    pub fn steps(&self) -> Planned {
        self.load.script()
    }

    /// Figures of a recording of [`Scene::steps`], without a page; none if nothing was recorded.
    pub fn read(&self, rec: &Recording) -> Option<Figures> {
        let list = phases::phases(rec, None);
        let phase = list.iter().find(|p| p.name == self.load.name)?;
        let base_ms = phases::base_rtt(rec, &list, i64::MIN).value()?;
        Some(Figures::of(rec, phase, base_ms, f64::NAN)).filter(|f| f.added_p95_ms.is_finite())
    }

    /// Runs a home under this load. A rate that moves starts at another time in each seed.
    ///
    /// # Errors
    /// The link's description is invalid.
    pub fn figures(&self, home: &Home, seed: u64) -> Result<Figures, TwinError> {
        let home = &Home {
            link: at_another_time(&home.link, seed),
            ..home.clone()
        };
        let mut steps = Pages::after(&self.load);
        let rec = run(home, &self.cross, &mut steps, seed)?;
        let list = phases::phases(&rec, None);
        let phase = list.iter().find(|p| p.name == self.load.name);
        let phase = phase.ok_or(TwinError::NoIdle)?;
        let base_ms = home.link.propagation_rtt().as_millis_f64()
            + [&home.link.up, &home.link.down]
                .map(|d| bufferbloat::probe_size().get() as f64 * 8e3 / mean_bps(d).max(1.0))
                .iter()
                .sum::<f64>();
        let took = &steps.took_s;
        let page_s = took.iter().sum::<f64>() / took.len().max(1) as f64;
        Ok(Figures::of(&rec, phase, base_ms, page_s))
    }
}

fn run(home: &Home, cross: &[Cross], steps: &mut Pages, seed: u64) -> Result<Recording, TwinError> {
    let plain = bufferbloat::Plan::new(home.link.clone(), seed);
    let plan = bufferbloat::Plan {
        router: home.router.clone(),
        cross: cross.to_vec(),
        tcp: Settings {
            controller: home.controller.clone(),
            ecn: home.ecn,
            burst: home.burst,
            ..plain.tcp.clone()
        },
        ..plain
    };
    let bounds = Bounds::of(Bytes::new(u64::MAX));
    let outcome = bufferbloat::carry_out(&plan, steps, &bounds, "test")?;
    Ok(outcome.recording)
}

/// A load, with pages fetched at the end of its steady part.
struct Pages {
    before: Planned,
    left: usize,
    after: Planned,
    asked: bool,
    took_s: Vec<f64>,
}

impl Pages {
    fn after(load: &Load) -> Pages {
        let (before, after) = load.parts();
        Pages {
            before,
            left: PAGES,
            after,
            asked: false,
            took_s: Vec::new(),
        }
    }
}

impl Steps for Pages {
    fn next(&mut self, seen: &Seen) -> Action {
        if let Some(action) = self.before.take() {
            return action;
        }
        if std::mem::take(&mut self.asked)
            && let Some(Answer::Transferred(Ok(page))) = seen.answer
        {
            self.took_s.push(page.took.as_secs_f64());
        }
        if self.left > 0 {
            self.left -= 1;
            self.asked = true;
            return Action::Ask(Ask::Transfer(Transfer {
                number: FIRST_PAGE + self.left as i64,
                direction: Direction::Down,
                congestion: String::new(),
                bytes: Bytes::new(PAGE_BYTES),
                pace: None,
                longest: PATIENCE,
                sample: PATIENCE,
                patience: PATIENCE,
                most: Bytes::new(u64::MAX / 4),
            }));
        }
        self.after.take().unwrap_or(Action::Done)
    }
}
