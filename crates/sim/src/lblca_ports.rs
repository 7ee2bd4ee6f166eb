//! Link-by-link congestion avoidance in the packet simulator: the section `[lblca]` of a scenario. Every watched link
//! becomes a port. Its rate follows [`link::lblca::Port`], from its own queue and the feedback of the next routers.
//!
//! Feedback is one message per interval and port. By default it takes the propagation delay of the reverse link. It may
//! be lost; the last message received stays valid. A port without a watched link behind it leads to a receiver that
//! accepts everything. That receiver's buffer is always empty, so the port sends at its link's rate while its own queue
//! is above the lower set-point.
//!
//! **Source.** Thombre 2020, sections 6.3 and
//! 6.1.1, (6.1)–(6.6), algorithm 2. The least rate is 5 % of the link's, which needs no knowledge of the traffic; a
//! link's capacity is the weight of its port.
//!
//! **Deviations.** A port that sends slower than its link stretches its packets in time instead of leaving gaps.
//! Messages take no capacity of the reverse link: one of 64 bytes every 2 ms would be 0.3 Mbit/s.

use crate::error::ScenarioError;
use crate::network::{LinkIndex, Network};
use crate::topology::Graph;
use base::rng::{Rng, Streams, uniform};
use base::{BitsPerSec, Duration, Time};
use link::lblca::{Buffer, Feedback, Lblca, Port};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The section `[lblca]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routers {
    /// Law of the ports.
    #[serde(default)]
    pub law: Lblca,
    /// Time for which a rate holds, d.
    pub interval: Duration,
    /// Delay of feedback, Δx; default: the propagation delay of the reverse link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Share of the messages that are lost.
    #[serde(default)]
    pub loss: f64,
}

const SHORTEST: Duration = Duration::from_micros(10);

/// A feedback message and its arrival time.
#[derive(Clone, Copy)]
struct Message {
    heard: Time,
    feedback: Feedback,
}

struct Gate {
    link: LinkIndex,
    port: Port,
    capacity: f64,
    /// Capacity of its queue: packets if the limit counts packets, else bytes.
    size: f64,
    in_packets: bool,
    /// Gates of the next ports; none if the next hop is a receiver.
    next: Vec<usize>,
    /// Share of the next buffer that belongs to this port.
    share: f64,
    delay: Duration,
    on_the_way: VecDeque<Message>,
    told: Feedback,
    /// Bytes that have left its queue so far.
    gone: u64,
    losses: Rng,
}

/// All ports of a network.
pub(crate) struct Ports {
    gates: Vec<Gate>,
    interval: Duration,
    loss: f64,
    /// Time of the next rate update.
    pub due: Time,
}

impl Routers {
    /// # Errors
    /// A value out of range, or a watched link whose queue has no limit or whose rate varies.
    pub(crate) fn check(&self, graph: &Graph) -> Result<(), ScenarioError> {
        let invalid = |text: String| Err(ScenarioError::Invalid(text));
        if self.interval < SHORTEST {
            return invalid(format!(
                "lblca.interval = \"{}\": at least {SHORTEST}",
                self.interval
            ));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return invalid(format!("lblca.loss = {}: from 0 to 1", self.loss));
        }
        for edge in graph.edges.iter().filter(|e| e.watched) {
            let limits = edge.link.queue.limits();
            if limits.packets.is_none() && limits.bytes.is_none() {
                return invalid(format!(
                    "lblca: the queue of {} has no limit; give one, such as queue = \"fifo:bytes=100kB\"",
                    edge.name
                ));
            }
            if !matches!(edge.link.rate, link::RateSpec::Fixed(_)) {
                return invalid(format!(
                    "lblca: the rate of {} varies; a port sets it by itself",
                    edge.name
                ));
            }
        }
        Ok(())
    }

    /// Builds the ports. `links` are the numbers of the watched edges of the graph, in their order.
    pub(crate) fn ports(&self, graph: &Graph, links: &[LinkIndex], streams: &Streams) -> Ports {
        let edges: Vec<_> = graph.edges.iter().filter(|e| e.watched).collect();
        let capacity = |edge: &crate::topology::Edge| match &edge.link.rate {
            link::RateSpec::Fixed(rate) => rate.get() as f64,
            _ => 1.0,
        };
        let interval = self.interval.as_secs_f64();
        let gates = edges.iter().zip(links).map(|(edge, link)| {
            let into = edges.iter().filter(|e| e.to == edge.to);
            let own = capacity(edge);
            let limits = edge.link.queue.limits();
            let bytes = limits.bytes.filter(|_| limits.packets.is_none());
            let packets = limits.packets.unwrap_or(1);
            let next = edges
                .iter()
                .enumerate()
                .filter(|(_, e)| e.from == edge.to && e.to != edge.from);
            let size = bytes.map_or(packets as f64, |b| b.get() as f64);
            Gate {
                link: *link,
                port: Port::new(&self.law, own, own, interval),
                capacity: own,
                size,
                in_packets: bytes.is_none(),
                next: next.map(|(i, _)| i).collect(),
                share: own / into.map(|e| capacity(e)).sum::<f64>(),
                delay: self.delay.unwrap_or(edge.link.delay),
                on_the_way: VecDeque::new(),
                told: Feedback {
                    buffer: Buffer {
                        occupancy: 0.0,
                        size: 1.0,
                    },
                    rate: own,
                    share: 1.0,
                },
                gone: 0,
                losses: streams.stream(&format!("{}/feedback", edge.name)),
            }
        });
        Ports {
            gates: gates.collect(),
            interval: self.interval,
            loss: self.loss,
            due: Time::ZERO + self.interval,
        }
    }
}

impl Ports {
    /// Makes every router feed back and every port set its rate. The links must be refreshed to the present time.
    pub fn step(&mut self, network: &mut Network) {
        let now = network.now();
        self.due = now + self.interval;
        // Buffers in bits; a queue limited in packets counts full packets.
        let buffers: Vec<Buffer> = self
            .gates
            .iter()
            .map(|gate| {
                let backlog = network.link_stats(gate.link).backlog;
                let bits = backlog.bytes.bits() as f64;
                let size = match gate.in_packets {
                    false => gate.size * 8.0,
                    true if backlog.packets > 0 => gate.size * bits / backlog.packets as f64,
                    true => gate.size * FULL_PACKET_BITS,
                };
                Buffer {
                    occupancy: bits,
                    size,
                }
            })
            .collect();
        // Rate sent, which is below the set rate if a queue runs dry.
        let span = self.interval.as_secs_f64();
        let sent: Vec<f64> = self
            .gates
            .iter_mut()
            .map(|gate| {
                let stats = network.link_stats(gate.link);
                let gone = stats.delivered.bytes.get() + stats.on_line.bytes.get();
                let before = std::mem::replace(&mut gate.gone, gone);
                (gone - before) as f64 * 8.0 / span
            })
            .collect();
        let weights: Vec<f64> = self.gates.iter().map(|g| g.capacity).collect();
        for (i, gate) in self.gates.iter_mut().enumerate() {
            if !gate.next.is_empty() {
                let over =
                    |of: &dyn Fn(usize) -> f64| gate.next.iter().map(|j| of(*j)).sum::<f64>();
                let feedback = Feedback {
                    buffer: Buffer {
                        occupancy: over(&|j| buffers[j].occupancy),
                        size: over(&|j| buffers[j].size),
                    },
                    // (6.4): weighted by the capacities of the ports.
                    rate: over(&|j| sent[j] * weights[j]) / over(&|j| weights[j]),
                    share: gate.share,
                };
                // Always drawn, so that the share of losses shifts no other draw.
                let lost = uniform(&mut gate.losses) < self.loss;
                if !lost {
                    let heard = now + gate.delay;
                    gate.on_the_way.push_back(Message { heard, feedback });
                }
            }
            while gate.on_the_way.front().is_some_and(|m| m.heard <= now) {
                gate.told = gate.on_the_way.pop_front().expect("it is there").feedback;
            }
            let rate = gate.port.rate(buffers[i], gate.told);
            network.set_rate(gate.link, BitsPerSec::new((rate as u64).max(1)));
        }
    }
}

/// Size of a packet, in bits, for an empty queue that counts packets.
const FULL_PACKET_BITS: f64 = 12_000.0;

#[cfg(test)]
mod tests {
    use crate::batch::figures;
    use crate::{Draft, run};
    use std::collections::BTreeMap;

    /// Three routers and three links, two of 200 Mbit/s; buffers of 2.35 times the traffic of 170 Mbit/s in an interval
    /// of 2 ms.
    fn line(kind: &str, last: &str, lblca: &str) -> BTreeMap<String, f64> {
        let edge = |a: &str, b: &str, rate: &str| {
            format!(
                "[[edge]]\nbetween = [\"{a}\", \"{b}\"]\nname = \"{a}\"\nwatch = true\nlink = {{ rate = \"{rate}\", delay = \"1 ms\", queue = \"fifo:bytes=100kB\" }}\n"
            )
        };
        let text = format!(
            "duration = \"1500 ms\"\nwarmup = \"500 ms\"\ntopology = \"graph\"\n{lblca}\n\
             [[flow]]\nkind = \"{kind}\"\nname = \"udp\"\nrate = \"170 Mbit/s\"\nsize = \"1000 B\"\nfrom = \"a\"\nto = \"d\"\n{}{}{}",
            edge("a", "b", "200 Mbit/s"),
            edge("b", "c", "200 Mbit/s"),
            edge("c", "d", last),
        );
        let scenario = Draft::new(&text).unwrap().finish().unwrap();
        figures(&run(&scenario, 1, None, &mut |_| true).unwrap())
    }

    const LBLCA: &str = "lblca = { interval = \"2 ms\" }";

    #[test]
    fn what_the_last_link_cannot_carry_is_lost_before_it() {
        let without = line("cbr", "100 Mbit/s", "");
        assert!(without["c.drops"] > 5000.0 && without["a.drops"] + without["b.drops"] == 0.0);
        let with = line("cbr", "100 Mbit/s", LBLCA);
        assert!(with["a.drops"] > 5000.0, "{with:?}");
        assert!(with["c.drops"] < 0.05 * with["a.drops"], "{with:?}");
    }

    #[test]
    fn an_even_load_that_fits_passes_whole_and_queues_hold_something() {
        let without = line("cbr", "200 Mbit/s", "");
        assert!(without["b.queue_ms.mean"] < 0.1, "{without:?}");
        let with = line("cbr", "200 Mbit/s", LBLCA);
        assert!(with["udp.loss"] == 0.0, "{with:?}");
        assert!((0.2..3.0).contains(&with["b.queue_ms.mean"]), "{with:?}");
        // Feedback that never arrives makes each port take the next buffer for empty.
        let deaf = line(
            "cbr",
            "200 Mbit/s",
            "lblca = { interval = \"2 ms\", loss = 1.0 }",
        );
        assert!(deaf["udp.loss"] == 0.0 && deaf["b.queue_ms.mean"] > with["b.queue_ms.mean"]);
    }

    #[test]
    fn late_feedback_loses_what_prompt_feedback_does_not() {
        let late = line(
            "cbr",
            "200 Mbit/s",
            "lblca = { interval = \"2 ms\", delay = \"20 ms\" }",
        );
        assert!(late["udp.loss"] > 0.05, "{late:?}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let text = "duration = \"1 s\"\nlink = { rate = \"1 Mbit/s\" }\n\
                    lblca = { interval = \"1 ms\", loss = 2 }\n[[flow]]\nkind = \"bulk\"";
        let e = Draft::new(text).unwrap().finish().unwrap_err().to_string();
        assert!(e.contains("lblca.loss = 2: from 0 to 1"), "{e}");
    }
}
