//! `[calculate] what = "train"`: datagrams A and B in turn over an emulated line in virtual time, and what arrives of them.

use base::program::{Program, Sending, Shot, Step, Train};
use base::record::Direction;
use base::rng::{Streams, uniform};
use base::{BitsPerSec, Duration};
use link::LinkSpec;
use serde::Deserialize;
use sim::ScenarioError;
use sim::craft::{Bench, Hosts};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crafted {
    /// One of `tailback list links`.
    link: String,
    #[serde(default)]
    v6: bool,
    /// Payload of datagram A, bytes.
    a: u32,
    /// Size of B; 0 if there is none.
    #[serde(default)]
    b: u32,
    #[serde(default)]
    pattern: Pattern,
    /// Rate of payload; not used by a burst.
    #[serde(default)]
    rate: Option<BitsPerSec>,
    /// Number of A; if absent, as many as `time` takes.
    #[serde(default)]
    count: Option<u64>,
    #[serde(default = "ten_seconds")]
    time: Duration,
    /// At which the host reaches the line; Gao 2012's do so over Ethernet of 100 Mbit/s.
    #[serde(default = "ethernet")]
    access: BitsPerSec,
    /// Each gap is longer or shorter by up to so much of itself: hosts are not exact, and strict periods lock into the line's.
    #[serde(default = "third")]
    vary: f64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    /// As long before each datagram.
    #[default]
    Even,
    /// B right behind A.
    Pairs,
    /// All at once.
    Burst,
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}
fn ethernet() -> BitsPerSec {
    BitsPerSec::from_mbps(100)
}
fn third() -> f64 {
    1.0 / 3.0
}

/// Gaps are drawn for so many rounds of A and B, which are then repeated.
const ROUNDS: u64 = 100;

impl Crafted {
    /// `received.a` and `received.b`, `share.a`, `share.b` and `share` of what was sent, `lost`, `throughput_bps` of payload, and
    /// of fragments `first` and `second`, the shares that arrive.
    ///
    /// # Errors
    /// A link that is not known, a program that cannot be.
    pub fn run(&self, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
        let invalid =
            |e: &dyn std::fmt::Display| ScenarioError::Invalid(format!("[calculate] {e}"));
        let line = LinkSpec::named(&self.link).map_err(|e| invalid(&e))?;
        let hosts = Hosts {
            v6: self.v6,
            access: self.access,
            seed,
            ..Hosts::default()
        };
        let program = self.program(seed).map_err(|e| invalid(&e))?;
        let mut bench = Bench::new(&line, hosts).map_err(|e| invalid(&e))?;
        let trains = bench.send(&Sending {
            stage: "train".into(),
            direction: Direction::Up,
            programs: vec![program],
            rest: Duration::from_secs(1),
        });
        trains
            .first()
            .map(|train| figures(train, self.b > 0))
            .ok_or_else(|| invalid(&"nothing was sent"))
    }

    fn program(&self, seed: u64) -> Result<Program, String> {
        let shot = |payload, gap_s: f64| Shot {
            payload,
            gap: Duration::from_secs_f64(gap_s),
        };
        let told = |e: base::program::ProgramError| e.to_string();
        if self.pattern == Pattern::Burst {
            let count = self.count.ok_or("a burst needs count")?;
            return Ok(Program::of(Step::burst(count, self.a)));
        }
        let rate = self.rate.ok_or("rate is needed, such as \"3 Mbit/s\"")?;
        if !(0.0..1.0).contains(&self.vary) {
            return Err(format!("vary = {} is not from 0 to below 1", self.vary));
        }
        let round_s = f64::from(self.a + self.b) * 8.0 / rate.get() as f64;
        let count = self
            .count
            .unwrap_or((self.time.as_secs_f64() / round_s).round() as u64);
        let mut rng = Streams::new(seed).stream("gaps");
        let mut varied = |gap_s: f64| gap_s * (1.0 + self.vary * (2.0 * uniform(&mut rng) - 1.0));
        let shots = (0..ROUNDS.min(count)).flat_map(|_| match (self.b, self.pattern) {
            (0, _) => vec![shot(self.a, varied(round_s))],
            (b, Pattern::Even) => vec![
                shot(self.a, varied(round_s / 2.0)),
                shot(b, varied(round_s / 2.0)),
            ],
            (b, _) => vec![shot(self.a, 0.0), shot(b, varied(round_s))],
        });
        Program::new(vec![Step::new((count / ROUNDS).max(1), shots.collect())]).map_err(told)
    }
}

/// Figures of a train of A alone, or of A and B in turn.
fn figures(train: &Train, two: bool) -> BTreeMap<String, f64> {
    let (mut sent, mut received, mut bytes) = ([0.0; 2], [0.0; 2], 0.0);
    let mut span: Option<(i64, i64)> = None;
    for (due, fate) in train.datagrams() {
        let which = usize::from(two && due.shot % 2 == 1);
        sent[which] += 1.0;
        if let Some(at) = fate.received_ns {
            received[which] += 1.0;
            bytes += f64::from(due.payload);
            span = Some(span.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
        }
    }
    let arriving_s = span.map_or(0.0, |(from, to)| (to - from) as f64 / 1e9);
    let took_s = arriving_s.max(train.facts.program.time().as_secs_f64());
    let all = sent[0] + sent[1];
    let mut figures = BTreeMap::from([
        ("received.a".to_string(), received[0]),
        ("received.b".into(), received[1]),
        ("share.a".into(), received[0] / sent[0]),
        ("share".into(), (received[0] + received[1]) / all),
        ("lost".into(), train.lost() as f64),
        ("throughput_bps".into(), bytes * 8.0 / took_s.max(1e-9)),
    ]);
    if two {
        figures.insert("share.b".into(), received[1] / sent[1]);
    }
    let fragments = train
        .facts
        .fragments_sent
        .zip(train.facts.fragments_received);
    if let Some((left, came)) = fragments.filter(|(left, _)| left.first > 0) {
        figures.insert("first".into(), came.first as f64 / left.first as f64);
        figures.insert("second".into(), came.second as f64 / left.second as f64);
    }
    figures
}
