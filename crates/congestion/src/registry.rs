//! The one table of congestion controllers. The command line, the reference page, the property tests
//! and the benchmarks loop over it: a controller is tested and timed from the moment it is listed.

use crate::controller::{
    Ack, Congestion, Controller, ControllerState, EcnUse, Lost, Recovery, Sent, Setup,
};
use crate::{
    bbr1, bbr3, bic, compound, cubic, dctcp, fixed, ledbat, newreno, prague, reno, tahoe, vegas,
    westwood,
};
use base::rng::Rng;
use base::rng::Streams;
use base::words::{Entry, Words, worded};
use base::{BitsPerSec, Bytes, Time};

mod table;

pub use table::CONTROLLERS;

/// One controller: what it is called, what it can be told, and how it is made.
pub struct Spec {
    pub entry: Entry,
    build: fn(&Words, &Made) -> AnyController,
}

/// What a controller is made for, besides its parameters.
struct Made<'a> {
    setup: &'a Setup,
    now: Time,
    streams: &'a Streams,
    name: &'a str,
}

impl Made<'_> {
    fn rng(&self, what: &str) -> Rng {
        self.streams
            .stream(&format!("congestion/{}/{what}", self.name))
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
    pub fn build(&self, setup: &Setup, now: Time, streams: &Streams, name: &str) -> AnyController {
        let spec = CONTROLLERS
            .iter()
            .find(|s| s.entry.name == self.name())
            .expect("it was read from this table");
        (spec.build)(
            self.words(),
            &Made {
                setup,
                now,
                streams,
                name,
            },
        )
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
    Bic(bic::Bic),
    Cubic(Box<cubic::Cubic>),
    Compound(compound::Compound),
    Vegas(vegas::Vegas),
    Westwood(westwood::Westwood),
    Dctcp(dctcp::Dctcp),
    Prague(Box<prague::Prague>),
    Ledbat(Box<ledbat::Ledbat>),
    Bbr1(Box<bbr1::Bbr1>),
    Bbr3(Box<bbr3::Bbr3>),
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
            AnyController::Bic($c) => $call,
            AnyController::Cubic($c) => $call,
            AnyController::Compound($c) => $call,
            AnyController::Vegas($c) => $call,
            AnyController::Westwood($c) => $call,
            AnyController::Dctcp($c) => $call,
            AnyController::Prague($c) => $call,
            AnyController::Ledbat($c) => $call,
            AnyController::Bbr1($c) => $call,
            AnyController::Bbr3($c) => $call,
            AnyController::Custom($c) => $call,
        }
    };
}

impl Controller for AnyController {
    #[inline]
    fn on_sent(&mut self, now: Time, sent: &Sent) {
        each!(self, c => c.on_sent(now, sent))
    }
    #[inline]
    fn on_ack(&mut self, now: Time, ack: &Ack) {
        each!(self, c => c.on_ack(now, ack))
    }
    fn on_lost(&mut self, now: Time, lost: &Lost) {
        each!(self, c => c.on_lost(now, lost))
    }
    fn on_congestion(&mut self, now: Time, congestion: &Congestion) {
        each!(self, c => c.on_congestion(now, congestion))
    }
    fn settle(&mut self, window: Bytes) {
        each!(self, c => c.settle(window))
    }
    #[inline]
    fn cwnd(&self) -> Bytes {
        each!(self, c => c.cwnd())
    }
    #[inline]
    fn ssthresh(&self) -> Option<Bytes> {
        each!(self, c => c.ssthresh())
    }
    #[inline]
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        each!(self, c => c.pacing_rate())
    }
    #[inline]
    fn recovery(&self) -> Recovery {
        each!(self, c => c.recovery())
    }
    #[inline]
    fn ecn(&self) -> EcnUse {
        each!(self, c => c.ecn())
    }
    fn state(&self) -> ControllerState {
        each!(self, c => c.state())
    }
}

#[cfg(test)]
mod tests {
    use super::table::*;
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
        assert_eq!(bic_params(&words("bic")), bic::Params::default());
        assert_eq!(cubic_params(&words("cubic")), cubic::Params::default());
        assert_eq!(
            compound_params(&words("compound")),
            compound::Params::default()
        );
        assert_eq!(vegas_params(&words("vegas")), vegas::Params::default());
        assert_eq!(
            westwood_params(&words("westwood")),
            westwood::Params::default()
        );
        assert_eq!(dctcp_params(&words("dctcp")), dctcp::Params::default());
        assert_eq!(prague_params(&words("prague")), prague::Params::default());
        assert_eq!(ledbat_params(&words("ledbat")), ledbat::Params::default());
        assert_eq!(bbr1_params(&words("bbr1")), bbr1::Params::default());
        assert_eq!(bbr3_params(&words("bbr3")), bbr3::Params::default());
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
