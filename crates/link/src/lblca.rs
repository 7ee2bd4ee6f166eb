//! Link-by-link congestion avoidance (Thombre 2020, chapter 6): a router sets the rate of a port from its own buffer and from
//! the next router's feedback, so that the next buffer stays between two set-points.
//!
//! The document contradicts itself in three places; parameters select the reading:
//! - *set-points*: its text says 20 and 80 %, its algorithm 2 says 10 and 90 %. The default of 10 and 90 gives the
//!   buffers of its table 6.1; with 20 and 80 they are a third larger.
//! - *(6.6)* reads min(target, δ, capacity). The rate then never exceeds δ, which the document calls the *minimum*
//!   rate. The intended formula is max(δ, min(target, capacity)).
//! - *the sign of the feedback in (6.5)*: with the printed signs a port below the middle adds the next router's rate
//!   to its own and one above subtracts it. The buffer then moves to its middle in large steps. `law=steer` does it
//!   smoothly: the next router's rate, plus the distance to the middle.

use base::spec::{Params as _, choices, params};
use base::words::worded;

choices! {
    /// Rule by which a port corrects its rate.
    pub enum Correction { Printed = "printed", Steer = "steer" }
}
choices! {
    /// Effect of the minimum rate.
    pub enum Floor { Least = "least", Printed = "printed" }
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct LblcaParams for "lblca": "Link-by-link congestion avoidance: the rate of a port from its own and the next buffer", [
        "Thombre 2020, section 6.1.1, (6.1)-(6.6), algorithm 2",
    ] {
        /// share of its own buffer at or below which a port sends at the minimum rate
        lower: f64 as Probability = "0.1" ["0".."0.49"], "algorithm 2; 0.2 in 6.2.1";
        /// share of the next buffer at or above which a port sends at the minimum rate
        upper: f64 as Probability = "0.9" ["0.51".."1"], "algorithm 2; 0.8 in 6.2.1";
        /// minimum rate δ, relative to the mean rate of arrivals
        least: f64 as Probability = "0.05" ["0".."1"], "6.1.1";
        /// rule by which a port corrects its rate between the set-points
        law: Correction = "printed", "(6.5)";
        /// effect of the minimum rate: `least` is a lower limit, `printed` an upper limit
        floor: Floor = "least", "(6.6)";
    }
}

worded!(
    /// The law with its parameters, such as `lblca:lower=0.2,upper=0.8`.
    Lblca, "law", [&LblcaParams::ENTRY].into_iter()
);

impl Default for Lblca {
    fn default() -> Lblca {
        "lblca".parse().expect("the entry has defaults")
    }
}

/// State of a buffer at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffer {
    /// Bytes in the buffer.
    pub occupancy: f64,
    /// Size of the buffer, bytes.
    pub size: f64,
}

impl Buffer {
    fn share(&self) -> f64 {
        self.occupancy / self.size
    }
}

/// Feedback from a router to the preceding one, (6.3) and (6.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// Buffer of the next router.
    pub buffer: Buffer,
    /// Rate at which the router sends, weighted over its ports; in units of size per unit of time.
    pub rate: f64,
    /// Share of the router's buffer and rate that belongs to this port: 1 if no other port feeds it. The weights are
    /// the document's. It does not say how to divide feedback between two ports; undivided, each of them fills the
    /// whole buffer.
    pub share: f64,
}

/// Port: the state machine of the law. It receives the buffers' states and returns a rate.
#[derive(Clone, Debug)]
pub struct Port {
    lower: f64,
    upper: f64,
    steers: bool,
    /// True to apply (6.6) as printed.
    held_down: bool,
    rate: f64,
    least: f64,
    capacity: f64,
    /// Interval d for which a rate holds.
    interval: f64,
}

impl Port {
    /// Creates a port that sends at the mean rate of arrivals `mean` until the first feedback. Rates are in units of
    /// size per unit of time.
    pub fn new(law: &Lblca, mean: f64, capacity: f64, interval: f64) -> Port {
        let params: LblcaParams = law.words().read();
        Port {
            lower: params.lower,
            upper: params.upper,
            steers: params.law == Correction::Steer,
            held_down: params.floor == Floor::Printed,
            rate: mean,
            least: params.least * mean,
            capacity,
            interval,
        }
    }

    /// Returns target and actual rate, (6.5) and (6.6), for the next interval.
    pub fn rate(&mut self, own: Buffer, next: Feedback) -> f64 {
        let Feedback {
            buffer,
            rate,
            share,
        } = next;
        let to = |set: f64| share * (set * buffer.size - buffer.occupancy) / self.interval;
        let target = if own.share() <= self.lower || buffer.share() >= self.upper {
            self.least
        } else if self.steers {
            share * rate + to(0.5)
        } else if buffer.share() >= 0.5 {
            self.rate + to(self.upper) - share * rate
        } else {
            self.rate + to(self.lower) + share * rate
        };
        self.rate = if self.held_down {
            target.min(self.least).min(self.capacity).max(0.0)
        } else {
            target.min(self.capacity).max(self.least)
        };
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(share: f64) -> Buffer {
        Buffer {
            occupancy: share * 400.0,
            size: 400.0,
        }
    }

    fn next(share: f64) -> Feedback {
        Feedback {
            buffer: at(share),
            rate: 170.0,
            share: 1.0,
        }
    }

    fn port(text: &str) -> Port {
        Port::new(&text.parse().unwrap(), 170.0, 240.0, 1.0)
    }

    #[test]
    fn beyond_a_set_point_a_port_sends_at_the_least_rate() {
        assert_eq!(port("lblca").rate(at(0.1), next(0.5)), 8.5);
        assert_eq!(port("lblca").rate(at(0.5), next(0.9)), 8.5);
        assert!(port("lblca:lower=0.05").rate(at(0.1), next(0.5)) > 8.5);
    }

    #[test]
    fn equation_6_5_by_hand() {
        // Above the middle: 170 + (0.9·400 − 240) − 170 = 120; below: 170 + (0.1·400 − 160) + 170 = 220.
        assert_eq!(port("lblca").rate(at(0.5), next(0.6)), 120.0);
        assert_eq!(port("lblca").rate(at(0.5), next(0.4)), 220.0);
        // 170 + (40 − 60) + 170 = 320, more than the link carries.
        assert_eq!(port("lblca").rate(at(0.5), next(0.15)), 240.0);
        // The next router's rate minus the distance to the middle: 170 − 40.
        assert_eq!(port("lblca:law=steer").rate(at(0.5), next(0.6)), 130.0);
    }

    #[test]
    fn as_printed_6_6_lets_nothing_pass_faster_than_the_least_rate() {
        assert_eq!(port("lblca:floor=printed").rate(at(0.5), next(0.4)), 8.5);
    }

    #[test]
    fn a_port_that_shares_the_next_buffer_takes_its_part_of_the_room() {
        let mut half = next(0.6);
        half.share = 0.5;
        // 170 + 120/2 − 85.
        assert_eq!(port("lblca").rate(at(0.5), half), 145.0);
    }
}
