//! Probe intervals that keep the probes from becoming the load. On a slow link a hundred probes a second would be most
//! of the traffic. In a queue that counts packets, each small probe takes the place of a full packet.

use base::{BitsPerSec, Bytes, Duration};

/// Shortest interval that the test chooses by itself.
pub const FASTEST: Duration = Duration::from_millis(10);
/// Interval while the rate of the link is unknown: 10 probes a second are 11 % of a GPRS link.
pub const UNKNOWN: Duration = Duration::from_millis(100);
/// Longest interval in a loaded phase, which needs some samples on any link: four probes a second.
const SPARSEST_LOADED: Duration = Duration::from_millis(250);
const SPARSEST_IDLE: Duration = Duration::from_millis(500);
const FULL_PACKET: Bytes = Bytes::new(1500);

/// Interval between probes of `probe` bytes (the whole IP packet) on an idle link of rate `slowest`: at most a tenth of
/// its bytes.
pub fn idle_interval(slowest: Option<BitsPerSec>, probe: Bytes) -> Duration {
    let Some(rate) = slowest else { return UNKNOWN };
    share(probe.serialization_delay_ceil(rate), 10).clamp(FASTEST, SPARSEST_IDLE)
}

/// Interval between probes during a load that fills a link of rate `loaded`. Probes take at most a twentieth of its
/// bytes and, as the queue may count packets, of its packets. If that leaves fewer than four probes a second, bytes
/// alone decide; otherwise a link of 65 kbit/s would get one probe in four seconds.
pub fn loaded_interval(loaded: Option<BitsPerSec>, probe: Bytes) -> Duration {
    let Some(rate) = loaded else {
        return SPARSEST_LOADED;
    };
    let by_bytes = share(probe.serialization_delay_ceil(rate), 20);
    let by_packets = share(FULL_PACKET.serialization_delay_ceil(rate), 20);
    by_bytes
        .max(by_packets.min(SPARSEST_LOADED))
        .clamp(FASTEST, Duration::from_secs(1))
}

/// Interval between fresh connections, each of which costs seven small packets: at most a fiftieth of the slowest
/// loaded direction.
pub fn fresh_connection_interval(slowest: Option<BitsPerSec>) -> Duration {
    let rate = slowest.unwrap_or(BitsPerSec::from_kbps(500));
    let cost = Bytes::new(7 * 60).serialization_delay_ceil(rate);
    share(cost, 50).clamp(Duration::from_millis(250), Duration::from_secs(3))
}

/// Payload of datagrams that makes a rate of whole IP packets smooth: 20 ms apart at most, as far as size allows.
pub fn payload_for(rate: BitsPerSec) -> u16 {
    let in_20_ms = rate.bytes_in_floor(Duration::from_millis(20)).get();
    in_20_ms.clamp(100, crate::control::datagram::MAX_LEN as u64) as u16
}

/// Interval at which one packet each time takes one part in `parts` of the link.
fn share(packet: Duration, parts: u64) -> Duration {
    Duration::from_nanos(packet.as_nanos().saturating_mul(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Bytes = Bytes::new(100);

    fn per_second(d: Duration) -> f64 {
        1.0 / d.as_secs_f64()
    }

    #[test]
    fn a_fast_line_gets_the_fastest_cadence() {
        assert_eq!(
            loaded_interval(Some(BitsPerSec::from_mbps(60)), PROBE),
            FASTEST
        );
        assert_eq!(
            idle_interval(Some(BitsPerSec::from_mbps(60)), PROBE),
            FASTEST
        );
    }

    #[test]
    fn probes_take_at_most_a_twentieth_of_a_loaded_line() {
        // 2 Mbit/s carry 166.7 full packets a second; a twentieth is 8.3.
        let shdsl = loaded_interval(Some(BitsPerSec::from_mbps(2)), PROBE);
        assert!((per_second(shdsl) - 8.33).abs() < 0.01, "{shdsl}");
        // 700 kbit/s: a twentieth would be 2.9 packets a second; the floor of four applies.
        assert_eq!(
            loaded_interval(Some(BitsPerSec::from_kbps(700)), PROBE),
            Duration::from_millis(250)
        );
        // 65 kbit/s: four probes of 100 bytes are 3.2 kbit/s, just under a twentieth.
        assert_eq!(
            loaded_interval(Some(BitsPerSec::from_kbps(65)), PROBE),
            Duration::from_millis(250)
        );
        // 20 kbit/s: bytes decide.
        assert_eq!(
            loaded_interval(Some(BitsPerSec::from_kbps(20)), PROBE),
            Duration::from_millis(800)
        );
    }

    #[test]
    fn a_line_that_delivers_nothing_gets_the_sparsest_cadence() {
        let stuck = Some(BitsPerSec::ZERO);
        assert_eq!(loaded_interval(stuck, PROBE), Duration::from_secs(1));
        assert_eq!(idle_interval(stuck, PROBE), Duration::from_millis(500));
        assert_eq!(fresh_connection_interval(stuck), Duration::from_secs(3));
        // 700 kbit/s: 420 bytes take 4.8 ms, a fiftieth of which is every 240 ms; 65 kbit/s: every 2.6 s.
        let adsl = fresh_connection_interval(Some(BitsPerSec::from_kbps(700)));
        assert_eq!(adsl, Duration::from_millis(250));
        let gprs = fresh_connection_interval(Some(BitsPerSec::from_kbps(65)));
        assert!((gprs.as_secs_f64() - 2.585).abs() < 0.001, "{gprs}");
    }

    #[test]
    fn an_unknown_line_is_treated_with_care() {
        assert_eq!(idle_interval(None, PROBE), UNKNOWN);
        assert_eq!(loaded_interval(None, PROBE), Duration::from_millis(250));
    }
}
