//! Events for the tests of the controllers: a full window, acknowledged bit by bit.

use crate::controller::{Ack, Congestion, Controller, Idle, Sent};
use base::{Bytes, Duration};

/// An ACK for `bytes` of a full window.
pub fn ack(controller: &impl Controller, bytes: u64) -> Ack {
    let flight = controller.cwnd();
    Ack {
        newly_acked: Bytes::new(bytes),
        inflight_before: flight,
        inflight: flight.saturating_sub(Bytes::new(bytes)),
        rtt: Some(Duration::from_millis(100)),
        min_rtt: Some(Duration::from_millis(100)),
        srtt: Some(Duration::from_millis(100)),
        cwnd_limited: true,
        ..Ack::default()
    }
}
/// What a full window has outstanding.
pub fn flight(controller: &impl Controller) -> u64 {
    controller.cwnd().get()
}
pub fn loss(flight: u64) -> Congestion {
    Congestion::Loss {
        flight: Bytes::new(flight),
    }
}
pub fn rto(flight: u64) -> Congestion {
    Congestion::Rto {
        flight: Bytes::new(flight),
        repeated: false,
    }
}
pub fn idle(restart: bool) -> Sent {
    Sent {
        bytes: Bytes::new(1000),
        inflight_before: Bytes::ZERO,
        idle: Some(Idle {
            lasted: Duration::from_secs(10),
            restart,
        }),
    }
}
