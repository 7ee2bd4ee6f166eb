//! Probes on their own flow, and the train before them.

use super::world::{Body, Due, INTERFACE, World};
use base::record::{Counter, Delay, Direction, Status};
use base::{BitsPerSec, Bytes, Duration, Time};
use std::collections::BTreeMap;

/// Flow of probes and trains.
const FLOW: u64 = 1_000_001;
/// Time after which an unanswered probe is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Length of the IP and UDP headers, bytes.
const HEADERS: u64 = 28;
/// Time for which the far host holds a probe.
const HOLD: Duration = Duration::from_micros(30);

pub(super) struct Probing {
    /// Interval between probes.
    pub interval: Duration,
    running: bool,
    slot: Time,
    seq: i64,
    open: BTreeMap<i64, Delay>,
    /// Arrivals of the train's datagrams: far, near.
    far: Vec<i64>,
    near: Vec<i64>,
}

impl Default for Probing {
    fn default() -> Probing {
        Probing {
            interval: measure::cadence::UNKNOWN,
            running: false,
            slot: Time::ZERO,
            seq: 0,
            open: BTreeMap::new(),
            far: Vec::new(),
            near: Vec::new(),
        }
    }
}

impl Probing {
    /// True while probes are sent.
    pub fn running(&self) -> bool {
        self.running
    }

    /// Stops sending probes.
    pub fn halt(&mut self) {
        self.running = false;
    }

    /// True while a probe may still be answered.
    pub fn waits(&self) -> bool {
        !self.open.is_empty()
    }
}

/// Size of a probe's IP packet.
pub fn ip_size() -> Bytes {
    Bytes::new(measure::wire::datagram_len(None) as u64 + HEADERS)
}

impl World {
    /// Starts the probes.
    pub fn start_probes(&mut self) {
        self.probing.running = true;
        self.probing.slot = self.now + self.probing.interval;
        self.at(self.probing.slot, Due::Probe);
    }

    /// Stops sending probes, and writes the open ones as they stand.
    pub fn stop_probes(&mut self) {
        self.probing.running = false;
        let open = std::mem::take(&mut self.probing.open);
        let rows = open.into_values().map(|row| Delay {
            remote_rx_ns: None,
            remote_tx_ns: None,
            ..row
        });
        self.rec.delay.extend(rows);
    }

    /// Sends the probe that is due.
    pub fn probe_due(&mut self) {
        if !self.probing.running {
            return;
        }
        let seq = self.probing.seq;
        self.probing.seq += 1;
        let late = self.lateness();
        let row = Delay {
            host_ns: Some(40_000),
            late_send_ns: Some(late.as_nanos() as i64),
            ..Delay::unanswered(self.unix_ns(), seq, "udp".into())
        };
        // As the prober over sockets: the service curve of a link needs a queue.
        if !self.meters.is_empty() {
            let [rx, tx] = self.interface_counters();
            self.rec.counter.push(Counter {
                t_ns: self.unix_ns(),
                interface: INTERFACE.into(),
                rx_bytes: rx as i64,
                tx_bytes: tx as i64,
            });
        }
        self.probing.open.insert(seq, row);
        self.send(Direction::Up, FLOW, ip_size().get(), Body::Probe(seq));
        self.at(self.now + LOST_AFTER, Due::ProbeLost(seq));
        self.probing.slot = self.now + self.probing.interval;
        self.at(self.probing.slot, Due::Probe);
    }

    /// Sends the answer that is due.
    pub fn answer_due(&mut self, seq: i64) {
        self.send(Direction::Down, FLOW, ip_size().get(), Body::Answer(seq));
    }

    /// Handles the drop of a probe or an answer.
    pub fn probe_dropped(&mut self, body: Body) {
        let (seq, status) = match body {
            Body::Probe(seq) => (seq, Status::LostUp),
            Body::Answer(seq) => (seq, Status::LostDown),
            _ => return,
        };
        if let Some(row) = self.probing.open.get_mut(&seq) {
            row.status = status;
        }
    }

    /// Writes the row of a lost probe.
    pub fn probe_lost(&mut self, seq: i64) {
        let known = |row: &Delay| matches!(row.status, Status::LostUp | Status::LostDown);
        if self.probing.open.get(&seq).is_some_and(known)
            && let Some(row) = self.probing.open.remove(&seq)
        {
            self.rec.delay.push(Delay {
                remote_rx_ns: None,
                remote_tx_ns: None,
                ..row
            });
        }
    }

    /// Handles the arrival of a probe or an answer.
    pub fn probe_arrived(&mut self, body: Body, len: u64) {
        match body {
            Body::Probe(seq) => {
                let stamped = self.now + self.lateness();
                let answers = stamped + HOLD;
                let (rx, tx) = (self.far_ns(stamped), self.far_ns(answers));
                if let Some(row) = self.probing.open.get_mut(&seq)
                    && row.remote_rx_ns.is_none()
                {
                    (row.remote_rx_ns, row.remote_tx_ns) = (Some(rx), Some(tx));
                    self.at(answers, Due::Answer(seq));
                }
            }
            Body::Answer(seq) => {
                let stamped = self.now + self.lateness();
                let Some(row) = self.probing.open.remove(&seq) else {
                    return;
                };
                let held = row.remote_tx_ns.unwrap_or(0) - row.remote_rx_ns.unwrap_or(0);
                let near = super::world::EPOCH_NS + stamped.as_nanos() as i64;
                let rtt = near - row.sent_ns - held;
                let late = rtt > LOST_AFTER.as_nanos() as i64;
                self.rec.delay.push(Delay {
                    rtt_ns: Some(rtt),
                    status: if late { Status::Late } else { Status::Ok },
                    ..row
                });
            }
            Body::Train => {
                let stamped = self.now + self.lateness();
                let at = self.far_ns(stamped);
                self.send(Direction::Down, FLOW, len, Body::TrainBack(at));
            }
            Body::TrainBack(far) => {
                let stamped = self.now + self.lateness();
                self.probing.far.push(far);
                self.probing.near.push(stamped.as_nanos() as i64);
            }
            _ => {}
        }
    }

    /// Rough estimate of the rate in both directions, up and down, from `count` datagrams sent at once.
    pub fn train(&mut self, count: usize, payload: u64) -> Option<(BitsPerSec, BitsPerSec)> {
        let began = self.now;
        for _ in 0..count {
            self.send(Direction::Up, FLOW, payload + HEADERS, Body::Train);
        }
        let (mut came, mut last) = (0, self.now);
        while came < count && self.now < began + Duration::from_secs(5) {
            if came > 0 && self.now >= last + Duration::from_secs(1) {
                break;
            }
            self.advance(self.now + Duration::from_millis(20));
            if self.probing.near.len() > came {
                (came, last) = (self.probing.near.len(), self.now);
            }
        }
        let size = Bytes::new(payload + HEADERS);
        let (far, near) = (&self.probing.far, &self.probing.near);
        Some((estimate(far, size)?, estimate(near, size)?))
    }
}

/// Rate of a train of packets of `size`: bytes after the first packet over their time, as in `live::probe`.
fn estimate(times: &[i64], size: Bytes) -> Option<BitsPerSec> {
    let gaps = (times.len() as u64).checked_sub(1).filter(|n| *n >= 2)?;
    let span = times.iter().max()? - times.iter().min()?;
    let span = span.unsigned_abs().max(gaps * 1_000);
    let bps = u128::from(size.bits() * gaps) * 1_000_000_000 / u128::from(span);
    u64::try_from(bps).ok().map(BitsPerSec::new)
}
