//! One way of a video call: frames and speech at a rate that follows the network.
//!
//! An encoder makes frames at regular times, whose sizes vary about what the rate allows. A pacer spreads the packets of a
//! frame. Packets of speech leave at once. The receiver reports when each packet came; [`Gcc`] turns that into the rate of
//! the next frames.
//!
//! **Source**: draft-ietf-rmcat-gcc-02, A Google Congestion Control Algorithm for Real-Time Communication;
//! draft-holmer-rmcat-transport-wide-cc-extensions-01 (reports); RFC 3550 (RTP); libwebrtc (pacing).
//!
//! **Deviations**: lost packets are not sent again, and no key frames are asked for; a report leaves with the first packet
//! that comes after its interval.
//!
//! **Units**: bytes of whole IP packets.

use super::{HEADERS, Law, Span};
use base::rng::{Rng, Streams};
use base::{Bytes, Duration, Ecn, Time};
use congestion::gcc::{Arrival, Gcc, Limits, PROBE_PACKETS, PROBE_SPAN};
use std::collections::VecDeque;

/// RTP's header without extensions, bytes: RFC 3550 section 5.1.
const RTP: u64 = 12;
/// RTCP's packet of a report before its statuses, bytes: draft section 3.1. A status chunk of two bytes has seven packets, and
/// each packet that came takes a byte.
const REPORT: u64 = 20;
const STATUSES: u64 = 7;
/// Pacer's rate beside the call's (libwebrtc).
const PACING: f64 = 2.5;
/// Time after which nobody reports a packet any more.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Encoder and limits of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Limits of the rate.
    pub limits: Limits,
    /// Frames per second.
    pub frames: f64,
    /// Sizes of frames beside their mean.
    pub sizes: Law,
    /// Largest payload of a packet.
    pub payload: Bytes,
    /// Whole packet of speech, and the time from one to the next.
    pub speech: Bytes,
    /// Time from one packet of speech to the next.
    pub speech_gap: Duration,
    /// Time between two reports.
    pub report: Duration,
    /// ECN bits of the packets.
    pub ecn: Ecn,
    /// Differentiated services code point.
    pub dscp: u8,
}

/// Packet in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    number: u64,
    sent: Time,
    size: Bytes,
    probe: Option<u32>,
}

/// Packet that waits in the pacer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    size: Bytes,
    /// Probe that it belongs to, and that probe's rate.
    probe: Option<(u32, f64)>,
}

/// Numbers and arrivals of packets.
type Heard = Vec<(u64, Time)>;

/// A running call.
#[derive(Debug)]
pub struct Call {
    shape: Shape,
    gcc: Gcc,
    draws: Rng,
    frame: Time,
    speech: Time,
    stop: Time,
    pacer: VecDeque<Waiting>,
    paced: Time,
    sent: u64,
    flying: VecDeque<Flying>,
    /// Receiver: packets since the last report, and the time of the next.
    heard: Heard,
    report: Time,
    /// Reports on their way, by the packet with which they left.
    reports: VecDeque<(u64, Heard)>,
}

impl Call {
    /// Creates a call. `name` identifies its owner, such as `flow/3`, and names its random stream.
    pub fn new(shape: Shape, span: Span, streams: &Streams, name: &str) -> Call {
        Call {
            gcc: Gcc::new(shape.limits),
            draws: streams.stream(&format!("{name}/frames")),
            frame: span.start,
            speech: span.start,
            stop: span.stop,
            pacer: VecDeque::new(),
            paced: span.start,
            sent: 0,
            flying: VecDeque::new(),
            heard: Vec::new(),
            report: span.start,
            reports: VecDeque::new(),
            shape,
        }
    }

    /// ECN codepoint of its packets.
    pub fn ecn(&self) -> Ecn {
        self.shape.ecn
    }
    /// Differentiated services code point of its packets.
    pub fn dscp(&self) -> u8 {
        self.shape.dscp
    }
    /// Largest packet.
    pub fn largest(&self) -> Bytes {
        Bytes::new(self.shape.payload.get() + HEADERS + RTP).max(self.shape.speech)
    }

    /// Time of the next packet or frame; none once the call is over and the pacer is empty.
    pub fn next_wakeup(&self) -> Option<Time> {
        let paced = self.pacer.front().map(|_| self.paced);
        let own = self.frame.min(self.speech);
        let own = (own < self.stop).then_some(own);
        match (paced, own) {
            (Some(paced), Some(own)) => Some(paced.min(own)),
            (paced, own) => paced.or(own),
        }
    }

    /// Size of the packet that is due now.
    pub fn poll(&mut self, now: Time) -> Option<Bytes> {
        if self.speech <= now && self.speech < self.stop {
            self.speech += self.shape.speech_gap;
            return Some(self.leave(now, self.shape.speech, None));
        }
        if self.frame <= now && self.frame < self.stop {
            self.frame += Duration::from_secs_f64(1.0 / self.shape.frames);
            self.encode(now);
        }
        let waiting = self.pacer.front().filter(|_| self.paced <= now).copied()?;
        self.pacer.pop_front();
        let rate = match waiting.probe {
            Some((_, rate)) => rate,
            None => PACING * self.gcc.rate().get() as f64,
        };
        let gap = Duration::from_secs_f64(waiting.size.bits() as f64 / rate);
        self.paced = self.paced.max(now) + gap;
        Some(self.leave(now, waiting.size, waiting.probe.map(|p| p.0)))
    }

    /// Puts the next frame into the pacer, behind a probe if one is due. Speech has its part of the rate.
    fn encode(&mut self, now: Time) {
        if self.pacer.is_empty() {
            self.paced = now;
            if let Some(probe) = self.gcc.poll_probe() {
                let rate = probe.rate.get() as f64;
                let size = self.largest();
                let packets = PROBE_SPAN.as_secs_f64() * rate / size.bits() as f64;
                let packets = PROBE_PACKETS.max(packets.ceil() as u64) + 1;
                let probe = Some((probe.number, rate));
                (0..packets).for_each(|_| self.pacer.push_back(Waiting { size, probe }));
                // Its packets carry the frame, and padding.
                return;
            }
        }
        let speech = self.shape.speech.bits() as f64 / self.shape.speech_gap.as_secs_f64();
        let mean = (self.gcc.rate().get() as f64 - speech).max(0.0) / 8.0 / self.shape.frames;
        let bytes = mean * self.shape.sizes.draw(&mut self.draws);
        let packets = (bytes / self.largest().get() as f64).ceil().max(1.0);
        let size = (bytes / packets).max((HEADERS + RTP + 1) as f64);
        let size = Bytes::new(size as u64);
        (0..packets as u64).for_each(|_| self.pacer.push_back(Waiting { size, probe: None }));
    }

    fn leave(&mut self, now: Time, size: Bytes, probe: Option<u32>) -> Bytes {
        while let Some(first) = self.flying.front()
            && now.saturating_since(first.sent) > FORGOTTEN
        {
            self.flying.pop_front();
        }
        self.flying.push_back(Flying {
            number: self.sent,
            sent: now,
            size,
            probe,
        });
        self.sent += 1;
        size
    }

    /// Takes packet `number` at the receiver; returns the size of the report that leaves with it, if one does.
    pub fn came(&mut self, now: Time, number: u64) -> Option<Bytes> {
        self.heard.push((number, now));
        if now < self.report {
            return None;
        }
        self.report = now + self.shape.report;
        let heard = std::mem::take(&mut self.heard);
        let size = report_size(&heard);
        self.reports.push_back((number, heard));
        Some(size)
    }

    /// Takes the report that left with packet `number`, at the sender.
    pub fn reported(&mut self, now: Time, number: u64) {
        // Earlier ones that have not come by now are lost, or come too late to be of use.
        let Some(place) = self.reports.iter().position(|r| r.0 == number) else {
            return;
        };
        let Some((_, mut heard)) = self.reports.drain(..=place).next_back() else {
            return;
        };
        heard.sort_unstable();
        heard.dedup_by_key(|h| h.0);
        let Some(&(newest, _)) = heard.last() else {
            return;
        };
        let mut heard = heard.into_iter().peekable();
        let mut rtt = Duration::ZERO;
        let mut packets = Vec::new();
        while let Some(flying) = self.flying.pop_front_if(|f| f.number <= newest) {
            while heard.next_if(|h| h.0 < flying.number).is_some() {}
            let came = heard.next_if(|h| h.0 == flying.number).map(|h| h.1);
            if flying.number == number {
                rtt = now.saturating_since(flying.sent);
            }
            packets.push(Arrival {
                sent: flying.sent,
                came,
                size: flying.size,
                probe: flying.probe,
            });
        }
        self.gcc.report(now, rtt, &packets);
    }
}

/// Whole IP packet of a report.
fn report_size(heard: &Heard) -> Bytes {
    let first = heard.iter().map(|h| h.0).min().unwrap_or_default();
    let last = heard.iter().map(|h| h.0).max().unwrap_or_default();
    let chunks = (last - first + 1).div_ceil(STATUSES);
    let size = HEADERS + REPORT + 2 * chunks + heard.len() as u64;
    // RTCP's packets are a multiple of four bytes; one that does not fit into a packet has run-length chunks instead.
    Bytes::new(size.next_multiple_of(4).min(1500))
}
