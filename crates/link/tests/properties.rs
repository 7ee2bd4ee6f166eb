//! What must hold for every discipline of the registry under any sequence of operations, and for a
//! link with any of them. A discipline is tested here from the moment it is listed.

use base::rng::Streams;
use base::{Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use link::qdisc::Limits;
use link::qdisc::check::{Op, check, dscp, random_ops};
use link::qdisc::registry::{AnyQdisc, QDISCS, QdiscSpec};
use link::qdisc::{Backlog, Fate, Fates, Qdisc, Reason};
use link::{Delivery, DirectionSpec, Express, Link};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Operations, each with the time since the one before in microseconds.
fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let enqueue = (0..6u64, prop_oneof![40..100u64, Just(1500)]).prop_map(|(flow, len)| {
        // A flow keeps its ECN field, or DualPI2 would have to break its order.
        let ecn = (flow % 4) as u8;
        Op::Enqueue { flow, len, ecn }
    });
    let dequeue = (1..4u8).prop_map(|times| Op::Dequeue { times });
    let gap = prop_oneof![4 => 0..3_000u64, 1 => 0..200_000u64];
    prop::collection::vec((gap, prop_oneof![3 => enqueue, 2 => dequeue]), 1..400)
}

/// Each discipline with its defaults, and with each parameter at either bound.
fn variants() -> Vec<QdiscSpec> {
    let mut found = Vec::new();
    for spec in QDISCS {
        found.push(spec.entry.name.to_string());
        for p in spec.entry.parameters {
            for bound in [p.min, p.max] {
                found.push(format!("{}:{}={bound}", spec.entry.name, p.name));
            }
        }
    }
    found
        .iter()
        .map(|text| text.parse().unwrap_or_else(|e| panic!("{text}: {e}")))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn every_discipline_keeps_its_promises(ops in ops(), seed in any::<u64>()) {
        for spec in variants() {
            let run = || check(&mut spec.build(&Streams::new(seed), "test"), spec.limits(), &ops);
            let once = run();
            prop_assert!(once.is_ok(), "{spec}: {}", once.unwrap_err());
            prop_assert_eq!(once, run(), "{}: the same seed must give the same", spec);
        }
    }

    #[test]
    fn a_link_conserves_packets_and_does_not_care_when_it_is_polled(
        ops in ops(),
        seed in any::<u64>(),
        queue in prop::sample::select(variants()),
        impaired in impairments(),
        lazy in prop::collection::vec(any::<bool>(), 400),
    ) {
        let direction = DirectionSpec { queue, ..impaired };
        let eager = run_link(&direction, &ops, seed, |_| true)?;
        let lazy = run_link(&direction, &ops, seed, |i| lazy[i])?;
        prop_assert_eq!(&eager.0, &lazy.0, "deliveries");
        prop_assert_eq!(eager.1, lazy.1, "fates");
        prop_assert!(eager.0.windows(2).all(|w| w[0].at <= w[1].at), "not in order of arrival");
    }
}

fn impairments() -> impl Strategy<Value = DirectionSpec> {
    let rates = [
        "\"8 Mbit/s\"",
        "\"333333 bit/s\"",
        "{ steps = [{ at = \"0\", rate = \"2 Mbit/s\" }, { at = \"7 ms\", rate = \"0 bit/s\" }], repeat = \"9 ms\" }",
        "{ opportunities_ms = [0, 1, 1, 4, 9] }",
    ];
    let extras = [
        "",
        "jitter = \"uniform:width=5 ms\"",
        "jitter = \"normal:sd=2 ms,overtake=true\"\nloss = \"random:probability=0.1\"",
        "loss = \"gilbert_elliott:p=0.1,r=0.3\"\nduplicate = 0.2",
        "reorder = \"late:probability=0.3,delay=3 ms\"\nduplicate = 0.2\njitter = \"uniform\"",
        "framing = \"pppoe-llcsnap\"\ndrift = \"walk:sd=2 ms,step=5 ms\"",
        "policer = \"token_bucket:rate=3 Mbit/s,burst=3000\"\njitter = \"weibull:shape=0.5\"",
        "shaper = \"token_bucket:rate=3 Mbit/s,burst=3000\"\ndrift = \"wave:height=5 ms,period=20 ms\"\nloss = \"random\"",
        "shaper = \"htb:rate=3 Mbit/s\"\njitter = \"uniform:width=5 ms\"",
        "shaper = \"token_bucket:rate=1 Mbit/s,burst=9000\"\nframing = \"ethernet\"\nsleep = \"radio:idle=5ms,wake=3ms\"",
    ];
    (prop::sample::select(rates.to_vec()), prop::sample::select(extras.to_vec())).prop_map(|(rate, extra)| {
        let toml = format!("name = \"x\"\ntitle = \"x\"\n[up]\ndelay = \"9 ms\"\nrate = {rate}\n{extra}\n[down]\nrate = \"1 Gbit/s\"");
        link::LinkSpec::parse(&toml).unwrap().up
    })
}

/// What came out of a link, and what did not.
type Outcome = (Vec<Delivery>, Vec<(Packet, Fate)>);

/// Enqueues at the times of the operations; polls at every wake-up, but leaves out those intervals
/// between two arrivals for which `looks` says no.
fn run_link(
    direction: &DirectionSpec,
    ops: &[(u64, Op)],
    seed: u64,
    looks: impl Fn(usize) -> bool,
) -> Result<Outcome, TestCaseError> {
    let mut link = Link::new(&direction.params().unwrap(), &Streams::new(seed), "up");
    let (mut out, mut fates) = (Vec::new(), Fates::default());
    let mut now = Time::ZERO;
    // From `start` on, at each wake-up up to `end`; what is overdue by `start` comes all at once.
    let look =
        |link: &mut Link, start: Time, end: Time, out: &mut Vec<Delivery>, fates: &mut Fates| {
            while let Some(t) = link
                .next_wakeup()
                .map(|t| t.max(start))
                .filter(|t| *t <= end)
            {
                while let Some(d) = link.poll(t, fates) {
                    assert!(d.at <= t);
                    out.push(d);
                }
                assert!(
                    link.next_wakeup().is_none_or(|next| next > t),
                    "{t}: nothing is left to do at {t}"
                );
            }
        };
    for (i, (gap_us, op)) in ops.iter().enumerate() {
        let before = now;
        now += Duration::from_micros(*gap_us);
        if looks(i) {
            look(&mut link, before, now, &mut out, &mut fates);
        }
        if let Op::Enqueue { flow, len, ecn } = *op {
            let packet = Packet {
                id: PacketId(i as u64),
                flow: FlowId(flow),
                len: Bytes::new(len),
                ecn: Ecn::from_bits(ecn),
                dscp: dscp(flow),
                enqueued: Time::ZERO,
            };
            link.enqueue(now, packet, &mut fates);
        }
        let s = link.stats();
        let (drops, line) = (s.dropped_total(), s.on_line);
        prop_assert_eq!(
            s.offered.packets + s.duplicated.packets,
            drops.packets + s.backlog.packets + line.packets + s.delivered.packets
        );
        prop_assert_eq!(
            s.offered.bytes + s.duplicated.bytes,
            drops.bytes + s.backlog.bytes + line.bytes + s.delivered.bytes
        );
    }
    look(&mut link, now, Time::MAX, &mut out, &mut fates);
    let s = link.stats();
    prop_assert_eq!((s.backlog.packets, s.on_line.packets), (0, 0));
    let dropped = fates
        .list
        .iter()
        .filter(|f| matches!(f.1, Fate::Dropped(_)))
        .count() as u64;
    prop_assert_eq!(
        (s.dropped_total().packets, s.delivered.packets),
        (dropped, out.len() as u64)
    );
    Ok((out, fates.list))
}

/// A FIFO with a fault, each of a kind that has been shipped somewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    DeliversWhatItDropped,
    ForgetsWhatDoesNotFit,
    LastInFirstOut,
    IgnoresItsLimit,
    MarksWhatCannotBeMarked,
    MiscountsBytes,
    HoldsBackForEver,
}

struct Broken {
    fault: Fault,
    queue: VecDeque<Packet>,
    bytes: Bytes,
}

const BROKEN_LIMIT: usize = 10;

impl Qdisc for Broken {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        if self.queue.len() >= BROKEN_LIMIT && self.fault != Fault::IgnoresItsLimit {
            if self.fault != Fault::ForgetsWhatDoesNotFit {
                fates.dropped(packet, Reason::Overlimit);
            }
            return;
        }
        self.bytes += packet.len;
        self.queue.push_back(Packet {
            enqueued: now,
            ..packet
        });
    }
    fn dequeue(&mut self, _: Time, fates: &mut Fates) -> Option<Packet> {
        if self.fault == Fault::HoldsBackForEver && self.queue.len() == 1 {
            return None;
        }
        let last = self.fault == Fault::LastInFirstOut;
        let mut packet = if last {
            self.queue.pop_back()
        } else {
            self.queue.pop_front()
        }?;
        self.bytes -= if self.fault == Fault::MiscountsBytes {
            packet.len / 2
        } else {
            packet.len
        };
        match self.fault {
            Fault::DeliversWhatItDropped if self.queue.len() > 3 => {
                fates.dropped(packet, Reason::EarlyDrop)
            }
            Fault::MarksWhatCannotBeMarked => {
                packet.ecn = Ecn::Ce;
                fates.marked(packet, Reason::EarlyDrop);
            }
            _ => {}
        }
        Some(packet)
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.bytes,
            packets: self.queue.len() as u64,
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

/// Operations that a program draws for a discipline of its own are as good: the built-in ones pass, and they offer more
/// than any queue of ten holds.
#[test]
fn drawn_operations_hold_for_every_discipline_too() {
    let mut rng = Streams::new(11).stream("ops");
    for _ in 0..10 {
        let ops = random_ops(&mut rng);
        for spec in variants() {
            let run = || {
                check(
                    &mut spec.build(&Streams::new(3), "test"),
                    spec.limits(),
                    &ops,
                )
            };
            assert_eq!(run(), run(), "{spec}");
            run().unwrap_or_else(|e| panic!("{spec}: {e}"));
        }
    }
}

/// The canary: if one of these passed, the properties above would prove nothing.
#[test]
fn a_broken_discipline_is_caught() {
    let mut ops = vec![
        (
            100,
            Op::Enqueue {
                flow: 1,
                len: 1500,
                ecn: 0
            }
        );
        12
    ];
    ops.extend(vec![(1_000, Op::Dequeue { times: 1 }); 4]);
    ops.extend(vec![
        (
            100,
            Op::Enqueue {
                flow: 1,
                len: 40,
                ecn: 0
            }
        );
        4
    ]);
    let run = |fault| {
        let broken = Broken {
            fault,
            queue: VecDeque::new(),
            bytes: Bytes::ZERO,
        };
        let limits = Limits {
            packets: Some(BROKEN_LIMIT as u64),
            bytes: None,
        };
        check(&mut AnyQdisc::Custom(Box::new(broken)), limits, &ops).map(|_| ())
    };
    assert_eq!(run(Fault::None), Ok(()));
    for (fault, says) in [
        (Fault::DeliversWhatItDropped, "delivered but not inside"),
        (Fault::ForgetsWhatDoesNotFit, "but has Backlog"),
        (Fault::LastInFirstOut, "of its flow"),
        (Fault::IgnoresItsLimit, "is above"),
        (Fault::MarksWhatCannotBeMarked, "must not be marked"),
        (Fault::MiscountsBytes, "but has Backlog"),
        (Fault::HoldsBackForEver, "gave nothing"),
    ] {
        let said = run(fault).expect_err(&format!("{fault:?} was not noticed"));
        assert!(said.contains(says), "{fault:?}: {said}");
    }
}

proptest! {
    /// A first-in-first-out link of fixed rate knows at once when a packet comes out; told from outside it
    /// is the link that finds out.
    #[test]
    fn a_plain_link_that_knows_at_once_cannot_be_told_from_one_that_finds_out(
        ops in ops(), packets in 1..20u64, bytes in 100..20_000u64, rate in 1_000..100_000_000u64,
        delay_us in 0..5_000u64, ahead in prop::bool::ANY, late in 0..5usize,
    ) {
        for queue in [format!("fifo:packets={packets}"), format!("fifo:bytes={bytes}"),
                      format!("fifo:packets={packets},bytes={bytes}")] {
            let text = format!("rate = \"{rate} bit/s\"\ndelay = \"{delay_us} us\"\nqueue = \"{queue}\"");
            let direction: DirectionSpec = toml::from_str(&text).unwrap();
            let (params, streams) = (direction.params().unwrap(), Streams::new(1));
            let mut link = Link::new(&params, &streams, "up");
            let mut express = Express::of(&params).unwrap();
            let arrivals = |op: &Op| match op {
                Op::Enqueue { len, .. } => Some(*len as u32),
                Op::Dequeue { .. } => None,
            };
            // What is known ahead: every arrival is told before anything is asked.
            let (mut at, mut known) = (Time::ZERO, Vec::new());
            for (id, (gap, op)) in ops.iter().enumerate() {
                at += Duration::from_micros(*gap + 1);
                if let Some(len) = arrivals(op).filter(|_| ahead) {
                    known.push(express.enqueue(at, len, id));
                }
            }
            let (mut now, mut known) = (Time::ZERO, known.into_iter());
            let mut sojourns = VecDeque::new();
            for (id, (gap, op)) in ops.iter().enumerate() {
                now += Duration::from_micros(*gap + 1);
                let mut fates = Fates::default();
                if let Some(len) = arrivals(op) {
                    let exit = if ahead { known.next().unwrap() } else { express.enqueue(now, len, id) };
                    link.enqueue(now, Packet {
                        id: PacketId(id as u64), flow: FlowId(0), len: Bytes::new(u64::from(len)),
                        ecn: Ecn::NotEct, dscp: 0, enqueued: Time::ZERO,
                    }, &mut fates);
                    prop_assert_eq!(exit.is_none(), !fates.list.is_empty());
                    if exit.is_none() {
                        express.refuse(len);
                    }
                }
                while let Some(delivery) = link.poll(now, &mut fates) {
                    prop_assert_eq!(express.next_exit(), Some(delivery.at));
                    // Before it is taken it counts already.
                    if link.next_wakeup().is_none_or(|t| t > now) {
                        prop_assert_eq!(express.stats(now), link.stats());
                    }
                    let exit = express.take().unwrap();
                    prop_assert_eq!((exit.item as u64, exit.at), (delivery.packet.id.0, delivery.at));
                    sojourns.push_back(delivery.sojourn);
                    if sojourns.len() > late {
                        express.release(now, |waited| assert_eq!(Some(waited), sojourns.pop_front()));
                        prop_assert!(sojourns.is_empty());
                    }
                }
                prop_assert!(express.next_exit().is_none_or(|t| t > now));
                prop_assert_eq!(express.stats(now), link.stats());
                if !ahead {
                    prop_assert_eq!(express.backlog(now), link.stats().backlog.bytes);
                }
            }
        }
    }
}
