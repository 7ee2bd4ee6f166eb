//! Google Congestion Control: rate of a video call, by the trend of its packets' delays and by their losses.
//!
//! It is no [`Controller`](crate::Controller): it has no window and no ACKs. The receiver reports now and then when each
//! packet came ([`Arrival`]), and the sender takes the rate of its encoder from it.
//!
//! - The **trend** of delays tells if a queue grows ([`trend`]).
//! - The **rate** follows: 0.85 of what arrives when the queue grows; else 8 % more each second, or about a packet per
//!   RTT if an earlier limit is known.
//! - **Losses** above 10 % lower it, too.
//! - **Probes** at the start find the link's rate in less than a second: packets at 3 and 6 times the first rate, then at
//!   twice what was found, for as long as the link lets them through.
//!
//! **Source**: S. Holmer, H. Lundin, G. Carlucci, L. De Cicco, S. Mascolo, draft-ietf-rmcat-gcc-02 (2016); where Chrome has
//! moved on from it, G. Carlucci et al., "Congestion Control for Web Real-Time Communication", IEEE/ACM Transactions on
//! Networking 25(5), 2017, and the constants of libwebrtc's `goog_cc` as of 2025.
//!
//! **Deviations**: the rate that arrives is that of the last 500 ms (section 5.5 of the draft), not libwebrtc's Bayesian
//! mean; no probes after the start, none for encoders that send less than they may; losses follow each report.
//!
//! **Units**: bit/s of whole IP packets; ms where a constant of the source has them.
//!
//! **Validated against**: the tests below, by hand from the draft; `bench/call.py` runs another program's estimator on the
//! same links.

mod rate;
pub mod trend;

use base::{BitsPerSec, Bytes, Duration, Time};
use rate::DelayBased;
use std::collections::VecDeque;
use trend::Trend;

/// Packet in a report of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Send time.
    pub sent: Time,
    /// Arrival on the receiver's clock, of which only differences count; none if it is lost.
    pub came: Option<Time>,
    /// Whole IP packet.
    pub size: Bytes,
    /// Number of the probe that it belongs to.
    pub probe: Option<u32>,
}

/// Limits of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// First rate.
    pub start: BitsPerSec,
    /// Smallest rate.
    pub least: BitsPerSec,
    /// Largest rate.
    pub most: BitsPerSec,
}

/// Probe to send at once: packets of full size at that rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number, which its packets carry.
    pub number: u32,
    /// Rate.
    pub rate: BitsPerSec,
}

/// Span over which the rate that arrives is measured. Section 5.5: 0.5 to 1 s.
const ARRIVING: Duration = Duration::from_millis(500);
/// Losses above which the rate falls, and below which it may grow. Section 6.
const MANY_LOST: f64 = 0.10;
const FEW_LOST: f64 = 0.02;
/// Time between two cuts by losses, beside an RTT; and packets that a share of losses needs (libwebrtc).
const LOSS_PAUSE: Duration = Duration::from_millis(300);
const LOSS_PACKETS: u64 = 20;
/// Logarithm of the growth in a second: 8 % (section 5.5).
const LN_GROWTH: f64 = 0.076_961_041_136_128_4;
/// Rates of the first probes, of those that follow, and the part of a probe's rate that has to be found for another one.
const FIRST_PROBES: [f64; 2] = [3.0, 6.0];
const NEXT_PROBE: f64 = 2.0;
const FOUND_ENOUGH: f64 = 0.7;
/// Part of a probe's packets that a result needs, and its smallest number.
const HEARD_ENOUGH: f64 = 0.8;
/// Packets of a probe, and its length.
pub const PROBE_PACKETS: u64 = 5;
/// Length of a probe.
pub const PROBE_SPAN: Duration = Duration::from_millis(15);
/// Part of its rate below which a probe has met the limit, and the part of that limit that is then used.
const LIMITED: f64 = 0.9;
const OF_LIMIT: f64 = 0.95;

/// Rate controller of one sender.
#[derive(Clone, Debug)]
pub struct Gcc {
    limits: Limits,
    trend: Trend,
    delay: DelayBased,
    /// Rate by delays and losses.
    rate: f64,
    losses: Losses,
    /// Packets that came in the last span: time and bits.
    arriving: VecDeque<(Time, u64)>,
    arriving_bits: u64,
    first_came: Option<Time>,
    probes: Probes,
}

/// Losses since the last look at them.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    lost: u64,
    packets: u64,
    /// Last time at which the rate followed them.
    followed: Option<Time>,
    cut: Option<Time>,
}

/// Probes of the start.
#[derive(Clone, Debug, Default)]
struct Probes {
    waiting: VecDeque<Probe>,
    /// Last one that was handed out.
    number: u32,
    rate: f64,
    /// Packets of it: first and last departure and arrival, bits of all but the last sent, and but the first come.
    heard: Vec<(Time, Time, u64)>,
}

impl Gcc {
    /// Controller of a new call.
    pub fn new(limits: Limits) -> Gcc {
        let start = limits.start.get() as f64;
        let mut gcc = Gcc {
            limits,
            trend: Trend::default(),
            delay: DelayBased::new(start),
            rate: start,
            losses: Losses::default(),
            arriving: VecDeque::new(),
            arriving_bits: 0,
            first_came: None,
            probes: Probes::default(),
        };
        for factor in FIRST_PROBES {
            gcc.probe_at(factor * start);
        }
        gcc
    }

    /// Rate to send at.
    pub fn rate(&self) -> BitsPerSec {
        BitsPerSec::new(self.rate as u64)
    }

    /// Probe to send now, if there is one.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        let probe = self.probes.waiting.pop_front()?;
        self.probes.number = probe.number;
        self.probes.rate = probe.rate.get() as f64;
        self.probes.heard.clear();
        Some(probe)
    }

    /// Takes a report: packets in the order of their departure, and the present RTT.
    pub fn report(&mut self, now: Time, rtt: Duration, packets: &[Arrival]) {
        for packet in packets {
            self.losses.packets += 1;
            let Some(came) = packet.came else {
                self.losses.lost += 1;
                continue;
            };
            self.first_came.get_or_insert(came);
            self.arriving.push_back((came, packet.size.bits()));
            self.arriving_bits += packet.size.bits();
            if packet.probe == Some(self.probes.number) && self.probes.rate > 0.0 {
                self.probes
                    .heard
                    .push((packet.sent, came, packet.size.bits()));
            }
            self.trend.packet(packet.sent, came);
        }
        let arriving = self.arriving();
        if let Some(found) = self.probes.result() {
            self.delay.set(now, found);
            self.rate = found;
            if found > FOUND_ENOUGH * self.probes.rate {
                self.probe_at(NEXT_PROBE * found);
            }
            self.probes.rate = 0.0;
        }
        self.delay.update(now, self.trend.usage(), arriving, rtt);
        self.follow_losses(now, rtt);
        let (least, most) = (
            self.limits.least.get() as f64,
            self.limits.most.get() as f64,
        );
        self.delay.clamp(least, most);
        self.rate = self.rate.min(self.delay.rate()).clamp(least, most);
    }

    /// Queues a probe at that rate, unless the last one reached the largest rate.
    fn probe_at(&mut self, rate: f64) {
        let most = self.limits.most.get() as f64;
        let last = self.probes.waiting.back().map(|p| p.number);
        if self.rate < most {
            self.probes.waiting.push_back(Probe {
                number: last.unwrap_or(self.probes.number) + 1,
                rate: BitsPerSec::new(rate.min(most) as u64),
            });
        }
    }

    /// Rate that arrives, of the last half second; none before that has passed.
    fn arriving(&mut self) -> Option<f64> {
        let newest = self.arriving.iter().map(|a| a.0).max()?;
        while let Some(&(at, bits)) = self.arriving.front()
            && newest.saturating_since(at) > ARRIVING
        {
            self.arriving_bits -= bits;
            self.arriving.pop_front();
        }
        let whole = newest.saturating_since(self.first_came?) >= ARRIVING;
        whole.then(|| self.arriving_bits as f64 / ARRIVING.as_secs_f64())
    }

    fn follow_losses(&mut self, now: Time, rtt: Duration) {
        let Losses { lost, packets, .. } = self.losses;
        let since = |t: Option<Time>| t.map(|t| now.saturating_since(t));
        let last = since(self.losses.followed).unwrap_or_default();
        self.losses.followed = Some(now);
        if packets < LOSS_PACKETS {
            // Until then what was lost before holds; nothing before the first.
            self.rate *= growth(last);
            return;
        }
        let share = lost as f64 / packets as f64;
        if share <= FEW_LOST {
            self.rate *= growth(last);
        } else if share > MANY_LOST {
            if since(self.losses.cut).is_some_and(|s| s < LOSS_PAUSE + rtt) {
                return;
            }
            self.rate *= 1.0 - 0.5 * share;
            self.losses.cut = Some(now);
        }
        (self.losses.lost, self.losses.packets) = (0, 0);
    }
}

impl Probes {
    /// Rate that the probe under way has found, once enough of its packets have come.
    fn result(&self) -> Option<f64> {
        if self.rate <= 0.0 {
            return None;
        }
        let span = PROBE_SPAN.as_secs_f64() * self.rate;
        let bits = self.heard.iter().map(|h| h.2).sum::<u64>() as f64;
        let enough = (PROBE_PACKETS as f64 * HEARD_ENOUGH) as usize;
        if self.heard.len() < enough || bits < HEARD_ENOUGH * span {
            return None;
        }
        let rate = |time: fn(&(Time, Time, u64)) -> Time, last: bool| {
            let first = self.heard.iter().min_by_key(|h| time(h))?;
            let end = self.heard.iter().max_by_key(|h| time(h))?;
            let span = time(end).saturating_since(time(first)).as_secs_f64();
            let without = if last { end.2 } else { first.2 };
            (span > 0.0).then(|| (bits - without as f64) / span)
        };
        let (sent, came) = (rate(|h| h.0, true)?, rate(|h| h.1, false)?);
        Some(match came < LIMITED * sent {
            true => OF_LIMIT * came,
            false => came.min(sent),
        })
    }
}

/// Growth of a rate in that time: 8 % in a second, and no more.
fn growth(d: Duration) -> f64 {
    // e^x by its series, which gives the same bits everywhere; x is below 0.08.
    let x = LN_GROWTH * d.as_secs_f64().min(1.0);
    1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trend::Usage;

    const LIMITS: Limits = Limits {
        start: BitsPerSec::new(300_000),
        least: BitsPerSec::new(50_000),
        most: BitsPerSec::new(2_500_000),
    };
    const RTT: Duration = Duration::from_millis(50);

    /// Controller whose probes are over.
    fn calm() -> Gcc {
        let mut gcc = Gcc::new(LIMITS);
        while gcc.poll_probe().is_some() {}
        gcc.probes.rate = 0.0;
        gcc
    }

    /// Reports a second of packets of 1000 bytes, each 10 ms, whose delay grows by `growth_us` from one to the next; every
    /// `lost`-th one is lost.
    fn second(gcc: &mut Gcc, from_ms: u64, growth_us: i64, lost: Option<u64>) {
        let packets: Vec<Arrival> = (0..100)
            .map(|i| {
                let sent = Time::from_millis(from_ms + 10 * i);
                let full_us = if growth_us < 0 { 320_000 } else { 20_000 };
                let delay_us = full_us + growth_us * i as i64;
                let came = sent + Duration::from_micros(delay_us as u64);
                Arrival {
                    sent,
                    came: Some(came).filter(|_| lost.is_none_or(|n| i % n != 0)),
                    size: Bytes::new(1000),
                    probe: None,
                }
            })
            .collect();
        for (i, part) in packets.chunks(10).enumerate() {
            let now = Time::from_millis(from_ms + 100 * (i as u64 + 1) + 60);
            gcc.report(now, RTT, part);
        }
    }

    #[test]
    fn growth_is_eight_percent_in_a_second_and_no_more() {
        for ms in [0, 1, 10, 100, 500, 999, 1000, 5000] {
            let expected = 1.08f64.powf((ms as f64 / 1e3).min(1.0));
            let got = growth(Duration::from_millis(ms));
            assert!((got / expected - 1.0).abs() < 1e-9, "{ms} ms: {got}");
        }
    }

    #[test]
    fn even_delays_let_the_rate_grow_by_eight_percent_a_second() {
        let mut gcc = calm();
        second(&mut gcc, 0, 0, None);
        let before = gcc.rate;
        second(&mut gcc, 1000, 0, None);
        assert_eq!(gcc.trend.usage(), Usage::Normal);
        assert!(
            (gcc.rate / before - 1.08).abs() < 1e-3,
            "{}",
            gcc.rate / before
        );
    }

    #[test]
    fn the_rate_is_at_most_half_more_than_what_arrives() {
        let mut gcc = calm();
        for s in 0..30 {
            second(&mut gcc, 1000 * s, 0, None);
        }
        // 100 packets of 8000 bit in a second, and 10 kbit/s; one more packet in the half second with both its ends.
        let limit = 1.5 * 51.0 * 8000.0 * 2.0 + 10_000.0;
        assert!((gcc.rate / limit - 1.0).abs() < 1e-9, "{}", gcc.rate);
    }

    #[test]
    fn a_queue_that_grows_cuts_the_rate_to_0_85_of_what_arrives() {
        let mut gcc = calm();
        for s in 0..20 {
            second(&mut gcc, 1000 * s, 0, None);
        }
        // Each packet takes 3 ms more than the one before it: what arrives is 10/13 of 800 kbit/s.
        second(&mut gcc, 20_000, 3000, None);
        let arriving = 800_000.0 * 10.0 / 13.0;
        assert!(gcc.rate < 1.02 * (KEPT * arriving - 5000.0), "{}", gcc.rate);
        assert!(gcc.rate > 0.9 * (KEPT * arriving - 5000.0), "{}", gcc.rate);
        // Once it empties, the rate is held.
        let held = gcc.rate;
        second(&mut gcc, 23_300, -3000, None);
        assert_eq!(gcc.trend.usage(), Usage::Under);
        assert!(gcc.rate <= held * 1.001, "{} {held}", gcc.rate);
    }

    #[test]
    fn losses_of_a_fifth_take_a_tenth_and_those_of_a_hundredth_nothing() {
        let mut gcc = calm();
        second(&mut gcc, 0, 0, Some(100));
        assert!(gcc.rate > 300_000.0);
        gcc.rate = 300_000.0;
        gcc.losses = Losses::default();
        let packets: Vec<Arrival> = (0..20)
            .map(|i| Arrival {
                sent: Time::from_millis(1000 + i),
                came: (i % 5 != 0).then(|| Time::from_millis(1020 + i)),
                size: Bytes::new(1000),
                probe: None,
            })
            .collect();
        gcc.report(Time::from_millis(1060), RTT, &packets);
        assert!((gcc.rate - 270_000.0).abs() < 1.0, "{}", gcc.rate);
    }

    #[test]
    fn a_probe_finds_the_link_and_a_faster_link_gets_another_one() {
        // A link of 1 Mbit/s: packets of 1000 bytes come 8 ms apart, however fast they leave.
        let mut gcc = Gcc::new(LIMITS);
        let probe = gcc.poll_probe().expect("the first");
        assert_eq!((probe.number, probe.rate.get()), (1, 900_000));
        let burst = |probe: Probe, gap_us: u64| -> Vec<Arrival> {
            let own_us = 8_000_000_000 / probe.rate.get();
            (0..30u64)
                .map(|i| Arrival {
                    sent: Time::from_micros(own_us * i),
                    came: Some(Time::from_micros(20_000 + own_us.max(gap_us) * i)),
                    size: Bytes::new(1000),
                    probe: Some(probe.number),
                })
                .collect()
        };
        gcc.report(Time::from_millis(300), RTT, &burst(probe, 8000));
        assert!((gcc.rate - 900_000.0).abs() < 10_000.0, "{}", gcc.rate);
        let second = gcc.poll_probe().expect("the second");
        assert_eq!((second.number, second.rate.get()), (2, 1_800_000));
        gcc.report(Time::from_millis(600), RTT, &burst(second, 8000));
        assert!((gcc.rate - 950_000.0).abs() < 10_000.0, "{}", gcc.rate);
        // 0.9 of the first probe's rate was enough for a third, at twice that; the second found only half of its own.
        let third = gcc.poll_probe().expect("the third").rate.get() as f64;
        assert!((third / 1.8e6 - 1.0).abs() < 0.01, "{third}");
        assert_eq!(gcc.poll_probe(), None);
    }

    const KEPT: f64 = 0.85;
}
