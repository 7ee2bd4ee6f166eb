//! Limits and losses of the senders of a simulated capture, as the simulator knows them.

use base::Packet;
use sim::network::{Connection, Happening};
use sim::segment::Segment;
use std::collections::BTreeMap;

/// Time between two looks at the senders.
pub const STEP: base::Duration = base::Duration::from_millis(1);

/// Data segments from which `tailback trace` counts.
const BEGUN: u64 = 5;

/// Time of a sender in each state, s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// All that its application wrote was acknowledged.
    pub idle_s: f64,
    /// All was sent and is on its way.
    pub sent_s: f64,
    /// All was sent, and something of it is being repaired.
    pub repair_s: f64,
    /// The receiver's window was full.
    pub receiver_s: f64,
    /// The receiver's window was full, and the congestion window, too.
    pub both_s: f64,
    /// The rest.
    pub network_s: f64,
}

impl Spent {
    pub fn all_s(&self) -> f64 {
        let sent_s = self.sent_s + self.repair_s;
        self.idle_s + sent_s + self.receiver_s + self.both_s + self.network_s
    }
}

/// A sender of the captured hosts.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Its place among the network's connections.
    connection: usize,
    /// Flow of its data, and its direction: 0 from left to right.
    pub flow: u64,
    pub way: usize,
    /// Its port in the capture.
    pub port: u16,
    pub spent: Spent,
    /// Segments sent before the capture.
    before: Option<u64>,
    /// Time without anything in flight since: it counts once the sender goes on.
    pause_s: f64,
}

impl Sender {
    pub fn new(connection: usize, flow: u64, way: usize, port: u16) -> Sender {
        Sender {
            connection,
            flow,
            way,
            port,
            spent: Spent::default(),
            before: None,
            pause_s: 0.0,
        }
    }

    /// Adds a step of time.
    pub fn look(&mut self, all: &[Connection]) {
        let (sender, step_s) = (&all[self.connection].sender, STEP.as_secs_f64());
        let segments = sender.stats().segments;
        if segments < *self.before.get_or_insert(segments) + BEGUN {
            return;
        }
        if sender.is_idle() {
            self.pause_s += step_s;
            return;
        }
        let spent = &mut self.spent;
        spent.idle_s += std::mem::take(&mut self.pause_s);
        let repairs = sender.is_repairing();
        *match () {
            () if sender.has_sent_all() && repairs => &mut spent.repair_s,
            () if sender.has_sent_all() => &mut spent.sent_s,
            () if repairs => &mut spent.network_s,
            () if sender.held_by_receiver() => &mut spent.receiver_s,
            () if sender.window_is_full() => &mut spent.both_s,
            () => &mut spent.network_s,
        } += step_s;
    }
}

/// Transmissions of each segment of data.
#[derive(Default)]
pub struct Copies {
    /// Fates of those of each position of a flow: true if it was dropped, false if it arrived.
    fates: BTreeMap<(u64, u64), Vec<Option<bool>>>,
    /// Place in there of the packets under way.
    under_way: BTreeMap<u64, ((u64, u64), usize)>,
}

impl Copies {
    pub fn packet(&mut self, what: Happening, packet: &Packet, segment: &Segment) {
        if what == Happening::Sent {
            let of = (packet.flow.0, segment.seq);
            let fates = self.fates.entry(of).or_default();
            self.under_way.insert(packet.id.0, (of, fates.len()));
            fates.push(None);
        } else if let Some((of, k)) = self.under_way.remove(&packet.id.0) {
            let dropped = what != Happening::Received;
            self.fates.entry(of).and_modify(|f| f[k] = Some(dropped));
        }
    }

    /// Retransmissions of a flow that repaired a loss: all before them were dropped. Those under way at the end may go
    /// either way, which gives the least and the greatest number.
    pub fn repairs(&self, flow: u64) -> [u64; 2] {
        let of = self.fates.range((flow, 0)..(flow + 1, 0)).map(|f| f.1);
        of.fold([0, 0], |[least, most], fates| {
            let repairs = |unknown: bool| {
                let lost = fates.iter().take_while(|f| f.unwrap_or(unknown)).count();
                lost.min(fates.len() - 1) as u64
            };
            [least + repairs(false), most + repairs(true)]
        })
    }
}
