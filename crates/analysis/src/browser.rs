//! Limits of a test in a browser: figures that its probes cannot carry.
//!
//! **Method.** A browser without datagrams probes over TCP. There, a probe behind a lost one waits for its
//! retransmission, so that the upper points of the delay are about twice the truth under load, and no probe is ever lost.
//! A busy browser reads its clock late. The lateness of its timers is that of the same worker, so it bounds how late
//! answers are read. Where half of the added delay could be that, the link's own cannot be told.
//!
//! **Source.** Measured with Chromium 156 beside a native prober over the same emulated ADSL link: docs/book/web.md.
//!
//! **Limits.** Answers may be read late although timers are not. A small added delay stays: less is known to be better.

use crate::answer::{DirectionAnswer, DisciplineGuess, PhaseAnswer};
use crate::answer::{Discipline, QueueIs};
use crate::phases::{self, Phase};
use crate::thresholds::GRADES;
use base::record::Recording;
use stats::{Delays, Figure, Ipdv};

/// Target of probes over WebTransport, which are datagrams.
pub const WEBTRANSPORT: &str = "webtransport";
/// Target of probes over a WebSocket, which is TCP.
pub const WEBSOCKET: &str = "websocket";

const NO_DATAGRAMS: &str = "the browser had no datagrams: its probes went over TCP, where one that is lost delays all behind it";

/// Reasons to withhold figures of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Withheld {
    /// Reason for the median.
    middle: Option<String>,
    /// Reason for the upper points.
    tail: Option<String>,
    /// Reason for the loss.
    loss: Option<String>,
}

impl Withheld {
    /// Judges a phase; `base_ms` is the smallest round trip of the idle link.
    pub(crate) fn of(rec: &Recording, phase: &Phase, base_ms: Option<f64>) -> Withheld {
        let target = phases::own_target(rec);
        if !matches!(target, WEBTRANSPORT | WEBSOCKET) || !phase.is_loaded() {
            return Withheld::default();
        }
        let probes = phases::own_probes(rec, phase.steady());
        let late: Vec<f64> = (probes.iter())
            .filter_map(|d| d.late_send_ns.map(|ns| ns.max(0) as f64 / 1e6))
            .collect();
        let rtts: Vec<f64> = probes.iter().filter_map(|d| d.rtt_ms()).collect();
        let at = |v: &[f64], p: f64| stats::quantile_of_sorted(&stats::sorted(v), p);
        let busy = |p: f64| {
            let (late, rtt) = (at(&late, p)?, at(&rtts, p)?);
            let added = rtt - base_ms?;
            let harmless = added < GRADES[0].0;
            (!harmless && late >= added / 2.0).then(|| {
                format!(
                    "the browser itself was busy: its timers were {late:.1} ms late, and the load seemed to add {added:.1} ms ({:.0} % points)",
                    100.0 * p
                )
            })
        };
        let tcp = (target == WEBSOCKET).then(|| NO_DATAGRAMS.to_owned());
        Withheld {
            middle: busy(0.5),
            tail: tcp.clone().or_else(|| busy(0.95)),
            loss: tcp,
        }
    }

    /// Withholds figures of the phase.
    pub(crate) fn phase(&self, p: &mut PhaseAnswer) {
        self.delays(&mut p.rtt);
        self.delays(&mut p.added_up);
        self.delays(&mut p.added_down);
        if let Some(why) = &self.tail {
            p.ipdv = Ipdv::unknown(why);
            for r in &mut p.reliability {
                r.share = Figure::cannot_tell(why.as_str());
            }
        }
        if let Some(why) = &self.loss {
            p.loss.percent = Figure::cannot_tell(why.as_str());
            p.loss.pattern = "cannot tell".into();
        }
    }

    fn delays(&self, d: &mut Delays) {
        let unknown = |why: &str| Figure::cannot_tell(why);
        if let Some(why) = &self.middle {
            (d.p50_ms, d.mean_ms) = (unknown(why), unknown(why));
        }
        if let Some(why) = &self.tail {
            (d.p95_ms, d.p99_ms, d.max_ms) = (unknown(why), unknown(why), unknown(why));
            (d.mean_ms, d.mdev_ms) = (unknown(why), unknown(why));
        }
    }

    /// Withholds figures of the bottleneck that the phase loaded; `added` is the 95 % point of the added delay.
    pub(crate) fn direction(&self, d: &mut DirectionAnswer, added: &mut Figure) {
        self.delays(&mut d.added);
        let Some(why) = &self.tail else {
            return;
        };
        let unknown = || Figure::cannot_tell(why.as_str());
        *added = unknown();
        (d.queue_ms, d.queue_bytes, d.factor_too_large) = (unknown(), unknown(), unknown());
        d.queue_is = QueueIs::AtLeast;
        d.discipline = DisciplineGuess {
            is: Discipline::CannotTell,
            evidence: vec![why.clone()],
            would_settle: Some("`tailback test` with this server, which probes by UDP".into()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::{Delay, Event, Status};

    const S: i64 = 1_000_000_000;

    /// Ten seconds of a load, whose probes are `late` ms late and take `rtt` ms.
    fn judged(target: &str, late: i64, rtt: i64) -> Withheld {
        let probe = |i: i64| Delay {
            rtt_ns: Some(rtt * 1_000_000),
            late_send_ns: Some(late * 1_000_000),
            status: Status::Ok,
            ..Delay::unanswered(i * S / 50, i, target.into())
        };
        let rec = Recording {
            delay: (0..500).map(probe).collect(),
            event: vec![Event {
                t_ns: 0,
                kind: "probe".into(),
                subject: target.into(),
                detail: "{}".into(),
            }],
            ..Recording::default()
        };
        let phase = Phase {
            name: "up".into(),
            from_ns: 0,
            warm_ns: 0,
            to_ns: 10 * S,
            ended: true,
        };
        Withheld::of(&rec, &phase, Some(20.0))
    }

    #[test]
    fn a_busy_browser_and_one_without_datagrams_say_what_they_cannot_tell() {
        assert_eq!(judged(WEBTRANSPORT, 3, 120), Withheld::default());
        assert_eq!(judged("udp", 60, 120), Withheld::default());
        let busy = judged(WEBTRANSPORT, 60, 120);
        assert!(busy.middle.is_some() && busy.tail.is_some() && busy.loss.is_none());
        assert!(
            busy.tail
                .is_some_and(|why| why.contains("60.0 ms late") && why.contains("100.0 ms"))
        );
        // Whatever part of 4 ms is the browser's, the link adds less.
        assert_eq!(judged(WEBTRANSPORT, 4, 24), Withheld::default());
        let tcp = judged(WEBSOCKET, 0, 120);
        assert!(tcp.middle.is_none() && tcp.tail.is_some() && tcp.loss.is_some());
    }
}
