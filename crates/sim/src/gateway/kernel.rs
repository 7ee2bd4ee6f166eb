//! Gateway whose kernel forwards the packets, as `tailback control` on Linux: the program at the interface counts and
//! obeys, and user space wakes up for its reports.
//!
//! Probes of the scenario are those of the gateway's session. An answer is read at the next wake-up, as on Linux.

use crate::segment::Segment;
use base::rng::Rng;
use base::{Bytes, Duration, Packet, Time};
use control::agent::{Agent, Answered, Egress, Steers};
use control::queue::Sent;
use control::upload::{Controller, Decision};
use link::qdisc::Verdict;
use std::collections::BTreeMap;

/// Packets of at most this size are never signalled; the default of `tailback control`.
const SMALL: Bytes = Bytes::new(256);
/// Time between the stamp of a probe's departure and the reading of the counters.
const READ_AFTER: Duration = Duration::from_micros(200);
/// Time after which a datagram's answer is not awaited any longer.
const LOST_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Kernel<C = Controller> {
    agent: Agent<C>,
    egress: Egress,
    /// Datagrams in flight, by the time at which they left their host, and their numbers.
    probes: BTreeMap<(Time, u64), Sent>,
    /// Answers that user space has not read yet.
    unread: Vec<Answered>,
}

impl<C: Steers> Kernel<C> {
    /// Creates a gateway's kernel side and user space at time zero.
    pub fn new(controller: C, draws: Rng) -> Kernel<C> {
        Kernel {
            agent: Agent::of(controller, draws, Time::ZERO),
            egress: Egress::default(),
            probes: BTreeMap::new(),
            unread: Vec::new(),
        }
    }

    /// Time of the next wake-up.
    pub fn due(&self) -> Time {
        self.agent.due()
    }

    /// Packets dropped and marked.
    pub fn signals(&self) -> u64 {
        let counts = self.egress.counts();
        counts.drops + counts.marks
    }

    /// Reads answers and counters, and gives orders.
    pub fn wake(&mut self, now: Time) -> Option<Decision> {
        for answered in self.unread.drain(..) {
            self.agent.answered(now, &answered);
        }
        let (decision, orders) = self.agent.wake(now, self.egress.counts());
        self.egress.order(orders);
        decision
    }

    /// Decides on one packet, and notes a probe that passes.
    pub fn admit(&mut self, now: Time, packet: &Packet, segment: &Segment) -> Verdict {
        let exempt = packet.len <= SMALL;
        let verdict = (self.egress).packet(now, packet.len, packet.ecn.is_capable(), exempt);
        if is_probe(segment) {
            let counts = self.egress.counts();
            self.agent.passed(now, counts);
            let sent = Sent {
                departed: now.saturating_sub(READ_AFTER),
                total: counts.bytes,
            };
            self.probes.insert((segment.sent, segment.seq), sent);
            let lost = self.probes.first_key_value().map(|p| *p.0);
            if let Some(lost) = lost.filter(|p| now.saturating_since(p.0) > LOST_AFTER) {
                self.probes.remove(&lost);
            }
        }
        verdict
    }

    /// Decides on one packet that has crossed the link. A probe among them is an answer from beyond the link: what it did
    /// before counts as no time.
    pub fn arrived(&mut self, now: Time, packet: &Packet, segment: &Segment) -> Verdict {
        if is_probe(segment) {
            self.unread.push(Answered {
                sent: Sent {
                    departed: segment.sent,
                    total: 0,
                },
                rtt: now.saturating_since(segment.sent),
                up_ns: 0,
            });
        }
        let exempt = packet.len <= SMALL;
        (self.egress).packet(now, packet.len, packet.ecn.is_capable(), exempt)
    }

    /// Takes the answer to a probe as it arrives.
    pub fn answered(&mut self, now: Time, probe: &Segment) {
        if let Some(sent) = self.probes.remove(&(probe.sent, probe.seq)) {
            self.unread.push(Answered {
                sent,
                rtt: now.saturating_since(sent.departed),
                up_ns: (probe.delay + READ_AFTER).as_nanos() as i64,
            });
        }
    }
}

/// True for datagrams: segments of connections have flags or payload.
fn is_probe(segment: &Segment) -> bool {
    segment.len == 0 && segment.flags == 0
}
