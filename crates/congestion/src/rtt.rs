//! The round-trip estimator and the retransmission time-out: a smoothed round trip and its deviation
//! give the time to wait; each time-out doubles it until something new is measured.
//!
//! **Source**: RFC 6298, "Computing TCP's Retransmission Timer" (Paxson, Allman, Chu, Sargent, 2011),
//! sections 2, 3 and 5.
//!
//! **Deviations**: the least time-out is a parameter (section 2.4 says 1 s; Linux 200 ms), and so is
//! what it bounds: the whole, or the term of the deviation as Linux does, which keeps the timer that
//! much above the smoothed round trip.
//!
//! **Units**: ns, rounded to the nearest.
//!
//! **Validated against**: `tests/cases/rfc6298.txt`, worked by hand from the equations.

use base::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Before anything is measured. RFC 6298 section 2.1: 1 s.
    pub initial: Duration,
    /// RFC 6298 section 2.4: 1 s. Linux: 200 ms.
    pub min: Duration,
    /// RFC 6298 section 2.5: at least 60 s.
    pub max: Duration,
    /// Clock granularity G, RFC 6298 section 2.
    pub granularity: Duration,
    /// What `min` bounds.
    pub floor: Floor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// The whole time-out (RFC 6298 section 2.4).
    Whole,
    /// The term of the deviation (Linux).
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
    /// As Linux has it: 200 ms above the smoothed round trip, at most 120 s.
    pub fn linux() -> Params {
        Params {
            min: Duration::from_millis(200),
            max: Duration::from_secs(120),
            floor: Floor::Deviation,
            ..Params::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    params: Params,
    /// Smoothed round trip and its deviation, once measured.
    smoothed: Option<(u64, u64)>,
    min: Option<Duration>,
    latest: Option<Duration>,
    /// Time-out before doubling.
    base: Duration,
    /// Times that the timer ran out since the last measurement.
    backoff: u32,
}

impl RttEstimator {
    pub fn new(params: Params) -> RttEstimator {
        RttEstimator {
            params,
            smoothed: None,
            min: None,
            latest: None,
            base: params.initial.min(params.max),
            backoff: 0,
        }
    }

    /// A measured round trip. It must not come from a segment sent more than once, unless timestamps
    /// tell which copy is acknowledged (Karn's algorithm, section 3): then do not call this.
    #[inline]
    pub fn on_sample(&mut self, rtt: Duration) {
        let r = rtt.as_nanos().min(Duration::from_secs(3600).as_nanos());
        let (srtt, rttvar) = match self.smoothed {
            // Section 2.2.
            None => (r, r / 2),
            // Section 2.3, the deviation first: β = 1/4, α = 1/8.
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
            Floor::Deviation => srtt + deviation.max(self.params.min),
        };
        self.base = rto.min(self.params.max);
        self.backoff = 0;
        self.latest = Some(rtt);
        self.min = Some(self.min.map_or(rtt, |m| m.min(rtt)));
    }

    /// The retransmission timer ran out: it doubles (section 5.5).
    pub fn on_timeout(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }

    /// The SYN was lost and the handshake is done: data begins with 3 s (section 5.7).
    pub fn after_lost_syn(&mut self) {
        if self.smoothed.is_none() {
            self.base = Duration::from_secs(3).min(self.params.max);
        }
        self.backoff = 0;
    }

    /// Retransmission time-out, doubled for each time that it ran out, at most `max`.
    #[inline]
    pub fn rto(&self) -> Duration {
        let doubled = u128::from(self.base.as_nanos()) << self.backoff;
        let max = self.params.max.as_nanos();
        Duration::from_nanos(u64::try_from(doubled).map_or(max, |ns| ns.min(max)))
    }
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| Duration::from_nanos(srtt))
    }
    #[inline]
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, var)| Duration::from_nanos(var))
    }
    /// Least round trip of the connection.
    #[inline]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min
    }
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }
    pub fn backoff(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of the table: a measured round trip or `timeout`, then the time-out, the smoothed round
    /// trip and the deviation that must follow.
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
        assert_eq!(checked, 31);
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
