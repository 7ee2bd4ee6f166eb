//! RTT estimator and retransmission time-out (RTO): the smoothed RTT and its deviation give the time-out. Each time-out
//! doubles it until a new RTT is measured.
//!
//! **Source**: RFC 6298, "Computing TCP's Retransmission Timer" (Paxson, Allman, Chu, Sargent, 2011),
//! sections 2, 3 and 5.
//!
//! **Deviations**: the smallest time-out is a parameter (section 2.4: 1 s; Linux: 200 ms). A second parameter selects
//! whether it bounds the whole time-out, or only the deviation term as in Linux. In the latter case the time-out
//! exceeds the smoothed RTT by at least that much; and the term is the largest deviation of a round trip, which shrinks by a
//! quarter of the difference a round trip at most (Linux 6.12, `tcp_rtt_estimator`).
//!
//! **Units**: ns, rounded to the nearest.
//!
//! **Validated against**: `tests/cases/rfc6298.txt`, worked by hand from the equations.

use base::Duration;

/// Parameters of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Time-out before the first measurement. RFC 6298 section 2.1: 1 s.
    pub initial: Duration,
    /// Smallest time-out. RFC 6298 section 2.4: 1 s. Linux: 200 ms.
    pub min: Duration,
    /// Largest time-out. RFC 6298 section 2.5: at least 60 s.
    pub max: Duration,
    /// Clock granularity G, RFC 6298 section 2.
    pub granularity: Duration,
    /// Quantity that `min` bounds.
    pub floor: Floor,
}

/// Meaning of the least time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// Whole time-out (RFC 6298 section 2.4).
    Whole,
    /// Deviation term (Linux).
    Deviation,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            granularity: Duration::from_millis(1),
            floor: Floor::Whole,
        }
    }
}

impl Params {
    /// Parameters of Linux: at least 200 ms above the smoothed RTT, at most 120 s.
    pub fn linux() -> Params {
        Params {
            min: Duration::from_millis(200),
            max: Duration::from_secs(120),
            floor: Floor::Deviation,
            ..Params::default()
        }
    }
}

/// Linux's deviation term, ns: four times the deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Variation {
    now: i64,
    /// Largest in this round trip.
    most: i64,
    /// Term of the time-out.
    term: i64,
}

impl Variation {
    /// Adds a sample that differs by `error` from the smoothed RTT.
    fn add(&mut self, error: i64) {
        let change = error.abs() - self.now / 4;
        // A falling RTT says little about how late an ACK may come.
        self.now += if error < 0 && change > 0 {
            change / 8
        } else {
            change
        };
        self.most = self.most.max(self.now);
        self.term = self.term.max(self.most);
    }

    fn end_round(&mut self, least: i64) {
        if self.most < self.term {
            self.term -= (self.term - self.most) / 4;
        }
        self.most = least;
    }
}

/// Round-trip estimator and retransmission time-out (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    params: Params,
    /// Smoothed RTT and its deviation, once measured.
    smoothed: Option<(u64, u64)>,
    variation: Variation,
    min: Option<Duration>,
    latest: Option<Duration>,
    /// Time-out before doubling.
    base: Duration,
    /// Number of time-outs since the last measurement.
    backoff: u32,
}

impl RttEstimator {
    /// Creates an estimator without samples.
    pub fn new(params: Params) -> RttEstimator {
        RttEstimator {
            params,
            smoothed: None,
            variation: Variation::default(),
            min: None,
            latest: None,
            base: params.initial.min(params.max),
            backoff: 0,
        }
    }

    /// Adds an RTT sample. It must not come from a retransmitted segment (Karn's algorithm, section 3), unless
    /// timestamps tell which copy is acknowledged.
    #[inline]
    pub fn on_sample(&mut self, rtt: Duration) {
        let r = rtt.as_nanos().min(Duration::from_secs(3600).as_nanos());
        match self.smoothed {
            Some((srtt, _)) => self.variation.add(r as i64 - srtt as i64),
            None => {
                let (now, term) = (2 * r as i64, (2 * r as i64).max(self.least()));
                self.variation = Variation {
                    now,
                    most: term,
                    term,
                };
            }
        }
        let (srtt, rttvar) = match self.smoothed {
            // Section 2.2.
            None => (r, r / 2),
            // Section 2.3, deviation first: β = 1/4, α = 1/8.
            Some((srtt, rttvar)) => (
                (7 * srtt + r + 4) / 8,
                (3 * rttvar + srtt.abs_diff(r) + 2) / 4,
            ),
        };
        self.smoothed = Some((srtt, rttvar));
        let deviation = Duration::from_nanos(4 * rttvar).max(self.params.granularity);
        let srtt = Duration::from_nanos(srtt);
        let rto = match self.params.floor {
            Floor::Whole => (srtt + deviation).max(self.params.min),
            Floor::Deviation => {
                srtt + Duration::from_nanos(self.variation.term.max(self.least()) as u64)
            }
        };
        self.base = rto.min(self.params.max);
        self.backoff = 0;
        self.latest = Some(rtt);
        self.min = Some(self.min.map_or(rtt, |m| m.min(rtt)));
    }

    fn least(&self) -> i64 {
        self.params.min.min(Duration::from_secs(3600)).as_nanos() as i64
    }

    /// Ends a round trip: everything that was in flight at the end of the last one is acknowledged.
    pub fn end_round(&mut self) {
        let least = self.least();
        self.variation.end_round(least);
    }

    /// Doubles the time-out after the retransmission timer expired (section 5.5).
    pub fn on_timeout(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }

    /// Sets the time-out to 3 s for the first data if the SYN was lost (section 5.7).
    pub fn after_lost_syn(&mut self) {
        if self.smoothed.is_none() {
            self.base = Duration::from_secs(3).min(self.params.max);
        }
        self.backoff = 0;
    }

    /// Returns the retransmission time-out, doubled for each expiry, at most `max`.
    #[inline]
    pub fn rto(&self) -> Duration {
        let doubled = u128::from(self.base.as_nanos()) << self.backoff;
        let max = self.params.max.as_nanos();
        Duration::from_nanos(u64::try_from(doubled).map_or(max, |ns| ns.min(max)))
    }
    /// Smoothed round trip; none before the first sample.
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| Duration::from_nanos(srtt))
    }
    /// Variation of the round trip; none before the first sample.
    #[inline]
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, var)| Duration::from_nanos(var))
    }
    /// Returns the smallest RTT of the connection.
    #[inline]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min
    }
    /// Latest sample; none before the first.
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }
    /// Number of time-outs in a row.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the table's sequences: each line has an RTT sample or `timeout`, then the expected time-out, smoothed RTT
    /// and deviation.
    #[test]
    fn the_sequences_of_the_table_come_out() {
        let mut estimator = RttEstimator::new(Params::default());
        let mut checked = 0;
        for line in include_str!("../tests/cases/rfc6298.txt").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                ["#", ..] => {}
                ["params", name] => {
                    estimator = RttEstimator::new(match name {
                        "rfc6298" => Params::default(),
                        "min-200ms" => Params {
                            min: Duration::from_millis(200),
                            ..Params::default()
                        },
                        "linux" => Params::linux(),
                        other => panic!("no parameters \"{other}\""),
                    });
                }
                [what, rto, srtt, rttvar] => {
                    match what {
                        "timeout" => estimator.on_timeout(),
                        "start" => {}
                        "round" => estimator.end_round(),
                        "lost-syn" => estimator.after_lost_syn(),
                        rtt => estimator.on_sample(rtt.parse().unwrap()),
                    }
                    let text = |d: Option<Duration>| {
                        d.map_or("-".into(), |d| format!("{}us", d.as_nanos() as f64 / 1e3))
                    };
                    let got = [
                        text(Some(estimator.rto())),
                        text(estimator.srtt()),
                        text(estimator.rttvar()),
                    ];
                    assert_eq!(got, [rto, srtt, rttvar], "{line}");
                    checked += 1;
                }
                _ => panic!("cannot read \"{line}\""),
            }
        }
        assert_eq!(checked, 35);
    }

    #[test]
    fn the_least_round_trip_is_kept_and_absurd_ones_do_no_harm() {
        let mut e = RttEstimator::new(Params::default());
        for ms in [50, 20, 90] {
            e.on_sample(Duration::from_millis(ms));
        }
        assert_eq!(e.min_rtt(), Some(Duration::from_millis(20)));
        e.on_sample(Duration::MAX);
        e.on_sample(Duration::ZERO);
        (0..100).for_each(|_| e.on_timeout());
        assert_eq!(e.rto(), Duration::from_secs(60));
        assert_eq!(e.min_rtt(), Some(Duration::ZERO));
    }
}
