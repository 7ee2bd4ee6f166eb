//! The one table of congestion controllers. The command line, the reference page, the property tests
//! and the benchmarks loop over it: a controller is tested and timed from the moment it is listed.

use crate::controller::{
    Ack, Congestion, Controller, ControllerState, EcnUse, Lost, Recovery, Sent, Setup,
};
use crate::hystart::Mode;
use crate::{cubic, fixed, newreno, reno, tahoe};
use base::rng::Streams;
use base::words::{Entry, Parameter, Unit, Words, worded};
use base::{BitsPerSec, Bytes, Time};

/// One controller: what it is called, what it can be told, and how it is made.
pub struct Spec {
    pub entry: Entry,
    build: fn(&Words, &Setup) -> AnyController,
}

const fn count(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Count,
        default: Some(default),
        min: "1",
        max: "1000000",
        section,
        doc,
    }
}
const fn part(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Probability,
        default: Some(default),
        min: "0.01",
        max: "0.99",
        section,
        doc,
    }
}
const fn number(
    name: &'static str,
    default: &'static str,
    min: &'static str,
    max: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Number,
        default: Some(default),
        min,
        max,
        section,
        doc,
    }
}
const fn switch(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Switch,
        default: Some(default),
        min: "false",
        max: "true",
        section,
        doc,
    }
}
const fn abc(default: &'static str, section: &'static str) -> Parameter {
    count(
        "abc",
        default,
        section,
        "most segments that an ACK may add in slow start",
    )
}

const WINDOW: Parameter = Parameter {
    name: "window",
    unit: Unit::Bytes,
    default: Some("65535 B"),
    min: "1 B",
    max: "100 GB",
    section: "RFC 9293 section 3.1",
    doc: "the window, or the most that it may grow to",
};
const RENO: &[Parameter] = &[
    abc("2", "RFC 3465 section 2.3"),
    part("beta", "0.5", "RFC 5681 equation 4", "part kept on a loss"),
    part(
        "beta_ecn",
        "0.5",
        "RFC 3168 section 6.1.2",
        "part kept on a mark; 0.8 is RFC 8511's",
    ),
];

pub const CONTROLLERS: &[Spec] = &[
    Spec {
        entry: Entry {
            name: "none",
            summary: "a fixed window, full from the first segment on; repairs by time-out alone",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988, figure 3"],
            parameters: &[WINDOW],
        },
        build: |w, setup| {
            AnyController::FixedWindow(fixed::FixedWindow::new(&fixed_params(w), setup))
        },
    },
    Spec {
        entry: Entry {
            name: "no_avoidance",
            summary: "slow start up to a window and after each time-out, no congestion avoidance",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988, figure 8"],
            parameters: &[WINDOW],
        },
        build: |w, setup| {
            AnyController::NoAvoidance(fixed::NoAvoidance::new(&fixed_params(w), setup))
        },
    },
    Spec {
        entry: Entry {
            name: "no_slow_start",
            summary: "congestion avoidance from a full window on, no slow start",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988"],
            parameters: &[WINDOW],
        },
        build: |w, setup| {
            AnyController::NoSlowStart(fixed::NoSlowStart::new(&fixed_params(w), setup))
        },
    },
    Spec {
        entry: Entry {
            name: "tahoe",
            summary: "one segment and slow start after any loss",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988"],
            parameters: &[abc("1", "the paper")],
        },
        build: |w, setup| AnyController::Tahoe(tahoe::Tahoe::new(&tahoe_params(w), setup)),
    },
    Spec {
        entry: Entry {
            name: "reno",
            summary: "half the window on a loss, a segment a round trip; recovery ends at the first new ACK",
            sources: &[
                "RFC 5681, TCP Congestion Control",
                "RFC 2001, TCP Slow Start, Congestion Avoidance, Fast Retransmit, and Fast Recovery Algorithms",
            ],
            parameters: RENO,
        },
        build: |w, setup| AnyController::Reno(reno::Reno::new(&reno_params(w), setup)),
    },
    Spec {
        entry: Entry {
            name: "newreno",
            summary: "Reno whose recovery lasts until all that was outstanding is acknowledged",
            sources: &[
                "RFC 6582, The NewReno Modification to TCP's Fast Recovery Algorithm",
                "RFC 5681, TCP Congestion Control",
            ],
            parameters: RENO,
        },
        build: |w, setup| AnyController::NewReno(newreno::NewReno::new(&reno_params(w), setup)),
    },
    Spec {
        entry: Entry {
            name: "cubic",
            summary: "grows along a cubic curve of the time since the last congestion; the Internet's default",
            sources: &[
                "RFC 9438, CUBIC for Fast and Long-Distance Networks",
                "RFC 9406, HyStart++: Modified Slow Start for TCP",
            ],
            parameters: &[
                number(
                    "c",
                    "0.4",
                    "0.001",
                    "100",
                    "RFC 9438 section 5.1",
                    "steepness of the curve, segments/s³",
                ),
                part(
                    "beta",
                    "0.7",
                    "RFC 9438 section 4.6",
                    "part kept on congestion",
                ),
                switch(
                    "fast_convergence",
                    "true",
                    "RFC 9438 section 4.7",
                    "give way when congestion comes earlier than before",
                ),
                switch(
                    "reno_friendly",
                    "true",
                    "RFC 9438 section 4.3",
                    "never grow slower than Reno",
                ),
                HYSTART,
                abc("8", "RFC 9406 section 4.3"),
            ],
        },
        build: |w, setup| {
            AnyController::Cubic(Box::new(cubic::Cubic::new(&cubic_params(w), setup)))
        },
    },
];

const HYSTART: Parameter = Parameter {
    name: "hystart",
    unit: Unit::Choice(Mode::NAMES),
    default: Some("plusplus"),
    min: "plusplus",
    max: "off",
    section: "RFC 9438 section 4.10",
    doc: "how slow start ends before a loss: plusplus (RFC 9406), classic (Linux), off",
};

fn fixed_params(w: &Words) -> fixed::Params {
    fixed::Params {
        window: w.bytes("window"),
    }
}
fn tahoe_params(w: &Words) -> tahoe::Params {
    tahoe::Params {
        abc: w.count("abc"),
    }
}
fn reno_params(w: &Words) -> reno::Params {
    reno::Params {
        abc: w.count("abc"),
        beta: w.real("beta"),
        beta_ecn: w.real("beta_ecn"),
    }
}
fn hystart(w: &Words) -> Mode {
    Mode::named(w.choice("hystart")).expect("the table offers no others")
}
fn cubic_params(w: &Words) -> cubic::Params {
    cubic::Params {
        c: w.real("c"),
        beta: w.real("beta"),
        fast_convergence: w.switch("fast_convergence"),
        reno_friendly: w.switch("reno_friendly"),
        hystart: hystart(w),
        abc: w.count("abc"),
    }
}

worded! {
    /// A controller with its parameters, written as `cubic:hystart=off`.
    ControllerSpec, "congestion controller", CONTROLLERS.iter().map(|s| &s.entry)
}

impl ControllerSpec {
    pub fn name(&self) -> &'static str {
        self.words().entry().name
    }
    /// `name` is whose it is, such as `flow/3`: its random streams are named after it.
    pub fn build(
        &self,
        setup: &Setup,
        _now: Time,
        _streams: &Streams,
        _name: &str,
    ) -> AnyController {
        let spec = CONTROLLERS
            .iter()
            .find(|s| s.entry.name == self.name())
            .expect("it was read from this table");
        (spec.build)(self.words(), setup)
    }
}

/// Any controller, without a virtual call for ours; `Custom` is the plug for others.
pub enum AnyController {
    FixedWindow(fixed::FixedWindow),
    NoAvoidance(fixed::NoAvoidance),
    NoSlowStart(fixed::NoSlowStart),
    Tahoe(tahoe::Tahoe),
    Reno(reno::Reno),
    NewReno(newreno::NewReno),
    Cubic(Box<cubic::Cubic>),
    Custom(Box<dyn Controller + Send>),
}

macro_rules! each {
    ($any:expr, $c:ident => $call:expr) => {
        match $any {
            AnyController::FixedWindow($c) => $call,
            AnyController::NoAvoidance($c) => $call,
            AnyController::NoSlowStart($c) => $call,
            AnyController::Tahoe($c) => $call,
            AnyController::Reno($c) => $call,
            AnyController::NewReno($c) => $call,
            AnyController::Cubic($c) => $call,
            AnyController::Custom($c) => $call,
        }
    };
}

impl Controller for AnyController {
    fn on_sent(&mut self, now: Time, sent: &Sent) {
        each!(self, c => c.on_sent(now, sent))
    }
    fn on_ack(&mut self, now: Time, ack: &Ack) {
        each!(self, c => c.on_ack(now, ack))
    }
    fn on_lost(&mut self, now: Time, lost: &Lost) {
        each!(self, c => c.on_lost(now, lost))
    }
    fn on_congestion(&mut self, now: Time, congestion: &Congestion) {
        each!(self, c => c.on_congestion(now, congestion))
    }
    fn cwnd(&self) -> Bytes {
        each!(self, c => c.cwnd())
    }
    fn ssthresh(&self) -> Option<Bytes> {
        each!(self, c => c.ssthresh())
    }
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        each!(self, c => c.pacing_rate())
    }
    fn recovery(&self) -> Recovery {
        each!(self, c => c.recovery())
    }
    fn ecn(&self) -> EcnUse {
        each!(self, c => c.ecn())
    }
    fn state(&self) -> ControllerState {
        each!(self, c => c.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ControllerSpec, String> {
        text.parse()
            .map_err(|e: base::words::WordsError| e.to_string())
    }

    #[test]
    fn the_table_states_the_defaults_that_the_controllers_have() {
        let words = |name: &str| read(name).unwrap().words().clone();
        for name in ["none", "no_avoidance", "no_slow_start"] {
            assert_eq!(fixed_params(&words(name)), fixed::Params::default());
        }
        assert_eq!(tahoe_params(&words("tahoe")), tahoe::Params::default());
        assert_eq!(reno_params(&words("reno")), reno::Params::default());
        assert_eq!(reno_params(&words("newreno")), reno::Params::default());
        assert_eq!(cubic_params(&words("cubic")), cubic::Params::default());
    }

    #[test]
    fn what_people_write_is_read_and_printed_shortly() {
        for (text, printed) in [
            ("cubic", "cubic"),
            ("cubic:hystart=plusplus,beta=0.7", "cubic"),
            (" cubic : hystart = off ", "cubic:hystart=off"),
            ("reno:abc=1", "reno:abc=1"),
            ("none:window=16384", "none:window=16.384 kB"),
        ] {
            let spec = read(text).unwrap();
            assert_eq!(spec.to_string(), printed);
            assert_eq!(read(printed).unwrap(), spec);
        }
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_known_ones_and_the_nearest() {
        let e = read("cubik").unwrap_err();
        assert!(
            e.starts_with("no congestion controller \"cubik\". Known: none, "),
            "{e}"
        );
        assert!(e.ends_with("Did you mean \"cubic\"?"), "{e}");
        let e = read("cubic:hystart=plusplu").unwrap_err();
        assert!(e.ends_with("Did you mean \"plusplus\"?"), "{e}");
        assert!(
            read("cubic:beta=1.2")
                .unwrap_err()
                .contains("from 0.01 to 0.99")
        );
    }

    #[test]
    fn every_name_is_listed_once_and_builds() {
        for (i, spec) in CONTROLLERS.iter().enumerate() {
            assert!(
                CONTROLLERS[..i]
                    .iter()
                    .all(|s| s.entry.name != spec.entry.name)
            );
            let setup = Setup::new(Bytes::new(1460));
            let c =
                read(spec.entry.name)
                    .unwrap()
                    .build(&setup, Time::ZERO, &Streams::new(1), "flow");
            assert!(c.cwnd() >= setup.mss, "{}", spec.entry.name);
        }
    }
}
