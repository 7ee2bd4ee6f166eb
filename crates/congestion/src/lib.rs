//! Congestion control of TCP: controllers, RTT estimator with retransmission time-out (RTO), delivery-rate estimator.
//! Sans-IO: the caller passes the time and events, and asks for a window and a rate.
//!
//! One file holds one controller; [`registry::CONTROLLERS`] lists them all. A [`ControllerSpec`] such as
//! `cubic:hystart=off` creates one.
//!
//! # Division of work
//!
//! The **controller** owns the window, ssthresh and, if it has one, the pacing rate. The **endpoint** owns segments,
//! timers and loss recovery: which segment to send next, what counts as lost, when recovery starts and ends, how
//! inflight falls to a reduced window. For each event it makes these calls, in this order:
//!
//! | event | calls |
//! |---|---|
//! | a segment is sent, new or again | [`Controller::on_sent`] |
//! | an ACK delivers something new | its own scoreboard, [`RttEstimator`], [`DeliveryRate`]; then [`Controller::on_lost`] for each segment newly deemed lost; [`Controller::on_congestion`] with `Loss` if that starts recovery, or `Ecn`, or `Spurious`; last [`Controller::on_ack`] |
//! | the retransmission timer runs out | [`RttEstimator::on_timeout`], `on_lost` for each segment deemed lost, `on_congestion` with `Rto` |
//!
//! - `Loss` is reported once for each recovery, so at most once per RTT: losses of segments that were
//!   outstanding when recovery started belong to it. `Ecn` is reported again only after everything outstanding
//!   at the last report is acknowledged. An endpoint in recovery reports no `Ecn`.
//! - The controller reduces its window **at once** to the value at which recovery shall end (Reno: half the
//!   flight). Window-based controllers then do not grow while [`Ack::in_recovery`] is set. The controller knows
//!   nothing of proportional rate reduction (RFC 9937). An endpoint that implements it reduces inflight
//!   gradually to [`Controller::cwnd`], and may have more in flight than the window meanwhile. An endpoint
//!   without it sends nothing until inflight has fallen below the window.
//! - [`Controller::recovery`] returns the kind of recovery that the controller requires. Under
//!   [`Recovery::Controller`] (BBR) there is no proportional reduction: only the window limits inflight,
//!   and the controller changes it on every ACK.
//! - An endpoint without SACK estimates from duplicate ACKs what has left the network. It subtracts one
//!   segment from its inflight for each, which equals the window inflation of RFC 5681 section 3.2. The
//!   controller's window is never inflated.
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
pub mod gcc;
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
pub use window::{Rounds, send_quantum, window_rate};
