//! Table of queue disciplines. The command line, the reference page, the property tests and the benchmarks loop over
//! it: a listed discipline is tested and timed.

use super::prio::Rest;
use super::{
    Backlog, Fates, Limits, Qdisc, blue, cake, codel, drr, dualpi2, fifo, fq_codel, fq_pie, pi,
    pie, prio, red, sfb, sred, tbf, threshold,
};
use crate::words::{Entry, Words, worded};
use base::plugged::{self, Added};
use base::rng::Streams;
use base::spec::Params;
use base::{Packet, Time};
use rand::Rng as _;

/// Entry of the table: a discipline's name, its parameters, and its constructor.
pub struct Spec {
    /// Name, summary, sources and parameters.
    pub entry: Entry,
    /// Returns the limits of its backlog, from its parameters.
    pub limits: fn(&Words) -> Limits,
    /// Builds the discipline; the third argument is its place, such as `up`, which names its random streams.
    build: Build,
}

type Build = &'static (dyn Fn(&Words, &Streams, &str) -> AnyQdisc + Send + Sync);

static ADDED: Added<Spec> = Added::new();

/// Adds a discipline of one's own, which scenarios then name as they name the built-in ones. One of the same name is
/// replaced. `build` gets the parameters, the run's random streams, and the place of the discipline, such as `up`,
/// which is to begin the names of its streams.
///
/// # Errors
/// A name that is built in, or that no scenario can write.
pub fn add(
    entry: Entry,
    limits: fn(&Words) -> Limits,
    build: impl Fn(&Words, &Streams, &str) -> Box<dyn Qdisc + Send> + Send + Sync + 'static,
) -> Result<(), String> {
    plugged::check_name(entry.name, QDISCS.iter().map(|s| &s.entry))?;
    let build = move |w: &Words, s: &Streams, name: &str| AnyQdisc::Custom(build(w, s, name));
    ADDED.add(Spec {
        entry,
        limits,
        build: Box::leak(Box::new(build)),
    });
    Ok(())
}

/// Returns the built-in disciplines, then the added ones.
fn all() -> impl Iterator<Item = &'static Spec> + Clone {
    QDISCS.iter().chain(ADDED.all())
}

/// All built-in disciplines, in the order of the help.
pub const QDISCS: &[Spec] = &[
    Spec {
        entry: fifo::Params::ENTRY,
        limits: |w| {
            let fifo::Params { packets, bytes } = w.read::<fifo::Params>().limited();
            Limits { packets, bytes }
        },
        build: &|w, _, _| AnyQdisc::Fifo(fifo::Fifo::new(w.read::<fifo::Params>().limited())),
    },
    Spec {
        entry: codel::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<codel::Params>().limit),
        build: &|w, _, _| AnyQdisc::Codel(codel::Codel::new(w.read())),
    },
    Spec {
        entry: fq_codel::Params::ENTRY,
        limits: |w| {
            let p: fq_codel::Params = w.read();
            Limits::both(p.limit, p.memory)
        },
        build: &|w, streams, name| {
            let mut perturbation = streams.stream(&format!("link/{name}/fq_codel/perturbation"));
            let perturbation = perturbation.next_u64();
            AnyQdisc::FqCodel(Box::new(fq_codel::FqCodel::new(w.read(), perturbation)))
        },
    },
    Spec {
        entry: pie::Params::ENTRY,
        limits: |w| {
            let p: pie::Params = w.read();
            Limits {
                packets: Some(p.limit),
                bytes: p.bytes,
            }
        },
        build: &|w, streams, name| {
            let early_drop = streams.stream(&format!("link/{name}/pie/early_drop"));
            AnyQdisc::Pie(Box::new(pie::Pie::new(w.read(), early_drop)))
        },
    },
    Spec {
        entry: red::Params::ENTRY,
        limits: |w| w.read::<red::Params>().limits(),
        build: &|w, streams, name| {
            let early_drop = streams.stream(&format!("link/{name}/red/early_drop"));
            AnyQdisc::Red(Box::new(red::Red::new(w.read(), early_drop)))
        },
    },
    Spec {
        entry: dualpi2::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<dualpi2::Params>().limit),
        build: &|w, streams, name| {
            let decide = streams.stream(&format!("link/{name}/dualpi2/decide"));
            AnyQdisc::DualPi2(Box::new(dualpi2::DualPi2::new(w.read(), decide)))
        },
    },
    Spec {
        entry: prio::Params::ENTRY,
        limits: |w| {
            let p: prio::Params = w.read();
            p.rest.limits(p.limit, p.first_limit)
        },
        build: &|w, streams, name| {
            let p: prio::Params = w.read();
            let rest = p.rest.spec(p.limit).build(streams, name);
            AnyQdisc::Prio(Box::new(prio::Prio::new(p, rest)))
        },
    },
    Spec {
        entry: drr::Params::ENTRY,
        limits: |w| {
            let p: drr::Params = w.read();
            p.rest.limits(p.limit, p.first_limit)
        },
        build: &|w, streams, name| {
            let p: drr::Params = w.read();
            let rest = p.rest.spec(p.limit).build(streams, name);
            AnyQdisc::Drr(Box::new(drr::Drr::new(p, rest)))
        },
    },
    Spec {
        entry: pi::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<pi::Params>().limit),
        build: &|w, streams, name| {
            let early_drop = streams.stream(&format!("link/{name}/pi/early_drop"));
            AnyQdisc::Pi(Box::new(pi::Pi::new(w.read(), early_drop)))
        },
    },
    Spec {
        entry: blue::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<blue::Params>().limit),
        build: &|w, streams, name| {
            let early_drop = streams.stream(&format!("link/{name}/blue/early_drop"));
            AnyQdisc::Blue(Box::new(blue::Blue::new(w.read(), early_drop)))
        },
    },
    Spec {
        entry: fq_pie::Params::ENTRY,
        limits: |w| {
            let p: fq_pie::Params = w.read();
            Limits::both(p.limit, p.memory)
        },
        build: &|w, streams, name| {
            let stream = |purpose| streams.stream(&format!("link/{name}/fq_pie/{purpose}"));
            AnyQdisc::FqPie(Box::new(fq_pie::FqPie::new(
                w.read(),
                stream("perturbation").next_u64(),
                stream("early_drop"),
            )))
        },
    },
    Spec {
        entry: cake::Params::ENTRY,
        limits: |w| Limits {
            packets: None,
            bytes: Some(w.read::<cake::Params>().memory),
        },
        build: &|w, streams, name| {
            let stream = |purpose| streams.stream(&format!("link/{name}/cake/{purpose}"));
            AnyQdisc::Cake(Box::new(cake::Cake::new(
                w.read(),
                stream("perturbation").next_u64(),
                stream("blue"),
            )))
        },
    },
    Spec {
        entry: tbf::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<tbf::Params>().limit),
        build: &|w, _, _| AnyQdisc::Tbf(Box::new(tbf::Tbf::new(w.read()))),
    },
    Spec {
        entry: sfb::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<sfb::Params>().limit),
        build: &|w, streams, name| {
            let stream = |purpose| streams.stream(&format!("link/{name}/sfb/{purpose}"));
            let mut perturbation = stream("perturbation");
            AnyQdisc::Sfb(Box::new(sfb::Sfb::new(
                w.read(),
                std::array::from_fn(|_| perturbation.next_u64()),
                stream("early_drop"),
            )))
        },
    },
    Spec {
        entry: sred::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<sred::Params>().limit),
        build: &|w, streams, name| {
            let stream = |purpose| streams.stream(&format!("link/{name}/sred/{purpose}"));
            AnyQdisc::Sred(Box::new(sred::Sred::new(
                w.read(),
                stream("zombie"),
                stream("early_drop"),
            )))
        },
    },
    Spec {
        entry: threshold::Params::ENTRY,
        limits: |w| Limits::packets(w.read::<threshold::Params>().limit),
        build: &|w, _, _| AnyQdisc::Threshold(threshold::Threshold::new(w.read())),
    },
];

impl Rest {
    /// Returns the discipline with its defaults and a limit of its own, in packets.
    fn spec(self, limit: u64) -> QdiscSpec {
        let key = if self == Rest::Fifo {
            "packets"
        } else {
            "limit"
        };
        format!("{}:{key}={limit}", self.word())
            .parse()
            .expect("each of the choices has a limit of this range")
    }

    fn limits(self, limit: u64, first_limit: u64) -> Limits {
        let rest = self.spec(limit).limits();
        Limits {
            packets: rest.packets.map(|rest| rest + first_limit),
            bytes: None,
        }
    }
}

worded! {
    /// Queue discipline with its parameters, written as `codel:target=5ms,interval=100ms`.
    QdiscSpec, "qdisc", all().map(|s| &s.entry)
}

impl QdiscSpec {
    /// Name of the discipline.
    pub fn name(&self) -> &'static str {
        self.words().entry().name
    }
    /// True if a program has added it: its code is not this version's.
    pub fn is_added(&self) -> bool {
        QDISCS.iter().all(|s| s.entry.name != self.name())
    }
    /// Limits of the discipline with these parameters.
    pub fn limits(&self) -> Limits {
        (self.spec().limits)(self.words())
    }
    /// Builds the discipline; `name` is its place, such as `up`, which names its random streams.
    pub fn build(&self, streams: &Streams, name: &str) -> AnyQdisc {
        (self.spec().build)(self.words(), streams, name)
    }
    /// Returns the reason why values that are each in range contradict each other.
    pub fn contradiction(&self) -> Option<String> {
        if self.name() != "red" {
            return None;
        }
        let red::Params { min, max, .. } = self.words().read();
        (min >= max).then(|| format!("min = {min} is not below max = {max}"))
    }
    fn spec(&self) -> &'static Spec {
        all()
            .find(|s| s.entry.name == self.name())
            .expect("it was read from this table")
    }
}

/// Discipline of any kind, without a virtual call for built-in ones; `Custom` holds others.
pub enum AnyQdisc {
    Fifo(fifo::Fifo),
    Codel(codel::Codel),
    FqCodel(Box<fq_codel::FqCodel>),
    Pie(Box<pie::Pie>),
    Red(Box<red::Red>),
    DualPi2(Box<dualpi2::DualPi2>),
    Prio(Box<prio::Prio>),
    Drr(Box<drr::Drr>),
    Pi(Box<pi::Pi>),
    Blue(Box<blue::Blue>),
    FqPie(Box<fq_pie::FqPie>),
    Cake(Box<cake::Cake>),
    Tbf(Box<tbf::Tbf>),
    Sfb(Box<sfb::Sfb>),
    Sred(Box<sred::Sred>),
    Threshold(threshold::Threshold),
    Custom(Box<dyn Qdisc + Send>),
}

macro_rules! each {
    ($any:expr, $q:ident => $call:expr) => {
        match $any {
            AnyQdisc::Fifo($q) => $call,
            AnyQdisc::Codel($q) => $call,
            AnyQdisc::FqCodel($q) => $call,
            AnyQdisc::Pie($q) => $call,
            AnyQdisc::Red($q) => $call,
            AnyQdisc::DualPi2($q) => $call,
            AnyQdisc::Prio($q) => $call,
            AnyQdisc::Drr($q) => $call,
            AnyQdisc::Pi($q) => $call,
            AnyQdisc::Blue($q) => $call,
            AnyQdisc::FqPie($q) => $call,
            AnyQdisc::Cake($q) => $call,
            AnyQdisc::Tbf($q) => $call,
            AnyQdisc::Sfb($q) => $call,
            AnyQdisc::Sred($q) => $call,
            AnyQdisc::Threshold($q) => $call,
            AnyQdisc::Custom($q) => $call,
        }
    };
}

impl Qdisc for AnyQdisc {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        each!(self, q => q.enqueue(now, packet, fates))
    }
    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        each!(self, q => q.dequeue(now, fates))
    }
    fn backlog(&self) -> Backlog {
        each!(self, q => q.backlog())
    }
    fn next_wakeup(&self) -> Option<Time> {
        each!(self, q => q.next_wakeup())
    }
    fn probability(&self) -> Option<f64> {
        each!(self, q => q.probability())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;

    fn read(text: &str) -> Result<QdiscSpec, String> {
        text.parse()
            .map_err(|e: crate::words::WordsError| e.to_string())
    }

    #[test]
    fn what_people_write_is_read_and_printed_shortly() {
        for (text, printed) in [
            ("fifo", "fifo"),
            ("fifo:packets=51", "fifo:packets=51"),
            ("fifo:bytes=37625", "fifo:bytes=37.625 kB"),
            ("codel:target=5ms,interval=100ms", "codel"),
            (
                " codel : target = 15 ms , ecn = yes ",
                "codel:target=15 ms,ecn=true",
            ),
        ] {
            let spec = read(text).unwrap();
            assert_eq!(spec.to_string(), printed);
            assert_eq!(read(printed).unwrap(), spec);
        }
        assert_eq!(
            read("fifo:bytes=37625 B").unwrap().limits(),
            Limits {
                packets: None,
                bytes: Some(Bytes::new(37_625))
            }
        );
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_known_ones_and_the_nearest() {
        let known: Vec<&str> = QDISCS.iter().map(|s| s.entry.name).collect();
        assert_eq!(
            read("codle").unwrap_err(),
            format!(
                "no qdisc \"codle\". Known: {}. Did you mean \"codel\"?",
                known.join(", ")
            )
        );
        assert_eq!(
            read("codel:traget=5ms").unwrap_err(),
            "qdisc \"codel\" has no parameter \"traget\". Known: target, interval, limit, ecn, mtu, ce_threshold, ce_l4s. Did you mean \"target\"?"
        );
        assert_eq!(
            read("codel:target=5").unwrap_err().split(':').next(),
            Some("qdisc \"codel\"")
        );
        assert!(
            read("codel:target=0ns")
                .unwrap_err()
                .contains("out of range: from 1 us to 10 s")
        );
        assert!(read("fifo:packets=0").unwrap_err().contains("out of range"));
        assert!(
            read("codel:ecn")
                .unwrap_err()
                .contains("not of the form key=value")
        );
        assert!(
            read("codel:target=1ms,target=2ms")
                .unwrap_err()
                .contains("given twice")
        );
        assert!(read("").unwrap_err().starts_with("no qdisc \"\""));
    }
}
