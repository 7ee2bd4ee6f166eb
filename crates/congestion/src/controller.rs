//! The contract between a transport endpoint and a congestion controller; the crate's page explains it
//! with an example.

use base::{BitsPerSec, Bytes, Duration, Time};

/// What a controller is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Sender's maximum segment size: payload of a full segment, without headers.
    pub mss: Bytes,
    /// Window of a new connection and of one that restarts after idling.
    pub initial_window: Bytes,
}

impl Setup {
    /// With the initial window of RFC 6928 section 2: min(10·MSS, max(2·MSS, 14 600 bytes)).
    pub fn new(mss: Bytes) -> Setup {
        let mss = mss.max(Bytes::new(1));
        Setup {
            mss,
            initial_window: (mss * 10).min((mss * 2).max(Bytes::new(14_600))),
        }
    }

    /// With the initial window of RFC 5681 section 3.1: two to four segments.
    pub fn rfc5681(mss: Bytes) -> Setup {
        let mss = mss.max(Bytes::new(1));
        let segments = match mss.get() {
            0..=1095 => 4,
            1096..=2190 => 3,
            _ => 2,
        };
        Setup {
            mss,
            initial_window: mss * segments,
        }
    }

    /// With an initial window of that many segments.
    pub fn with_initial_segments(mss: Bytes, segments: u64) -> Setup {
        let mss = mss.max(Bytes::new(1));
        Setup {
            mss,
            initial_window: mss * segments.max(1),
        }
    }
}

/// A data segment, or a burst of them, has been handed to the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Payload sent.
    pub bytes: Bytes,
    /// Outstanding before this was sent, as [`Ack::inflight`] counts.
    pub inflight_before: Bytes,
    /// Set on the first segment after a silence.
    pub idle: Option<Idle>,
}

/// A silence that just ended: nothing was outstanding and nothing was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Since the last segment was sent.
    pub lasted: Duration,
    /// The silence was longer than the retransmission time-out and the endpoint is set to begin anew
    /// after one (RFC 5681 section 4.1).
    pub restart: bool,
}

/// An acknowledgement that delivered something new, cumulatively or selectively. Called after the
/// endpoint has updated its scoreboard, its RTT estimator and its delivery-rate estimator, and after
/// [`Controller::on_lost`] and [`Controller::on_congestion`] for losses that this ACK revealed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ack {
    /// Payload that this ACK newly reports as received, each byte once.
    pub newly_acked: Bytes,
    /// Outstanding before this ACK: sent and neither acknowledged nor deemed lost ("pipe", RFC 6675).
    pub inflight_before: Bytes,
    /// The same after it.
    pub inflight: Bytes,
    /// Round trip of the newest segment that this ACK reports; absent where ambiguous (Karn).
    pub rtt: Option<Duration>,
    /// Delay one way of the data, where the receiver reports it; its origin may be arbitrary.
    pub one_way_delay: Option<Duration>,
    /// Least round trip of the connection so far.
    pub min_rtt: Option<Duration>,
    /// Smoothed round trip (RFC 6298).
    pub srtt: Option<Duration>,
    /// Part of `newly_acked` that arrived marked CE, where feedback is accurate (RFC 8257, RFC 9768);
    /// zero otherwise.
    pub ce_bytes: Bytes,
    /// Payload deemed lost while this ACK was processed.
    pub newly_lost: Bytes,
    /// All payload delivered on this connection, this ACK included.
    pub delivered: Bytes,
    /// `delivered` as it was when the newest segment that this ACK reports was sent. A round trip has
    /// passed once this reaches the `delivered` of its beginning ([`crate::Rounds`]).
    pub prior_delivered: Bytes,
    /// Absent where no reliable sample is to be had.
    pub rate: Option<RateSample>,
    /// The window, not the application nor the receiver, held the sender back at some time in the
    /// last round trip. A window that nobody fills must not grow (RFC 9438 section 5.8).
    pub cwnd_limited: bool,
    /// In fast recovery (entered by [`Congestion::Loss`], not yet left). Slow start after a time-out
    /// does not count.
    pub in_recovery: bool,
}

/// How fast the network delivered, measured over about one round trip ([`crate::DeliveryRate`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Payload delivered in `interval`.
    pub delivered: Bytes,
    /// Never zero.
    pub interval: Duration,
    /// The application, not the network, may have set this rate.
    pub app_limited: bool,
    /// Outstanding just after the newest delivered segment was sent.
    pub tx_in_flight: Bytes,
    /// Payload deemed lost since that segment was sent.
    pub lost: Bytes,
}

impl RateSample {
    /// Delivered payload per second, rounded down.
    pub fn rate(&self) -> BitsPerSec {
        let bits = u128::from(self.delivered.get()) * 8 * 1_000_000_000;
        let ns = u128::from(self.interval.as_nanos().max(1));
        BitsPerSec::new(u64::try_from(bits / ns).unwrap_or(u64::MAX))
    }
}

/// One segment has been deemed lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub bytes: Bytes,
    /// Outstanding just after it was sent.
    pub tx_in_flight: Bytes,
    /// Payload deemed lost since it was sent, itself included.
    pub lost_since_sent: Bytes,
    /// Payload delivered so far on the connection.
    pub delivered: Bytes,
    /// It was sent in a phase limited by the application.
    pub app_limited: bool,
}

/// A congestion event: at most one a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Loss found by duplicate ACKs, SACK or RACK; fast recovery begins. `flight` is what has been
    /// sent and not yet been cumulatively acknowledged ("FlightSize", RFC 5681 section 2).
    Loss { flight: Bytes },
    /// The receiver echoes CE (RFC 3168); told only where [`Controller::ecn`] is
    /// [`EcnUse::Classic`].
    Ecn { flight: Bytes },
    /// The retransmission timer ran out. `repeated`: for a segment that it had already sent again.
    Rto { flight: Bytes, repeated: bool },
    /// The last `Loss` or `Rto` was none: reordering or a late ACK (RFC 3522, RFC 5682, RFC 8985).
    Spurious,
}

/// How the endpoint repairs losses under a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Only when the timer runs out, as before 1988; no fast retransmit.
    Timer,
    /// Fast retransmit, then all that is outstanding counts as lost and is sent again as the window
    /// allows (Tahoe); `in_recovery` is never set.
    Restart,
    /// Fast recovery until the first ACK for new data, even a partial one (RFC 2001). An endpoint with SACK knows
    /// what else is missing and does as with `Point`.
    FirstAck,
    /// Fast recovery until all that was outstanding at its beginning is acknowledged (RFC 6582,
    /// RFC 6675), reduced in proportion where the endpoint does so (RFC 9937).
    Point,
    /// As `Point`, but the controller's window holds throughout and there is no other limit.
    Controller,
}

/// What a controller makes of explicit congestion notification where it was negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnUse {
    /// ECT(0), one [`Congestion::Ecn`] a round trip.
    Classic,
    /// ECT(0), `ce_bytes` on every ACK (RFC 8257).
    Dctcp,
    /// ECT(1), `ce_bytes` on every ACK (RFC 9331).
    L4s,
}

/// One named quantity of a controller's own; the name ends in its unit.
pub type Variable = (&'static str, f64);

/// A controller's state for traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerState {
    pub cwnd: Bytes,
    /// Absent where there is none, or none yet.
    pub ssthresh: Option<Bytes>,
    pub pacing_rate: Option<BitsPerSec>,
    /// For example "slow-start" or "probe-rtt".
    pub phase: &'static str,
    /// Such as ("w_max_segments", 83.2); none where a place is unused.
    pub variables: [Option<Variable>; 3],
}

/// A congestion controller. It is told what happens and asked how much may be outstanding; it never
/// panics, whatever the order in which it is told. Queries change nothing.
pub trait Controller {
    fn on_sent(&mut self, now: Time, sent: &Sent);
    fn on_ack(&mut self, now: Time, ack: &Ack);
    /// Once for each segment deemed lost, before the `on_congestion` or `on_ack` it leads to.
    fn on_lost(&mut self, _now: Time, _lost: &Lost) {}
    fn on_congestion(&mut self, now: Time, congestion: &Congestion);
    /// Recovery ends with a window of `window`, where the endpoint has lowered it itself, segment by
    /// segment. Those that keep no window of Reno's kind need not follow.
    fn settle(&mut self, _window: Bytes) {}
    /// Most that may be outstanding; at least one segment.
    fn cwnd(&self) -> Bytes;
    fn ssthresh(&self) -> Option<Bytes> {
        None
    }
    /// Rate at which to send, in payload; `None` leaves it to the endpoint ([`crate::window_rate`]).
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        None
    }
    fn recovery(&self) -> Recovery {
        Recovery::Point
    }
    fn ecn(&self) -> EcnUse {
        EcnUse::Classic
    }
    fn state(&self) -> ControllerState;
}
