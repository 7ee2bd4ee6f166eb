//! Interface between a transport endpoint and a congestion controller; the crate's page explains it with an example.

use base::{BitsPerSec, Bytes, Duration, Time};

/// Parameters of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Maximum segment size of the sender: payload of a full segment, without headers.
    pub mss: Bytes,
    /// Window of a new connection, and of one that restarts after idling.
    pub initial_window: Bytes,
}

impl Setup {
    /// Uses the initial window of RFC 6928 section 2: min(10·MSS, max(2·MSS, 14 600 bytes)).
    pub fn new(mss: Bytes) -> Setup {
        let mss = mss.max(Bytes::new(1));
        Setup {
            mss,
            initial_window: (mss * 10).min((mss * 2).max(Bytes::new(14_600))),
        }
    }

    /// Uses the initial window of RFC 5681 section 3.1: two to four segments.
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

    /// Uses an initial window of this many segments.
    pub fn with_initial_segments(mss: Bytes, segments: u64) -> Setup {
        let mss = mss.max(Bytes::new(1));
        Setup {
            mss,
            initial_window: mss * segments.max(1),
        }
    }
}

/// Transmission of a data segment, or of a burst of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Payload sent.
    pub bytes: Bytes,
    /// Bytes outstanding before this transmission, counted as [`Ack::inflight`].
    pub inflight_before: Bytes,
    /// Idle period that this segment ends.
    pub idle: Option<Idle>,
}

/// Idle period that just ended: nothing was outstanding and nothing was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Time since the last segment was sent.
    pub lasted: Duration,
    /// True if the idle period exceeded the retransmission time-out and the endpoint is configured to restart after it
    /// (RFC 5681 section 4.1).
    pub restart: bool,
}

/// Acknowledgement that reports new data, cumulatively or selectively. The endpoint calls it after updating its
/// scoreboard, RTT estimator and delivery-rate estimator, and after [`Controller::on_lost`] and
/// [`Controller::on_congestion`] for losses that this ACK revealed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ack {
    /// Payload that this ACK newly reports as received, each byte once.
    pub newly_acked: Bytes,
    /// Bytes outstanding before this ACK: sent and neither acknowledged nor deemed lost ("pipe", RFC 6675).
    pub inflight_before: Bytes,
    /// Bytes outstanding after this ACK.
    pub inflight: Bytes,
    /// Time until pacing lets the next segment leave.
    pub paced_for: Duration,
    /// RTT of the newest segment that this ACK reports; absent if ambiguous (Karn).
    pub rtt: Option<Duration>,
    /// One-way delay of the data, if the receiver reports it; its clock offset may be arbitrary.
    pub one_way_delay: Option<Duration>,
    /// Smallest RTT of the connection so far.
    pub min_rtt: Option<Duration>,
    /// Smoothed RTT (RFC 6298).
    pub srtt: Option<Duration>,
    /// Part of `newly_acked` that arrived with CE marks, if feedback is accurate (RFC 8257, RFC 9768); zero otherwise.
    pub ce_bytes: Bytes,
    /// Payload deemed lost while this ACK was processed.
    pub newly_lost: Bytes,
    /// Total payload delivered on this connection, this ACK included.
    pub delivered: Bytes,
    /// `delivered` at the time when the newest segment that this ACK reports was sent. A round trip is over once this
    /// reaches the `delivered` at its start ([`crate::Rounds`]).
    pub prior_delivered: Bytes,
    /// Delivery-rate sample; absent if no reliable one is available.
    pub rate: Option<RateSample>,
    /// True if the window, not the application or the receiver, limited the sender at some time in the last RTT. A
    /// window that is not full must not grow (RFC 9438 section 5.8).
    pub cwnd_limited: bool,
    /// True in fast recovery (entered by [`Congestion::Loss`], not yet left). Slow start after a time-out does not
    /// count.
    pub in_recovery: bool,
}

/// Delivery rate of the network, measured over about one RTT ([`crate::DeliveryRate`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Payload delivered in `interval`.
    pub delivered: Bytes,
    /// Length of the sample; never zero.
    pub interval: Duration,
    /// True if the application, not the network, may have limited this rate.
    pub app_limited: bool,
    /// Bytes outstanding just after the newest delivered segment was sent.
    pub tx_in_flight: Bytes,
    /// Payload deemed lost since that segment was sent.
    pub lost: Bytes,
}

impl RateSample {
    /// Returns the delivered payload per second, rounded down.
    pub fn rate(&self) -> BitsPerSec {
        let bits = u128::from(self.delivered.get()) * 8 * 1_000_000_000;
        let ns = u128::from(self.interval.as_nanos().max(1));
        BitsPerSec::new(u64::try_from(bits / ns).unwrap_or(u64::MAX))
    }
}

/// Segment that has been deemed lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Lost bytes.
    pub bytes: Bytes,
    /// Bytes outstanding just after it was sent.
    pub tx_in_flight: Bytes,
    /// Payload deemed lost since it was sent, this segment included.
    pub lost_since_sent: Bytes,
    /// Payload delivered so far on the connection.
    pub delivered: Bytes,
    /// True if it was sent in an application-limited phase.
    pub app_limited: bool,
}

/// Congestion event: at most one per RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Loss found by duplicate ACKs, SACK or RACK; fast recovery starts. `flight` is the data sent and not yet
    /// cumulatively acknowledged ("FlightSize", RFC 5681 section 2).
    Loss { flight: Bytes },
    /// CE echo from the receiver (RFC 3168); reported only if [`Controller::ecn`] is [`EcnUse::Classic`].
    Ecn { flight: Bytes },
    /// Retransmission time-out. `repeated`: for a segment that was already retransmitted.
    Rto { flight: Bytes, repeated: bool },
    /// Correction: the last `Loss` or `Rto` was spurious, caused by reordering or a late ACK (RFC 3522, RFC 5682, RFC
    /// 8985).
    Spurious,
}

/// Loss recovery that the endpoint performs for a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Retransmission by timer only, as before 1988; no fast retransmit.
    Timer,
    /// Fast retransmit (Tahoe): all outstanding data counts as lost and is sent again as the window allows;
    /// `in_recovery` is never set.
    Restart,
    /// Fast recovery until the first ACK for new data, even a partial one (RFC 2001). An endpoint with SACK knows which
    /// other segments are missing and behaves as with `Point`.
    FirstAck,
    /// Fast recovery until all data outstanding at its start is acknowledged (RFC 6582, RFC 6675), with proportional
    /// rate reduction if the endpoint implements it (RFC 9937).
    Point,
    /// Fast recovery as with `Point`, but limited only by the controller's window.
    Controller,
}

/// Use of ECN by a controller, if ECN was negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnUse {
    /// ECT(0), one [`Congestion::Ecn`] per RTT.
    Classic,
    /// ECT(0), `ce_bytes` on every ACK (RFC 8257).
    Dctcp,
    /// ECT(1), `ce_bytes` on every ACK (RFC 9331).
    L4s,
}

/// Named variable of one controller; the name ends in its unit.
pub type Variable = (&'static str, f64);

/// State of a controller for traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerState {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; absent if there is none, or none yet.
    pub ssthresh: Option<Bytes>,
    /// Pacing rate; none if the controller does not pace.
    pub pacing_rate: Option<BitsPerSec>,
    /// Name of the phase, for example "slow-start" or "probe-rtt".
    pub phase: &'static str,
    /// Variables such as ("w_max_segments", 83.2); unused places are empty.
    pub variables: [Option<Variable>; 3],
}

/// Congestion controller. It receives events and returns how much may be outstanding. It never panics, whatever the
/// order of events. Queries change nothing.
pub trait Controller {
    /// Reports the RTT of the handshake, before the first segment.
    fn on_established(&mut self, _now: Time, _rtt: Duration) {}
    /// Reports a segment sent, new or again.
    fn on_sent(&mut self, now: Time, sent: &Sent);
    /// Reports an ACK that delivers something new.
    fn on_ack(&mut self, now: Time, ack: &Ack);
    /// Reports one segment deemed lost, before the `on_congestion` or `on_ack` that follows from it.
    fn on_lost(&mut self, _now: Time, _lost: &Lost) {}
    /// Reports congestion, at most once per RTT.
    fn on_congestion(&mut self, now: Time, congestion: &Congestion);
    /// Ends recovery with a window of `window` if the endpoint has lowered it itself, segment by segment. Controllers
    /// whose window is unlike Reno's may ignore it.
    fn settle(&mut self, _window: Bytes) {}
    /// Returns the limit on outstanding bytes; at least one segment.
    fn cwnd(&self) -> Bytes;
    /// Returns the slow-start threshold; `None` if the controller has none.
    fn ssthresh(&self) -> Option<Bytes> {
        None
    }
    /// Returns the pacing rate, in payload; `None` leaves it to the endpoint ([`crate::window_rate`]).
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        None
    }
    /// Returns the kind of recovery that the controller requires.
    fn recovery(&self) -> Recovery {
        Recovery::Point
    }
    /// Returns the use of ECN.
    fn ecn(&self) -> EcnUse {
        EcnUse::Classic
    }
    /// Returns the state for traces.
    fn state(&self) -> ControllerState;
}
