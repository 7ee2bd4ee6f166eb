//! Verdict on QUIC beside TCP.
//!
//! **Rules.** Rates are those after the first second of a connection, in payload; the pairs' log ratios give the interval of
//! the ratio by Student's t. QUIC is *blocked* if no handshake of at least two succeeds while TCP does. It is *throttled* if
//! its rate falls to less than 70 % within the connection, in all of them at about the same time, TCP's does not, and before
//! that it had 75 % of TCP's: a start that a policer's burst lets through is no throttle. It is *policed* if the ratio's interval is below 80 %, and packets are lost without a queue, or more than 5 % of them are lost.
//! Otherwise it is *slower*. It is *alike* if the ratio's interval lies above 80 %; otherwise there is no verdict.
//!
//! **Source.** T. Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016: losses without a queue at a
//! rate that stays; RFC 9000, QUIC: A UDP-Based Multiplexed and Secure Transport.

use super::note::{Over, QuicNote, Ran};
use base::noted::Noted;
use base::record::Recording;
use stats::{Figure, mean_figure, student_t95};
use std::collections::BTreeMap;

/// Bins of a connection's start, in which it finds its rate.
const START: usize = 10;
/// Least bins of a connection that counts.
const LEAST: usize = 25;
/// Ratio below which QUIC is slower.
const SLOWER: f64 = 0.8;
/// Share of the rate below which it has fallen.
const FALLEN: f64 = 0.7;
/// Share of TCP's rate that QUIC has before it is throttled.
const HAD: f64 = 0.75;
/// Bins after a fall, and before it, that are compared.
const AROUND: usize = 15;
/// Spread of the times of falls, bins.
const ALIKE: usize = 12;
/// Share of lost packets of a policer, and the wait below which there is no queue, ms.
const LOST: f64 = 0.004;
const NO_QUEUE_MS: f64 = 6.0;
/// Share of lost packets that no queue causes: CUBIC fills a queue for many round trips between two losses.
const MANY_LOST: f64 = 0.05;

/// Verdict on QUIC.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// No handshake succeeds, although TCP does.
    Blocked {
        /// True if something on the path refuses: ICMP errors come.
        refused: bool,
        /// True if other UDP datagrams pass; null if none was tried.
        plain: Option<bool>,
    },
    /// The rate falls after a time.
    Throttled {
        /// Time from the start of a connection, s.
        after_s: f64,
        /// Rate after the fall in parts of that before.
        left: f64,
    },
    /// Losses without a queue, at a lower rate.
    Policed,
    /// Lower rate than TCP's.
    Slower,
    /// Rate like that of TCP.
    Alike,
    /// The reason why there is no verdict.
    Unknown(String),
}

/// All that a recording shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Verdict.
    pub verdict: Verdict,
    /// QUIC's rate in parts of TCP's.
    pub ratio: Figure,
    /// Rates of payload, bit/s.
    pub quic_bps: Figure,
    /// The same of TCP.
    pub tcp_bps: Figure,
    /// Share of QUIC's packets that were lost; null if the sender does not tell.
    pub lost: Option<f64>,
}

/// Notes of a run in order.
#[derive(Default)]
pub(super) struct Notes {
    /// Connections of each pair.
    pub pairs: BTreeMap<u32, [Option<Ran>; 2]>,
    /// Single datagrams to another port, and those answered.
    pub plain: Option<(u32, u32)>,
    /// Port that was asked for, that was opened, and why it is another.
    pub port: Option<(u16, u16, Option<String>)>,
    /// Reason why the run ended early.
    pub untried: Option<String>,
    /// Direction of the data.
    pub direction: Option<base::record::Direction>,
}

impl Notes {
    /// Notes of a recording.
    pub fn of(recording: &Recording) -> Notes {
        let mut notes = Notes::default();
        for (_, note) in QuicNote::all_of(recording) {
            match note {
                QuicNote::Untried { why } => notes.untried = Some(why),
                QuicNote::Port {
                    wanted,
                    opened,
                    why,
                    plain,
                } => {
                    notes.plain = Some(plain).filter(|p| p.0 > 0);
                    notes.port = Some((wanted, opened, why));
                }
                QuicNote::Connection {
                    pair,
                    over,
                    direction,
                    ran,
                } => {
                    notes.direction = Some(direction);
                    notes.pairs.entry(pair).or_default()[over as usize] = Some(ran);
                }
            }
        }
        notes
    }

    /// Connections over a transport, in the order of their pairs.
    pub fn over(&self, over: Over) -> impl Iterator<Item = &Ran> {
        self.pairs
            .values()
            .filter_map(move |p| p[over as usize].as_ref())
    }
}

/// Verdict from a recording.
pub fn judged(recording: &Recording) -> Judged {
    judge(&Notes::of(recording))
}

/// Rate of a connection after its start, bit/s of payload; null if it was too short.
fn rate(ran: &Ran) -> Option<f64> {
    let bins = ran.bins.get(START..).filter(|_| ran.bins.len() >= LEAST)?;
    Some(bins.iter().sum::<u64>() as f64 * 80.0 / bins.len() as f64)
}

pub(super) fn judge(notes: &Notes) -> Judged {
    let rates = |over| -> Vec<f64> { notes.over(over).filter_map(rate).collect() };
    let (quic, tcp) = (rates(Over::Quic), rates(Over::Tcp));
    let sum = |of: fn(&Ran) -> Option<u64>| -> Option<u64> {
        notes
            .over(Over::Quic)
            .filter_map(of)
            .reduce(u64::saturating_add)
    };
    let lost = match (sum(|r| r.lost), sum(|r| r.sent)) {
        (Some(lost), Some(sent)) if sent > 0 && lost <= sent => Some(lost as f64 / sent as f64),
        _ => None,
    };
    let ratio = ratio(notes);
    Judged {
        verdict: verdict(notes, &ratio, lost),
        ratio,
        quic_bps: mean(&quic, "no QUIC connection lasted long enough"),
        tcp_bps: mean(&tcp, "no TCP connection lasted long enough"),
        lost,
    }
}

fn mean(rates: &[f64], none: &str) -> Figure {
    match rates.is_empty() {
        true => Figure::cannot_tell(none),
        false => mean_figure(rates),
    }
}

/// QUIC's rate in parts of TCP's: mean of the pairs' logarithms, with the interval of Student's t.
fn ratio(notes: &Notes) -> Figure {
    let of = |pair: &[Option<Ran>; 2]| {
        let [Some(tcp), Some(quic)] = pair else {
            return None;
        };
        let (tcp, quic) = (rate(tcp)?, rate(quic)?);
        (tcp > 0.0).then(|| (quic.max(tcp * 1e-3) / tcp).ln())
    };
    let logs: Vec<f64> = notes.pairs.values().filter_map(of).collect();
    let n = logs.len() as f64;
    if logs.len() < 2 {
        return Figure::cannot_tell("fewer than two pairs of connections lasted long enough");
    }
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_t95(n - 1.0) * (variance / n).sqrt();
    Figure::Is {
        value: mean.exp(),
        low: (mean - half).exp(),
        high: (mean + half).exp(),
    }
}

/// Lasting fall of a connection's rate.
struct Fall {
    /// Its bin.
    at: usize,
    /// Rate before it, bytes a bin.
    before: f64,
    /// Rate after it in parts of that before.
    left: f64,
}

/// Greatest lasting fall of a connection's rate.
fn fall(ran: &Ran) -> Option<Fall> {
    let bins = &ran.bins;
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
    let from = START + AROUND / 2;
    let to = bins.len().checked_sub(AROUND)?;
    let at = (from..to).map(|at| {
        let before = mean(&bins[START / 2..at]);
        let after = mean(&bins[at..]);
        // Weighed by the sizes of both parts, as a change point of a mean.
        let (n, m) = ((at - START / 2) as f64, (bins.len() - at) as f64);
        let weight = (n * m / (n + m)).sqrt() * (before - after);
        let left = after / before.max(1.0);
        (Fall { at, before, left }, weight)
    });
    let (fall, weight) = at.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (weight > 0.0).then_some(fall)
}

/// Median of the falls, if all of these connections fall at about the same time.
fn falls<'a>(all: impl Iterator<Item = &'a Ran>) -> Option<Fall> {
    let long = all.filter(|r| r.bins.len() >= LEAST);
    let mut found: Vec<Fall> = long.map(fall).collect::<Option<_>>()?;
    if found.len() < 2 || found.iter().any(|f| f.left >= FALLEN) {
        return None;
    }
    found.sort_by_key(|f| f.at);
    let spread = found.last()?.at - found.first()?.at;
    let middle = |of: fn(&Fall) -> f64| {
        let mut all: Vec<f64> = found.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    (spread <= ALIKE).then(|| Fall {
        at: found[found.len() / 2].at,
        before: middle(|f| f.before),
        left: middle(|f| f.left),
    })
}

fn verdict(notes: &Notes, ratio: &Figure, lost: Option<f64>) -> Verdict {
    let made = |over| {
        notes
            .over(over)
            .filter(|r| r.handshake_ms.is_some())
            .count()
    };
    let tried = notes.over(Over::Quic).count();
    if made(Over::Tcp) == 0 {
        let why = notes.untried.clone();
        return Verdict::Unknown(why.unwrap_or_else(|| "no TCP connection was made".into()));
    }
    if tried >= 2 && made(Over::Quic) == 0 {
        let mut all = notes.over(Over::Quic);
        return Verdict::Blocked {
            refused: all.all(|r| r.refused),
            plain: notes.plain.map(|(sent, answered)| answered * 2 > sent),
        };
    }
    if made(Over::Quic) * 2 < tried || tried < 2 {
        return Verdict::Unknown(format!(
            "only {} of {tried} QUIC handshakes succeeded",
            made(Over::Quic)
        ));
    }
    let Figure::Is { low, high, .. } = *ratio else {
        let why = "fewer than two pairs of connections lasted long enough";
        return Verdict::Unknown(notes.untried.clone().unwrap_or_else(|| why.into()));
    };
    let tcp: Vec<f64> = notes.over(Over::Tcp).filter_map(rate).collect();
    let tcp_a_bin = tcp.iter().sum::<f64>() / tcp.len().max(1) as f64 / 80.0;
    if let Some(Fall { at, before, left }) = falls(notes.over(Over::Quic))
        && before >= HAD * tcp_a_bin
        && falls(notes.over(Over::Tcp)).is_none()
    {
        let after_s = at as f64 * 0.1;
        return Verdict::Throttled { after_s, left };
    }
    if high < SLOWER {
        let waits: Vec<f64> = notes.over(Over::Quic).filter_map(|r| r.wait_ms).collect();
        let wait = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
        let no_queue = !waits.is_empty() && wait < NO_QUEUE_MS;
        return match lost {
            Some(lost) if lost > MANY_LOST || lost > LOST && no_queue => Verdict::Policed,
            _ => Verdict::Slower,
        };
    }
    if low >= SLOWER {
        return Verdict::Alike;
    }
    Verdict::Unknown(format!(
        "the pairs differ too much: QUIC has {:.0} to {:.0} % of TCP's rate",
        low * 100.0,
        high * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(bins: Vec<u64>, lost: u64, wait_ms: f64) -> Ran {
        Ran {
            handshake_ms: Some(30.0),
            bins,
            sent: Some(1000),
            lost: Some(lost),
            wait_ms: Some(wait_ms),
            ..Ran::default()
        }
    }

    fn notes(quic: impl Fn(u32) -> Ran) -> Notes {
        let pair = |i: u32| {
            let tcp = ran(vec![100_000 + u64::from(i) * 1000; 90], 0, 10.0);
            (i, [Some(tcp), Some(quic(i))])
        };
        Notes {
            pairs: (0..4).map(pair).collect(),
            plain: Some((5, 5)),
            ..Notes::default()
        }
    }

    #[test]
    fn each_treatment_of_quic_is_told_from_the_others() {
        let flat = |bytes: u64| move |_| ran(vec![bytes; 90], 0, 10.0);
        assert_eq!(judge(&notes(flat(98_000))).verdict, Verdict::Alike);
        assert_eq!(judge(&notes(flat(50_000))).verdict, Verdict::Slower);
        let many = judge(&notes(|_| ran(vec![50_000; 90], 200, 9.0)));
        assert_eq!(many.verdict, Verdict::Policed);
        let policed = judge(&notes(|_| ran(vec![50_000; 90], 20, 0.5)));
        assert_eq!(policed.verdict, Verdict::Policed);
        let Figure::Is { value, low, high } = policed.ratio else {
            panic!("{policed:?}");
        };
        assert!(low <= value && value <= high && (0.45..0.52).contains(&value));
        // The burst of a policer lets the start through.
        let burst = judge(&notes(|_| {
            let mut bins = vec![60_000; 17];
            bins.resize(90, 38_000);
            ran(bins, 200, 9.0)
        }));
        assert_eq!(burst.verdict, Verdict::Policed);
        let falls = judge(&notes(|i| {
            let mut bins = vec![100_000; 50 + i as usize];
            bins.resize(90, 20_000);
            ran(bins, 5, 3.0)
        }));
        let Verdict::Throttled { after_s, left } = falls.verdict else {
            panic!("{falls:?}");
        };
        assert!((4.8..5.5).contains(&after_s) && (0.15..0.25).contains(&left));
        let blocked = judge(&notes(|_| Ran::default()));
        let expected = Verdict::Blocked {
            refused: false,
            plain: Some(true),
        };
        assert_eq!(blocked.verdict, expected);
    }

    #[test]
    fn one_slow_connection_is_no_verdict() {
        let one = judge(&notes(|i| {
            ran(vec![if i == 1 { 20_000 } else { 100_000 }; 90], 0, 9.0)
        }));
        assert!(matches!(one.verdict, Verdict::Unknown(_)), "{one:?}");
        let none = judge(&Notes::default());
        assert!(matches!(none.verdict, Verdict::Unknown(_)), "{none:?}");
    }
}
