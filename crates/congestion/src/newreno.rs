//! NewReno: Reno that stays in fast recovery until all data outstanding at its start is acknowledged. Several losses in
//! one window therefore halve it once.
//!
//! **Source**: RFC 6582, "The NewReno Modification to TCP's Fast Recovery Algorithm" (Henderson, Floyd,
//! Gurtov, Nishida, 2012); with SACK, RFC 6675, "A Conservative Loss Recovery Algorithm Based on
//! Selective Acknowledgment (SACK) for TCP" (2012).
//!
//! **Deviations**: none of its own. The window follows Reno's rules ([`crate::reno`]); the difference is in the
//! endpoint, which asks [`Controller::recovery`]. It leaves recovery at the recovery point, not at the first new ACK,
//! and answers a partial ACK with the next retransmission.
//!
//! **Units**: bytes, with fractions.
//!
//! **Validated against**: the same as Reno.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Recovery, Sent, Setup};
use crate::reno::{Params, Reno};
use base::{Bytes, Time};

/// NewReno: Reno with partial acknowledgements.
#[derive(Clone, Copy, Debug)]
pub struct NewReno(Reno);

impl NewReno {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> NewReno {
        NewReno(Reno::new(params, setup))
    }
}

impl Controller for NewReno {
    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.0.on_sent(now, sent)
    }
    fn on_ack(&mut self, now: Time, ack: &Ack) {
        self.0.on_ack(now, ack)
    }
    fn on_congestion(&mut self, now: Time, congestion: &Congestion) {
        self.0.on_congestion(now, congestion)
    }
    fn settle(&mut self, window: Bytes) {
        self.0.settle(window);
    }
    fn cwnd(&self) -> Bytes {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> Option<Bytes> {
        self.0.ssthresh()
    }
    fn recovery(&self) -> Recovery {
        Recovery::Point
    }
    fn state(&self) -> ControllerState {
        self.0.state()
    }
}
