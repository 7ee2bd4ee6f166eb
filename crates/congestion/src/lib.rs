//! TCP's rules for how much to send: congestion controllers, the round-trip estimator with its time-out,
//! the delivery-rate estimator. Sans-IO: told the time and what happened, asked for a window and a rate.
//!
//! One file holds one controller; [`registry::CONTROLLERS`] lists them all, and a [`ControllerSpec`]
//! such as `cubic:hystart=off` makes one.
//!
//! # Who owns what
//!
//! The **controller** owns the window, ssthresh and, where it has one, the pacing rate. The **endpoint**
//! owns segments, timers and the repair of losses: which segment to send next, what counts as lost, when
//! recovery begins and ends, how inflight falls to a reduced window. For each event it calls, in this
//! order:
//!
//! | what happened | calls |
//! |---|---|
//! | a segment goes out, new or again | [`Controller::on_sent`] |
//! | an ACK delivers something new | its own scoreboard, [`RttEstimator`], [`DeliveryRate`]; then [`Controller::on_lost`] for each segment newly deemed lost; [`Controller::on_congestion`] with `Loss` if that begins recovery, or `Ecn`, or `Spurious`; last [`Controller::on_ack`] |
//! | the retransmission timer runs out | [`RttEstimator::on_timeout`], `on_lost` for what is deemed lost, `on_congestion` with `Rto` |
//!
//! - `Loss` is told once for each recovery, so at most once a round trip: losses of segments that were
//!   outstanding when recovery began belong to it. `Ecn` likewise: not again until what was outstanding
//!   at the last one is acknowledged. An endpoint in recovery tells no `Ecn`.
//! - The controller drops its window **at once** to where recovery shall end (Reno: half the flight) and
//!   then stands still: window-based controllers do not grow while [`Ack::in_recovery`] is set. It knows
//!   nothing of proportional rate reduction (RFC 9937). An endpoint that does that leads inflight from
//!   where it was to [`Controller::cwnd`] at its own pace, and may have more in flight than the window
//!   meanwhile; one that does not sends nothing until inflight has fallen below the window.
//! - [`Controller::recovery`] says which kind of recovery the controller belongs with; under
//!   [`Recovery::Controller`] (BBR) there is no proportional reduction: inflight is held to the window
//!   alone, and the controller moves it on every ACK.
//! - An endpoint without SACK estimates what has left the network by duplicate ACKs. It subtracts a
//!   segment from its inflight for each, which is the same as the window inflation of RFC 5681
//!   section 3.2; the controller's window is never inflated.
//!
//! ## An example
//!
//! A Reno flow with 20 segments of 1000 bytes outstanding loses the first of them.
//!
//! ```
//! use base::{Bytes, Duration, Time, rng::Streams};
//! use congestion::{Ack, Congestion, Controller, ControllerSpec, Recovery, Setup};
//!
//! let mss = Bytes::new(1000);
//! let spec: ControllerSpec = "newreno".parse().unwrap();
//! let setup = Setup::with_initial_segments(mss, 20);
//! let mut c = spec.build(&setup, Time::ZERO, &Streams::new(1), "flow/1");
//! assert_eq!((c.cwnd(), c.recovery()), (mss * 20, Recovery::Point));
//!
//! // Three duplicate ACKs (SACKs) have come: 16 segments are still outstanding (20 - 3 - the lost one),
//! // FlightSize is 20. The window falls to 10 at once.
//! c.on_congestion(Time::from_millis(100), &Congestion::Loss { flight: mss * 20 });
//! assert_eq!((c.cwnd(), c.ssthresh()), (mss * 10, Some(mss * 10)));
//!
//! // Proportional rate reduction now sends 10 segments for the 20 that are delivered, one for every two
//! // ACKs: the endpoint's business. The window stands still meanwhile.
//! let ack = Ack {
//!     newly_acked: mss, inflight_before: mss * 16, inflight: mss * 15,
//!     in_recovery: true, cwnd_limited: true, ..Ack::default()
//! };
//! c.on_ack(Time::from_millis(101), &ack);
//! assert_eq!(c.cwnd(), mss * 10);
//!
//! // All 20 are acknowledged: recovery is over with 10 outstanding. Ten more ACKs add a segment.
//! for _ in 0..10 {
//!     let ack = Ack {
//!         newly_acked: mss, inflight_before: mss * 10, inflight: mss * 9,
//!         cwnd_limited: true, ..Ack::default()
//!     };
//!     c.on_ack(Time::from_millis(200), &ack);
//! }
//! assert_eq!(c.cwnd(), mss * 11);
//! ```
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod bbr1;
pub mod bbr3;
pub mod bic;
pub mod compound;
mod controller;
pub mod cubic;
pub mod dctcp;
pub mod delivery_rate;
pub mod filter;
pub mod fixed;
pub mod hystart;
pub mod ledbat;
mod math;
pub mod newreno;
pub mod prague;
pub mod registry;
pub mod reno;
pub mod rtt;
pub mod tahoe;
#[cfg(test)]
mod testing;
pub mod vegas;
pub mod westwood;
mod window;

pub use controller::{
    Ack, Congestion, Controller, ControllerState, EcnUse, Idle, Lost, RateSample, Recovery, Sent,
    Setup, Variable,
};
pub use delivery_rate::{Delivery, DeliveryRate, Stamp};
pub use registry::{AnyController, ControllerSpec};
pub use rtt::RttEstimator;
pub use window::{Rounds, window_rate};
