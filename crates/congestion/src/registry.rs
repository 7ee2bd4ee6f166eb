//! Table of congestion controllers. The command line, the reference page, the property tests and the benchmarks loop
//! over it: a listed controller is tested and timed.

use crate::controller::{
    Ack, Congestion, Controller, ControllerState, EcnUse, Lost, Recovery, Sent, Setup,
};
use crate::{
    bbr1, bbr3, bic, compound, cubic, dctcp, fixed, ledbat, newreno, prague, reno, tahoe, vegas,
    westwood,
};
use base::plugged::{self, Added};
use base::rng::Rng;
use base::rng::Streams;
use base::spec::Params as _;
use base::words::{Entry, Words, worded};
use base::{BitsPerSec, Bytes, Duration, Time};

/// Entry of the table: a controller's name, its parameters, and its constructor.
pub struct Spec {
    /// Name, summary, sources and parameters.
    pub entry: Entry,
    build: Build,
}

type Build = &'static (dyn Fn(&Words, &Made) -> AnyController + Send + Sync);

/// Arguments of a constructor besides the controller's parameters.
pub struct Made<'a> {
    /// Parameters of the connection.
    pub setup: &'a Setup,
    /// Time at which the connection is made.
    pub now: Time,
    streams: &'a Streams,
    name: &'a str,
}

impl Made<'_> {
    /// Random stream for one purpose of this controller.
    pub fn rng(&self, what: &str) -> Rng {
        self.streams
            .stream(&format!("congestion/{}/{what}", self.name))
    }
}

static ADDED: Added<Spec> = Added::new();

/// Adds a controller of one's own, which scenarios then name as they name the built-in ones. One of the same name is
/// replaced.
///
/// # Errors
/// A name that is built in, or that no scenario can write.
pub fn add(
    entry: Entry,
    build: impl Fn(&Words, &Made) -> Box<dyn Controller + Send> + Send + Sync + 'static,
) -> Result<(), String> {
    plugged::check_name(entry.name, CONTROLLERS.iter().map(|s| &s.entry))?;
    let build = move |w: &Words, made: &Made| AnyController::Custom(build(w, made));
    ADDED.add(Spec {
        entry,
        build: Box::leak(Box::new(build)),
    });
    Ok(())
}

/// Returns the built-in controllers, then the added ones.
fn all() -> impl Iterator<Item = &'static Spec> + Clone {
    CONTROLLERS.iter().chain(ADDED.all())
}

/// All built-in controllers, in the order of help.
pub const CONTROLLERS: &[Spec] = &[
    Spec {
        entry: fixed::Params::ENTRY,
        build: &|w, m| AnyController::FixedWindow(fixed::FixedWindow::new(&w.read(), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "no_avoidance",
            summary: "slow start up to a window and after each time-out, no congestion avoidance",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988, figure 8"],
            ..fixed::Params::ENTRY
        },
        build: &|w, m| AnyController::NoAvoidance(fixed::NoAvoidance::new(&w.read(), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "no_slow_start",
            summary: "congestion avoidance from a full window on, no slow start",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988"],
            ..fixed::Params::ENTRY
        },
        build: &|w, m| AnyController::NoSlowStart(fixed::NoSlowStart::new(&w.read(), m.setup)),
    },
    Spec {
        entry: tahoe::Params::ENTRY,
        build: &|w, m| AnyController::Tahoe(tahoe::Tahoe::new(&w.read(), m.setup)),
    },
    Spec {
        entry: reno::Params::ENTRY,
        build: &|w, m| AnyController::Reno(reno::Reno::new(&w.read(), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "newreno",
            summary: "Reno whose recovery lasts until all that was outstanding is acknowledged, without SACK too",
            sources: &[
                "RFC 6582, The NewReno Modification to TCP's Fast Recovery Algorithm",
                "RFC 5681, TCP Congestion Control",
            ],
            ..reno::Params::ENTRY
        },
        build: &|w, m| AnyController::NewReno(newreno::NewReno::new(&w.read(), m.setup)),
    },
    Spec {
        entry: bic::Params::ENTRY,
        build: &|w, m| AnyController::Bic(bic::Bic::new(&w.read(), m.setup)),
    },
    Spec {
        entry: cubic::Params::ENTRY,
        build: &|w, m| AnyController::Cubic(Box::new(cubic::Cubic::new(&w.read(), m.setup))),
    },
    Spec {
        entry: compound::Params::ENTRY,
        build: &|w, m| AnyController::Compound(compound::Compound::new(&w.read(), m.setup)),
    },
    Spec {
        entry: vegas::Params::ENTRY,
        build: &|w, m| AnyController::Vegas(vegas::Vegas::new(&w.read(), m.setup)),
    },
    Spec {
        entry: westwood::Params::ENTRY,
        build: &|w, m| AnyController::Westwood(westwood::Westwood::new(&w.read(), m.setup)),
    },
    Spec {
        entry: dctcp::Params::ENTRY,
        build: &|w, m| AnyController::Dctcp(dctcp::Dctcp::new(&w.read(), m.setup)),
    },
    Spec {
        entry: prague::Params::ENTRY,
        build: &|w, m| AnyController::Prague(Box::new(prague::Prague::new(&w.read(), m.setup))),
    },
    Spec {
        entry: ledbat::Params::ENTRY,
        build: &|w, m| AnyController::Ledbat(Box::new(ledbat::Ledbat::new(&w.read(), m.setup))),
    },
    Spec {
        entry: bbr1::Params::ENTRY,
        build: &|w, m| {
            AnyController::Bbr1(Box::new(bbr1::Bbr1::new(
                &w.read(),
                m.setup,
                m.now,
                m.rng("bbr1"),
            )))
        },
    },
    Spec {
        entry: bbr3::Params::ENTRY,
        build: &|w, m| {
            AnyController::Bbr3(Box::new(bbr3::Bbr3::new(
                &w.read(),
                m.setup,
                m.now,
                m.rng("bbr3"),
            )))
        },
    },
];

worded! {
    /// Congestion controller with its parameters, written as `cubic:hystart=off`.
    ControllerSpec, "congestion controller", all().map(|s| &s.entry)
}

impl ControllerSpec {
    /// Name of the controller.
    pub fn name(&self) -> &'static str {
        self.words().entry().name
    }
    /// True if a program has added it: its code is not this version's.
    pub fn is_added(&self) -> bool {
        CONTROLLERS.iter().all(|s| s.entry.name != self.name())
    }
    /// Builds the controller. `name` is its owner, such as `flow/3`; its random streams are named after it.
    pub fn build(&self, setup: &Setup, now: Time, streams: &Streams, name: &str) -> AnyController {
        let spec = all()
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

/// Controller of any kind, without a virtual call for built-in ones; `Custom` holds others.
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
    fn on_established(&mut self, now: Time, rtt: Duration) {
        each!(self, c => c.on_established(now, rtt))
    }
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
    use super::*;

    fn read(text: &str) -> Result<ControllerSpec, String> {
        text.parse()
            .map_err(|e: base::words::WordsError| e.to_string())
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
