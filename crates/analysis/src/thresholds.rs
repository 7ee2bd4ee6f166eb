//! Thresholds of delay, loss and rate for people: one table, which `test`, `analyse`, `check`, the grades and the
//! findings use.
//!
//! **Method.** A use works if the 95 % point of the round trip stays within its limit in every phase that loads the
//! link, if the loss does, and if the link's goodput suffices. The whole 95 % interval decides: above the limit the use
//! fails, below it works, in between it cannot be told.
//!
//! **Source.** 3GPP TS 23.501, table 5.7.4-1 (delay budgets one way: 100 ms for calls, 50 ms for games, 300 ms for
//! buffered video; loss 1 % of calls); ITU-T G.114 (150 and 400 ms one way); ITU-T G.1010 (a page in 2 s); N. Tolia,
//! D. Andersen and M. Satyanarayanan, "Quantifying Interactive User Experience on Thin Clients", IEEE Computer 2006
//! (150 ms for remote desktops); FCC, "Broadband Speed Guide" (5 Mbit/s for video in HD); DSLReports' scale of grades.
//!
//! **Limits.** Limits of round trips are twice those of one direction. Loss limits other than that of calls are ours.

use crate::answer::{PhaseAnswer, UseAnswer};
use crate::services::Can;
use base::print::{DELAY, RATE, significant};
use stats::{Figure, Ipdv};

/// Delay added under load that a person may notice, ms: the grade A ends here.
pub const NOTICEABLE_MS: f64 = 30.0;
/// Delay added under load with which calls and games fail, ms: the grade C ends here.
pub const BAD_MS: f64 = 200.0;
/// Delay added under load from which the grade is the last one, ms.
pub const WORST_MS: f64 = 400.0;
/// Grades by the delay added under load, ms, each below its limit.
pub const GRADES: [(f64, &str); 5] = [
    (5.0, "A+"),
    (NOTICEABLE_MS, "A"),
    (60.0, "B"),
    (BAD_MS, "C"),
    (WORST_MS, "D"),
];

/// Round trip at rest with which most uses work, ms (ITU-T G.114: 150 ms one way).
pub const LONG_RTT_MS: f64 = 300.0;
/// Round trip at rest with which few uses work, ms (ITU-T G.114: 400 ms one way).
pub const VERY_LONG_RTT_MS: f64 = 800.0;

/// Buffer of an uplink from which `check` raises an alert, ms. Catalán 2014, table 2 beside table 4: 360 ms had no alert
/// 6 (excessive buffering), 370 ms had one.
pub const ALERT_BUFFER_MS: f64 = 365.0;
/// Buffer from which ordinary pages stall, ms: hosts of table 2 with 990 ms and more.
pub const SERIOUS_BUFFER_MS: f64 = 990.0;
/// Share of packets lost at rest from which `check` raises an alert: 1.5 % had no alert 4 in tables 2 and 4, 4 % had
/// one. The geometric mean.
pub const ALERT_LOSS: f64 = 0.0245;
/// Loss at which a TCP flow gets no more than four segments a round trip (1.22/√p).
pub const SERIOUS_LOSS: f64 = 0.1;

/// Use of a link, with its limits.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Name of the use.
    pub name: &'static str,
    /// Limit of the 95 % point of the round trip, ms.
    pub rtt_ms: f64,
    /// Limit of the loss, %.
    pub loss_percent: f64,
    /// Limit of the 95 % point of the round trip's IPDV, ms; none if the use buffers enough.
    pub ipdv_ms: Option<f64>,
    /// Goodput that it takes down, bit/s.
    pub down_bps: f64,
    /// Goodput that it takes up, bit/s.
    pub up_bps: f64,
}

/// Uses of a home's link.
pub const HOME: [Use; 5] = [
    Use {
        name: "calls",
        rtt_ms: 200.0,
        loss_percent: 1.0,
        ipdv_ms: Some(100.0),
        down_bps: 100e3,
        up_bps: 100e3,
    },
    Use {
        name: "games",
        rtt_ms: 100.0,
        loss_percent: 1.0,
        ipdv_ms: None,
        down_bps: 100e3,
        up_bps: 100e3,
    },
    Use {
        name: "video",
        rtt_ms: 600.0,
        loss_percent: 3.0,
        ipdv_ms: None,
        down_bps: 5e6,
        up_bps: 0.0,
    },
    Use {
        name: "web",
        rtt_ms: 200.0,
        loss_percent: 3.0,
        ipdv_ms: None,
        down_bps: 1e6,
        up_bps: 0.0,
    },
    Use {
        name: "work",
        rtt_ms: 150.0,
        loss_percent: 3.0,
        ipdv_ms: None,
        down_bps: 1e6,
        up_bps: 100e3,
    },
];

/// Figures of one span of time that uses are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Time in words: `at rest`.
    pub during: &'a str,
    /// Median of the round trip, ms.
    pub p50_ms: &'a Figure,
    /// 95 % point of the round trip, ms.
    pub p95_ms: &'a Figure,
    /// Loss, %.
    pub loss_percent: &'a Figure,
    /// Packet delay variation of the round trip.
    pub ipdv: &'a Ipdv,
}

/// Judges all uses of a home by the phases of a test.
pub fn judge(phases: &[PhaseAnswer]) -> Vec<UseAnswer> {
    HOME.iter().map(|u| u.judge(phases)).collect()
}

/// Judges all uses of a home by delay, its variation and loss alone, for a recording that loads nothing: no rate is
/// known.
pub fn judge_delays(spans: &[Seen<'_>]) -> Vec<UseAnswer> {
    let of = |u: &Use| u.decided(spans.iter().flat_map(|s| u.delays(s)).collect());
    HOME.iter().map(of).collect()
}

impl Use {
    /// Judges one use: the first limit that is exceeded decides, then the first figure that is unknown.
    pub fn judge(&self, phases: &[PhaseAnswer]) -> UseAnswer {
        let loaded = phases.iter().any(|p| p.name != "idle");
        let mut found = match loaded {
            true => Vec::new(),
            false => vec![(Can::CannotTell, "no phase loaded the link".to_owned())],
        };
        for p in phases {
            found.extend(self.delays(&Seen {
                during: during(&p.name),
                p50_ms: &p.rtt.p50_ms,
                p95_ms: &p.rtt.p95_ms,
                loss_percent: &p.loss.percent,
                ipdv: &p.ipdv,
            }));
        }
        type Of = fn(&PhaseAnswer) -> Option<&Figure>;
        let rates: [(&str, &str, f64, Of); 2] = [
            ("down", "downloads", self.down_bps, |p| {
                p.goodput_down_bps.as_ref()
            }),
            ("up", "uploads", self.up_bps, |p| p.goodput_up_bps.as_ref()),
        ];
        for (phase, name, needed, of) in rates {
            let alone = phases.iter().find(|p| p.name == phase);
            if needed > 0.0 {
                found.push(enough(name, alone.and_then(of), needed));
            }
        }
        self.decided(found)
    }

    fn decided(&self, found: Vec<(Can, String)>) -> UseAnswer {
        let (can, because) = found
            .into_iter()
            .min_by_key(|(can, _)| match can {
                Can::Fail => 0,
                Can::CannotTell => 1,
                Can::Pass => 2,
            })
            .unwrap_or((Can::CannotTell, "nothing was measured".into()));
        UseAnswer {
            name: self.name.into(),
            can,
            because,
            rtt_limit_ms: self.rtt_ms,
        }
    }

    /// Verdicts by delay, loss and delay variation.
    fn delays(&self, s: &Seen<'_>) -> Vec<(Can, String)> {
        let mut found = vec![self.delay(s), self.loss(s)];
        found.extend(self.variation(s));
        found
    }

    fn delay(&self, s: &Seen<'_>) -> (Can, String) {
        let told = |figure: &str, ms: f64| {
            let limit = DELAY.print(self.rtt_ms);
            let ms = DELAY.print(ms);
            format!(
                "{figure} of the round trip {}: {ms}, limit {limit}",
                s.during
            )
        };
        // A median above the limit is a 95 % point above it.
        if let Figure::Is { value, low, .. } = s.p50_ms
            && *low > self.rtt_ms
        {
            return (Can::Fail, told("median", *value));
        }
        match s.p95_ms {
            Figure::CannotTell { cannot_tell } => (
                Can::CannotTell,
                format!("round trip {}: {cannot_tell}", s.during),
            ),
            Figure::Is { value, .. } => within(s.p95_ms, self.rtt_ms, told("95 % point", *value)),
        }
    }

    /// Delay variation, if the use has a limit and two probes in a row were answered.
    fn variation(&self, s: &Seen<'_>) -> Option<(Can, String)> {
        let (limit, value) = (self.ipdv_ms?, s.ipdv.p95_ms.value()?);
        let told = format!(
            "95 % point of the IPDV {}: {}, limit {}",
            s.during,
            DELAY.print(value),
            DELAY.print(limit)
        );
        Some(within(&s.ipdv.p95_ms, limit, told))
    }

    /// Too few probes are sent to prove a loss below the limit: only one above it counts.
    fn loss(&self, s: &Seen<'_>) -> (Can, String) {
        let limit = self.loss_percent;
        let told = |percent: f64| {
            let percent = significant(percent, 3);
            format!("loss {}: {percent} %, limit {limit} %", s.during)
        };
        match s.loss_percent {
            Figure::Is { value, low, .. } if *low > limit => (Can::Fail, told(*value)),
            Figure::Is { value, .. } if *value > limit => (
                Can::CannotTell,
                format!("{}, which its interval holds", told(*value)),
            ),
            Figure::Is { value, .. } => (Can::Pass, told(*value)),
            Figure::CannotTell { cannot_tell } => {
                (Can::CannotTell, format!("loss {}: {cannot_tell}", s.during))
            }
        }
    }
}

/// Verdict on a known figure: its whole interval decides.
fn within(figure: &Figure, limit: f64, told: String) -> (Can, String) {
    match figure {
        Figure::Is { low, .. } if *low > limit => (Can::Fail, told),
        Figure::Is { high, .. } if *high <= limit => (Can::Pass, told),
        _ => (Can::CannotTell, format!("{told}, which its interval holds")),
    }
}

fn enough(name: &str, goodput: Option<&Figure>, needed: f64) -> (Can, String) {
    let limit = RATE.print(needed);
    match goodput {
        Some(Figure::Is { value, low, high }) => {
            let told = format!("goodput of {name}: {}, needed {limit}", RATE.print(*value));
            let can = match (*low >= needed, *high < needed) {
                (true, _) => Can::Pass,
                (_, true) => Can::Fail,
                _ => Can::CannotTell,
            };
            (can, told)
        }
        Some(Figure::CannotTell { cannot_tell }) => {
            (Can::CannotTell, format!("goodput of {name}: {cannot_tell}"))
        }
        None => (Can::CannotTell, format!("no phase of {name} alone")),
    }
}

fn during(phase: &str) -> &'static str {
    match phase {
        "idle" => "at rest",
        "down" => "during a download",
        "up" => "during an upload",
        _ => "during both",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Loss;
    use base::rng::{Streams, uniform};

    fn phase(name: &str, rtt_ms: f64, lost: u64, sent: u64, bps: f64) -> PhaseAnswer {
        let goodput = |loaded: bool| loaded.then(|| Figure::exactly(bps));
        let rtts = vec![rtt_ms; sent as usize];
        PhaseAnswer {
            name: name.into(),
            from_ns: 0,
            to_ns: 1,
            stable: true,
            stability: String::new(),
            rtt: stats::delays(&rtts, "none"),
            ipdv: Ipdv::default(),
            added_up: stats::delays(&[], "none"),
            added_down: stats::delays(&[], "none"),
            in_flow_rtt: None,
            loss: Loss {
                sent,
                lost,
                lost_up: 0,
                lost_down: 0,
                late: 0,
                duplicates: 0,
                invalid: 0,
                not_sent: 0,
                percent: stats::wilson(lost as f64, sent as f64).map(|v| 100.0 * v),
                bursts: Vec::new(),
                pattern: String::new(),
            },
            goodput_down_bps: goodput(name == "down"),
            goodput_up_bps: goodput(name == "up"),
            cross_traffic_bps: None,
            reliability: Vec::new(),
        }
    }

    /// Random links whose round trips are known: a use whose limits all hold works, one with a limit that does not fails,
    /// and a worse link never makes a failing use work.
    #[test]
    fn a_use_works_if_and_only_if_all_its_limits_hold() {
        let mut seen = [0; 2];
        for seed in 0..2_000 {
            let mut rng = Streams::new(seed).stream("uses");
            let mut draw = |most: f64| uniform(&mut rng) * most;
            let rtts = [draw(100.0), draw(700.0), draw(700.0)];
            let (down, up) = (1e5 + draw(9e6), 1e5 + draw(1e6));
            let phases = [
                phase("idle", rtts[0], 0, 400, 0.0),
                phase("down", rtts[1], 0, 300, down),
                phase("up", rtts[2], 0, 200, up),
            ];
            let worst = rtts.iter().copied().fold(0.0, f64::max);
            for (u, found) in HOME.iter().zip(judge(&phases)) {
                let holds = worst <= u.rtt_ms && down >= u.down_bps && up >= u.up_bps;
                let expected = if holds { Can::Pass } else { Can::Fail };
                assert_eq!(
                    found.can, expected,
                    "seed {seed}: {found:?}, {rtts:?}, {down} {up}"
                );
                seen[usize::from(holds)] += 1;
            }
        }
        assert!(seen.iter().all(|n| *n > 500), "{seen:?}");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let of = |phases: &[PhaseAnswer]| judge(phases).iter().map(|u| u.can).collect::<Vec<_>>();
        assert_eq!(of(&[]), [Can::CannotTell; 5]);
        assert_eq!(
            of(&[phase("idle", 10.0, 0, 400, 0.0)]),
            [Can::CannotTell; 5]
        );
        // Five probes are too few for a 95 % point.
        let few = [phase("down", 10.0, 0, 5, 1e7), phase("up", 10.0, 0, 5, 1e7)];
        assert!(!of(&few).contains(&Can::Pass));
        // A quarter of all packets is lost.
        let lossy = [
            phase("down", 10.0, 100, 400, 1e7),
            phase("up", 10.0, 0, 400, 1e7),
        ];
        assert_eq!(of(&lossy), [Can::Fail; 5]);
    }

    /// Random streams with a known variation: calls work if and only if its 95 % point is within the limit; a recording
    /// without a load says nothing of rates.
    #[test]
    fn calls_fail_by_their_delay_variation_alone() {
        let calls = HOME[0];
        let limit = calls.ipdv_ms.expect("calls have a limit");
        let mut seen = [0; 2];
        for seed in 0..300 {
            let mut rng = Streams::new(seed).stream("ipdv");
            // Every second packet comes later by the step: each pair differs by it.
            let step = uniform(&mut rng) * 2.0 * limit;
            let delays: Vec<(i64, f64)> = (0..400)
                .map(|n| (n, 20.0 + if n % 2 == 0 { 0.0 } else { step }))
                .collect();
            let (rtt, loss) = (Figure::exactly(30.0), Figure::exactly(0.0));
            let ipdv = Ipdv::of(&delays);
            let answers = judge_delays(&[Seen {
                during: "in all",
                p50_ms: &rtt,
                p95_ms: &rtt,
                loss_percent: &loss,
                ipdv: &ipdv,
            }]);
            let works = step <= limit;
            let expected = if works { Can::Pass } else { Can::Fail };
            assert_eq!(answers[0].can, expected, "seed {seed}: {:?}", answers[0]);
            assert!(
                answers[1..].iter().all(|a| a.can == Can::Pass),
                "{answers:?}"
            );
            seen[usize::from(works)] += 1;
        }
        assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
        assert!(judge_delays(&[]).iter().all(|a| a.can == Can::CannotTell));
    }

    /// The grade, the finding of bloat and its severity change at the same delays.
    #[test]
    fn grades_and_findings_share_their_limits() {
        for tenths in 0..6_000 {
            let ms = f64::from(tenths) / 10.0;
            let letter = crate::grade::letter(ms);
            let is_bloat = crate::findings::is_bloat(ms, 0.0);
            assert_eq!(
                matches!(letter, "A+" | "A"),
                !(is_bloat || ms == NOTICEABLE_MS),
                "{ms}"
            );
            assert_eq!(matches!(letter, "D" | "F"), ms >= BAD_MS, "{ms}");
            assert_eq!(letter == "F", ms >= WORST_MS, "{ms}");
        }
    }
}
