//! TCP sender: handshake, windows, loss recovery, timers.
//!
//! **Source**: RFC 9293, "Transmission Control Protocol (TCP)" (Eddy, 2022); RFC 5681, "TCP Congestion
//! Control" (Allman, Paxson, Blanton, 2009); RFC 6298, "Computing TCP's Retransmission Timer" (2011),
//! section 5; RFC 6582, "The NewReno Modification to TCP's Fast Recovery Algorithm" (2012); RFC 3042,
//! "Enhancing TCP's Loss Recovery Using Limited Transmit" (2001); RFC 8985, "The RACK-TLP Loss Detection
//! Algorithm for TCP" (2021).
//!
//! **Deviations**: no payload. A FIN rides on the last segment of data, takes no sequence number and is never sent
//! alone. Nagle's algorithm is off. A retransmission keeps the boundaries of its segment. Without SACK, each duplicate
//! ACK counts as one full segment that has left the network.
//!
//! **Units**: bytes of payload from 0, ns.
//!
//! **Validated against**: `tests/tcp.rs`: slow start, a sawtooth on a known pipe, the sequence of a fast
//! retransmit; `docs/book/sim-vs-linux.md`: the Linux kernel's on the same path.

use super::Settings;
use super::growth::INITIAL;
use super::reduction::{Halving, Proportional};
use super::scoreboard::{Scoreboard, Told};
use crate::segment::{Segment, flag, window_scale};
use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Ecn, Time};
use congestion::registry::AnyController;
use congestion::{
    Ack, Congestion, Controller, ControllerState, DeliveryRate, EcnUse, Idle, Recovery,
    RttEstimator, Sent, Setup, send_quantum, window_rate,
};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// State before the first write.
    Closed,
    SynToSend,
    SynSent,
    Established,
}

/// Current phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Episode {
    None,
    /// Fast recovery until `point` is acknowledged.
    Recovery {
        point: u64,
        rule: Recovery,
    },
    /// Recovery after a retransmission timeout, or Tahoe's restart: every outstanding segment was deemed lost.
    Loss {
        point: u64,
    },
    /// Reduction after a CE mark: no second one before `point` is acknowledged.
    Reduced {
        point: u64,
    },
}

/// Contents of a segment, filled in by the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Position of its first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// Flags of the header.
    pub flags: u8,
}

impl Outgoing {
    fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Recoveries.
    pub recoveries: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Spurious recoveries.
    pub spurious: u64,
    /// Window reductions because of CE marks.
    pub ecn_reductions: u64,
}

impl std::ops::Add for SenderStats {
    type Output = SenderStats;
    fn add(self, other: SenderStats) -> SenderStats {
        SenderStats {
            segments: self.segments + other.segments,
            retransmits: self.retransmits + other.retransmits,
            timeouts: self.timeouts + other.timeouts,
            recoveries: self.recoveries + other.recoveries,
            tail_probes: self.tail_probes + other.tail_probes,
            spurious: self.spurious + other.spurious,
            ecn_reductions: self.ecn_reductions + other.ecn_reductions,
        }
    }
}

/// Sending end of a connection.
pub struct Sender {
    /// Settings, shared by connections with the same ones.
    settings: Arc<Settings>,
    controller: AnyController,
    rtt: RttEstimator,
    /// End of the data of this round trip of the estimator.
    rtt_round: u64,
    rate: DeliveryRate,
    board: Scoreboard,
    state: State,
    una: u64,
    next: u64,
    /// Bytes that the application has written.
    written: u64,
    /// True if the application writes no more.
    closed: bool,
    /// True if the other end's FIN has to be acknowledged.
    fin_came: bool,
    episode: Episode,
    prr: Proportional,
    halving: Halving,
    /// Most bytes that may be in flight now.
    limit: u64,
    /// Duplicate ACKs in a row, and the bytes that left the network according to them; counted without SACK.
    duplicates: u64,
    phantom: u64,
    /// Sequence number of the last byte sent while the window limited the sender.
    limited_until: Option<u64>,
    /// Retransmissions of this episode that may yet prove spurious.
    undo: Option<u64>,
    rto_due: Time,
    /// Time of the next tail loss probe, which precedes the retransmission timeout (RFC 8985 section 7).
    probe_due: Time,
    probe_now: bool,
    /// Tail loss probe in flight: the end of its data, and true if that was a retransmission.
    probe_out: Option<(u64, bool)>,
    /// Time at which a segment becomes overdue (RFC 8985 section 6.3).
    overdue: Time,
    /// Earliest time at which pacing lets a segment leave.
    paced_until: Time,
    /// Time until which pacing holds back a segment that is ready.
    held_until: Time,
    pace: Option<BitsPerSec>,
    /// Segments left of the quantum that pacing lets out together, and the lateness that it has not made up for.
    quantum_left: u64,
    late: Duration,
    last_sent: Option<Time>,
    syn_sent: Option<Time>,
    cwr: bool,
    /// Bytes left of a burst that has started.
    burst_left: u64,
    /// Receive window that the application's reading leaves, bytes.
    window: u64,
    /// End of what the receiver has offered, and the scale of its window field.
    edge: u64,
    scale: u8,
    ecn_use: Option<EcnUse>,
    ce_bytes: u64,
    stats: SenderStats,
}

/// Segments at the start of a connection that Linux does not pace.
const UNPACED: u64 = 10;
/// Time of a timer that is not set.
const NEVER: Time = Time::MAX;

/// Use of ECN by a connection: controllers that stand on marks have it in any case, as in Linux (`TCP_CONG_NEEDS_ECN`).
fn ecn_use(negotiated: bool, of: EcnUse) -> Option<EcnUse> {
    (negotiated || of != EcnUse::Classic).then_some(of)
}

impl Sender {
    /// Creates a sender. `name` identifies its owner, such as `flow/3`, and names its random streams.
    pub fn new(settings: Arc<Settings>, streams: &Streams, name: &str) -> Sender {
        let setup = match settings.initial_window {
            Some(segments) => Setup::with_initial_segments(settings.mss, segments),
            None => Setup::new(settings.mss),
        };
        let controller = settings.controller.build(&setup, Time::ZERO, streams, name);
        Sender {
            limit: controller.cwnd().get(),
            ecn_use: ecn_use(settings.ecn, controller.ecn()),
            controller,
            rtt: RttEstimator::new(settings.rto),
            rtt_round: 0,
            rate: DeliveryRate::new(),
            board: Scoreboard::new(settings.mss.get(), settings.dup_thresh),
            state: State::Closed,
            una: 0,
            next: 0,
            written: 0,
            closed: false,
            fin_came: false,
            episode: Episode::None,
            prr: Proportional::default(),
            halving: Halving::default(),
            duplicates: 0,
            phantom: 0,
            limited_until: None,
            undo: None,
            rto_due: NEVER,
            probe_due: NEVER,
            probe_now: false,
            probe_out: None,
            overdue: NEVER,
            paced_until: Time::ZERO,
            held_until: NEVER,
            pace: settings.max_pace,
            quantum_left: 0,
            late: Duration::ZERO,
            last_sent: None,
            syn_sent: None,
            cwr: false,
            burst_left: 0,
            window: settings.receive_window.get(),
            edge: match settings.delayed_ack && settings.window_growth {
                true => INITIAL.min(settings.receive_window.get()),
                false => settings.receive_window.get(),
            },
            scale: window_scale(settings.receive_window.get()),
            ce_bytes: 0,
            stats: SenderStats::default(),
            settings,
        }
    }

    /// Adds `bytes` from the application; the first call opens the connection.
    pub fn write(&mut self, bytes: u64) {
        if self.state == State::Closed {
            self.state = match self.settings.handshake {
                true => State::SynToSend,
                false => State::Established,
            };
        }
        self.written = self.written.saturating_add(bytes);
    }

    /// Marks the end of the application's data.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Withdraws data that has not been sent yet.
    pub fn withdraw(&mut self) {
        self.written = self.next;
    }
    /// Sets the receive window; until the first call it is [`Settings::receive_window`].
    pub fn set_window(&mut self, window: Bytes) {
        self.window = window.get();
    }
    /// True if there is data to send and room for it in the congestion window, and the receiver's window alone forbids
    /// it.
    pub fn held_by_receiver(&self) -> bool {
        self.window_is_full() && self.inflight() + self.unsent() <= self.limit
    }
    /// True if the receiver's window forbids what there is to send, whether the congestion window does or not.
    pub fn window_is_full(&self) -> bool {
        let len = self.unsent();
        self.state == State::Established && len > 0 && self.board.lost() == 0 && !self.has_room(len)
    }
    /// Bytes of the next new segment.
    fn unsent(&self) -> u64 {
        self.settings.mss.get().min(self.written - self.next)
    }
    /// True if the receiver has room for this many new bytes.
    fn has_room(&self, len: u64) -> bool {
        let end = self.next + len;
        end <= self.edge && end - self.una <= self.window
    }
    /// Bytes that the application has written.
    pub fn written(&self) -> u64 {
        self.written
    }
    /// True if everything written has been sent.
    pub fn has_sent_all(&self) -> bool {
        self.next == self.written
    }
    /// True if a segment that was lost has not been acknowledged since.
    pub fn is_repairing(&self) -> bool {
        self.board.is_repairing()
    }
    /// True if the application has never written.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }
    /// Bytes acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.una
    }
    /// Bytes delivered.
    pub fn delivered(&self) -> u64 {
        self.rate.delivered().get()
    }
    /// True if everything written has been acknowledged.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state == State::Closed || self.una == self.written
    }
    /// Counters so far.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }
    /// State of the congestion controller.
    pub fn controller(&self) -> ControllerState {
        self.controller.state()
    }
    /// Round-trip estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// Settings of the connection.
    #[inline]
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }
    /// Controller's use of ECN; `None` if ECN is not negotiated.
    pub fn ecn_use(&self) -> Option<EcnUse> {
        self.ecn_use
    }
    /// ECN bits of its packets.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match self.ecn_use {
            None => Ecn::NotEct,
            Some(EcnUse::L4s) => Ecn::Ect1,
            Some(_) => Ecn::Ect0,
        }
    }
    /// Bytes in flight: neither acknowledged nor deemed lost.
    #[inline]
    pub fn inflight(&self) -> u64 {
        self.board.pipe().saturating_sub(self.phantom)
    }

    /// Time of the next timer; none if no timer runs.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        // A tail loss probe precedes the retransmission timeout and never replaces it.
        let tail = match self.rto_due {
            NEVER => NEVER,
            rto => rto.min(self.probe_due),
        };
        let first = tail.min(self.overdue).min(self.held_until);
        (first < NEVER).then_some(first)
    }

    /// Handles an acknowledgement.
    pub fn handle_segment(&mut self, now: Time, ack: &Segment) {
        if ack.is(flag::SYN) {
            self.handshake(now);
            return;
        }
        if self.state != State::Established || ack.ack < self.una {
            return;
        }
        self.fin_came |= ack.is(flag::FIN);
        let offered = u64::from(ack.window) << self.scale;
        self.edge = self.edge.max(ack.ack.saturating_add(offered));
        let inflight_before = self.inflight();
        let una_before = self.una;
        let delivered_before = self.rate.delivered();
        let min_rtt = self.rtt.min_rtt();
        let mut told = Told::default();
        let sacked_before = self.board.sacked_bytes();
        // Send time of the segment that triggered this ACK, as the timestamp that RFC 7323 echoes. For a delayed ACK it
        // is too late by the delay: then the minimum RTT alone decides, as without timestamps.
        let echo = ack.sent.saturating_sub(ack.delay);
        if ack.ack > self.una {
            self.board
                .acknowledge(now, ack.ack, echo, min_rtt, &mut self.rate, &mut told);
            self.una = ack.ack;
        }
        let duplicate_block = ack.is(flag::DSACK);
        for block in &ack.blocks()[usize::from(duplicate_block).min(ack.blocks().len())..] {
            self.board.selectively_acknowledge(
                now,
                *block,
                echo,
                min_rtt,
                &mut self.rate,
                &mut told,
            );
        }
        let advanced = self.una > una_before;
        self.count_duplicates(advanced, una_before);
        if let Some((sent, true)) = told.newest {
            self.rtt.on_sample(now - sent);
            if self.una > self.rtt_round {
                self.rtt.end_round();
                self.rtt_round = self.next;
            }
        }
        let min_rtt = self.rtt.min_rtt();
        let delivery = self.rate.finish(min_rtt);
        let newly_acked = self.rate.delivered().saturating_sub(delivered_before);
        if duplicate_block {
            self.board.duplicate_reported(self.una, self.next);
        }
        let spurious = duplicate_block && self.was_for_nothing();
        let lost_before = self.rate.lost();
        self.end_probe(now, duplicate_block);
        let ended = self.end_episode(advanced);
        self.detect(now);
        let newly_lost = self.rate.lost().saturating_sub(lost_before);
        let mut congested = false;
        if spurious {
            self.stats.spurious += 1;
            self.episode = Episode::None;
            self.controller.on_congestion(now, &Congestion::Spurious);
        } else {
            // Losses of data sent since the recovery began are a signal of their own (RFC 6675 section 5, step 4).
            let more = ended && self.settings.sack && self.board.is_repairing();
            congested = (more || newly_lost > Bytes::ZERO)
                && self.begin_recovery(now, una_before, sacked_before, more);
        }
        let ce_bytes = ack.ce_bytes.saturating_sub(self.ce_bytes);
        self.ce_bytes = self.ce_bytes.max(ack.ce_bytes);
        if ack.is(flag::ECE) && !congested && self.ecn_use == Some(EcnUse::Classic) {
            self.marked(now);
        }
        let recovering = matches!(self.episode, Episode::Recovery { .. });
        if newly_acked > Bytes::ZERO {
            let delivery = delivery.as_ref();
            self.controller.on_ack(
                now,
                &Ack {
                    newly_acked,
                    inflight_before: Bytes::new(inflight_before),
                    inflight: Bytes::new(self.inflight()),
                    paced_for: self.paced_until.saturating_since(now),
                    rtt: told.newest.filter(|n| n.1).map(|n| now - n.0),
                    one_way_delay: Some(ack.delay),
                    min_rtt,
                    srtt: self.rtt.srtt(),
                    ce_bytes: Bytes::new(ce_bytes),
                    newly_lost,
                    delivered: self.rate.delivered(),
                    prior_delivered: delivery.map_or(Bytes::ZERO, |d| d.prior_delivered),
                    rate: delivery.and_then(|d| d.rate),
                    cwnd_limited: self.limited_until.is_some_and(|until| una_before <= until),
                    // RFC 5681 section 3.2 step 1: duplicates do not grow the window.
                    in_recovery: recovering || !advanced,
                },
            );
        }
        self.set_limit(newly_acked.get(), newly_lost.get(), advanced);
        if advanced || newly_acked > Bytes::ZERO {
            self.set_timers(now);
        }
    }
    fn handshake(&mut self, now: Time) {
        if self.state != State::SynSent {
            return;
        }
        self.state = State::Established;
        self.rto_due = NEVER;
        // RFC 6298 section 5.7: a retransmitted SYN gives no RTT sample and a longer first timeout.
        match self.syn_sent {
            Some(sent) => {
                self.rtt.on_sample(now - sent);
                self.controller.on_established(now, now - sent);
            }
            None => self.rtt.after_lost_syn(),
        }
        self.set_limit(0, 0, false);
    }

    /// Counts duplicate ACKs: without SACK, each means that one segment has left the network.
    fn count_duplicates(&mut self, advanced: bool, una_before: u64) {
        let mss = self.settings.mss.get();
        if !advanced {
            if !self.board.is_empty() {
                self.duplicates += 1;
                // Once everything in flight counts as lost, late arrivals of it make no room: only the window from the
                // first unacknowledged byte on is retransmitted.
                if !self.settings.sack && !matches!(self.episode, Episode::Loss { .. }) {
                    self.phantom = (self.phantom + mss).min(self.board.pipe());
                }
            }
            return;
        }
        self.duplicates = 0;
        // Everything now acknowledged had been counted, except the retransmitted segment.
        let acked = self.una - una_before;
        self.phantom = self
            .phantom
            .saturating_sub(acked.saturating_sub(mss))
            .min(self.board.pipe());
        if self.episode == Episode::None {
            self.phantom = 0;
        }
    }

    /// True if every retransmission of the latest episode has now been reported as a duplicate: nothing had been lost
    /// (RFC 3708 section 2, as Linux counts).
    fn was_for_nothing(&mut self) -> bool {
        match &mut self.undo {
            Some(left) if *left > 0 => {
                *left -= 1;
                let nothing = *left == 0;
                if nothing {
                    self.undo = None;
                }
                nothing
            }
            _ => false,
        }
    }

    /// RFC 8985 section 7.4: evaluates the result of the tail loss probe.
    fn end_probe(&mut self, now: Time, duplicate: bool) {
        let Some((end, again)) = self.probe_out else {
            return;
        };
        if again && duplicate {
            self.probe_out = None;
        } else if self.una >= end {
            self.probe_out = None;
            if again && self.episode == Episode::None {
                // The probe itself repaired the only loss: a reduction without a recovery.
                self.stats.recoveries += 1;
                let flight = Bytes::new(self.settings.mss.get() + self.next - self.una);
                self.controller
                    .on_congestion(now, &Congestion::Loss { flight });
            }
        }
    }

    /// Ends the phase whose data has all been acknowledged; returns true if it was a recovery.
    fn end_episode(&mut self, advanced: bool) -> bool {
        let repair = matches!(
            self.episode,
            Episode::Recovery { .. } | Episode::Loss { .. }
        );
        let over = match self.episode {
            Episode::None => return false,
            Episode::Recovery { point, rule } => {
                // SACK reports the other losses, and losses of one window are one signal (RFC 6675 section 5, RFC 5681
                // section 4.3).
                let first_ack = rule == Recovery::FirstAck && !self.settings.sack;
                self.una >= point || (first_ack && advanced)
            }
            Episode::Loss { point } | Episode::Reduced { point } => self.una >= point,
        };
        if over {
            if matches!(self.episode, Episode::Recovery { .. }) {
                self.board.recovered();
                if self.settings.rate_halving.is_some() {
                    self.controller.settle(Bytes::new(self.halving.window()));
                }
            }
            self.episode = Episode::None;
            self.phantom = 0;
            self.undo = None;
        }
        over && repair
    }

    /// Finds overdue segments and reports each to the controller.
    fn detect(&mut self, now: Time) {
        let rule = self.controller.recovery();
        self.overdue = NEVER;
        if rule == Recovery::Timer {
            return;
        }
        let (rate, controller) = (&mut self.rate, &mut self.controller);
        let mut lost = |segment: &super::scoreboard::Outstanding| {
            let told = rate.on_lost(&segment.stamp, Bytes::new(u64::from(segment.len)));
            controller.on_lost(now, &told);
        };
        if self.settings.sack && !self.settings.rack {
            self.board.detect_by_count(&mut lost);
            return;
        }
        if self.settings.sack {
            let recovering = !matches!(self.episode, Episode::None | Episode::Reduced { .. });
            let (min_rtt, srtt) = (self.rtt.min_rtt(), self.rtt.srtt());
            let due = (self.board).detect(now, recovering, min_rtt, srtt, &mut lost);
            self.overdue = due.unwrap_or(NEVER);
            return;
        }
        // RFC 6582 section 3.2: the first segment is lost after enough duplicates, or after a partial acknowledgement
        // in recovery.
        let first = self.board.first_number();
        let fresh = self.board.first().is_some_and(|s| !s.lost);
        let partial = matches!(self.episode, Episode::Recovery { .. }) && self.duplicates == 0;
        if fresh && (self.duplicates == self.settings.dup_thresh || partial) {
            let again = self.board.first().is_some_and(|s| s.again);
            if matches!(self.episode, Episode::None | Episode::Reduced { .. })
                || (partial && !again)
            {
                self.board.lose(first, &mut lost);
            }
        }
    }

    /// True if a loss found now starts a recovery.
    fn episode_allows(&self) -> bool {
        matches!(self.episode, Episode::None | Episode::Reduced { .. })
    }

    /// Starts a recovery for a new loss, unless one is in progress; returns true if it did. `more` means that one has just
    /// ended, which a controller with a rule of its own does not notice.
    fn begin_recovery(
        &mut self,
        now: Time,
        una_before: u64,
        sacked_before: u64,
        more: bool,
    ) -> bool {
        if !self.episode_allows() {
            return false;
        }
        let rule = self.controller.recovery();
        if more && rule == Recovery::Controller {
            let point = self.next;
            self.episode = Episode::Recovery { point, rule };
            return true;
        }
        self.stats.recoveries += 1;
        self.undo = Some(0);
        let flight = Bytes::new(self.next - self.una);
        self.halving = Halving::new(self.controller.cwnd().get());
        self.controller
            .on_congestion(now, &Congestion::Loss { flight });
        if rule == Recovery::Restart {
            self.board.lose_all(|_| {});
            self.phantom = 0;
            self.episode = Episode::Loss { point: self.next };
            return true;
        }
        self.episode = Episode::Recovery {
            point: self.next,
            rule,
        };
        let flight = (self.next - una_before).saturating_sub(sacked_before);
        self.prr = Proportional::new(flight.max(self.settings.mss.get()));
        true
    }

    fn marked(&mut self, now: Time) {
        if self.episode != Episode::None {
            return;
        }
        let flight = Bytes::new(self.next - self.una);
        self.stats.ecn_reductions += 1;
        self.controller
            .on_congestion(now, &Congestion::Ecn { flight });
        self.cwr = true;
        self.episode = Episode::Reduced { point: self.next };
    }

    /// Sets the bytes that may be in flight until the next ACK.
    fn set_limit(&mut self, delivered: u64, lost: u64, advanced: bool) {
        let cwnd = self.controller.cwnd().get();
        self.limit = match self.episode {
            Episode::Recovery { rule, .. } if rule != Recovery::Controller => {
                match self.settings.rate_halving {
                    Some(floor) => {
                        let (inflight, mss) = (self.inflight(), self.settings.mss.get());
                        self.halving.next(cwnd, floor, inflight, mss)
                    }
                    None => self.proportional(cwnd, delivered, lost, advanced),
                }
            }
            _ => cwnd,
        };
        if self.episode_allows() && self.duplicates > 0 {
            let mss = self.settings.mss.get();
            // RFC 3042: each of the first two duplicates lets one new segment out, beyond the window. The segments they
            // report have left the pipe, so the window already allows it. Without limited transmit that room is not
            // used.
            if !self.settings.limited_transmit {
                self.limit = self.limit.saturating_sub(self.duplicates * mss);
            }
        }
        self.pace = self.controller.pacing_rate();
        if self.pace.is_none() && self.settings.pacing {
            let gain = match self.controller.ssthresh() {
                Some(ssthresh) if cwnd >= ssthresh.get() => 1.2,
                _ => 2.0,
            };
            let srtt = self.rtt.srtt();
            self.pace = srtt.and_then(|srtt| window_rate(Bytes::new(cwnd), srtt, gain));
        }
        if let Some(most) = self.settings.max_pace {
            self.pace = Some(self.pace.map_or(most, |pace| pace.min(most)));
        }
    }

    /// Bytes in flight, plus the allowance of proportional rate reduction.
    fn proportional(&mut self, ssthresh: u64, delivered: u64, lost: u64, advanced: bool) -> u64 {
        let mss = self.settings.mss.get();
        let pipe = self.inflight();
        let without_sack = !self.settings.sack && delivered == 0 && self.duplicates > 0;
        let delivered = if without_sack { mss } else { delivered };
        let safe = advanced && lost == 0;
        pipe + self.prr.allowance(delivered, pipe, ssthresh, safe, mss)
    }

    /// RFC 6298 section 5.3 and RFC 8985 section 7.2: restarts the timers.
    fn set_timers(&mut self, now: Time) {
        self.probe_due = NEVER;
        if self.board.is_empty() {
            self.rto_due = NEVER;
            return;
        }
        self.rto_due = now + self.rtt.rto();
        let may_probe = self.settings.tail_loss_probe
            && self.settings.sack
            && self.settings.rack
            && self.probe_out.is_none()
            && self.controller.recovery() != Recovery::Timer
            && self.episode_allows()
            && self.board.sacked_bytes() == 0;
        if may_probe {
            let timeout = match self.rtt.srtt() {
                Some(srtt) if self.inflight() <= self.settings.mss.get() => {
                    srtt * 2 + self.settings.ack_delay
                }
                Some(srtt) => srtt * 2,
                None => Duration::from_secs(1),
            };
            self.probe_due = now + timeout;
        }
    }

    /// Handles timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.overdue <= now {
            let lost_before = self.rate.lost();
            self.detect(now);
            let (una, sacked) = (self.una, self.board.sacked_bytes());
            let lost = self.rate.lost().saturating_sub(lost_before);
            if lost > Bytes::ZERO {
                self.begin_recovery(now, una, sacked, false);
            }
            self.set_limit(0, lost.get(), false);
        }
        if self.rto_due <= now {
            self.time_out(now);
        } else if self.probe_due <= now {
            self.probe_due = NEVER;
            self.probe_now = true;
        }
    }

    fn time_out(&mut self, now: Time) {
        self.rtt.on_timeout();
        if self.state == State::SynSent {
            self.state = State::SynToSend;
            self.syn_sent = None;
            self.rto_due = NEVER;
            return;
        }
        self.stats.timeouts += 1;
        let repeated = matches!(self.episode, Episode::Loss { .. })
            && self.board.first().is_some_and(|s| s.again);
        let flight = Bytes::new(self.next - self.una);
        let (rate, controller) = (&mut self.rate, &mut self.controller);
        self.board.lose_all(|segment| {
            let told = rate.on_lost(&segment.stamp, Bytes::new(u64::from(segment.len)));
            controller.on_lost(now, &told);
        });
        self.phantom = 0;
        self.duplicates = 0;
        self.overdue = NEVER;
        (self.probe_due, self.probe_out, self.probe_now) = (NEVER, None, false);
        self.undo = Some(0);
        self.controller
            .on_congestion(now, &Congestion::Rto { flight, repeated });
        self.episode = Episode::Loss { point: self.next };
        self.set_limit(0, 0, false);
        self.rto_due = now + self.rtt.rto();
    }

    /// Next segment to send now, if any. Call until it returns `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        match self.state {
            State::Closed | State::SynSent => None,
            State::SynToSend => {
                self.state = State::SynSent;
                // A retransmitted SYN gives no RTT sample.
                self.syn_sent = self.last_sent.is_none().then_some(now);
                self.last_sent = Some(now);
                self.rto_due = now + self.rtt.rto();
                Some(Outgoing {
                    seq: 0,
                    len: 0,
                    flags: flag::SYN,
                })
            }
            State::Established => self.poll_data(now),
        }
    }

    fn poll_data(&mut self, now: Time) -> Option<Outgoing> {
        self.held_until = NEVER;
        if std::mem::take(&mut self.probe_now) {
            return self.probe(now);
        }
        if self.board.lost() == 0 && self.next == self.written {
            return std::mem::take(&mut self.fin_came).then_some(Outgoing {
                seq: self.next,
                len: 0,
                flags: flag::ACK,
            });
        }
        if self.pace.is_some() && now < self.paced_until && self.quantum_left == 0 {
            self.held_until = self.paced_until;
            return None;
        }
        let outgoing = self.poll_window(now);
        if outgoing.is_none() {
            self.quantum_left = 0;
        }
        outgoing
    }

    /// Next segment that the window allows.
    fn poll_window(&mut self, now: Time) -> Option<Outgoing> {
        let inflight = self.inflight();
        if let Some(number) = self.board.next_lost() {
            let len = u64::from(self.board.get(number).len);
            if inflight + len > self.limit && inflight > 0 {
                return None;
            }
            return Some(self.send_again(now, number));
        }
        let mss = self.settings.mss.get();
        let len = mss.min(self.written - self.next);
        if !self.has_room(len) {
            return None;
        }
        if self.burst_left == 0 {
            // Segmentation offload: wait until a whole burst may leave, but not for more than half a window.
            let burst = (self.settings.burst * mss).min(self.written - self.next);
            self.burst_left = burst.min(self.limit / 2).max(len);
        }
        let needed = if inflight > 0 { self.burst_left } else { len };
        if inflight + needed > self.limit {
            self.limited_until = Some(self.next);
            self.burst_left = 0;
            return None;
        }
        self.burst_left = self.burst_left.saturating_sub(len);
        Some(self.send_new(now, len))
    }

    /// RFC 8985 section 7.3: new data if there is any, else the last segment again.
    fn probe(&mut self, now: Time) -> Option<Outgoing> {
        self.stats.tail_probes += 1;
        let mss = self.settings.mss.get();
        let len = mss.min(self.written - self.next);
        let segment = if len > 0 && self.has_room(len) {
            let segment = self.send_new(now, len);
            self.probe_out = Some((segment.end(), false));
            segment
        } else {
            let number = self.board.last_number()?;
            let segment = self.send_again(now, number);
            self.probe_out = Some((segment.end(), true));
            segment
        };
        self.rto_due = now + self.rtt.rto();
        Some(segment)
    }

    fn send_new(&mut self, now: Time, len: u64) -> Outgoing {
        let seq = self.next;
        self.next += len;
        let stamp = self.sent(now, len);
        self.board.push(seq, len as u32, stamp);
        if self.next == self.written && self.inflight() < self.limit {
            self.rate.app_limited(Bytes::new(self.inflight()));
        }
        if self.rto_due == NEVER {
            self.set_timers(now);
        }
        let cwr = std::mem::take(&mut self.cwr);
        Outgoing {
            seq,
            len: len as u32,
            flags: self.flags_after(self.next) | if cwr { flag::CWR } else { 0 },
        }
    }

    fn send_again(&mut self, now: Time, number: u64) -> Outgoing {
        let (seq, len) = (self.board.get(number).seq, self.board.get(number).len);
        let stamp = self.sent(now, u64::from(len));
        self.board.push_again(number, stamp);
        self.stats.retransmits += 1;
        if let Some(undo) = &mut self.undo {
            *undo += 1;
        }
        if self.rto_due == NEVER {
            self.set_timers(now);
        }
        let flags = self.flags_after(seq + u64::from(len));
        Outgoing { seq, len, flags }
    }

    /// FIN and PSH of the segment that ends there.
    #[inline]
    fn flags_after(&self, end: u64) -> u8 {
        match (end == self.written, self.closed) {
            (false, _) => 0,
            (true, false) => flag::PSH,
            (true, true) => flag::PSH | flag::FIN,
        }
    }

    /// Sets the time of the next quantum.
    fn space(&mut self, now: Time, len: u64, rate: BitsPerSec) {
        if self.settings.pacing_quantum && self.stats.segments < UNPACED {
            return;
        }
        if self.quantum_left == 0 {
            self.quantum_left = self.quantum(rate);
            self.late = now.saturating_since(self.paced_until);
            self.paced_until = self.paced_until.max(now);
        }
        self.quantum_left -= 1;
        let gap = Bytes::new(len).serialization_delay_ceil(rate);
        // A host that is late makes up for half of a quantum at most.
        let made_up = self.late.min(gap / 2);
        self.late -= made_up;
        self.paced_until += gap - made_up;
    }

    /// Segments that leave together.
    fn quantum(&self, rate: BitsPerSec) -> u64 {
        match self.settings.pacing_quantum {
            true => send_quantum(rate, self.settings.mss).max(self.settings.burst),
            false => self.settings.burst,
        }
    }

    /// Records a data segment that is sent.
    fn sent(&mut self, now: Time, len: u64) -> congestion::Stamp {
        let inflight_before = Bytes::new(self.inflight());
        let idle = (inflight_before == Bytes::ZERO && self.una == self.next.saturating_sub(len))
            .then(|| {
                let lasted = now.saturating_since(self.last_sent?);
                (self.stats.segments > 0).then_some(Idle {
                    lasted,
                    restart: self.settings.idle_restart && lasted > self.rtt.rto(),
                })
            })
            .flatten();
        self.controller.on_sent(
            now,
            &Sent {
                bytes: Bytes::new(len),
                inflight_before,
                idle,
            },
        );
        if idle.is_some_and(|i| i.restart) {
            self.set_limit(0, 0, false);
        }
        if matches!(self.episode, Episode::Recovery { .. }) {
            self.prr.sent(len);
        }
        if let Some(rate) = self.pace {
            self.space(now, len, rate);
        }
        self.stats.segments += 1;
        self.last_sent = Some(now);
        self.rate.on_sent(now, inflight_before, Bytes::new(len))
    }
}
