//! BBR, version 3: version 1's model with two time scales. Losses of the last round trips set short-term bounds. The
//! long-term bounds move only by deliberate probes, which end once more than 2 % is lost. The timing of probes lets
//! competing Reno and CUBIC flows survive.
//!
//! **Source**: draft-ietf-ccwg-bbr, "BBR Congestion Control" (Cardwell, Swett, Beshay), section 5, in the
//! working group's copy that follows version 04 of October 2025: ProbeRTT is due every 10 s, and its
//! window is taken before the smallest RTT expires.
//!
//! **Deviations**: "discontiguous ranges lost" (section 5.3.1.3) are counted as ACKs that reveal losses, as in Linux.
//! After a time-out the window grows again from the data in flight; the interface does not report the end of that
//! recovery. Classic ECN marks, for which section 3.6 specifies nothing, count as a round trip with losses.
//!
//! **Units**: bytes per second and bytes, with fractions; infinity where a bound is not set.
//!
//! **Validated against**: the tests below, by hand from section 5; the simulator's tests cover behaviour over a link.

use crate::bbr1::bits;
use crate::controller::{
    Ack, Congestion, Controller, ControllerState, Lost, Recovery, Sent, Setup,
};
use crate::filter::WindowedMax;
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{BitsPerSec, Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "bbr3": "models rate, round trip and losses of the path, version 3", [
        "draft-ietf-ccwg-bbr-04, BBR Congestion Control",
    ] {
        /// pacing gain in Startup
        startup_gain: f64 = "2.77" ["1.1".."10"], "the draft, section 2.4";
        /// pacing gain in Drain
        drain_gain: f64 as Probability = "0.5" ["0.01".."0.99"], "the draft, section 2.4";
        /// window in multiples of the BDP
        cwnd_gain: f64 = "2" ["1".."10"], "the draft, section 2.5";
        /// fraction that may be lost in a round trip of probing
        loss_threshold: f64 as Probability = "0.02" ["0.0001".."0.99"], "the draft, section 2.7";
        /// fraction of the bounds kept in a round trip with losses
        beta: f64 as Probability = "0.7" ["0.01".."0.99"], "the draft, section 2.7";
        /// fraction of the long-term bound left to other flows
        headroom: f64 as Probability = "0.15" ["0.01".."0.99"], "the draft, section 2.7";
        /// time over which the smallest RTT is kept
        min_rtt_window: Duration = "10 s" ["1 us".."1000 s"], "the draft, section 2.13";
        /// time that inflight stays low to measure the RTT
        probe_rtt: Duration = "200 ms" ["1 us".."1000 s"], "the draft, section 2.13";
    }
}

/// Margin of pacing below the estimate, 1 % (section 2.4).
const PACING_MARGIN: f64 = 0.99;
/// Smallest window in segments (section 2.7).
const MIN_PIPE: f64 = 4.0;
/// Window gain in ProbeRTT (section 2.13.2).
const PROBE_RTT_GAIN: f64 = 0.5;
/// Round trips over which aggregation is remembered (section 2.10).
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Losses that end Startup (section 5.3.1.3).
const STARTUP_LOSSES: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Mode {
    fn is_probe_bw(self) -> bool {
        matches!(self, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }
    fn is_probing(self) -> bool {
        matches!(self, Mode::Startup | Mode::Refill | Mode::Up)
    }
    /// Returns the pacing gain (table in section 5.6.1).
    fn pacing_gain(self, params: &Params) -> f64 {
        match self {
            Mode::Startup => params.startup_gain,
            Mode::Drain => params.drain_gain,
            Mode::Down => 0.9,
            Mode::Up => 1.25,
            Mode::Cruise | Mode::Refill | Mode::ProbeRtt => 1.0,
        }
    }
    /// Returns the window gain (same table).
    fn cwnd_gain(self, params: &Params) -> f64 {
        match self {
            Mode::Up => params.cwnd_gain + 0.25,
            Mode::ProbeRtt => PROBE_RTT_GAIN,
            _ => params.cwnd_gain,
        }
    }
}

/// Meaning of ACKs while bandwidth is probed (section 2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Bounds on two time scales (section 2.8).
#[derive(Clone, Copy, Debug)]
struct Bounds {
    bw_shortterm: f64,
    inflight_shortterm: f64,
    inflight_longterm: f64,
}

const UNBOUND: Bounds = Bounds {
    bw_shortterm: f64::INFINITY,
    inflight_shortterm: f64::INFINITY,
    inflight_longterm: f64::INFINITY,
};

/// Signals of one ACK or loss, in plain numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    rate: f64,
    delivered: f64,
    app_limited: bool,
    tx_in_flight: f64,
    lost: f64,
}

/// BBR, version 3: a model of the path's rate, round trip and losses.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    params: Params,
    rng: Rng,
    mss: f64,
    initial: f64,
    mode: Mode,
    // Rounds (section 5.5.1).
    next_round: Bytes,
    round_count: u64,
    round_start: bool,
    // Rate model.
    /// Largest delivery rate in the last cycle and in this one.
    max_bw: [f64; 2],
    bw: f64,
    min_rtt: Option<Duration>,
    min_rtt_stamp: Time,
    bounds: Bounds,
    extra_acked: WindowedMax<f64>,
    extra_start: Time,
    extra_delivered: f64,
    // Congestion signals of the last round trip.
    loss_round: Bytes,
    loss_round_start: bool,
    is_loss_in_round: bool,
    losses_in_round: u32,
    bw_latest: f64,
    inflight_latest: f64,
    // Full pipe (section 5.3.1.2).
    full_bw: f64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u64,
    // Probing (section 2.12).
    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    probe_up_acked: f64,
    probe_up_acked_per_inc: f64,
    probe_up_rounds: u32,
    rounds_since_probe: u64,
    probe_wait: Duration,
    cycle_stamp: Time,
    // ProbeRTT.
    probe_rtt_cwnd: f64,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    app_limited_until: Option<Bytes>,
    // Control.
    cwnd: f64,
    prior_cwnd: f64,
    pacing_rate: f64,
    has_rtt: bool,
    in_recovery: bool,
    // Undo (section 2.11).
    undo_mode: Option<Mode>,
    undo: Bounds,
}

impl Bbr3 {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup, now: Time, rng: Rng) -> Bbr3 {
        let mss = setup.mss.get().max(1) as f64;
        let initial = (setup.initial_window.get() as f64).max(mss);
        Bbr3 {
            params: *params,
            rng,
            mss,
            initial,
            mode: Mode::Startup,
            next_round: Bytes::ZERO,
            round_count: 0,
            round_start: false,
            max_bw: [0.0; 2],
            bw: 0.0,
            min_rtt: None,
            min_rtt_stamp: now,
            bounds: UNBOUND,
            extra_acked: WindowedMax::new(0, 0.0),
            extra_start: now,
            extra_delivered: 0.0,
            loss_round: Bytes::ZERO,
            loss_round_start: false,
            is_loss_in_round: false,
            losses_in_round: 0,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_up_acked: 0.0,
            probe_up_acked_per_inc: f64::INFINITY,
            probe_up_rounds: 0,
            rounds_since_probe: 0,
            probe_wait: Duration::ZERO,
            cycle_stamp: now,
            probe_rtt_cwnd: initial,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            app_limited_until: None,
            cwnd: initial,
            prior_cwnd: 0.0,
            // Section 5.6.2: the initial window in an RTT of 1 ms until one is measured.
            pacing_rate: params.startup_gain * initial / 1e-3,
            has_rtt: false,
            in_recovery: false,
            undo_mode: None,
            undo: UNBOUND,
        }
    }

    fn max_bw(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }
    fn min_pipe(&self) -> f64 {
        MIN_PIPE * self.mss
    }

    /// Returns a multiple of the BDP (`BDPMultiple`, section 5.6.4.2).
    fn bdp_multiple(&self, bw: f64, gain: f64) -> f64 {
        match self.min_rtt {
            Some(min_rtt) => gain * bw * min_rtt.as_secs_f64(),
            None => self.initial,
        }
    }
    /// Raises inflight to at least three send quanta (`QuantizationBudget`, section 5.6.4.2).
    fn quantized(&self, inflight: f64) -> f64 {
        let quantum = (self.pacing_rate * 1e-3).min(65_536.0).max(2.0 * self.mss);
        let budget = inflight.max(3.0 * quantum).max(self.min_pipe());
        if self.mode == Mode::Up {
            budget + 2.0 * self.mss
        } else {
            budget
        }
    }
    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.quantized(self.bdp_multiple(bw, gain))
    }
    /// Returns the long-term bound less headroom (`InflightWithHeadroom`, section 5.3.3.6).
    fn inflight_with_headroom(&self) -> f64 {
        let longterm = self.bounds.inflight_longterm;
        if longterm.is_infinite() {
            return longterm;
        }
        let headroom = (self.params.headroom * longterm).max(self.mss);
        (longterm - headroom).max(self.min_pipe())
    }
    fn target_inflight(&self) -> f64 {
        self.bdp_multiple(self.bw, 1.0).min(self.cwnd)
    }

    fn start_round(&mut self, delivered: Bytes) {
        self.next_round = delivered;
    }

    fn reset_full_bw(&mut self, baseline: f64) {
        self.full_bw = baseline;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    // Sections 5.5.10.3: near the start of ACK processing.
    fn update_latest(&mut self, ack: &Ack, s: &Sample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(s.rate);
        self.inflight_latest = self.inflight_latest.max(s.delivered);
        if ack.prior_delivered >= self.loss_round {
            self.loss_round = ack.delivered;
            self.loss_round_start = true;
        }
    }

    /// Updates round counting, bandwidth and congestion signals (sections 5.5.1, 5.5.5 and 5.5.10.3).
    fn update_congestion(&mut self, ack: &Ack, s: &Sample) {
        self.round_start = ack.prior_delivered >= self.next_round;
        if self.round_start {
            self.start_round(ack.delivered);
            self.round_count += 1;
            self.rounds_since_probe += 1;
        }
        if s.rate > 0.0 && (s.rate >= self.max_bw() || !s.app_limited) {
            self.max_bw[1] = self.max_bw[1].max(s.rate);
        }
        if !self.loss_round_start {
            return;
        }
        if self.is_loss_in_round && !self.mode.is_probing() {
            let b = &mut self.bounds;
            if b.bw_shortterm.is_infinite() {
                b.bw_shortterm = self.max_bw[0].max(self.max_bw[1]);
            }
            if b.inflight_shortterm.is_infinite() {
                b.inflight_shortterm = self.cwnd;
            }
            let beta = self.params.beta;
            b.bw_shortterm = self.bw_latest.max(beta * b.bw_shortterm);
            b.inflight_shortterm = self.inflight_latest.max(beta * b.inflight_shortterm);
        }
        self.is_loss_in_round = false;
    }

    /// Updates the estimate of ACK aggregation (section 5.5.9).
    fn update_aggregation(&mut self, now: Time, ack: &Ack) {
        let span_s = now.saturating_since(self.extra_start).as_secs_f64();
        let mut expected = self.bw * span_s;
        if self.extra_delivered <= expected {
            self.extra_delivered = 0.0;
            self.extra_start = now;
            expected = 0.0;
        }
        self.extra_delivered += ack.newly_acked.get() as f64;
        let extra = (self.extra_delivered - expected).min(self.cwnd);
        let rounds = if self.full_bw_reached {
            EXTRA_ACKED_ROUNDS
        } else {
            1
        };
        self.extra_acked.update(rounds, self.round_count, extra);
    }

    /// Checks for a full pipe (section 5.3.1.2).
    fn check_full_bw(&mut self, s: &Sample) {
        if self.full_bw_now || !self.round_start || s.app_limited || s.rate <= 0.0 {
            return;
        }
        if s.rate >= self.full_bw * 1.25 {
            self.reset_full_bw(s.rate);
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// Leaves Startup if due (section 5.3.1).
    fn check_startup(&mut self, ack: &Ack, s: &Sample) {
        if ack.newly_lost > Bytes::ZERO {
            self.losses_in_round = self.losses_in_round.saturating_add(1);
        }
        if self.mode == Mode::Startup
            && !self.full_bw_reached
            && self.loss_round_start
            && ack.in_recovery
            && self.losses_in_round >= STARTUP_LOSSES
            && self.is_inflight_too_high(s)
        {
            self.undo_mode = Some(Mode::Startup);
            self.full_bw_reached = true;
            let bdp = self.bdp_multiple(self.max_bw(), 1.0);
            self.bounds.inflight_longterm = bdp.max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.losses_in_round = 0;
        }
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// Leaves Drain if due (section 5.3.2).
    fn check_drain(&mut self, now: Time, ack: &Ack) {
        if self.mode == Mode::Drain
            && (ack.inflight.get() as f64 <= self.inflight(self.bw, 1.0)
                || self.round_count > self.drain_start_round + 3)
        {
            self.start_down(now, ack.delivered);
        }
    }

    fn start_down(&mut self, now: Time, delivered: Bytes) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
        self.probe_up_acked_per_inc = f64::INFINITY;
        // Section 5.3.3.5.3, `PickProbeWait`.
        self.rounds_since_probe = u64::from(uniform(&mut self.rng) < 0.5);
        self.probe_wait = Duration::from_secs_f64(2.0 + uniform(&mut self.rng));
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(delivered);
        self.mode = Mode::Down;
    }

    fn start_refill(&mut self, delivered: Bytes) {
        self.bounds.bw_shortterm = f64::INFINITY;
        self.bounds.inflight_shortterm = f64::INFINITY;
        self.probe_up_rounds = 0;
        self.probe_up_acked = 0.0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(delivered);
        self.mode = Mode::Refill;
    }

    fn start_up(&mut self, delivered: Bytes, s: &Sample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(delivered);
        self.reset_full_bw(s.rate);
        self.mode = Mode::Up;
        self.raise_slope();
    }

    fn raise_slope(&mut self) {
        let growth = f64::from(1u32 << self.probe_up_rounds.min(30));
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (self.cwnd / growth).max(self.mss);
    }

    fn is_inflight_too_high(&self, s: &Sample) -> bool {
        s.lost > s.tx_in_flight * self.params.loss_threshold
    }

    /// Adapts the long-term bounds (`AdaptLongTermModel`, section 5.3.3.6); true if it selected the next phase.
    fn adapt_long_term(&mut self, ack: &Ack, s: &Sample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.mode.is_probe_bw() && !s.app_limited && self.max_bw[1] > 0.0 {
                self.max_bw = [self.max_bw[1], 0.0];
            }
            if self.mode.is_probe_bw() && self.prev_probe_precautionary && !self.prev_probe_too_high
            {
                self.start_refill(ack.delivered);
                return true;
            }
        }
        if !self.is_inflight_too_high(s) && self.bounds.inflight_longterm.is_finite() {
            let longterm = &mut self.bounds.inflight_longterm;
            *longterm = longterm.max(s.tx_in_flight);
            if self.mode == Mode::Up {
                self.probe_upward(ack);
            }
        }
        false
    }

    fn probe_upward(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || self.cwnd < self.bounds.inflight_longterm {
            return;
        }
        self.probe_up_acked += ack.newly_acked.get() as f64;
        if self.probe_up_acked >= self.probe_up_acked_per_inc {
            let steps = (self.probe_up_acked / self.probe_up_acked_per_inc).floor();
            self.probe_up_acked -= steps * self.probe_up_acked_per_inc;
            self.bounds.inflight_longterm += steps * self.mss;
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    /// Advances the ProbeBW cycle (`UpdateProbeBWCyclePhase`, section 5.3.3.6).
    fn update_cycle(&mut self, now: Time, ack: &Ack, s: &Sample) {
        if !self.full_bw_reached || self.adapt_long_term(ack, s) || !self.mode.is_probe_bw() {
            return;
        }
        let inflight = ack.inflight.get() as f64;
        match self.mode {
            Mode::Down => {
                if self.is_time_to_probe(now) {
                    self.start_refill(ack.delivered);
                } else if inflight <= self.inflight_with_headroom()
                    && inflight <= self.inflight(self.max_bw(), 1.0)
                {
                    self.mode = Mode::Cruise;
                }
            }
            Mode::Cruise => {
                if self.is_time_to_probe(now) {
                    self.start_refill(ack.delivered);
                }
            }
            Mode::Refill => {
                if self.round_start {
                    self.is_bw_probe_sample = true;
                    self.start_up(ack.delivered, s);
                }
            }
            Mode::Up => {
                if self.is_time_to_go_down(ack, s) {
                    self.prev_probe_too_high = false;
                    self.start_down(now, ack.delivered);
                }
            }
            Mode::Startup | Mode::Drain | Mode::ProbeRtt => {}
        }
    }

    /// True if it is time to probe for bandwidth (section 5.3.3.5.3).
    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno_rounds = (self.target_inflight() / self.mss).min(63.0);
        now.saturating_since(self.cycle_stamp) > self.probe_wait
            || self.rounds_since_probe as f64 >= reno_rounds
    }

    fn is_time_to_go_down(&mut self, ack: &Ack, s: &Sample) -> bool {
        let longterm = self.bounds.inflight_longterm;
        if self.prev_probe_too_high && ack.inflight.get() as f64 >= longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if ack.cwnd_limited && self.cwnd >= longterm {
            // Rates above the window's limit cannot be explored.
            self.reset_full_bw(s.rate);
            return false;
        }
        self.full_bw_now
    }

    /// Updates the smallest RTT and ProbeRTT (section 5.3.4.3).
    fn update_min_rtt(&mut self, now: Time, ack: &Ack) {
        let expired = now.saturating_since(self.min_rtt_stamp) > self.params.min_rtt_window;
        if expired && self.mode != Mode::ProbeRtt {
            let target = self.bdp_multiple(self.bw, PROBE_RTT_GAIN);
            self.probe_rtt_cwnd = target.max(self.min_pipe());
        }
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|m| rtt < m) || expired)
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_stamp = now;
        }
        if self.mode != Mode::ProbeRtt && expired && !self.idle_restart {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(ack.delivered);
        }
        if self.mode == Mode::ProbeRtt {
            self.app_limited_until = Some(ack.delivered + ack.inflight);
            match self.probe_rtt_done {
                None if ack.inflight.get() as f64 <= self.probe_rtt_cwnd => {
                    self.probe_rtt_done = Some(now + self.params.probe_rtt);
                    self.probe_rtt_round_done = false;
                    self.start_round(ack.delivered);
                }
                None => {}
                Some(_) => {
                    self.probe_rtt_round_done |= self.round_start;
                    if self.probe_rtt_round_done {
                        self.check_probe_rtt_done(now, ack.delivered);
                    }
                }
            }
        }
        self.idle_restart = false;
    }

    fn check_probe_rtt_done(&mut self, now: Time, delivered: Bytes) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.min_rtt_stamp = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.bounds.bw_shortterm = f64::INFINITY;
            self.bounds.inflight_shortterm = f64::INFINITY;
            if self.full_bw_reached {
                self.start_down(now, delivered);
                self.mode = Mode::Cruise;
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if !self.in_recovery && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo_mode = None;
        self.undo = self.bounds;
    }

    /// Records a loss of this round trip (`NoteLoss`, section 5.5.10.2).
    fn note_loss(&mut self, delivered: Bytes) {
        if !self.is_loss_in_round {
            self.loss_round = delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    /// Sets the pacing rate (section 5.6.2).
    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw * PACING_MARGIN;
        if rate > 0.0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Sets the window (sections 5.6.4.5 to 5.6.4.7).
    fn set_cwnd(&mut self, ack: &Ack) {
        let acked = ack.newly_acked.get() as f64;
        let gain = self.mode.cwnd_gain(&self.params);
        let max_inflight =
            self.quantized(self.bdp_multiple(self.bw, gain) + self.extra_acked.get());
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + acked).min(max_inflight);
        } else if self.cwnd < max_inflight || (ack.delivered.get() as f64) < self.initial {
            self.cwnd += acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe());
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd);
        }
        let cap = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.bounds.inflight_longterm,
            Mode::Cruise | Mode::ProbeRtt => self.inflight_with_headroom(),
            Mode::Startup | Mode::Drain => f64::INFINITY,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.min_pipe());
        self.cwnd = self.cwnd.min(cap).clamp(self.mss, 1e12);
    }
}

impl Bbr3 {
    /// Sets the pacing rate of the initial window, from the first RTT that is known (section 5.6.2).
    fn begin_pacing(&mut self, rtt: Duration) {
        self.has_rtt = true;
        let nominal = self.initial / rtt.as_secs_f64().max(1e-6);
        self.pacing_rate = self.params.startup_gain * nominal;
    }
}

impl Controller for Bbr3 {
    fn on_established(&mut self, _now: Time, rtt: Duration) {
        self.begin_pacing(rtt);
    }
    fn on_sent(&mut self, now: Time, sent: &Sent) {
        // Section 5.4.
        if sent.idle.is_some() {
            self.idle_restart = true;
            self.extra_start = now;
            if self.mode.is_probe_bw() {
                self.set_pacing_rate(1.0);
            } else if self.mode == Mode::ProbeRtt {
                self.check_probe_rtt_done(now, self.next_round);
            }
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        let limited_by_us = self
            .app_limited_until
            .is_some_and(|u| ack.prior_delivered <= u);
        if !limited_by_us {
            self.app_limited_until = None;
        }
        let s = ack.rate.map_or(
            Sample {
                delivered: ack.delivered.saturating_sub(ack.prior_delivered).get() as f64,
                app_limited: true,
                ..Sample::default()
            },
            |r| Sample {
                rate: r.delivered.get() as f64 / r.interval.as_secs_f64().max(1e-9),
                delivered: r.delivered.get() as f64,
                app_limited: r.app_limited || limited_by_us,
                tx_in_flight: r.tx_in_flight.get() as f64,
                lost: r.lost.get() as f64,
            },
        );
        if !self.has_rtt
            && let Some(srtt) = ack.srtt.or(ack.rtt)
        {
            self.begin_pacing(srtt);
        }
        if self.in_recovery && !ack.in_recovery {
            // Section 5.6.4.4: recovery is over.
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.in_recovery = false;
        }
        // Section 5.2.3.
        self.update_latest(ack, &s);
        self.update_congestion(ack, &s);
        self.update_aggregation(now, ack);
        self.check_full_bw(&s);
        self.check_startup(ack, &s);
        self.check_drain(now, ack);
        self.update_cycle(now, ack, &s);
        self.update_min_rtt(now, ack);
        if self.loss_round_start {
            self.bw_latest = s.rate;
            self.inflight_latest = s.delivered;
        }
        self.bw = self.max_bw().min(self.bounds.bw_shortterm);
        self.set_pacing_rate(self.mode.pacing_gain(&self.params));
        self.set_cwnd(ack);
    }

    /// Handles a lost packet (`HandleLostPacket`, section 5.5.10.2).
    fn on_lost(&mut self, now: Time, lost: &Lost) {
        self.note_loss(lost.delivered);
        if !self.is_bw_probe_sample {
            return;
        }
        let s = Sample {
            tx_in_flight: lost.tx_in_flight.get() as f64,
            lost: lost.lost_since_sent.get() as f64,
            app_limited: lost.app_limited,
            ..Sample::default()
        };
        if !self.is_inflight_too_high(&s) {
            return;
        }
        // Byte of this segment at which losses crossed the threshold.
        let size = lost.bytes.get() as f64;
        let threshold = self.params.loss_threshold;
        let inflight_prev = (s.tx_in_flight - size).max(0.0);
        let lost_prev = (s.lost - size).max(0.0);
        let prefix = (threshold * inflight_prev - lost_prev) / (1.0 - threshold);
        let inflight_at_loss = inflight_prev + prefix.clamp(0.0, size);
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !s.app_limited {
            self.bounds.inflight_longterm =
                inflight_at_loss.max(self.target_inflight() * self.params.beta);
        }
        if self.mode == Mode::Up {
            self.undo_mode = Some(Mode::Up);
            self.start_down(now, lost.delivered);
        }
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match congestion {
            Congestion::Loss { .. } => {
                self.save_cwnd();
                self.in_recovery = true;
            }
            Congestion::Ecn { .. } => self.note_loss(self.loss_round),
            Congestion::Rto { .. } => {
                // Section 5.6.4.4: enough for one segment.
                self.save_state_upon_loss();
                self.cwnd = self.mss;
                self.in_recovery = false;
            }
            Congestion::Spurious => {
                // Section 5.5.11.2.
                self.cwnd = self.cwnd.max(self.prior_cwnd);
                self.is_loss_in_round = false;
                self.reset_full_bw(0.0);
                let b = &mut self.bounds;
                b.bw_shortterm = b.bw_shortterm.max(self.undo.bw_shortterm);
                b.inflight_shortterm = b.inflight_shortterm.max(self.undo.inflight_shortterm);
                b.inflight_longterm = b.inflight_longterm.max(self.undo.inflight_longterm);
                match self.undo_mode.take() {
                    Some(Mode::Startup) if self.mode != Mode::Startup => {
                        self.full_bw_reached = false;
                        if self.mode != Mode::ProbeRtt {
                            self.mode = Mode::Startup;
                        }
                    }
                    Some(Mode::Up) if !matches!(self.mode, Mode::Up | Mode::ProbeRtt) => {
                        self.start_refill(self.next_round);
                    }
                    _ => {}
                }
            }
        }
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.cwnd.round() as u64)
    }
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        Some(bits(self.pacing_rate))
    }
    fn recovery(&self) -> Recovery {
        Recovery::Controller
    }
    fn state(&self) -> ControllerState {
        let longterm = self.bounds.inflight_longterm;
        ControllerState {
            cwnd: self.cwnd(),
            ssthresh: None,
            pacing_rate: self.pacing_rate(),
            phase: match self.mode {
                Mode::Startup => "startup",
                Mode::Drain => "drain",
                Mode::Down => "probe-bw-down",
                Mode::Cruise => "probe-bw-cruise",
                Mode::Refill => "probe-bw-refill",
                Mode::Up => "probe-bw-up",
                Mode::ProbeRtt => "probe-rtt",
            },
            variables: [
                Some(("bandwidth_bps", self.bw * 8.0)),
                self.min_rtt.map(|d| ("min_rtt_ns", d.as_nanos() as f64)),
                longterm
                    .is_finite()
                    .then_some(("inflight_longterm_bytes", longterm)),
            ],
        }
    }
}

#[cfg(test)]
mod tests;
