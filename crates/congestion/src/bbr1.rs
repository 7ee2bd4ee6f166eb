//! BBR, version 1: models the path by its largest delivery rate and smallest RTT, sends at that rate with about one BDP
//! in flight, and probes for more bandwidth or a smaller RTT in turn. It hardly reacts to loss.
//!
//! **Source**: draft-cardwell-iccrg-bbr-congestion-control-00, "BBR Congestion Control" (Cardwell, Cheng,
//! Hassas Yeganeh, Jacobson, 2017), section 4; N. Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", ACM Queue 14(5), 2016.
//!
//! Linux 6.18, `net/ipv4/tcp_bbr.c`, for what came after the draft: the pacing margin, room for aggregated ACKs and for
//! the quanta of both ends, and policers. `pacing_margin=0`, `extra_acked=false` and `policers=false` give the draft.
//!
//! **Deviations**: after a time-out the window grows again from one segment; the draft restores it when recovery from
//! the time-out ends, which the interface does not report.
//!
//! **Units**: bytes per second and bytes, with fractions.
//!
//! **Validated against**: the tests below, by hand from section 4; the simulator's tests cover behaviour over a link.

use crate::controller::{
    Ack, Congestion, Controller, ControllerState, Lost, Recovery, Sent, Setup,
};
use crate::filter::WindowedMax;
use crate::window::{Rounds, send_quantum};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{BitsPerSec, Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "bbr1": "models rate and round trip of the path, version 1; does not mind losses", [
        "draft-cardwell-iccrg-bbr-congestion-control-00, BBR Congestion Control",
    ] {
        /// gain in Startup
        high_gain: f64 = "2.885" ["1.1".."10"], "the draft, section 4.2.1";
        /// window in multiples of the BDP
        cwnd_gain: f64 = "2" ["1".."10"], "the draft, section 4.2.3";
        /// RTTs over which the largest delivery rate is kept
        bandwidth_rounds: u64 = "10" ["1".."1000000"], "the draft, section 4.1.1";
        /// time over which the smallest RTT is kept
        min_rtt_window: Duration = "10 s" ["1 us".."1000 s"], "the draft, section 4.1.2";
        /// time that inflight stays low to measure the RTT
        probe_rtt: Duration = "200 ms" ["1 us".."1000 s"], "the draft, section 4.3.5";
        /// fraction by which the pacing rate stays below the gain times the bandwidth
        pacing_margin: f64 = "0.01" ["0".."0.5"], "Linux, tcp_bbr.c: bbr_pacing_margin_percent";
        /// window grows by the bytes that ACKs bring beyond the bandwidth
        extra_acked: bool = "true", "Linux, tcp_bbr.c: bbr_update_ack_aggregation";
        /// paces at the rate of a policer, if two stretches with a fifth lost agree on it
        policers: bool = "true", "Linux, tcp_bbr.c: bbr_lt_bw_sampling";
    }
}

/// Pacing gains of the cycle (section 4.3.4): one phase up, one down, six level.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Smallest window in segments (section 4.2.3).
const MIN_PIPE: f64 = 4.0;
/// RTTs of each of the two windows of extra bytes, and their limit in time at the bandwidth (Linux).
const EXTRA_ROUNDS: u32 = 5;
const EXTRA_TIME: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// BBR, version 1: a model of the path's rate and round trip.
#[derive(Clone, Debug)]
pub struct Bbr1 {
    params: Params,
    rng: Rng,
    mss: f64,
    initial: f64,
    mode: Mode,
    bandwidth: WindowedMax<f64>,
    min_rtt: Option<Duration>,
    min_rtt_stamp: Time,
    rounds: Rounds,
    /// Bandwidth when it last grew by a quarter, and round trips since.
    full_bandwidth: (f64, u32),
    filled_pipe: bool,
    pacing_gain: f64,
    cwnd_gain: f64,
    cycle: usize,
    cycle_stamp: Time,
    cwnd: f64,
    /// Last window that neither recovery nor ProbeRTT limited.
    prior_cwnd: f64,
    /// Pacing rate in bytes per second; before the first RTT sample it assumes an RTT of 1 ms.
    pacing_rate: Option<f64>,
    has_rtt: bool,
    /// End of ProbeRTT, set once inflight is low; the next field tells if a round trip has passed since.
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    recovery: Repair,
    aggregation: Aggregation,
    policer: Policer,
    /// Delivered bytes up to which samples count as application-limited, because inflight was held low.
    app_limited_until: Option<Bytes>,
}

/// Bytes that ACKs bring beyond the bandwidth, because something on the path holds them and lets them go together.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    /// Largest excess in this window of round trips and in the one before.
    most: [f64; 2],
    rounds: u32,
    /// Start of the epoch, and bytes acknowledged in it.
    began: Time,
    acked: f64,
}

impl Aggregation {
    fn update(&mut self, now: Time, acked: f64, bandwidth: f64, cwnd: f64, round_start: bool) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= EXTRA_ROUNDS {
                (self.rounds, self.most) = (0, [0.0, self.most[0]]);
            }
        }
        let mut expected = bandwidth * now.saturating_since(self.began).as_secs_f64();
        if self.acked <= expected {
            (self.acked, self.began, expected) = (0.0, now, 0.0);
        }
        self.acked += acked;
        self.most[0] = self.most[0].max((self.acked - expected).min(cwnd));
    }

    fn room(&self, bandwidth: f64) -> f64 {
        self.most[0].max(self.most[1]).min(bandwidth * EXTRA_TIME)
    }
}

/// Rate of a policer: that of two stretches of at least four round trips each, from loss to loss, in which a fifth or more
/// was lost, if they agree (Linux).
#[derive(Clone, Copy, Debug, Default)]
struct Policer {
    /// True while the rate is used, for 48 round trips.
    used: bool,
    /// Rate of the last stretch, bytes per second; 0 without one.
    rate: f64,
    sampling: bool,
    rounds: u32,
    /// Start of this stretch: time, and bytes delivered and lost by then.
    began: Time,
    delivered: Bytes,
    lost: Bytes,
    /// Bytes lost on the connection.
    lost_in_all: Bytes,
}

/// Round trips of a stretch at least, and at most; round trips for which the rate is used.
const STRETCH: (u32, u32) = (4, 16);
const POLICED_ROUNDS: u32 = 48;
/// Least ratio of lost to delivered bytes, greatest difference between two rates, as a ratio and in bytes per second.
const POLICED_LOSS: f64 = 50.0 / 256.0;
const SAME_RATE: (f64, f64) = (0.125, 500.0);

impl Policer {
    /// Ends the use of the rate, and the search; the next loss begins a stretch.
    fn reset(&mut self) {
        (self.used, self.rate, self.sampling) = (false, 0.0, false);
    }

    fn begin(&mut self, now: Time, delivered: Bytes) {
        (self.began, self.delivered, self.lost) = (now, delivered, self.lost_in_all);
        self.rounds = 0;
    }

    /// Takes an ACK; returns true if the rate was used for long enough, and is given up.
    fn update(
        &mut self,
        now: Time,
        ack: &Ack,
        app_limited: bool,
        round: bool,
        probing: bool,
    ) -> bool {
        if self.used {
            self.rounds += u32::from(probing && round);
            let over = self.rounds >= POLICED_ROUNDS;
            if over {
                self.reset();
            }
            return over;
        }
        let loses = ack.newly_lost > Bytes::ZERO;
        if !self.sampling {
            if !loses {
                return false;
            }
            self.begin(now, ack.delivered);
            self.sampling = true;
        }
        self.rounds += u32::from(round);
        if app_limited || self.rounds > STRETCH.1 {
            self.reset();
        } else if self.rounds >= STRETCH.0 && loses {
            self.end_stretch(now, ack.delivered);
        }
        false
    }

    fn end_stretch(&mut self, now: Time, delivered: Bytes) {
        let lost = self.lost_in_all.saturating_sub(self.lost).get() as f64;
        let came = delivered.saturating_sub(self.delivered).get() as f64;
        let took = now.saturating_since(self.began);
        if came <= 0.0 || lost < POLICED_LOSS * came || took < Duration::from_millis(1) {
            return;
        }
        let rate = came / took.as_secs_f64();
        let apart = (rate - self.rate).abs();
        if self.rate > 0.0 && (apart <= SAME_RATE.0 * self.rate || apart <= SAME_RATE.1) {
            (self.rate, self.used, self.rounds) = ((rate + self.rate) / 2.0, true, 0);
            return;
        }
        self.rate = rate;
        self.begin(now, delivered);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    None,
    /// Loss reported, no ACK since.
    Entering,
    /// First round trip of recovery: packet conservation.
    Conserving,
    Growing,
}

impl Bbr1 {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup, now: Time, rng: Rng) -> Bbr1 {
        let initial = (setup.initial_window.get() as f64).max(setup.mss.get() as f64);
        Bbr1 {
            params: *params,
            rng,
            mss: setup.mss.get().max(1) as f64,
            initial,
            mode: Mode::Startup,
            bandwidth: WindowedMax::new(0, 0.0),
            min_rtt: None,
            min_rtt_stamp: now,
            rounds: Rounds::default(),
            full_bandwidth: (0.0, 0),
            filled_pipe: false,
            pacing_gain: params.high_gain,
            cwnd_gain: params.high_gain,
            cycle: 0,
            cycle_stamp: now,
            cwnd: initial,
            prior_cwnd: initial,
            // Section 4.2.1: the initial window in an RTT of 1 ms until one is measured.
            pacing_rate: Some(params.high_gain * initial / 1e-3),
            has_rtt: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            recovery: Repair::None,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
            app_limited_until: None,
        }
    }

    /// Returns `gain` times the BDP with room for the quanta of both ends (section 4.2.3).
    fn inflight(&self, gain: f64) -> f64 {
        self.quantized(self.bdp(self.bandwidth.get(), gain))
    }

    /// Returns `gain` times the BDP at a rate.
    fn bdp(&self, rate: f64, gain: f64) -> f64 {
        self.min_rtt
            .map_or(self.initial, |min_rtt| gain * rate * min_rtt.as_secs_f64())
    }

    /// Bandwidth that is used: the policer's, if one was found.
    fn rate(&self) -> f64 {
        match self.policer.used {
            true => self.policer.rate,
            false => self.bandwidth.get(),
        }
    }

    /// Bytes in flight at the departure of the next segment, that segment included while the bytes in flight are to grow
    /// (Linux, `bbr_packets_in_net_at_edt`).
    fn at_departure(&self, ack: &Ack, inflight: Bytes) -> f64 {
        let delivered = self.rate() * ack.paced_for.as_secs_f64();
        let delivered = (delivered / self.mss).floor() * self.mss;
        let next = if self.pacing_gain > 1.0 {
            self.send_quantum()
        } else {
            0.0
        };
        (inflight.get() as f64 + next - delivered).max(0.0)
    }

    /// Adds three send quanta, and rounds up to an even number of segments: an ACK covers two. The phase that probes for
    /// bandwidth gets two more, or a small BDP would hide it (Linux).
    fn quantized(&self, window: f64) -> f64 {
        let pair = 2.0 * self.mss;
        let even = ((window + 3.0 * self.send_quantum()) / pair).ceil() * pair;
        let probing = self.mode == Mode::ProbeBw && self.cycle == 0;
        even + if probing { pair } else { 0.0 }
    }

    /// Returns the send quantum (section 4.2.2).
    fn send_quantum(&self) -> f64 {
        let rate = bits(self.pacing_rate.unwrap_or(0.0));
        send_quantum(rate, Bytes::new(self.mss as u64)) as f64 * self.mss
    }

    /// Updates the bandwidth estimate (section 4.1.1).
    fn update_bandwidth(&mut self, ack: &Ack) {
        if let Some(until) = self.app_limited_until
            && ack.prior_delivered > until
        {
            self.app_limited_until = None;
        }
        let Some(rate) = ack.rate else { return };
        let sample = rate.delivered.get() as f64 / rate.interval.as_secs_f64().max(1e-9);
        let limited = rate.app_limited || self.app_limited_until.is_some();
        if sample >= self.bandwidth.get() || !limited {
            let window = self.params.bandwidth_rounds;
            self.bandwidth.update(window, self.rounds.count(), sample);
        }
    }

    /// Advances the gain cycle if due (section 4.3.4).
    fn check_cycle(&mut self, now: Time, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let min_rtt = self.min_rtt.unwrap_or(Duration::ZERO);
        let full_length = now.saturating_since(self.cycle_stamp) > min_rtt;
        let prior_inflight = self.at_departure(ack, ack.inflight_before);
        let next = if self.pacing_gain > 1.0 {
            full_length
                && (ack.newly_lost > Bytes::ZERO
                    || prior_inflight >= self.inflight(self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            full_length || prior_inflight <= self.inflight(1.0)
        } else {
            full_length
        };
        if next {
            self.advance_cycle(now);
        }
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle_stamp = now;
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.pacing_gain = CYCLE[self.cycle];
    }

    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.cwnd_gain = self.params.cwnd_gain;
        // Section 4.3.4: any phase except the draining one.
        let pick = (uniform(&mut self.rng) * 7.0) as usize;
        self.cycle = CYCLE.len() - 1 - pick.min(6);
        self.advance_cycle(now);
    }

    fn enter_startup(&mut self) {
        self.mode = Mode::Startup;
        self.pacing_gain = self.params.high_gain;
        self.cwnd_gain = self.params.high_gain;
    }

    /// Leaves Startup and Drain if due (sections 4.3.2 and 4.3.3).
    fn check_startup_and_drain(&mut self, now: Time, ack: &Ack, round_start: bool) {
        let limited = ack.rate.is_none_or(|r| r.app_limited);
        if !self.filled_pipe && round_start && !limited {
            let bandwidth = self.bandwidth.get();
            if bandwidth >= self.full_bandwidth.0 * 1.25 {
                self.full_bandwidth = (bandwidth, 0);
            } else {
                self.full_bandwidth.1 += 1;
                self.filled_pipe = self.full_bandwidth.1 >= 3;
            }
        }
        if self.mode == Mode::Startup && self.filled_pipe {
            self.mode = Mode::Drain;
            self.pacing_gain = 1.0 / self.params.high_gain;
            self.cwnd_gain = self.params.high_gain;
        }
        if self.mode == Mode::Drain && self.at_departure(ack, ack.inflight) <= self.inflight(1.0) {
            self.enter_probe_bw(now);
        }
    }

    /// Updates the smallest RTT and ProbeRTT (sections 4.1.2 and 4.3.5).
    fn update_min_rtt(&mut self, now: Time, ack: &Ack, round_start: bool) {
        let expired = now.saturating_since(self.min_rtt_stamp) > self.params.min_rtt_window;
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|m| rtt < m) || expired)
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_stamp = now;
        }
        if self.mode != Mode::ProbeRtt && expired && !self.idle_restart {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.pacing_gain = 1.0;
            self.cwnd_gain = 1.0;
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.app_limited_until = Some(ack.delivered + ack.inflight);
            match self.probe_rtt_done {
                None if ack.inflight.get() as f64 <= MIN_PIPE * self.mss => {
                    self.probe_rtt_done = Some(now + self.params.probe_rtt);
                    self.probe_rtt_round_done = false;
                    self.rounds.restart(ack.delivered);
                }
                None => {}
                Some(_) => {
                    self.probe_rtt_round_done |= round_start;
                    if self.probe_rtt_round_done {
                        self.check_probe_rtt_done(now);
                    }
                }
            }
        }
        self.idle_restart = false;
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.min_rtt_stamp = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.filled_pipe {
                self.enter_probe_bw(now);
            } else {
                self.enter_startup();
            }
        }
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery == Repair::None && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    /// Factor of every pacing rate; below 1, a queue that has formed drains.
    fn margin(&self) -> f64 {
        1.0 - self.params.pacing_margin
    }

    /// Sets the pacing rate of the initial window, from the first RTT that is known.
    fn begin_pacing(&mut self, rtt: Duration) {
        self.has_rtt = true;
        let nominal = self.initial / rtt.as_secs_f64().max(1e-6);
        self.pacing_rate = Some(self.params.high_gain * nominal * self.margin());
    }

    /// Sets the pacing rate (section 4.2.1).
    fn set_pacing_rate(&mut self, gain: f64, ack: Option<&Ack>) {
        if let (false, Some(srtt)) = (self.has_rtt, ack.and_then(|a| a.srtt.or(a.rtt))) {
            self.begin_pacing(srtt);
        }
        let rate = gain * self.rate() * self.margin();
        if rate > 0.0 && (self.filled_pipe || self.pacing_rate.is_none_or(|p| rate > p)) {
            self.pacing_rate = Some(rate);
        }
    }

    /// Sets the window (section 4.2.3).
    fn set_cwnd(&mut self, ack: &Ack, round_start: bool) {
        // Linux counts packets: a small one as a full one.
        let acked = (ack.newly_acked.get() as f64 / self.mss).ceil() * self.mss;
        let inflight = ack.inflight.get() as f64;
        match (self.recovery, ack.in_recovery) {
            (Repair::Entering, _) => {
                // Section 4.2.3: when recovery starts, the data in flight plus one ACK's.
                self.cwnd = inflight + acked.max(self.mss);
                self.recovery = Repair::Conserving;
                self.rounds.restart(ack.delivered);
            }
            (Repair::Conserving, true) if round_start => self.recovery = Repair::Growing,
            (Repair::Conserving | Repair::Growing, false) => {
                self.recovery = Repair::None;
                self.cwnd = self.cwnd.max(self.prior_cwnd);
            }
            _ => {}
        }
        let lost = ack.newly_lost.get() as f64;
        if lost > 0.0 {
            self.cwnd = (self.cwnd - lost).max(self.mss);
        }
        if self.recovery == Repair::Conserving {
            self.cwnd = self.cwnd.max(inflight + acked);
        } else {
            let aggregated = match self.params.extra_acked && self.filled_pipe {
                true => self.aggregation.room(self.rate()),
                false => 0.0,
            };
            let target = self.quantized(self.bdp(self.rate(), self.cwnd_gain) + aggregated);
            if self.filled_pipe {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || (ack.delivered.get() as f64) < self.initial {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(MIN_PIPE * self.mss);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_PIPE * self.mss);
        }
        self.cwnd = self.cwnd.clamp(self.mss, 1e12);
    }
}

impl Controller for Bbr1 {
    fn on_established(&mut self, now: Time, rtt: Duration) {
        (self.min_rtt, self.min_rtt_stamp) = (Some(rtt), now);
        self.begin_pacing(rtt);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        // Section 4.3.4: restart from idle at exactly the estimated bandwidth.
        if sent.idle.is_some() {
            self.idle_restart = true;
            match self.mode {
                Mode::ProbeBw => self.set_pacing_rate(1.0, None),
                Mode::ProbeRtt => self.check_probe_rtt_done(now),
                Mode::Startup | Mode::Drain => {}
            }
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        let round_start = self.rounds.begins(ack);
        if self.params.policers && ack.rate.is_some() {
            let limited = ack.rate.is_some_and(|rate| rate.app_limited);
            let probing = self.mode == Mode::ProbeBw;
            if (self.policer).update(now, ack, limited, round_start, probing) {
                self.enter_probe_bw(now);
            }
        }
        self.update_bandwidth(ack);
        let acked = ack.newly_acked.get() as f64;
        let (rate, cwnd) = (self.rate(), self.cwnd);
        self.aggregation.update(now, acked, rate, cwnd, round_start);
        self.check_cycle(now, ack);
        self.check_startup_and_drain(now, ack, round_start);
        self.update_min_rtt(now, ack, round_start);
        // A policer drops what probing sends beyond its rate.
        if self.mode == Mode::ProbeBw {
            self.pacing_gain = match self.policer.used {
                true => 1.0,
                false => CYCLE[self.cycle],
            };
        }
        self.set_pacing_rate(self.pacing_gain, Some(ack));
        self.set_cwnd(ack, round_start);
    }

    fn on_lost(&mut self, _now: Time, lost: &Lost) {
        self.policer.lost_in_all += lost.bytes;
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match congestion {
            Congestion::Loss { .. } => {
                self.save_cwnd();
                self.recovery = Repair::Entering;
            }
            Congestion::Rto { .. } => {
                self.save_cwnd();
                self.cwnd = self.mss;
                self.full_bandwidth.0 = 0.0;
                self.recovery = Repair::None;
            }
            Congestion::Spurious => {
                self.cwnd = self.cwnd.max(self.prior_cwnd);
                self.full_bandwidth = (0.0, 0);
                self.policer.reset();
                self.recovery = Repair::None;
            }
            // Version 1 does not use ECN.
            Congestion::Ecn { .. } => {}
        }
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.cwnd.round() as u64)
    }
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        self.pacing_rate.map(bits)
    }
    fn recovery(&self) -> Recovery {
        Recovery::Controller
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            cwnd: self.cwnd(),
            ssthresh: None,
            pacing_rate: self.pacing_rate(),
            phase: match self.mode {
                Mode::Startup => "startup",
                Mode::Drain => "drain",
                Mode::ProbeBw => "probe-bw",
                Mode::ProbeRtt => "probe-rtt",
            },
            variables: [
                Some(("bandwidth_bps", self.bandwidth.get() * 8.0)),
                self.min_rtt.map(|d| ("min_rtt_ns", d.as_nanos() as f64)),
                Some(("pacing_gain", self.pacing_gain)),
            ],
        }
    }
}

/// Converts bytes per second to a rate in bit/s.
pub(crate) fn bits(bytes_per_s: f64) -> BitsPerSec {
    BitsPerSec::new((bytes_per_s * 8.0).clamp(1.0, 1e15).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Line, ack, loss, rto};
    use base::rng::Streams;

    fn bbr() -> Bbr1 {
        let setup = Setup::new(Bytes::new(1000));
        Bbr1::new(
            &Params::default(),
            &setup,
            Time::ZERO,
            Streams::new(1).stream("test"),
        )
    }

    #[test]
    fn it_starts_at_two_point_nine_times_the_initial_window_a_round_trip() {
        let mut c = bbr();
        // 10 kB in 1 ms, then in the 100 ms measured: 2.885·0.8 Mbit/s less 1 %.
        assert_eq!(c.pacing_rate(), Some(BitsPerSec::from_kbps(230_800)));
        c.on_ack(Time::from_millis(100), &ack(&c, 1000));
        assert_eq!(c.pacing_rate(), Some(BitsPerSec::new(2_284_920)));
    }

    #[test]
    fn over_a_plain_line_it_finds_rate_and_round_trip_and_keeps_the_queue_short() {
        let mut c = bbr();
        // 10 Mbit/s, 50 ms: 62.5 segments.
        let mut line = Line::new(BitsPerSec::from_mbps(10), Duration::from_millis(50));
        line.run(&mut c, Time::from_secs(5));
        assert_eq!(c.state().phase, "probe-bw");
        let bandwidth = c.bandwidth.get() * 8.0;
        assert!((bandwidth / 1e7 - 1.0).abs() < 0.02, "{bandwidth}");
        assert!(
            c.min_rtt.unwrap() < Duration::from_millis(54),
            "{:?}",
            c.min_rtt
        );
        let window = c.cwnd().get() as f64 / 1000.0;
        // Twice 62.5, and three quanta of two segments.
        assert!((window - 131.0).abs() < 8.0, "{window}");
        assert!(line.utilisation() > 0.9, "{}", line.utilisation());
        assert!(
            line.mean_queue() < Duration::from_millis(40),
            "{}",
            line.mean_queue()
        );
    }

    #[test]
    fn every_ten_seconds_it_drains_to_four_segments_for_two_hundred_milliseconds() {
        let mut c = bbr();
        let mut line = Line::new(BitsPerSec::from_mbps(10), Duration::from_millis(50));
        let mut probing = Vec::new();
        while line.now < Time::from_secs(25) {
            let until = line.now + Duration::from_millis(10);
            line.run(&mut c, until);
            if c.state().phase == "probe-rtt" {
                assert!(c.cwnd() <= Bytes::new(4000));
                probing.push(line.now);
            }
        }
        let begins: Vec<Time> = probing
            .iter()
            .enumerate()
            .filter(|(i, t)| *i == 0 || **t - probing[i - 1] > Duration::from_secs(1))
            .map(|(_, t)| *t)
            .collect();
        assert_eq!(begins.len(), 2, "{begins:?}");
        let took = probing.iter().filter(|t| **t < begins[1]).count();
        assert!((20..=40).contains(&took), "{took} times 10 ms");
    }

    #[test]
    fn recovery_conserves_packets_and_then_gives_the_window_back() {
        let mut c = bbr();
        let mut line = Line::new(BitsPerSec::from_mbps(10), Duration::from_millis(50));
        line.run(&mut c, Time::from_secs(5));
        let before = c.cwnd();
        c.on_congestion(line.now, &loss(before.get()));
        let recovering = Ack {
            in_recovery: true,
            inflight: Bytes::new(40_000),
            newly_acked: Bytes::new(1000),
            ..ack(&c, 1000)
        };
        c.on_ack(line.now, &recovering);
        assert_eq!(c.cwnd(), Bytes::new(41_000));
        let recovered = Ack {
            inflight: Bytes::new(40_000),
            ..ack(&c, 1000)
        };
        c.on_ack(line.now, &recovered);
        assert!(c.cwnd() >= before.saturating_sub(Bytes::new(10_000)));
    }

    #[test]
    fn a_time_out_leaves_one_segment() {
        let mut c = bbr();
        c.on_congestion(Time::ZERO, &rto(10_000));
        assert_eq!(c.cwnd(), Bytes::new(1000));
        assert_eq!(c.recovery(), Recovery::Controller);
    }

    /// Makes a controller that has found 1 MB/s and 50 ms.
    fn settled(mode: Mode) -> Bbr1 {
        let mut c = bbr();
        c.bandwidth.reset(0, 1e6);
        c.min_rtt = Some(Duration::from_millis(50));
        c.pacing_rate = Some(1e6);
        c.mode = mode;
        c
    }

    #[test]
    fn the_pipe_is_full_at_the_third_round_trip_without_a_quarter_more() {
        let mut c = settled(Mode::Startup);
        c.full_bandwidth = (0.9e6, 0);
        let sample = Ack {
            inflight: Bytes::new(1_000_000),
            rate: Some(crate::RateSample::default()),
            ..Ack::default()
        };
        for mode in [Mode::Startup, Mode::Startup, Mode::Drain] {
            c.check_startup_and_drain(Time::ZERO, &sample, true);
            assert_eq!(c.mode, mode);
        }
    }

    #[test]
    fn the_phase_that_drains_ends_as_soon_as_the_queue_is_gone() {
        let mut c = settled(Mode::ProbeBw);
        (c.cycle, c.pacing_gain) = (1, 0.75);
        c.cycle_stamp = Time::from_secs(1);
        let ack = |inflight_before| Ack {
            inflight_before: Bytes::new(inflight_before),
            ..Ack::default()
        };
        // 50 kB and three quanta of two segments.
        let soon = Time::from_millis(1_010);
        c.check_cycle(soon, &ack(56_001));
        assert_eq!(c.pacing_gain, 0.75);
        c.check_cycle(soon, &ack(56_000));
        assert_eq!(c.pacing_gain, 1.0);
        // A level phase lasts one RTT.
        c.check_cycle(Time::from_millis(1_060), &ack(0));
        assert_eq!(c.cycle, 2);
        c.check_cycle(Time::from_millis(1_061), &ack(0));
        assert_eq!(c.cycle, 3);
    }

    #[test]
    fn packets_are_conserved_for_one_round_trip_of_recovery() {
        let mut c = settled(Mode::ProbeBw);
        c.filled_pipe = true;
        c.on_congestion(Time::ZERO, &loss(100_000));
        let ack = |delivered, prior_delivered| Ack {
            newly_acked: Bytes::new(1000),
            inflight: Bytes::new(40_000),
            delivered: Bytes::new(delivered),
            prior_delivered: Bytes::new(prior_delivered),
            in_recovery: true,
            ..Ack::default()
        };
        for (delivered, prior, repair) in [
            (500_000, 400_000, Repair::Conserving),
            (501_000, 499_000, Repair::Conserving),
            (540_000, 500_000, Repair::Growing),
        ] {
            c.on_ack(Time::ZERO, &ack(delivered, prior));
            assert_eq!(c.recovery, repair, "{delivered}");
        }
    }

    #[test]
    fn each_byte_lost_shrinks_the_window() {
        let mut c = settled(Mode::ProbeBw);
        c.filled_pipe = true;
        c.cwnd = 90_000.0;
        let ack = Ack {
            newly_acked: Bytes::new(1000),
            newly_lost: Bytes::new(20_000),
            inflight: Bytes::new(40_000),
            ..Ack::default()
        };
        c.set_cwnd(&ack, false);
        assert_eq!(c.cwnd(), Bytes::new(71_000));
    }

    #[test]
    fn samples_of_data_sent_while_inflight_was_low_do_not_count() {
        let mut c = settled(Mode::ProbeRtt);
        c.min_rtt_stamp = Time::from_secs(1);
        let ack = |prior_delivered, bytes_in_50_ms| Ack {
            delivered: Bytes::new(500_000),
            prior_delivered: Bytes::new(prior_delivered),
            inflight: Bytes::new(10_000),
            rate: Some(crate::RateSample {
                delivered: Bytes::new(bytes_in_50_ms),
                interval: Duration::from_millis(50),
                ..crate::RateSample::default()
            }),
            ..Ack::default()
        };
        c.update_min_rtt(Time::from_secs(2), &ack(400_000, 4_000), false);
        // After eleven round trips the old estimate would have been replaced by a lower one.
        for _ in 0..12 {
            c.rounds.begins(&ack(510_000, 4_000));
        }
        c.update_bandwidth(&ack(505_000, 4_000));
        assert_eq!(c.bandwidth.get(), 1e6);
        c.update_bandwidth(&ack(510_001, 4_000));
        assert!(c.bandwidth.get() < 1e6);
    }

    #[test]
    fn two_lossy_stretches_that_agree_are_a_policer_for_48_round_trips() {
        let policed = |losses_of_ten: u64| {
            let (mut policer, mut delivered) = (Policer::default(), Bytes::ZERO);
            let mut used = Vec::new();
            // Ten ACKs of 1 kB in each round trip of 100 ms; the last of them report the losses: 100 kB/s.
            for n in 0..1000u64 {
                delivered += Bytes::new(1000);
                let lost = Bytes::new(if n % 10 >= 10 - losses_of_ten {
                    1000
                } else {
                    0
                });
                policer.lost_in_all += lost;
                let ack = Ack {
                    newly_lost: lost,
                    delivered,
                    ..Ack::default()
                };
                let now = Time::from_millis(10 * n);
                policer.update(now, &ack, false, n % 10 == 0, true);
                if policer.used {
                    used.push((n, policer.rate));
                }
            }
            used
        };
        let found = policed(3);
        let (first, rate) = found[0];
        assert!((80..130).contains(&first), "{first}");
        assert!((rate - 1e5).abs() < 2e3, "{rate}");
        let lasts = found
            .windows(2)
            .take_while(|w| w[1].0 == w[0].0 + 1)
            .count() as u64;
        assert!((470..=480).contains(&lasts), "{lasts}");
        assert_eq!(policed(1), []);
    }
}
