//! Phases of the test in a browser: the steps of `tailback test`, whose actions the page carries out.
//!
//! What a browser cannot do is left out, and the answer says what it therefore cannot tell: trains, fresh connections,
//! counters of interfaces.

use analysis::Options;
use base::record::{Event, Flow, Meta, Origin, Recording, Row, lines};
use base::{BitsPerSec, Bytes, Duration, Time};
use experiment::bufferbloat::{Bufferbloat, Plan};
use experiment::host::Loaded;
use experiment::steps::{Action, Seen, Steps, event_at};
use measure::cadence;
use measure::wire;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Shortest interval between probes: a browser's timers keep to it.
const FASTEST: Duration = Duration::from_millis(20);
/// Headers of IP, UDP, QUIC and the session around a probe.
const AROUND: u64 = 60;
/// Time over which the rate of a load is taken.
const RATE_OVER: Duration = Duration::from_secs(1);
/// Most rows of a test.
const MOST_ROWS: usize = 200_000;

/// Settings of a test.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// UNIX time of the page's time zero, ns.
    pub origin_ns: i64,
    /// `webtransport` or `websocket`.
    pub target: String,
    /// Title of the recording.
    pub title: String,
    /// Name and version of the browser.
    pub browser: String,
    /// Address of the server.
    pub server: String,
}

/// Orders to the page, and the state of the test.
#[derive(Serialize, Default)]
pub struct Orders {
    /// Orders in turn.
    orders: Vec<Order>,
    /// Time until the next step, ms.
    wait_ms: f64,
    /// True if the test is over.
    done: bool,
    /// State for a person.
    shown: Option<Shown>,
}

/// One order.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Sets the interval between probes, ms.
    Probe(f64),
    /// Asks for the uplink for this long, ms. The next step is taken once the turn has come.
    Turn(f64),
    Load {
        /// Name of the load.
        number: u32,
        /// True for a download.
        down: bool,
        /// Numbers of its flows, from here on.
        first_flow: i64,
        /// Number of its flows.
        flows: u32,
        /// Time after which it ends by itself, ms.
        ms: f64,
    },
    /// Stops the load of this number, or all of them.
    Stop(Option<u32>),
}

/// State of the test for a person.
#[derive(Clone, Serialize)]
struct Shown {
    phase: String,
    number: usize,
    elapsed_s: f64,
    whole_s: f64,
    down_bps: Option<u64>,
    up_bps: Option<u64>,
    rtt_ms: Option<f64>,
    note: String,
}

/// Flow of a running load.
#[derive(Default)]
struct Running {
    bytes: u64,
    ended: bool,
}

/// Running load.
struct Active {
    loaded: Loaded,
    flows: BTreeMap<i64, Running>,
    /// Bytes at times of the last second.
    readings: VecDeque<(Time, u64)>,
    moved: Time,
}

/// One test.
pub struct Test {
    setup: Setup,
    steps: Box<dyn Steps>,
    recording: Recording,
    rows: usize,
    loads: Vec<Active>,
    next_flow: i64,
    failed: Option<String>,
    shown: Option<Shown>,
}

/// The page's plan: a minute for an ordinary link. Time limits it, not bytes: the server has a limit of those.
fn plan(server: &str) -> Plan {
    let s = Duration::from_secs;
    Plan {
        server: server.into(),
        idle_min: s(4),
        idle_max: s(8),
        loaded_min: s(7),
        loaded_max: s(12),
        longest: Some(s(20)),
        phase_cap: s(30),
        budget: Bytes::new(1 << 50),
        ..Plan::default()
    }
}

impl Test {
    /// Prepares a test.
    pub fn new(now: Time, setup: Setup) -> Test {
        let plan = plan(&setup.server);
        let mut recording = Recording::default();
        let started_ns = unix_ns(&setup, now);
        recording.meta = Meta {
            format: base::record::FORMAT_VERSION,
            writer: format!("tailback {} in a browser", env!("CARGO_PKG_VERSION")),
            origin: Origin::Measured,
            verb: "test".into(),
            title: setup.title.clone(),
            started_ns,
            plan: serde_json::to_value(&plan).unwrap_or_default(),
            ..Meta::default()
        };
        let facts = &mut recording.meta.host.facts;
        facts.insert("browser".into(), setup.browser.clone());
        Test {
            setup,
            steps: Box::new(Bufferbloat::new(plan)),
            recording,
            rows: 0,
            loads: Vec::new(),
            next_flow: 0,
            failed: None,
            shown: None,
        }
    }

    fn push(&mut self, row: Row) {
        if self.rows < MOST_ROWS {
            self.rows += 1;
            self.recording.push(row);
        }
    }

    fn event(&mut self, now: Time, kind: &str, subject: &str, detail: &str) {
        let at = unix_ns(&self.setup, now);
        self.push(event_at(at, kind, subject, detail).into());
    }

    /// Takes rows of the probes' worker, as lines.
    ///
    /// # Errors
    /// A line that is no row.
    pub fn rows(&mut self, now: Time, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let row = lines::read(line)?;
            if let Row::Flow(f) = &row {
                self.counted(
                    now,
                    f.flow,
                    f.bytes_received.unwrap_or(0).max(0).unsigned_abs(),
                );
            }
            self.push(row);
        }
        Ok(())
    }

    /// Takes a reading of a flow that the page receives itself.
    pub fn received(&mut self, now: Time, flow: i64, bytes: u64) {
        self.counted(now, flow, bytes);
        let row = Flow {
            bytes_received: i64::try_from(bytes).ok(),
            ..Flow::about(
                unix_ns(&self.setup, now),
                flow,
                base::record::Direction::Down,
            )
        };
        self.push(row.into());
    }

    fn counted(&mut self, now: Time, flow: i64, bytes: u64) {
        for load in &mut self.loads {
            if let Some(its) = load.flows.get_mut(&flow) {
                if bytes > its.bytes {
                    load.moved = now;
                }
                its.bytes = its.bytes.max(bytes);
            }
        }
    }

    /// Takes the end of a flow; `why` is empty where the page ended it.
    pub fn ended(&mut self, now: Time, flow: i64, why: &str) {
        for load in &mut self.loads {
            if let Some(its) = load.flows.get_mut(&flow) {
                its.ended = true;
            }
        }
        if !why.is_empty() {
            self.event(now, "fault", &format!("flow {flow}"), why);
        }
    }

    /// Takes a reason to doubt the run.
    pub fn doubt(&mut self, now: Time, why: &str) {
        self.event(now, "doubt", "browser", why);
    }

    /// Ends the test early.
    pub fn stop(&mut self, why: &str) {
        self.steps = self.steps.ended_early(why);
    }

    fn loaded(&mut self, now: Time) -> Vec<Loaded> {
        let state = |load: &mut Active| {
            let bytes = load.flows.values().map(|f| f.bytes).sum();
            load.readings.push_back((now, bytes));
            while (load.readings.get(1))
                .is_some_and(|(at, _)| now.saturating_since(*at) >= RATE_OVER)
            {
                load.readings.pop_front();
            }
            let rate = load.readings.front().and_then(|(at, before)| {
                let s = now.saturating_since(*at).as_secs_f64();
                let bits = bytes.saturating_sub(*before) as f64 * 8.0;
                (s > 0.5).then(|| BitsPerSec::new((bits / s) as u64))
            });
            Loaded {
                bytes: Bytes::new(bytes),
                rate,
                alive: load.flows.values().filter(|f| !f.ended).count() as u32,
                still_for: now.saturating_since(load.moved),
                ..load.loaded
            }
        };
        self.loads.iter_mut().map(state).collect()
    }

    /// The next orders.
    pub fn step(&mut self, now: Time) -> Orders {
        let mut out = Orders::default();
        let loads = self.loaded(now);
        loop {
            let recording = &self.recording;
            let seen = Seen {
                now,
                unix_ns: unix_ns(&self.setup, now),
                trains: &[],
                failed: self.failed.as_deref(),
                scouted: None,
                loads: &loads,
                ended: &[],
                answer: None,
                part: None,
                tally: Bytes::ZERO,
                probe_size: Bytes::new(wire::datagram_len(None) as u64 + AROUND),
                probe_target: self.setup.target.as_str().into(),
                headers: 28,
                rows: &|read: &mut dyn FnMut(&Recording)| read(recording),
            };
            match self.steps.next(&seen) {
                Action::Wait(time) => {
                    out.wait_ms = time.as_secs_f64() * 1e3;
                    break;
                }
                Action::Turn(lasts) => {
                    out.orders.push(Order::Turn(lasts.as_secs_f64() * 1e3));
                    break;
                }
                Action::Done | Action::End(_) => {
                    out.done = true;
                    break;
                }
                action => self.perform(now, action, &mut out),
            }
        }
        out.shown = self.shown.clone();
        out
    }

    fn perform(&mut self, now: Time, action: Action, out: &mut Orders) {
        match action {
            Action::Probe(probing) => {
                // The careful interval is for links of some kbit/s. One that has brought this page within a user's patience
                // is faster.
                let interval = match probing.interval {
                    cadence::UNKNOWN => FASTEST,
                    known => known.max(FASTEST),
                };
                let ms = interval.as_secs_f64() * 1e3;
                out.orders.push(Order::Probe(ms));
            }
            Action::Load(load) => {
                let first = self.next_flow;
                self.next_flow += i64::from(load.flows);
                let flows = (first..self.next_flow).map(|n| (n, Running::default()));
                self.loads.push(Active {
                    loaded: Loaded {
                        number: load.number,
                        direction: load.direction,
                        bytes: Bytes::ZERO,
                        rate: None,
                        alive: load.flows,
                        still_for: Duration::ZERO,
                    },
                    flows: flows.collect(),
                    readings: VecDeque::new(),
                    moved: now,
                });
                out.orders.push(Order::Load {
                    number: load.number,
                    down: load.direction == base::record::Direction::Down,
                    first_flow: first,
                    flows: load.flows,
                    ms: load.duration.as_secs_f64() * 1e3,
                });
            }
            Action::StopLoad(number) => {
                let its = |n: u32| number.is_none_or(|number| n == number);
                self.loads.retain(|l| !its(l.loaded.number));
                out.orders.push(Order::Stop(number));
            }
            Action::TrySend(_) | Action::Send(_) => {
                self.failed = Some("a browser sends no trains of packets".into());
            }
            Action::Event(kind, subject, detail) => self.event(now, kind, &subject, &detail),
            Action::Row(row) => self.push(row),
            Action::Show(stage) => {
                let latest =
                    experiment::bufferbloat::rtt_now(&self.recording, unix_ns(&self.setup, now));
                self.shown = Some(Shown {
                    phase: stage.name,
                    number: stage.number,
                    elapsed_s: stage.elapsed.as_secs_f64(),
                    whole_s: stage.whole.as_secs_f64(),
                    down_bps: stage.rate_down.map(|r| r.get()),
                    up_bps: stage.rate_up.map(|r| r.get()),
                    rtt_ms: latest.map(|r| r.as_secs_f64() * 1e3),
                    note: stage.note,
                });
            }
            _ => {}
        }
    }

    /// Report of the test as a part of a page, and the answer behind it.
    ///
    /// # Errors
    /// No phase of the test has begun.
    pub fn report(&mut self, now: Time, complete: bool) -> Result<String, String> {
        self.recording.meta.complete = complete;
        self.recording.meta.ended_ns = Some(unix_ns(&self.setup, now));
        let answer = analysis::analyse_test(&self.recording, &Options::default());
        let answer = answer.map_err(|e| e.to_string())?;
        Ok(report::html::part(&answer, &self.recording))
    }

    /// The recording, for the server: its facts in the first line, then its rows.
    pub fn saved(&self) -> String {
        let mut out = serde_json::to_string(&self.recording.meta).unwrap_or_default();
        out.push('\n');
        let rec = &self.recording;
        let mut put = |row: Row| lines::write(&row, &mut out);
        rec.delay.iter().cloned().map(Row::from).for_each(&mut put);
        rec.flow.iter().cloned().map(Row::from).for_each(&mut put);
        rec.event
            .iter()
            .cloned()
            .map(|e: Event| e.into())
            .for_each(&mut put);
        out
    }
}

fn unix_ns(setup: &Setup, now: Time) -> i64 {
    let since = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    setup.origin_ns.saturating_add(since)
}
