//! Verdict on shaping: wait of others and time of the file in each manner.
//!
//! **Rules.** The wait is the round trip less its median on the idle link; of each file counts the 95th percentile. Lost datagrams count as
//! waits beyond all others. Means over the repetitions have Student's 95 % interval, ratios of times come from the pairs of a
//! repetition.

use super::note::{Manner, ShapingNote};
use base::noted::Noted;
use base::record::{Recording, Status};
use stats::Figure;
use std::collections::BTreeMap;

/// Wait from which on a queue is worth shaping for, ms, and in packets of the file: one is always on its way.
const QUEUE_MS: f64 = 15.0;
const QUEUE_BITS: f64 = 2.0 * 12_000.0;
/// Share of a file's datagrams that must be known.
const KNOWN: usize = 50;

/// Verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Shaped, others wait less than half as long.
    Helps,
    /// Others wait half as long as without shaping, or longer.
    DoesNotHelp,
    /// Others hardly wait even without shaping.
    NoQueue,
    /// The reason why there is no verdict.
    Unknown(String),
}

/// One manner.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// 95th percentile of the wait of others, ms.
    pub wait: Figure,
    /// Time of the file, s.
    pub time: Figure,
    /// Time against that without a limit.
    pub ratio: Figure,
    /// Share of others' datagrams that were lost.
    pub lost: Figure,
}

/// All that a recording shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Verdict.
    pub verdict: Verdict,
    /// Each manner.
    pub ways: BTreeMap<Manner, Way>,
    /// Size of the file, bytes.
    pub size: Option<u64>,
    /// Limit of the last shaped file, bit/s.
    pub limit: Option<u64>,
    /// Shaped files that were faster than their limit: they were not shaped.
    pub unshaped: usize,
    /// Reason why the run ended early.
    pub untried: Option<String>,
}

/// File of a recording.
pub(super) struct Sent {
    /// Number of the repetition.
    pub repeat: u64,
    /// Manner in which it was sent.
    pub manner: Manner,
    /// Size, bytes.
    pub size: u64,
    /// Begin, UNIX ns.
    pub began_ns: i64,
    /// Time at which its last byte was acknowledged, UNIX ns.
    pub ended_ns: i64,
    /// Limit on its rate, bit/s.
    pub limit: Option<u64>,
    /// Numbers of its first and last transfer.
    pub flows: (i64, i64),
    /// Times at which answered datagrams were sent, UNIX ns, and their waits, ms.
    pub waits: Vec<(i64, f64)>,
    /// Number of lost datagrams.
    pub lost: usize,
}

impl Sent {
    fn seconds(&self) -> f64 {
        (self.ended_ns - self.began_ns) as f64 * 1e-9
    }

    /// 95th percentile of the wait; null if too few are known, or more are lost than lie beyond it.
    fn wait(&self) -> Option<f64> {
        let all = self.waits.len() + self.lost;
        if all < KNOWN || self.lost * 20 > all {
            return None;
        }
        let mut sorted: Vec<f64> = self.waits.iter().map(|w| w.1).collect();
        sorted.sort_by(f64::total_cmp);
        let place = (all as f64 * 0.95).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied()
    }

    fn lost(&self) -> Option<f64> {
        let all = self.waits.len() + self.lost;
        (all >= KNOWN).then(|| self.lost as f64 / all as f64)
    }
}

/// Median round trip on the idle link, ms.
fn idle_ms(recording: &Recording, (began, ended): (i64, i64)) -> Option<f64> {
    let rows = recording.delay.iter();
    let within = rows.filter(|d| &*d.target == "udp" && (began..ended).contains(&d.sent_ns));
    let mut all: Vec<f64> = within
        .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
        .collect();
    all.sort_by(f64::total_cmp);
    stats::quantile_of_sorted(&all, 0.5).filter(|_| all.len() >= 20)
}

/// Files of a recording, with the reason why the run ended early.
pub(super) fn sent(recording: &Recording) -> (Vec<Sent>, Option<String>) {
    let mut files: Vec<Sent> = Vec::new();
    let (mut idle, mut untried) = (None, None);
    for (_, note) in ShapingNote::all_of(recording) {
        match note {
            ShapingNote::Untried { why } => untried = Some(why),
            ShapingNote::Idle { began_ns, ended_ns } => {
                idle = idle_ms(recording, (began_ns, ended_ns));
            }
            ShapingNote::Sent {
                repeat,
                manner,
                size_bytes,
                began_ns,
                ended_ns,
                limit_bps,
                flows,
            } if ended_ns > began_ns => files.push(Sent {
                repeat,
                manner,
                size: size_bytes,
                began_ns,
                ended_ns,
                limit: limit_bps,
                flows,
                waits: Vec::new(),
                lost: 0,
            }),
            ShapingNote::Sent { .. } => {}
        }
    }
    let Some(idle) = idle else {
        let why = "too few datagrams were answered on the idle link";
        return (Vec::new(), untried.or(Some(why.into())));
    };
    for d in recording.delay.iter().filter(|d| &*d.target == "udp") {
        let of = files
            .iter_mut()
            .find(|f| (f.began_ns..f.ended_ns).contains(&d.sent_ns));
        let Some(file) = of else {
            continue;
        };
        match (d.status, d.rtt_ns) {
            (Status::Ok, Some(ns)) => file.waits.push((d.sent_ns, ns as f64 * 1e-6 - idle)),
            (Status::Lost, _) => file.lost += 1,
            _ => {}
        }
    }
    (files, untried)
}

fn mean(values: &[f64], none: &str) -> Figure {
    match stats::moments(values) {
        Some(m) if m.n >= 2 => {
            let by = stats::student_t95((m.n - 1) as f64) * m.sd / (m.n as f64).sqrt();
            Figure::Is {
                value: m.mean,
                low: (m.mean - by).max(0.0),
                high: m.mean + by,
            }
        }
        Some(_) => Figure::cannot_tell("of one file there is no interval"),
        None => Figure::cannot_tell(none),
    }
}

/// Ratio of a manner's times to those without a limit, from the pairs of each repetition.
fn ratio(files: &[Sent], manner: Manner) -> Figure {
    let pairs = files
        .iter()
        .filter(|f| f.manner == manner)
        .filter_map(|file| {
            let same = |f: &&Sent| f.repeat == file.repeat && f.manner == Manner::Continuous;
            Some((file.seconds() / files.iter().find(same)?.seconds()).ln())
        });
    let logs: Vec<f64> = pairs.collect();
    match stats::moments(&logs) {
        Some(m) if m.n >= 2 => {
            let by = stats::student_t95((m.n - 1) as f64) * m.sd / (m.n as f64).sqrt();
            Figure::Is {
                value: m.mean.exp(),
                low: (m.mean - by).exp(),
                high: (m.mean + by).exp(),
            }
        }
        _ => Figure::cannot_tell("fewer than two pairs of files"),
    }
}

/// Verdict from a recording.
pub fn judged(recording: &Recording) -> Judged {
    let (files, untried) = sent(recording);
    judge(&files, untried)
}

pub(super) fn judge(files: &[Sent], untried: Option<String>) -> Judged {
    let mut ways = BTreeMap::new();
    for manner in Manner::ALL {
        let of: Vec<&Sent> = files.iter().filter(|f| f.manner == manner).collect();
        if of.is_empty() {
            continue;
        }
        let collect = |get: &dyn Fn(&Sent) -> Option<f64>| -> Vec<f64> {
            of.iter().filter_map(|f| get(f)).collect()
        };
        let waits = collect(&Sent::wait);
        // Files without a percentile are the worst ones: a mean without them would be too small.
        let wait = match waits.len() == of.len() {
            true => mean(&waits, "no file"),
            false => Figure::cannot_tell(
                "more than one datagram of twenty was lost beside a file, or too few were sent",
            ),
        };
        ways.insert(
            manner,
            Way {
                wait,
                time: mean(&collect(&|f| Some(f.seconds())), "no file"),
                ratio: ratio(files, manner),
                lost: mean(&collect(&Sent::lost), "too few datagrams"),
            },
        );
    }
    let is_unshaped = |f: &&Sent| {
        f.limit
            .is_some_and(|limit| f.size as f64 * 8.0 / f.seconds() > limit as f64 * 1.03)
    };
    let unshaped = files.iter().filter(is_unshaped).count();
    let shaped = || files.iter().filter(|f| f.manner == Manner::Shaped);
    Judged {
        verdict: verdict(&ways, queue_ms(files), unshaped, untried.as_deref()),
        size: files.first().map(|f| f.size),
        limit: shaped().filter_map(|f| f.limit).next_back(),
        ways,
        unshaped,
        untried,
    }
}

/// Wait from which on there is a queue on this link, ms.
fn queue_ms(files: &[Sent]) -> f64 {
    let free = files.iter().filter(|f| f.manner == Manner::Continuous);
    let packets = free.map(|f| QUEUE_BITS / (f.size as f64 * 8.0) * f.seconds() * 1e3);
    packets.fold(QUEUE_MS, f64::max)
}

fn verdict(
    ways: &BTreeMap<Manner, Way>,
    queue_ms: f64,
    unshaped: usize,
    untried: Option<&str>,
) -> Verdict {
    let wait = |manner| ways.get(&manner).map(|w: &Way| w.wait.clone());
    if unshaped > 0 {
        return Verdict::Unknown("this host did not keep to the limit".into());
    }
    let (Some(free), Some(shaped)) = (wait(Manner::Continuous), wait(Manner::Shaped)) else {
        let why = untried.unwrap_or("not every manner was tried");
        return Verdict::Unknown(why.into());
    };
    match (free, shaped) {
        (Figure::Is { high, .. }, _) if high < queue_ms => Verdict::NoQueue,
        (
            Figure::Is {
                value: free,
                low: free_low,
                ..
            },
            Figure::Is {
                value: shaped,
                low: shaped_low,
                high: shaped_high,
            },
        ) => {
            if shaped_high < free_low && shaped * 2.0 < free {
                Verdict::Helps
            } else if shaped_low >= free * 0.5 {
                Verdict::DoesNotHelp
            } else {
                Verdict::Unknown(
                    "the waits differ too much between the files; repeats=6 or more would tell"
                        .into(),
                )
            }
        }
        (Figure::CannotTell { cannot_tell }, _) | (_, Figure::CannotTell { cannot_tell }) => {
            Verdict::Unknown(cannot_tell)
        }
    }
}
