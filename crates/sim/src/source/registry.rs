//! The one table of sources. Scenarios, `tailback list sources`, the reference page and the tests read it: a
//! source can be named from the moment it is listed.

use super::video::Player;
use super::web::Pages;
use super::{
    Application, Bulk, Law, Pattern, Sessions, Source, Span, Tailed, Telnet, Transfers, TwoPareto,
    Video, Web, sessions::Crowd,
};
use base::rng::Streams;
use base::words::{Entry, Parameter, Unit, Value, Words};
use base::{BitsPerSec, Bytes, Duration};

/// One source: what it is called, what it can be told, and how it is made.
pub struct Spec {
    pub entry: Entry,
    build: Build,
}

enum Build {
    Datagrams(fn(&Words) -> Pattern),
    Application(fn(&Words, Span, &Streams, &str) -> Box<dyn Application>),
}

/// What a scenario makes of a source.
pub enum Made {
    Datagrams(Box<Source>),
    Application(Box<dyn Application>),
}

impl Spec {
    pub fn named(name: &str) -> Option<&'static Spec> {
        SOURCES.iter().find(|s| s.entry.name == name)
    }
    /// Whether it uses TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self.build, Build::Application(_))
    }

    /// `name` is whose it is, such as `flow/3`: its random streams are named after it. `mark` says what the
    /// packets of datagrams carry.
    pub fn make(
        &self,
        words: &Words,
        mark: impl Fn(Pattern) -> Pattern,
        span: Span,
        streams: &Streams,
        name: &str,
    ) -> Made {
        match self.build {
            Build::Datagrams(pattern) => {
                let pattern = mark(pattern(words));
                let source = Source::new(pattern, span.start, span.stop, streams, name);
                Made::Datagrams(Box::new(source))
            }
            Build::Application(build) => Made::Application(build(words, span, streams, name)),
        }
    }
}

/// What single keys cannot say: how they must agree with each other.
///
/// # Errors
/// What does not go together.
pub fn check(words: &Words) -> Result<(), String> {
    let has = |key| words.entry().parameters.iter().any(|p| p.name == key);
    if has("tail_from") && words.bytes("tail_from") < words.bytes("median") {
        return Err(format!(
            "tail_from = \"{}\" is below median = \"{}\": the tail begins above the body",
            words.bytes("tail_from"),
            words.bytes("median")
        ));
    }
    if has("largest") && words.bytes("largest") <= words.bytes("tail_from") {
        return Err(format!(
            "largest = \"{}\" must be above tail_from = \"{}\"",
            words.bytes("largest"),
            words.bytes("tail_from")
        ));
    }
    if has("longest") && words.duration("longest") <= words.duration("least") {
        return Err(format!(
            "longest = \"{}\" must be above least = \"{}\"",
            words.duration("longest"),
            words.duration("least")
        ));
    }
    if has("ladder") {
        let (segment, buffer) = (words.duration("segment"), words.duration("buffer"));
        let ladder = rates(words);
        if ladder.windows(2).any(|w| w[0] >= w[1]) {
            return Err("ladder: each bitrate must be above the one before".into());
        }
        for (key, value) in [("segment", segment), ("startup", words.duration("startup"))] {
            if value > buffer {
                return Err(format!(
                    "{key} = \"{value}\" does not fit into buffer = \"{buffer}\""
                ));
            }
        }
        if words.real("reservoir") + words.real("cushion") > 1.0 {
            return Err(
                "reservoir and cushion together are more than the buffer: at most 1".into(),
            );
        }
    }
    if has("profile") && numbers(words).iter().sum::<f64>() <= 0.0 {
        return Err("profile: one of its numbers must be above 0".into());
    }
    Ok(())
}

/// A parameter on few lines; `bounds` are from and to.
const fn key(
    name: &'static str,
    unit: Unit,
    default: Option<&'static str>,
    bounds: (&'static str, &'static str),
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit,
        default,
        min: bounds.0,
        max: bounds.1,
        section,
        doc,
    }
}

const NO_USUAL: &str = "none: there is no usual one";
const SURGE: &str = "Barford, Crovella 1998, table 1";
const SPANS: (&str, &str) = ("0 s", "8760 h");
const PACKETS: (&str, &str) = ("28 B", "65535 B");
const RATES: (&str, &str) = ("1 bit/s", "10000 Gbit/s");
/// Shapes with a mean.
const SHAPES: (&str, &str) = ("1.01", "100");

const fn packet(default: &'static str, section: &'static str) -> Parameter {
    // RFC 791 section 3.1, and headers of IPv4 and UDP.
    let doc = "the whole IP packet";
    key("size", Unit::Bytes, Some(default), PACKETS, section, doc)
}
const fn rate(doc: &'static str) -> Parameter {
    // A datagram of 28 bytes in each nanosecond is the most that time can tell apart.
    let bounds = ("1 bit/s", "224 Gbit/s");
    key("rate", Unit::Rate, None, bounds, NO_USUAL, doc)
}
const fn gap(default: &'static str, section: &'static str) -> Parameter {
    let doc = "from one packet to the next";
    let bounds = ("1 us", "8760 h");
    key("gap", Unit::Duration, Some(default), bounds, section, doc)
}
const fn request() -> Parameter {
    let doc = "what a request takes on its way to the server, payload";
    let bounds = ("1 B", "1 MB");
    key("request", Unit::Bytes, Some("400 B"), bounds, NO_USUAL, doc)
}

/// Sizes of web objects and connections.
const MEDIAN: Parameter = key(
    "median",
    Unit::Bytes,
    Some("11.6 kB"),
    ("1 B", "1000 GB"),
    SURGE,
    "median of the sizes' log-normal body",
);
const SIGMA: Parameter = key(
    "sigma",
    Unit::Number,
    Some("1.318"),
    ("0", "10"),
    SURGE,
    "standard deviation of the logarithm of the body's sizes",
);
const TAIL: Parameter = key(
    "tail",
    Unit::Probability,
    Some("0.07"),
    ("0", "1"),
    SURGE,
    "share of the sizes that are in the Pareto tail",
);
const TAIL_FROM: Parameter = key(
    "tail_from",
    Unit::Bytes,
    Some("133 kB"),
    ("1 B", "1000 GB"),
    SURGE,
    "where the tail begins",
);
const TAIL_SHAPE: Parameter = key(
    "tail_shape",
    Unit::Number,
    Some("1.1"),
    ("0.1", "100"),
    SURGE,
    "shape of the tail; below 2 it is heavy",
);
const LARGEST: Parameter = key(
    "largest",
    Unit::Bytes,
    Some("1 GB"),
    ("1 B", "1000000 GB"),
    NO_USUAL,
    "no size is above this",
);

const WILLINGER: &str = "Willinger, Taqqu, Sherman, Wilson, Self-Similarity Through High-Variability, IEEE/ACM Transactions on Networking 5(1), 1997";
const PAXSON_FLOYD: &str = "Paxson, Floyd, Wide-Area Traffic: The Failure of Poisson Modeling, IEEE/ACM Transactions on Networking 3(3), 1995";
const BARFORD: &str = "Barford, Crovella, Generating Representative Web Workloads for Network and Server Performance Evaluation, SIGMETRICS 1998";
const HUANG: &str = "Huang, Johari, McKeown, Trunnell, Watson, A Buffer-Based Approach to Rate Adaptation, SIGCOMM 2014";
const BBA: &str = "Huang et al. 2014, section 4";

pub const SOURCES: &[Spec] = &[
    Spec {
        entry: Entry {
            name: "bulk",
            summary: "TCP: one transfer, as fast as the path lets it; at its stop nothing more is offered, and what is under way is delivered",
            sources: &["RFC 5681, TCP Congestion Control"],
            parameters: &[key(
                "size",
                Unit::Bytes,
                None,
                ("1 B", "1000000 GB"),
                NO_USUAL,
                "payload; without end where it is not given",
            )],
        },
        build: Build::Application(|words, span, _, _| {
            let bytes = words.bytes_if_set("size").map_or(u64::MAX, Bytes::get);
            Box::new(Bulk::new(bytes, span))
        }),
    },
    Spec {
        entry: Entry {
            name: "transfers",
            summary: "TCP on one connection: transfers of exponential size, a pause of exponential length after each",
            sources: &[],
            parameters: &[
                key(
                    "size",
                    Unit::Bytes,
                    Some("100 kB"),
                    ("1 B", "1000000 GB"),
                    NO_USUAL,
                    "payload of a transfer, mean",
                ),
                key(
                    "think",
                    Unit::Duration,
                    Some("1 s"),
                    SPANS,
                    NO_USUAL,
                    "from the last acknowledgement to the next transfer, mean",
                ),
            ],
        },
        build: Build::Application(|words, span, streams, name| {
            let bytes = Law::Exponential(words.bytes("size").get() as f64);
            let think = Law::Exponential(words.duration("think").as_secs_f64());
            Box::new(Transfers::new(bytes, think, span, streams, name))
        }),
    },
    Spec {
        entry: Entry {
            name: "sessions",
            summary: "many people, each of whom makes some connections: sessions arrive as a Poisson process that follows the hours of the day, sizes are log-normal with a Pareto tail",
            sources: &[
                PAXSON_FLOYD,
                "Floyd, Paxson, Difficulties in Simulating the Internet, IEEE/ACM Transactions on Networking 9(4), 2001",
                BARFORD,
            ],
            parameters: &[
                key(
                    "gap",
                    Unit::Duration,
                    Some("10 s"),
                    ("1 us", "8760 h"),
                    NO_USUAL,
                    "from one session to the next, mean over the day",
                ),
                key(
                    "profile",
                    Unit::List(&Unit::Number),
                    Some("1"),
                    ("0", "1000000"),
                    "Floyd, Paxson 2001, section 4: diurnal patterns",
                    "how many come in each equal part of the day, compared with each other: 24 numbers for its hours",
                ),
                key(
                    "day",
                    Unit::Duration,
                    Some("24 h"),
                    ("1 s", "8760 h"),
                    NO_USUAL,
                    "length of the day that the profile divides; simulated time begins at its midnight",
                ),
                key(
                    "connections",
                    Unit::Number,
                    Some("1"),
                    ("1", "100000"),
                    NO_USUAL,
                    "connections of a session, mean of a geometric number",
                ),
                key(
                    "pause",
                    Unit::Duration,
                    Some("1 s"),
                    SPANS,
                    NO_USUAL,
                    "from one connection of a session to its next, mean of an exponential time",
                ),
                MEDIAN,
                SIGMA,
                TAIL,
                TAIL_FROM,
                TAIL_SHAPE,
                LARGEST,
            ],
        },
        build: Build::Application(|words, span, streams, name| {
            let crowd = Crowd {
                gap_s: words.duration("gap").as_secs_f64(),
                profile: numbers(words),
                day: words.duration("day"),
                connections: words.real("connections"),
                pause_s: Law::Exponential(words.duration("pause").as_secs_f64()),
                sizes: sizes(words),
            };
            Box::new(Sessions::new(crowd, span, streams, name))
        }),
    },
    Spec {
        entry: Entry {
            name: "web",
            summary: "a person who reads web pages; from is the server, to is the reader; requests cross the way back",
            sources: &[
                BARFORD,
                "RFC 9112, HTTP/1.1, section 9.3",
                "RFC 9113, HTTP/2, section 5",
            ],
            parameters: &[
                key(
                    "think",
                    Unit::Duration,
                    Some("3 s"),
                    SPANS,
                    SURGE,
                    "from the end of a page to the next, mean of a Pareto time",
                ),
                key(
                    "think_shape",
                    Unit::Number,
                    Some("1.5"),
                    SHAPES,
                    SURGE,
                    "shape of that time",
                ),
                key(
                    "objects",
                    Unit::Number,
                    Some("1.7"),
                    ("1", "10000"),
                    SURGE,
                    "objects of a page, itself included, mean of a Pareto number",
                ),
                key(
                    "objects_shape",
                    Unit::Number,
                    Some("2.43"),
                    SHAPES,
                    SURGE,
                    "shape of that number",
                ),
                key(
                    "http",
                    Unit::Choice(&["1.1", "2"]),
                    Some("2"),
                    ("", ""),
                    "RFC 9112, RFC 9113",
                    "1.1: up to six connections, each asks for one object at a time; 2: one connection, all are asked for at once",
                ),
                request(),
                MEDIAN,
                SIGMA,
                TAIL,
                TAIL_FROM,
                TAIL_SHAPE,
                LARGEST,
            ],
        },
        build: Build::Application(|words, span, streams, name| {
            let pages = Pages {
                think_s: Law::Pareto(
                    words.duration("think").as_secs_f64(),
                    words.real("think_shape"),
                ),
                objects: Law::Pareto(words.real("objects"), words.real("objects_shape")),
                sizes: sizes(words),
                request_bytes: words.bytes("request").get(),
                // As browsers do.
                connections: (words.choice("http") == "1.1").then_some(6),
            };
            Box::new(Web::new(pages, span, streams, name))
        }),
    },
    Spec {
        entry: Entry {
            name: "video",
            summary: "a person who watches a video whose bitrate follows the player's buffer; from is the server, to is the viewer",
            sources: &[HUANG],
            parameters: &[
                key(
                    "ladder",
                    Unit::List(&Unit::Rate),
                    Some(
                        "235 kbit/s; 375 kbit/s; 560 kbit/s; 750 kbit/s; 1050 kbit/s; 1750 kbit/s; 2350 kbit/s; 3 Mbit/s; 5 Mbit/s",
                    ),
                    RATES,
                    "Huang et al. 2014, section 1: from 235 kbit/s to 5 Mbit/s",
                    "bitrates to choose from",
                ),
                key(
                    "segment",
                    Unit::Duration,
                    Some("4 s"),
                    ("1 ms", "1 h"),
                    BBA,
                    "how long a segment plays",
                ),
                key(
                    "buffer",
                    Unit::Duration,
                    Some("240 s"),
                    ("1 ms", "24 h"),
                    BBA,
                    "most that is fetched ahead",
                ),
                key(
                    "reservoir",
                    Unit::Probability,
                    Some("0.375"),
                    ("0", "1"),
                    BBA,
                    "part of the buffer below which the lowest bitrate is taken: 90 s of 240 s",
                ),
                key(
                    "cushion",
                    Unit::Probability,
                    Some("0.525"),
                    ("0", "1"),
                    BBA,
                    "part of the buffer over which the bitrate rises: 126 s of 240 s",
                ),
                key(
                    "startup",
                    Unit::Duration,
                    Some("4 s"),
                    ("0 s", "1 h"),
                    NO_USUAL,
                    "so much must be there before it plays, at first and after it stood still",
                ),
                request(),
            ],
        },
        build: Build::Application(|words, span, _, _| {
            let buffer = words.duration("buffer");
            let part = |key| Duration::from_secs_f64(buffer.as_secs_f64() * words.real(key));
            let player = Player {
                segment: words.duration("segment"),
                ladder: rates(words),
                buffer,
                reservoir: part("reservoir"),
                cushion: part("cushion"),
                startup: words.duration("startup"),
                request_bytes: words.bytes("request").get(),
            };
            Box::new(Video::new(player, span))
        }),
    },
    Spec {
        entry: Entry {
            name: "telnet",
            summary: "a person who types at a far machine, which sends each character back; from is the typist",
            sources: &[PAXSON_FLOYD],
            parameters: &[
                key(
                    "least",
                    Unit::Duration,
                    Some("120 ms"),
                    ("1 us", "1 h"),
                    "Paxson, Floyd 1995, section 4: 15 % are longer than 1 s",
                    "shortest time between two characters",
                ),
                key(
                    "shape",
                    Unit::Number,
                    Some("0.9"),
                    ("0.1", "100"),
                    "Paxson, Floyd 1995, section 4",
                    "Pareto shape of the body",
                ),
                key(
                    "tail",
                    Unit::Probability,
                    Some("0.03"),
                    ("0", "1"),
                    "Paxson, Floyd 1995, section 4",
                    "share of the times that are in the tail",
                ),
                key(
                    "tail_shape",
                    Unit::Number,
                    Some("0.95"),
                    ("0.1", "100"),
                    "Paxson, Floyd 1995, section 4",
                    "Pareto shape of the tail",
                ),
                key(
                    "longest",
                    Unit::Duration,
                    Some("2 min"),
                    ("1 us", "24 h"),
                    "Paxson, Floyd 1995, section 4: 1.1 s on average",
                    "no time is longer",
                ),
            ],
        },
        build: Build::Application(|words, span, streams, name| {
            let law = TwoPareto {
                least: words.duration("least").as_secs_f64(),
                shape: words.real("shape"),
                tail: words.real("tail"),
                tail_shape: words.real("tail_shape"),
                most: words.duration("longest").as_secs_f64(),
            };
            Box::new(Telnet::new(Law::TwoPareto(law), span, streams, name))
        }),
    },
    Spec {
        entry: Entry {
            name: "cbr",
            summary: "datagrams at a constant rate",
            sources: &[],
            parameters: &[
                rate("of whole IP packets"),
                packet("210 B", "document 003, section 4.2"),
            ],
        },
        build: Build::Datagrams(|words| steady(words, Law::Constant)),
    },
    Spec {
        entry: Entry {
            name: "poisson",
            summary: "datagrams with exponential gaps",
            sources: &[],
            parameters: &[
                rate("of whole IP packets, mean"),
                packet("210 B", "document 003, section 4.2"),
            ],
        },
        build: Build::Datagrams(|words| steady(words, Law::Exponential)),
    },
    Spec {
        entry: Entry {
            name: "pareto",
            summary: "datagrams at a constant rate in bursts with pauses, both of Pareto length; many together are self-similar with a Hurst parameter of (3 - shape)/2 over hundreds of bursts, and up to 0.1 more over a few",
            sources: &[WILLINGER],
            parameters: &[
                rate("while it sends"),
                packet("210 B", "document 003, section 4.2"),
                key(
                    "on",
                    Unit::Duration,
                    Some("500 ms"),
                    ("1 us", "8760 h"),
                    NO_USUAL,
                    "length of a burst, mean",
                ),
                key(
                    "off",
                    Unit::Duration,
                    Some("500 ms"),
                    ("1 us", "8760 h"),
                    NO_USUAL,
                    "length of a pause, mean",
                ),
                key(
                    "shape",
                    Unit::Number,
                    Some("1.4"),
                    SHAPES,
                    "Willinger et al. 1997: between 1 and 2",
                    "Pareto shape of both",
                ),
            ],
        },
        build: Build::Datagrams(|words| {
            let span = |key| Law::Pareto(words.duration(key).as_secs_f64(), words.real("shape"));
            Pattern {
                on_off_s: Some((span("on"), span("off"))),
                ..steady(words, Law::Constant)
            }
        }),
    },
    Spec {
        entry: Entry {
            name: "voice",
            summary: "one way of a telephone conversation with G.711: 50 packets a second while its side speaks",
            sources: &[
                "Brady, A Model for Generating On-Off Speech Patterns in Two-Way Conversation, Bell System Technical Journal 48, 1969",
                "RFC 3551, RTP Profile for Audio and Video Conferences with Minimal Control, section 4.5.14",
            ],
            parameters: &[
                packet("200 B", "RFC 3551: 20 ms of 64 kbit/s, and 40 B of headers"),
                gap("20 ms", "RFC 3551 section 4.2"),
                key(
                    "spurt",
                    Unit::Duration,
                    Some("1.2 s"),
                    ("1 us", "8760 h"),
                    "Brady 1969",
                    "length of a talk spurt, mean of an exponential time",
                ),
                key(
                    "pause",
                    Unit::Duration,
                    Some("1.8 s"),
                    SPANS,
                    "Brady 1969",
                    "length of a pause, mean of an exponential time; 0 s speaks without end",
                ),
            ],
        },
        build: Build::Datagrams(|words| {
            let span = |key| Law::Exponential(words.duration(key).as_secs_f64());
            let talks = words.duration("pause") > Duration::ZERO;
            Pattern {
                on_off_s: talks.then(|| (span("spurt"), span("pause"))),
                ..spaced(words)
            }
        }),
    },
    Spec {
        entry: Entry {
            name: "pmu",
            summary: "a phasor measurement unit: 50 frames a second",
            sources: &["IEEE C37.118.2-2011, Synchrophasor Data Transfer for Power Systems"],
            parameters: &[
                packet("110 B", "a frame of a few phasors, IP and UDP headers"),
                gap(
                    "20 ms",
                    "IEEE C37.118.2: 50 frames a second where mains have 50 Hz",
                ),
            ],
        },
        build: Build::Datagrams(spaced),
    },
    Spec {
        entry: Entry {
            name: "probe",
            summary: "the delay monitor: a small datagram, sent back by the far end; the recording has a row for each",
            sources: &["RFC 2681, A Round-trip Delay Metric for IPPM"],
            parameters: &[
                packet("80 B", "what tailback test sends over IPv4"),
                gap("50 ms", NO_USUAL),
            ],
        },
        build: Build::Datagrams(|words| Pattern {
            echo: true,
            ..spaced(words)
        }),
    },
];

fn spaced(words: &Words) -> Pattern {
    Pattern::constant(words.bytes("size"), words.duration("gap"))
}

fn steady(words: &Words, law: fn(f64) -> Law) -> Pattern {
    let size = words.bytes("size");
    Pattern {
        gap_s: law(size.bits() as f64 / words.rate("rate").get() as f64),
        ..Pattern::constant(size, Duration::ZERO)
    }
}

fn sizes(words: &Words) -> Law {
    let bytes = |key| words.bytes(key).get() as f64;
    Law::Tailed(Tailed {
        median: bytes("median"),
        sigma: words.real("sigma"),
        tail: words.real("tail"),
        from: bytes("tail_from"),
        shape: words.real("tail_shape"),
        most: bytes("largest"),
    })
}

fn rates(words: &Words) -> Vec<BitsPerSec> {
    let rate = |v: &Value| match v {
        Value::Rate(r) => *r,
        other => panic!("{other} is no rate"),
    };
    words.list("ladder").iter().map(rate).collect()
}

fn numbers(words: &Words) -> Vec<f64> {
    let number = |v: &Value| match v {
        Value::Real(n) => *n,
        other => panic!("{other} is no number"),
    };
    words.list("profile").iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_source_reads_its_defaults_and_has_a_name_of_its_own() {
        let names: BTreeSet<_> = SOURCES.iter().map(|s| s.entry.name).collect();
        assert_eq!(names.len(), SOURCES.len());
        for spec in SOURCES {
            let needs_rate = spec.entry.parameters.iter().any(|p| p.name == "rate");
            let pairs = needs_rate.then_some(("rate", "64 kbit/s"));
            let words = Words::with("source", &spec.entry, pairs).unwrap();
            check(&words).unwrap();
            let span = Span::from(base::Time::ZERO);
            spec.make(&words, |p| p, span, &Streams::new(1), "flow/0");
        }
    }

    #[test]
    fn keys_that_do_not_go_together_are_refused() {
        for (name, pairs, said) in [
            ("web", vec![("tail_from", "1 kB")], "below median"),
            (
                "sessions",
                vec![("largest", "2 kB")],
                "must be above tail_from",
            ),
            ("telnet", vec![("longest", "1 ms")], "must be above least"),
            ("video", vec![("buffer", "2 s")], "does not fit into buffer"),
            ("video", vec![("reservoir", "0.9")], "at most 1"),
            (
                "video",
                vec![("ladder", "2 Mbit/s; 1 Mbit/s")],
                "above the one before",
            ),
            ("sessions", vec![("profile", "0; 0")], "above 0"),
        ] {
            let entry = &Spec::named(name).unwrap().entry;
            let words = Words::with("source", entry, pairs.clone()).unwrap();
            let error = check(&words).unwrap_err();
            assert!(error.contains(said), "{name} {pairs:?}: {error}");
        }
    }
}
