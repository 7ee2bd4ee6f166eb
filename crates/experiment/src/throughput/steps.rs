//! The line filled by one method after the other, either way.
//!
//! Probes of a session and the interface's counters go on from the beginning to the end. Between two fillings the line is
//! looked at: where others came to use it meanwhile, the run ends.

use super::Params;
use crate::host::{Counted, Load, Loaded, Probing, Scouted};
use crate::run::{TICK, TURN};
use crate::spec::Setting;
use crate::steps::{Action, Planned, Seen, Stage, Steps};
use base::noted::throughput::{Method, Step, ThroughputNote};
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration, Time};
use measure::cadence::payload_for;
use std::collections::VecDeque;

/// Datagrams are sent so much faster than what several connections carried, or a few packets back to back showed.
const OVERLOAD: f64 = 1.3;
/// Number, size and repetitions of packets back to back: cross traffic in between makes one look slower.
const SCOUTS: (u8, Bytes, usize) = (8, Bytes::new(1200), 3);
/// Whole packets of TCP for a byte of payload, at most usual sizes.
const HEADERS: f64 = 1500.0 / 1448.0;
/// Own probes of a session: a tenth of a second shows what a load does, and costs 8 kbit/s each way.
const SESSION: Duration = Duration::from_millis(100);
const METHODS: [Method; 3] = [Method::Several, Method::One, Method::Datagrams];

/// Load in progress.
#[derive(Clone, Debug)]
struct Filling {
    method: Method,
    direction: Direction,
    flows: u32,
    /// Rate of datagrams.
    rate: Option<BitsPerSec>,
    /// Upper limit on its bytes.
    share: Bytes,
    /// Tally at its beginning.
    before: Bytes,
    began: Time,
    began_ns: i64,
    /// Length of the load, and its bytes, at the end of slow start.
    warm: Option<(Duration, u64)>,
}

/// A filling that is over.
#[derive(Clone, Debug)]
struct Filled {
    filling: Filling,
    took: Duration,
    bytes: u64,
    ended_ns: i64,
    cut: Option<String>,
}

#[derive(Clone, Debug)]
enum State {
    Begin,
    Rest {
        began: Time,
        began_ns: i64,
    },
    /// Packets back to back that are still to be sent.
    Scouting(usize),
    Next,
    Fill(Filling),
    Account(Filled),
    End,
}

/// A run of the kind.
pub struct Throughput {
    params: Params,
    budget: Bytes,
    planned: Planned,
    state: State,
    /// Number of the stage, from 1.
    number: usize,
    left: VecDeque<(Direction, Method)>,
    scouted: Option<Scouted>,
    /// Highest rate that was seen of the present direction.
    carried: Option<BitsPerSec>,
}

impl Steps for Throughput {
    fn next(&mut self, seen: &Seen) -> Action {
        loop {
            if let Some(action) = self.planned.take() {
                return action;
            }
            self.state = match std::mem::replace(&mut self.state, State::End) {
                State::Begin => self.begin(seen),
                State::Rest { began, began_ns } => self.rest(began, began_ns, seen),
                State::Scouting(left) => self.scouting(left, seen),
                State::Next => self.next_filling(seen),
                State::Fill(filling) => self.fill(filling, seen),
                State::Account(filled) => self.account(filled, seen),
                State::End => return Action::Done,
            };
        }
    }

    fn ended_early(&mut self, _: &str) -> Box<dyn Steps> {
        let closing = [Action::StopLoad(None), Action::Collect, Action::StopProbes];
        Box::new(Planned::of(closing))
    }
}

impl Throughput {
    /// Creates the steps of a run.
    pub fn new(params: Params, setting: &Setting) -> Throughput {
        let ways = params.direction.directions().iter();
        let left = ways.flat_map(|d| METHODS.map(|m| (*d, m))).collect();
        Throughput {
            params,
            budget: setting.budget,
            planned: Planned::default(),
            state: State::Begin,
            number: 1,
            left,
            scouted: None,
            carried: None,
        }
    }

    fn begin(&mut self, seen: &Seen) -> State {
        let detail = serde_json::json!({ "ip_bytes": seen.probe_size.get() });
        self.planned
            .event("probe", &*seen.probe_target, detail.to_string());
        self.planned.then(Action::Turn(TURN));
        self.planned.then(Action::Count(Counted::Interface));
        self.planned.then(Action::Probe(Probing {
            interval: SESSION,
            shortest: SESSION,
        }));
        State::Rest {
            began: Time::MAX,
            began_ns: 0,
        }
    }

    fn rest(&mut self, began: Time, began_ns: i64, seen: &Seen) -> State {
        if began == Time::MAX {
            return State::Rest {
                began: seen.now,
                began_ns: seen.unix_ns,
            };
        }
        let (elapsed, whole) = (seen.now.saturating_since(began), self.params.idle);
        if elapsed >= whole {
            let note = ThroughputNote::Idle {
                began_ns,
                ended_ns: seen.unix_ns,
            };
            self.planned.then(Action::note(&note, seen.unix_ns, ""));
            return self.scout(SCOUTS.2);
        }
        self.show("at rest".into(), elapsed, whole, String::new());
        let left = whole.saturating_sub(elapsed);
        self.planned.then(Action::Wait(left.min(TICK)));
        State::Rest { began, began_ns }
    }

    /// TCP alone would not fill a line that loses packets.
    fn scout(&mut self, left: usize) -> State {
        self.show(
            "a few packets back to back".into(),
            Duration::ZERO,
            TICK,
            String::new(),
        );
        self.planned.then(Action::Wait(TICK));
        self.planned.then(Action::Scout(SCOUTS.0, SCOUTS.1));
        State::Scouting(left - 1)
    }

    /// Keeps the fastest rate of a few looks.
    fn scouting(&mut self, left: usize, seen: &Seen) -> State {
        if let Some(latest) = seen.scouted {
            let before = self.scouted.unwrap_or(latest);
            self.scouted = Some(Scouted {
                up: before.up.max(latest.up),
                down: before.down.max(latest.down),
            });
        }
        match left {
            0 => State::Next,
            _ => self.scout(left),
        }
    }

    fn next_filling(&mut self, seen: &Seen) -> State {
        let many = self.left.len() as u64;
        let Some((direction, method)) = self.left.pop_front() else {
            self.planned.then(Action::StopProbes);
            return State::End;
        };
        if method == METHODS[0] {
            self.carried = self.scouted.map(|s| s.rate(direction));
        }
        self.number += 1;
        let share = Bytes::new(self.budget.saturating_sub(seen.tally).get() / many);
        let rate = match (method, self.carried) {
            (Method::Datagrams, Some(carried)) => Some(overload(carried).min(spends(share))),
            // Nobody knows how fast to send.
            (Method::Datagrams, None) => return State::Next,
            _ => None,
        };
        self.start(Filling {
            method,
            direction,
            flows: match method {
                Method::Several => self.params.flows,
                _ => 1,
            },
            rate,
            share,
            before: seen.tally,
            began: seen.now,
            began_ns: seen.unix_ns,
            warm: None,
        })
    }

    fn start(&mut self, filling: Filling) -> State {
        self.planned.then(Action::Load(Load {
            number: 0,
            direction: filling.direction,
            flows: filling.flows,
            congestion: None,
            duration: (self.params.warm_up + self.params.hold) * 2,
            sample: TICK,
            datagrams: filling.rate,
        }));
        self.planned.then(Action::Wait(TICK));
        State::Fill(filling)
    }

    fn fill(&mut self, mut filling: Filling, seen: &Seen) -> State {
        let (elapsed, whole) = (
            seen.now.saturating_since(filling.began),
            self.params.warm_up + self.params.hold,
        );
        let load = seen.loads.first();
        let bytes = load.map_or(0, |l| l.bytes.get());
        if filling.warm.is_none() && elapsed >= self.params.warm_up {
            filling.warm = Some((elapsed, bytes));
        }
        // Datagrams are counted when both ends have told of them.
        let sent = match filling.rate {
            Some(rate) => rate.bytes_in_floor(elapsed),
            None => seen.tally.saturating_sub(filling.before),
        };
        let cut = match load {
            _ if elapsed >= whole => None,
            Some(Loaded { alive: 1.., .. }) if sent < filling.share => {
                let note = load.and_then(|l| l.rate);
                let note = note.map_or_else(String::new, |r| format!("{r:.3}"));
                self.show(name(&filling), elapsed, whole, note);
                self.planned.then(Action::Wait(TICK));
                return State::Fill(filling);
            }
            Some(Loaded { alive: 1.., .. }) => Some(format!(
                "it had its share of the budget, {:.3}",
                filling.share
            )),
            _ => Some("it ended by itself".to_owned()),
        };
        self.planned.then(Action::StopLoad(None));
        self.planned.then(Action::Collect);
        State::Account(Filled {
            filling,
            took: elapsed,
            bytes,
            ended_ns: seen.unix_ns,
            cut,
        })
    }

    fn account(&mut self, filled: Filled, seen: &Seen) -> State {
        let Filled {
            filling,
            took,
            bytes,
            ended_ns,
            cut,
        } = filled;
        let (from, already) = filling.warm.filter(|w| w.0 < took).unwrap_or_default();
        let planned_ns = filling.began_ns + self.params.warm_up.as_nanos() as i64;
        let warm_ns = match cut {
            None => planned_ns,
            // Half of what there is.
            Some(_) => planned_ns.min(filling.began_ns + (ended_ns - filling.began_ns) / 2),
        };
        let counts = seen.ended.first();
        let payload = filling.rate.map(|rate| u64::from(payload_for(rate)));
        let note = ThroughputNote::Step(Step {
            method: filling.method,
            direction: filling.direction,
            flows: filling.flows,
            began_ns: filling.began_ns,
            warm_ns,
            ended_ns,
            payload_bytes: payload,
            packet_bytes: payload.map(|p| p + u64::from(seen.headers)),
            sent: counts.and_then(|c| c.sent),
            received: counts.and_then(|c| c.received),
            cut,
        });
        self.planned.then(Action::note(&note, seen.unix_ns, ""));
        // The rate of whole packets once slow start was over; none where it did not come so far.
        let moved = bytes.saturating_sub(already) as f64;
        let bps = moved * 8.0 * HEADERS / took.saturating_sub(from).as_secs_f64();
        let rate = (bps >= 1.0).then(|| BitsPerSec::new(bps as u64));
        self.carried = self.carried.max(rate);
        // What is done is not spoilt by whoever comes then.
        if !self.left.is_empty() {
            self.planned.then(Action::LookForOthers(self.number));
        }
        State::Next
    }

    fn show(&mut self, name: String, elapsed: Duration, whole: Duration, note: String) {
        self.planned.then(Action::Show(Stage {
            name,
            number: self.number,
            elapsed,
            whole,
            note,
            ..Stage::default()
        }));
    }
}

/// Rate at which a share of the budget is spent between two looks at it: the far end may have told of a faster line.
fn spends(share: Bytes) -> BitsPerSec {
    let bits = u128::from(share.get()) * 8 * 1_000_000_000;
    let bps = bits / u128::from(TICK.as_nanos());
    BitsPerSec::new(u64::try_from(bps).unwrap_or(u64::MAX))
}

fn overload(carried: BitsPerSec) -> BitsPerSec {
    BitsPerSec::new((carried.get() as f64 * OVERLOAD) as u64)
}

fn name(filling: &Filling) -> String {
    let method = match filling.method {
        Method::Several => "several connections",
        Method::One => "one connection",
        Method::Datagrams => "datagrams",
    };
    format!("{} {method}", filling.direction.word())
}
