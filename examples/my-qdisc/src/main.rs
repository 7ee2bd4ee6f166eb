//! Queue discipline from outside the repository: added to the table by name, checked as the built-in ones are, and
//! simulated beside them. `cargo run --release` in this directory prints the mean queueing delay and the drops of both.

use base::rng::Streams;
use base::words::{Entry, Parameter, Unit, Value, Words};
use base::{Bytes, Packet, Time};
use link::qdisc::check::{check, random_ops};
use link::qdisc::registry::{QdiscSpec, add};
use link::qdisc::{Backlog, Fates, Limits, Qdisc, Reason};
use std::collections::VecDeque;
use std::error::Error;

/// First in, first out; when it is full, the oldest packet makes room for the new one.
struct HeadDrop {
    limit: u64,
    waiting: VecDeque<Packet>,
    bytes: Bytes,
}

const ENTRY: Entry = Entry {
    name: "head_drop",
    summary: "first in, first out; a full queue drops its oldest packet",
    sources: &[],
    parameters: &[Parameter {
        name: "limit",
        unit: Unit::Packets,
        default: Some("100"),
        min: "1",
        max: "1000000",
        section: "",
        doc: "packets that may wait",
        required: false,
    }],
};

impl HeadDrop {
    fn take(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.len;
        Some(packet)
    }
}

impl Qdisc for HeadDrop {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        if self.waiting.len() as u64 >= self.limit
            && let Some(oldest) = self.take()
        {
            fates.dropped(oldest, Reason::Overlimit);
        }
        self.bytes += packet.len;
        self.waiting.push_back(Packet {
            enqueued: now,
            ..packet
        });
    }
    fn dequeue(&mut self, _: Time, _: &mut Fates) -> Option<Packet> {
        self.take()
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.bytes,
            packets: self.waiting.len() as u64,
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

fn limit(words: &Words) -> u64 {
    match words.all().next() {
        Some((_, Some(Value::Count(limit)))) => *limit,
        _ => 1,
    }
}

/// Runs random operations through the discipline, as the property tests do with each built-in one.
fn verify() -> Result<(), Box<dyn Error>> {
    let spec: QdiscSpec = "head_drop:limit=10".parse()?;
    for seed in 0..200 {
        let streams = Streams::new(seed);
        let ops = random_ops(&mut streams.stream("ops"));
        check(&mut spec.build(&streams, "check"), spec.limits(), &ops)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let limits = |words: &Words| Limits {
        packets: Some(limit(words)),
        bytes: None,
    };
    add(ENTRY, limits, |words, _, _| {
        Box::new(HeadDrop {
            limit: limit(words),
            waiting: VecDeque::new(),
            bytes: Bytes::ZERO,
        })
    })?;
    verify()?;
    for queue in ["fifo:packets=100", "head_drop"] {
        let mut draft = sim::Draft::new(include_str!("../../../scenarios/dumbbell.toml"))?;
        draft.set("link.queue", queue, "this example")?;
        let scenario = draft.finish()?;
        let outcome = sim::run(&scenario, scenario.seed, None, &mut |_| true)?;
        let link = &outcome.links[0];
        println!(
            "{queue}: {:.1} ms, {} drops",
            link.queue_ms.mean, link.drops
        );
    }
    Ok(())
}
