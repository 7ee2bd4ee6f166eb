//! Simulated lines whose queue is known to us and unknown to the analysis.

use analysis::answer::{Discipline, DisciplineGuess};
use base::record::{Flow, Recording, Row, Traffic};
use sim::{Draft, run};

/// View of the recording that the analysis gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// As `tailback test` records: phases, samples of the load's flows, 100 probes a second, 20 on slow lines.
    Test,
    /// The same without the marks of the phases: the load is found.
    Unmarked,
    /// As `tailback monitor` records: 10 probes a second and the interface's counters, five minutes of load
    /// after five without.
    Monitor,
}

/// True discipline of a simulated queue, and its description.
pub struct Truth {
    pub is: Discipline,
    pub queue: &'static str,
    /// Other keys of the scenario, such as losses of the line.
    pub set: &'static [(&'static str, &'static str)],
}

/// True if a verdict is right. "Fair queueing" makes no claim about the AQM behind it.
pub fn right(truth: &Truth, said: Discipline) -> bool {
    said == truth.is
        || said == Discipline::CannotTell
        || (truth.is, said) == (FairQueueingAqm, Discipline::FairQueueing)
}

const fn truth(is: Discipline, queue: &'static str) -> Truth {
    with(is, queue, &[])
}
const fn with(
    is: Discipline,
    queue: &'static str,
    set: &'static [(&'static str, &'static str)],
) -> Truth {
    Truth { is, queue, set }
}

use Discipline::{Aqm, DropTail, FairQueueingAqm};

const SHORT: &[(&str, &str)] = &[
    ("flow.0.kind", "transfers"),
    ("flow.0.size", "300 kB"),
    ("flow.0.think", "1 s"),
];
const LOSS_01: &[(&str, &str)] = &[("link.loss", "random:probability=0.001")];
const LOSS_05: &[(&str, &str)] = &[("link.loss", "random:probability=0.005")];
const LOSS_20: &[(&str, &str)] = &[("link.loss", "random:probability=0.02")];

pub const TRUTHS: &[Truth] = &[
    truth(DropTail, "fifo:packets=50"),
    truth(DropTail, "fifo:packets=300"),
    truth(DropTail, "fifo:packets=1000"),
    truth(DropTail, "prio:rest=fifo"),
    truth(DropTail, "drr:rest=fifo"),
    with(DropTail, "fifo:packets=100", LOSS_01),
    with(DropTail, "fifo:packets=100", LOSS_05),
    with(DropTail, "fifo:packets=100", LOSS_20),
    with(DropTail, "fifo:packets=100", SHORT),
    truth(Aqm, "codel"),
    truth(Aqm, "pie"),
    truth(Aqm, "pie:variant=2013"),
    truth(Aqm, "pie:variant=linux"),
    truth(Aqm, "red"),
    truth(Aqm, "red:adaptive=true"),
    truth(Aqm, "pi"),
    truth(Aqm, "blue"),
    truth(Aqm, "sfb"),
    truth(Aqm, "dualpi2"),
    truth(Aqm, "dualpi2:random=true"),
    truth(Aqm, "prio"),
    with(Aqm, "pie", LOSS_05),
    with(Aqm, "codel", SHORT),
    truth(FairQueueingAqm, "fq_codel"),
    truth(FairQueueingAqm, "fq_pie"),
    truth(FairQueueingAqm, "cake"),
    with(FairQueueingAqm, "fq_codel", LOSS_05),
    with(FairQueueingAqm, "fq_codel", SHORT),
];

/// Scenario of a bulk load behind a queue of known kind, after a time with probes alone.
fn scenario(
    truth: &Truth,
    (mbps, rtt_ms, flows): (u64, u64, u64),
    (idle_s, load_s): (u64, u64),
    gap: &str,
) -> String {
    let (end_s, half_us) = (idle_s + load_s, rtt_ms * 500);
    format!(
        r#"
duration = "{end_s} s"
topology = "linear"
[link]
rate = "{mbps} Mbit/s"
delay = "{half_us} us"
queue = "{}"
[reverse]
rate = "1 Gbit/s"
delay = "{half_us} us"
[tcp]
controller = "cubic:variant=linux,hystart=classic"
[[flow]]
kind = "bulk"
count = {flows}
start = "{idle_s} s"
stagger = "100 ms"
[[flow]]
kind = "probe"
size = "100 B"
gap = "{gap}"
[[phase]]
name = "idle"
from = "0 s"
to = "{idle_s} s"
[[phase]]
name = "up"
from = "{idle_s} s"
to = "{end_s} s"
"#,
        truth.queue,
    )
}

pub fn judged(
    seen: Seen,
    truth: &Truth,
    mbps: u64,
    rtt_ms: u64,
    flows: u64,
    seed: u64,
) -> DisciplineGuess {
    let (idle_s, load_s, gap) = match seen {
        Seen::Monitor => (300, 300, "100 ms"),
        // As in a test, probes are a small part of what a slow line carries.
        _ if mbps <= 2 => (20, 30, "50 ms"),
        _ => (20, 30, "10 ms"),
    };
    let text = scenario(truth, (mbps, rtt_ms, flows), (idle_s, load_s), gap);
    let mut draft = Draft::new(&text).expect("the scenario is sound");
    for (key, value) in truth.set {
        draft.set(key, value, "truth").expect("a known key");
    }
    let scenario = draft.finish().expect("the scenario is sound");
    let mut recording = Recording::default();
    let mut carried = Counter::default();
    let mut take = |row: Row| match (seen, &row) {
        // The analysis is not told of the queue, whoever wrote the recording.
        (_, Row::Queue(_)) | (Seen::Unmarked | Seen::Monitor, Row::Event(_)) => {}
        (Seen::Monitor, Row::Flow(f)) => {
            if let Some(row) = carried.counts(f) {
                recording.push(row.into());
            }
        }
        _ => recording.push(row),
    };
    run(&scenario, seed, Some(&mut take), &mut |_| true).expect("it runs");
    analysis::discipline::judge(&recording)
}

/// The interface's counter, read each second: what the flows together have delivered.
#[derive(Default)]
struct Counter {
    flows: std::collections::BTreeMap<i64, i64>,
    read_ns: i64,
    read: i64,
}

impl Counter {
    fn counts(&mut self, f: &Flow) -> Option<Traffic> {
        const SECOND: i64 = 1_000_000_000;
        let total: i64 = self.flows.values().sum();
        self.flows
            .insert(f.flow, f.delivered_bytes.or(f.bytes_acked)?);
        if self.read_ns == 0 {
            self.read_ns = f.t_ns;
        }
        let interval_ns = f.t_ns - self.read_ns;
        (interval_ns >= SECOND).then(|| {
            let row = Traffic {
                t_ns: f.t_ns,
                interval_ns,
                interface: "wan".into(),
                rx_bytes: None,
                tx_bytes: Some(total - self.read),
            };
            (self.read_ns, self.read) = (f.t_ns, total);
            row
        })
    }
}
