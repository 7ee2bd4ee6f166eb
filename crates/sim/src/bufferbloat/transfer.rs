//! A flow of a load: TCP at both ends, the applications above it, and its TCP_INFO.

use super::Limits;
use crate::segment::Segment;
use crate::tcp::{Receiver, Sender, Settings};
use base::record::{Direction, Event, Flow};
use base::rng::Streams;
use base::{Bytes, Duration, Time};
use std::sync::Arc;

/// Share of its busy time above which a flow was held back, as in `live::load`.
const HELD_BACK_SHARE: f64 = 0.1;
/// Interval at which applications write and read if they limit the load.
pub(super) const APPLICATION: Duration = Duration::from_millis(5);
/// Bytes written at once by an application that does not limit the load.
const ENDLESS: u64 = 1 << 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chrono {
    Idle,
    Busy,
    ReceiveWindow,
}

pub(super) struct Transfer {
    /// Number of the flow.
    pub number: i64,
    /// Number of the load that it belongs to.
    pub load: u32,
    /// Direction of the data.
    pub direction: Direction,
    /// Sending end.
    pub sender: Sender,
    /// Receiving end.
    pub receiver: Receiver,
    /// True until the transfer is stopped.
    pub running: bool,
    /// True once the far end's samples are in the recording.
    pub collected: bool,
    /// True once the connection is open.
    pub opened: bool,
    /// Time at which its connection was made.
    pub started: Time,
    limits: Limits,
    header: Bytes,
    mss: Bytes,
    /// Buffer of the receiver, bytes, and the bytes its application has read.
    room: u64,
    read: f64,
    /// Bytes that a slow sending application has ready, less than a segment.
    owed: f64,
    acted: Time,
    /// Window last announced.
    told: u64,
    chrono: Chrono,
    chrono_since: Time,
    busy: Duration,
    held: Duration,
    /// Bytes of a transfer of a given size; null for one that goes on until it is stopped.
    pub only: Option<u64>,
    /// Sender's window when the transfer began, packets.
    pub sender_window: u64,
    /// Samples of the far end, which the near end gets when the load is over.
    pub far: Vec<Flow>,
}

impl Transfer {
    /// Creates a transfer.
    pub fn new(
        number: i64,
        (load, direction): (u32, Direction),
        settings: &Settings,
        limits: Limits,
        now: Time,
        streams: &Streams,
    ) -> Transfer {
        let room = limits
            .receive_window
            .unwrap_or(settings.receive_window)
            .min(settings.receive_window);
        let settings = Arc::new(Settings {
            receive_window: room,
            ..settings.clone()
        });
        Transfer {
            number,
            load,
            direction,
            receiver: Receiver::new(&settings),
            header: settings.header,
            mss: settings.mss,
            sender: Sender::new(settings, streams, &format!("flow/{number}")),
            running: true,
            collected: false,
            opened: false,
            started: now,
            limits,
            room: room.get(),
            read: 0.0,
            owed: 0.0,
            acted: now,
            told: room.get(),
            chrono: Chrono::Idle,
            chrono_since: now,
            busy: Duration::ZERO,
            held: Duration::ZERO,
            only: None,
            sender_window: 0,
            far: Vec::new(),
        }
    }

    /// Starts the sending application.
    pub fn open(&mut self, now: Time) {
        self.opened = true;
        self.acted = now;
        self.sender_window = self.sender.controller().cwnd.get() / self.mss.get();
        self.sender
            .write(match (self.only, self.limits.application) {
                (Some(bytes), _) => bytes,
                (None, Some(_)) => self.mss.get(),
                (None, None) => ENDLESS,
            });
    }

    /// True if its applications act by themselves.
    pub fn has_slow_application(&self) -> bool {
        self.limits.application.is_some() || self.limits.reader.is_some()
    }

    /// Lets the applications write and read as far as possible; returns true if a window update is due.
    pub fn act(&mut self, now: Time) -> bool {
        let passed = now.saturating_since(self.acted).as_secs_f64();
        self.acted = now;
        let writes = self.opened && self.only.is_none();
        if let Some(rate) = self.limits.application.filter(|_| writes) {
            self.owed += rate.get() as f64 / 8.0 * passed;
            let mss = self.mss.get();
            let whole = self.owed as u64 / mss * mss;
            self.owed -= whole as f64;
            self.sender.write(whole);
        }
        let Some(rate) = self.limits.reader else {
            return false;
        };
        let most = self.receiver.received() as f64;
        self.read = (self.read + rate.get() as f64 / 8.0 * passed).min(most);
        // RFC 9293 section 3.8.6.2.2: half the buffer or a full segment more than was announced.
        let window = self.window();
        window >= self.told + (self.room / 2).min(2 * self.mss.get())
    }

    /// Receive window now.
    fn window(&self) -> u64 {
        match self.limits.reader {
            None => self.room,
            Some(_) => self
                .room
                .saturating_sub(self.receiver.received() - self.read as u64),
        }
    }

    /// Window to announce in an acknowledgement that leaves now.
    pub fn tell_window(&mut self) -> u64 {
        self.told = self.window();
        self.told
    }

    /// Length of an acknowledgement, bytes. RFC 2018 section 3: two bytes, and eight per block, padded to a multiple of
    /// four.
    pub fn ack_len(&self, ack: &Segment) -> u64 {
        let sack = match ack.sacks {
            0 => 0,
            n => 4 + 8 * u64::from(n),
        };
        self.header.get() + sack
    }

    /// Size of a segment's IP packet.
    pub fn segment_len(&self, payload: u32) -> u64 {
        self.header.get() + u64::from(payload)
    }

    /// Accounts the time since the last call, as the kernel's tcp_chrono does.
    pub fn account(&mut self, now: Time) {
        let passed = now.saturating_since(self.chrono_since);
        match self.chrono {
            Chrono::Idle => {}
            Chrono::Busy => self.busy += passed,
            Chrono::ReceiveWindow => {
                self.busy += passed;
                self.held += passed;
            }
        }
        self.chrono_since = now;
        self.chrono = if !self.opened || self.sender.is_idle() {
            Chrono::Idle
        } else if self.sender.held_by_receiver() {
            Chrono::ReceiveWindow
        } else {
            Chrono::Busy
        };
    }

    /// Share of the time in which a limit other than the network held the sender back.
    pub fn held_back(&self) -> f64 {
        match self.busy.is_zero() {
            true => 0.0,
            false => self.held.as_secs_f64() / self.busy.as_secs_f64(),
        }
    }

    /// Event that the real load writes for a flow that was held back.
    pub fn held_back_event(&self, t_ns: i64) -> Option<Event> {
        let share = self.held_back();
        (share > HELD_BACK_SHARE).then(|| {
            let detail = serde_json::json!({ "by": "receive window", "share": share });
            Event {
                t_ns,
                kind: "held_back".into(),
                subject: format!("flow {}", self.number).as_str().into(),
                detail: detail.to_string().as_str().into(),
            }
        })
    }

    /// Payload bytes so far.
    pub fn bytes_moved(&self) -> u64 {
        match self.direction {
            Direction::Up => self.sender.acknowledged(),
            Direction::Down => self.receiver.received(),
        }
    }

    /// TCP_INFO of the sender.
    pub fn sender_row(&self, t_ns: i64) -> Flow {
        let state = self.sender.controller();
        let ns = |d: Option<Duration>| d.map(|d| d.as_nanos() as i64);
        let mss = self.mss.get();
        Flow {
            bytes_acked: Some(self.sender.acknowledged() as i64),
            // The kernel counts segments.
            delivered_bytes: Some((self.sender.delivered() / mss * mss) as i64),
            cwnd_bytes: Some((state.cwnd.get() / mss * mss) as i64),
            ssthresh_bytes: state.ssthresh.map(|s| (s.get() / mss * mss) as i64),
            srtt_ns: ns(self.sender.rtt().srtt()),
            rttvar_ns: ns(self.sender.rtt().rttvar()),
            min_rtt_ns: ns(self.sender.rtt().min_rtt()),
            retransmits: Some(self.sender.stats().retransmits as i64),
            mss_bytes: Some(mss as i64),
            ..Flow::about(t_ns, self.number, self.direction)
        }
    }

    /// Counters of the receiver.
    pub fn receiver_row(&self, t_ns: i64) -> Flow {
        Flow {
            bytes_received: Some(self.receiver.received() as i64),
            ..Flow::about(t_ns, self.number, self.direction)
        }
    }

    /// Time at which an end next acts by itself.
    pub fn next_wakeup(&self) -> Time {
        let at = |t: Option<Time>| t.unwrap_or(Time::MAX);
        at(self.sender.next_wakeup()).min(at(self.receiver.next_wakeup()))
    }
}
