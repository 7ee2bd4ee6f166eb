//! Table of all sources. Scenarios, `tailback list sources`, the reference page and the tests read it, so a new entry
//! is available everywhere.

use super::datagrams::HEADERS;
use super::video::Player;
use super::web::Pages;
use super::{
    Application, Backup, Batches, Bulk, Call, Law, Pattern, Sending, Sessions, Shape, Source, Span,
    Tailed, Telnet, Transfers, TwoPareto, Video, Web, sessions::Crowd,
};
use base::plugged;
use base::rng::Streams;
use base::spec::{Params as _, choices, params};
use base::words::{Entry, Words};
use base::{BitsPerSec, Bytes, Duration, Ecn, Time};
use congestion::gcc::Limits;
use std::ops::Range;

/// Entry for a source: its name, its parameters, and its constructor.
pub struct Spec {
    /// Name, summary, sources and parameters.
    pub entry: Entry,
    build: Build,
    /// Checks that parameters agree with each other; all required ones are present.
    check: fn(&Words) -> Result<(), String>,
}

enum Build {
    Datagrams(fn(&Words) -> Pattern),
    Call(fn(&Words) -> Shape),
    Application(fn(&Words, Span, &Streams, &str) -> Box<dyn Application>),
    Added(Added),
}

type Added = &'static (dyn Fn(&Words, Span, &Streams, &str) -> Box<dyn Application> + Send + Sync);

static ADDED: plugged::Added<Spec> = plugged::Added::new();

/// Adds a source of one's own that uses TCP, which scenarios then name as they name the built-in ones. One of the same
/// name is replaced.
///
/// # Errors
/// A name that is built in, or that no scenario can write; a parameter with the name of a key that every flow has.
pub fn add(
    entry: Entry,
    build: impl Fn(&Words, Span, &Streams, &str) -> Box<dyn Application> + Send + Sync + 'static,
) -> Result<(), String> {
    plugged::check_name(entry.name, SOURCES.iter().map(|s| &s.entry))?;
    let taken = |name: &&str| *name == "kind" || super::COMMON.contains(name);
    if let Some(name) = entry.parameters.iter().map(|p| p.name).find(taken) {
        return Err(format!(
            "every flow has a key \"{name}\": choose another name"
        ));
    }
    ADDED.add(Spec {
        entry,
        build: Build::Added(Box::leak(Box::new(build))),
        check: |_| Ok(()),
    });
    Ok(())
}

/// Returns the built-in sources, then the added ones.
pub fn all() -> impl Iterator<Item = &'static Spec> + Clone {
    SOURCES.iter().chain(ADDED.all())
}

/// Product of a source in a scenario.
pub enum Made {
    Datagrams(Sending),
    Application(Box<dyn Application>),
}

impl Spec {
    /// Source with this name.
    pub fn named(name: &str) -> Option<&'static Spec> {
        all().find(|s| s.entry.name == name)
    }
    /// True if a program has added it: its code is not this version's.
    pub fn is_added(&self) -> bool {
        matches!(self.build, Build::Added(_))
    }
    /// True if it uses TCP.
    pub fn is_tcp(&self) -> bool {
        !matches!(self.build, Build::Datagrams(_) | Build::Call(_))
    }

    /// Builds the source. `name` identifies its owner, such as `flow/3`, and names its random streams. `mark` holds the
    /// ECN bits and DSCP of datagrams.
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
                Made::Datagrams(source.into())
            }
            Build::Call(shape) => {
                let Pattern { ecn, dscp, .. } =
                    mark(Pattern::constant(super::SMALLEST, Duration::ZERO));
                let shape = Shape {
                    ecn,
                    dscp,
                    ..shape(words)
                };
                Made::Datagrams(Sending::Call(Box::new(Call::new(
                    shape, span, streams, name,
                ))))
            }
            Build::Application(build) => Made::Application(build(words, span, streams, name)),
            Build::Added(build) => Made::Application(build(words, span, streams, name)),
        }
    }
}

/// Checks that keys agree with each other. Missing keys are reported by the plan.
///
/// # Errors
/// The keys that contradict each other.
pub fn check(words: &Words) -> Result<(), String> {
    if words.missing().is_some() {
        return Ok(());
    }
    let spec = Spec::named(words.entry().name).expect("it was read from this table");
    (spec.check)(words)
}

const NO_USUAL: &str = "none: there is no usual one";
const SURGE: &str = "Barford, Crovella 1998, table 1";
const SPANS: Range<&str> = "0 s".."8760 h";
const GAPS: Range<&str> = "1 us".."8760 h";
// RFC 791 section 3.1, and the headers of IPv4 and UDP.
const PACKETS: Range<&str> = "28 B".."65535 B";
// What these headers leave of a packet.
const PAYLOADS: Range<&str> = "1 B".."65507 B";
const SCALES: Range<&str> = "0".."10000";
// A datagram of 28 bytes per nanosecond is the highest rate that time can resolve.
const RATES: Range<&str> = "1 bit/s".."224 Gbit/s";
const CALLS: Range<&str> = "1 kbit/s".."10 Gbit/s";
const SIZES: Range<&str> = "1 B".."1000 GB";
const SHARES: Range<&str> = "0".."1";
/// Pareto shapes with a mean.
const SHAPES: Range<&str> = "1.01".."100";

const WILLINGER: &str = "Willinger, Taqqu, Sherman, Wilson, Self-Similarity Through High-Variability, IEEE/ACM Transactions on Networking 5(1), 1997";
const PAXSON_FLOYD: &str = "Paxson, Floyd, Wide-Area Traffic: The Failure of Poisson Modeling, IEEE/ACM Transactions on Networking 3(3), 1995";
const BARFORD: &str = "Barford, Crovella, Generating Representative Web Workloads for Network and Server Performance Evaluation, SIGMETRICS 1998";
const HUANG: &str = "Huang, Johari, McKeown, Trunnell, Watson, A Buffer-Based Approach to Rate Adaptation, SIGCOMM 2014";
const DROPBOX: &str = "Drago, Mellia, Munafò, Sperotto, Sadre, Pras, Inside Dropbox: Understanding Personal Cloud Storage Services, IMC 2012";
const GCC: &str =
    "draft-ietf-rmcat-gcc-02, A Google Congestion Control Algorithm for Real-Time Communication";
const BBA: &str = "Huang et al. 2014, section 4";

choices! {
    /// HTTP version.
    enum Http { One = "1.1", Two = "2" }
}

params! {
    #[derive(Clone, Debug)]
    struct BulkParams for "bulk": "TCP: one transfer, as fast as the path lets it; at its stop nothing more is offered, and what is under way is delivered", ["RFC 5681, TCP Congestion Control"] {
        /// payload; without end by default
        size: Option<Bytes> ["1 B".."1000000 GB"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct Iperf3Params for "iperf3": "TCP as iperf3 sends it: a stream connects at its start, sends a cookie of 37 bytes, and sends without end once all streams are connected", ["iperf3 3.12, iperf_client_api.c"] {
        /// simulated time at which all streams begin to send
        begin: Duration = "1 s" [SPANS], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct TransfersParams for "transfers": "TCP on one connection: transfers of exponential size, a pause of exponential length after each", [] {
        /// mean payload of a transfer
        size: Bytes = "100 kB" ["1 B".."1000000 GB"], NO_USUAL;
        /// mean time from the last acknowledgement to the next transfer
        think: Duration = "1 s" [SPANS], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct BackupParams for "backup": "TCP: batches of changed files go to a store in chunks, each of which it answers before the next leaves", [DROPBOX] {
        /// mean pause between two batches, exponential
        every: Duration = "5 min" [SPANS], NO_USUAL;
        /// median size of a batch, log-normal
        median: Bytes = "2 MB" [SIZES], NO_USUAL;
        /// standard deviation of the logarithm of the sizes
        sigma: f64 = "1.5" ["0".."10"], NO_USUAL;
        /// largest batch
        largest: Bytes = "10 GB" ["1 B".."1000000 GB"], NO_USUAL;
        /// largest chunk
        chunk: Bytes = "4 MB" [SIZES], DROPBOX;
        /// time that the store takes for a chunk
        reaction: Duration = "100 ms" [SPANS], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct SessionsParams for "sessions": "many people, each of whom makes some connections: sessions arrive as a Poisson process that follows the hours of the day, sizes are log-normal with a Pareto tail", [PAXSON_FLOYD,
                "Floyd, Paxson, Difficulties in Simulating the Internet, IEEE/ACM Transactions on Networking 9(4), 2001",
                BARFORD,] {
        /// mean time between the starts of two sessions, over the day
        gap: Duration = "10 s" [GAPS], NO_USUAL;
        /// relative session rate in each equal part of the day: 24 numbers stand for its hours
        profile: Vec<f64> = "1" ["0".."1000000"], "Floyd, Paxson 2001, section 4: diurnal patterns";
        /// length of the day that the profile divides; simulated time starts at its midnight
        day: Duration = "24 h" ["1 s".."8760 h"], NO_USUAL;
        /// mean number of connections of a session, geometric
        connections: f64 = "1" ["1".."100000"], NO_USUAL;
        /// mean pause between the connections of a session, exponential
        pause: Duration = "1 s" [SPANS], NO_USUAL;
        /// median of the log-normal body of the sizes
        median: Bytes = "11.6 kB" [SIZES], SURGE;
        /// standard deviation of the logarithm of the sizes in the body
        sigma: f64 = "1.318" ["0".."10"], SURGE;
        /// share of the sizes in the Pareto tail
        tail: f64 as Probability = "0.07" [SHARES], SURGE;
        /// size at which the tail starts
        tail_from: Bytes = "133 kB" [SIZES], SURGE;
        /// Pareto shape of the tail; below 2 it is heavy
        tail_shape: f64 = "1.1" ["0.1".."100"], SURGE;
        /// largest size
        largest: Bytes = "1 GB" ["1 B".."1000000 GB"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct WebParams for "web": "a person who reads web pages; from is the server, to is the reader; requests cross the way back", [BARFORD,
                "RFC 9112, HTTP/1.1, section 9.3",
                "RFC 9113, HTTP/2, section 5",] {
        /// mean reading time from the end of a page to the next request, Pareto
        think: Duration = "3 s" [SPANS], SURGE;
        /// Pareto shape of the reading time
        think_shape: f64 = "1.5" [SHAPES], SURGE;
        /// mean number of objects of a page, itself included, Pareto
        objects: f64 = "1.7" ["1".."10000"], SURGE;
        /// Pareto shape of the number of objects
        objects_shape: f64 = "2.43" [SHAPES], SURGE;
        /// 1.1: up to six connections, each requests one object at a time; 2: one connection, all objects are requested
        /// at once
        http: Http = "2", "RFC 9112, RFC 9113";
        /// payload of a request to the server
        request: Bytes = "400 B" ["1 B".."1 MB"], NO_USUAL;
        /// median of the log-normal body of the sizes
        median: Bytes = "11.6 kB" [SIZES], SURGE;
        /// standard deviation of the logarithm of the sizes in the body
        sigma: f64 = "1.318" ["0".."10"], SURGE;
        /// share of the sizes in the Pareto tail
        tail: f64 as Probability = "0.07" [SHARES], SURGE;
        /// size at which the tail starts
        tail_from: Bytes = "133 kB" [SIZES], SURGE;
        /// Pareto shape of the tail; below 2 it is heavy
        tail_shape: f64 = "1.1" ["0.1".."100"], SURGE;
        /// largest size
        largest: Bytes = "1 GB" ["1 B".."1000000 GB"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct VideoParams for "video": "a person who watches a video whose bitrate follows the player's buffer; from is the server, to is the viewer", [HUANG] {
        /// available bitrates
        ladder: Vec<BitsPerSec> = "235 kbit/s; 375 kbit/s; 560 kbit/s; 750 kbit/s; 1050 kbit/s; 1750 kbit/s; 2350 kbit/s; 3 Mbit/s; 5 Mbit/s" ["1 bit/s".."10000 Gbit/s"], "Huang et al. 2014, section 1: from 235 kbit/s to 5 Mbit/s";
        /// playing time of a segment
        segment: Duration = "4 s" ["1 ms".."1 h"], BBA;
        /// most playing time fetched ahead
        buffer: Duration = "240 s" ["1 ms".."24 h"], BBA;
        /// share of the buffer below which the lowest bitrate is chosen: 90 s of 240 s
        reservoir: f64 as Probability = "0.375" [SHARES], BBA;
        /// share of the buffer over which the bitrate rises: 126 s of 240 s
        cushion: f64 as Probability = "0.525" [SHARES], BBA;
        /// playing time required before playback starts, initially and after a stall
        startup: Duration = "4 s" ["0 s".."1 h"], NO_USUAL;
        /// payload of a request to the server
        request: Bytes = "400 B" ["1 B".."1 MB"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct TelnetParams for "telnet": "a person who types at a far machine, which sends each character back; from is the typist", [PAXSON_FLOYD] {
        /// shortest time between two characters
        least: Duration = "120 ms" ["1 us".."1 h"], "Paxson, Floyd 1995, section 4: 15 % are longer than 1 s";
        /// Pareto shape of the body
        shape: f64 = "0.9" ["0.1".."100"], "Paxson, Floyd 1995, section 4";
        /// share of the times in the tail
        tail: f64 as Probability = "0.03" [SHARES], "Paxson, Floyd 1995, section 4";
        /// Pareto shape of the tail
        tail_shape: f64 = "0.95" ["0.1".."100"], "Paxson, Floyd 1995, section 4";
        /// longest time between two characters
        longest: Duration = "2 min" ["1 us".."24 h"], "Paxson, Floyd 1995, section 4: 1.1 s on average";
    }
}

params! {
    required;
    #[derive(Clone, Debug)]
    struct CbrParams for "cbr": "datagrams at a constant rate", [] {
        /// rate of whole IP packets
        rate: BitsPerSec [RATES], NO_USUAL;
        /// size of the whole IP packet
        size: Bytes = "210 B" [PACKETS], "Thombre 2020, section 4.2";
    }
}

params! {
    required;
    #[derive(Clone, Debug)]
    struct PoissonParams for "poisson": "datagrams with exponential gaps", [] {
        /// mean rate of whole IP packets
        rate: BitsPerSec [RATES], NO_USUAL;
        /// size of the whole IP packet
        size: Bytes = "210 B" [PACKETS], "Thombre 2020, section 4.2";
    }
}

params! {
    required;
    #[derive(Clone, Debug)]
    struct ParetoParams for "pareto": "datagrams at a constant rate in bursts with pauses, both of Pareto length; many together are self-similar with a Hurst parameter of (3 - shape)/2 over hundreds of bursts, and up to 0.1 more over a few", [WILLINGER] {
        /// rate of whole IP packets during a burst
        rate: BitsPerSec [RATES], NO_USUAL;
        /// size of the whole IP packet
        size: Bytes = "210 B" [PACKETS], "Thombre 2020, section 4.2";
        /// mean length of a burst
        on: Duration = "500 ms" [GAPS], NO_USUAL;
        /// mean length of a pause
        off: Duration = "500 ms" [GAPS], NO_USUAL;
        /// Pareto shape of both lengths
        shape: f64 = "1.4" [SHAPES], "Willinger et al. 1997: between 1 and 2";
    }
}

params! {
    #[derive(Clone, Debug)]
    struct VoiceParams for "voice": "one way of a telephone conversation with G.711: 50 packets a second while its side speaks", ["Brady, A Model for Generating On-Off Speech Patterns in Two-Way Conversation, Bell System Technical Journal 48, 1969",
                "RFC 3551, RTP Profile for Audio and Video Conferences with Minimal Control, section 4.5.14",] {
        /// size of the whole IP packet
        size: Bytes = "200 B" [PACKETS], "RFC 3551: 20 ms of 64 kbit/s, and 40 B of headers";
        /// time from one packet to the next
        gap: Duration = "20 ms" [GAPS], "RFC 3551 section 4.2";
        /// mean length of a talk spurt, exponential
        spurt: Duration = "1.2 s" [GAPS], "Brady 1969";
        /// mean length of a pause, exponential; 0 s speaks without end
        pause: Duration = "1.8 s" [SPANS], "Brady 1969";
    }
}

params! {
    #[derive(Clone, Debug)]
    struct PmuParams for "pmu": "a phasor measurement unit: 50 frames a second", ["IEEE C37.118.2-2011, Synchrophasor Data Transfer for Power Systems"] {
        /// size of the whole IP packet
        size: Bytes = "110 B" [PACKETS], "a frame of a few phasors, IP and UDP headers";
        /// time from one packet to the next
        gap: Duration = "20 ms" [GAPS], "IEEE C37.118.2: 50 frames a second where mains have 50 Hz";
    }
}

params! {
    #[derive(Clone, Debug)]
    struct GameParams for "game": "one way of a network game, from the server to one player; the other way has size=45 B, scale=5.7, gap=40 ms, jitter=0 s", ["NGMN Alliance, Radio Access Performance Evaluation Methodology, 2008, Annex A",
                "Färber, Traffic Modelling for Fast Action Network Games, Multimedia Tools and Applications 23, 2004",] {
        /// most frequent payload; sizes follow the law of largest extreme values (Gumbel), and 28 B of headers come on top
        size: Bytes = "120 B" [PAYLOADS], "NGMN 2008, Annex A";
        /// scale of the sizes, in bytes
        scale: f64 = "36" [SCALES], "NGMN 2008, Annex A";
        /// most frequent time from one packet to the next
        gap: Duration = "55 ms" [GAPS], "NGMN 2008, Annex A";
        /// scale of these times
        jitter: Duration = "6 ms" [SPANS], "NGMN 2008, Annex A";
    }
}

params! {
    #[derive(Clone, Debug)]
    struct CallParams for "call": "one way of a video call whose rate follows the network, as browsers do it (GCC); rates and sizes are those of whole IP packets", [GCC, "draft-holmer-rmcat-transport-wide-cc-extensions-01, RTP Extensions for Transport-wide Congestion Control"] {
        /// first rate
        first: BitsPerSec = "300 kbit/s" [CALLS], "libwebrtc";
        /// smallest rate
        least: BitsPerSec = "50 kbit/s" [CALLS], NO_USUAL;
        /// largest rate: what the encoder can use
        most: BitsPerSec = "2500 kbit/s" [CALLS], "libwebrtc: 1280 x 720 pixels";
        /// frames per second
        frames: f64 = "30" ["1".."240"], NO_USUAL;
        /// standard deviation of the logarithm of a frame's size beside its mean
        sigma: f64 = "0.2" ["0".."2"], NO_USUAL;
        /// largest payload of a packet; 40 B of headers come on top
        payload: Bytes = "1200 B" ["100 B".."65000 B"], "libwebrtc";
        /// whole packet of speech, one each 20 ms
        speech: Bytes = "120 B" ["41 B".."1500 B"], "RFC 7587, Opus: 32 kbit/s, and 40 B of headers";
        /// time between two reports of the receiver
        report: Duration = "100 ms" ["10 ms".."10 s"], "libwebrtc: 50 to 250 ms";
    }
}

params! {
    #[derive(Clone, Debug)]
    struct ProbeParams for "probe": "the delay monitor: a small datagram, sent back by the far end; the recording has a row for each", ["RFC 2681, A Round-trip Delay Metric for IPPM"] {
        /// size of the whole IP packet
        size: Bytes = "80 B" [PACKETS], "what tailback test sends over IPv4";
        /// time from one packet to the next
        gap: Duration = "50 ms" [GAPS], NO_USUAL;
    }
}

/// Every source, in the order of the help.
pub const SOURCES: &[Spec] = &[
    Spec {
        entry: BulkParams::ENTRY,
        build: Build::Application(|words, span, _, _| {
            let p: BulkParams = words.read();
            let bytes = p.size.map_or(u64::MAX, Bytes::get);
            Box::new(Bulk::new(bytes, span))
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: Iperf3Params::ENTRY,
        build: Build::Application(|words, span, _, _| {
            let p: Iperf3Params = words.read();
            Box::new(Bulk::iperf3(Time::ZERO + p.begin, span))
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: TransfersParams::ENTRY,
        build: Build::Application(|words, span, streams, name| {
            let p: TransfersParams = words.read();
            let bytes = Law::Exponential(p.size.get() as f64);
            let think = Law::Exponential(p.think.as_secs_f64());
            Box::new(Transfers::new(bytes, think, span, streams, name))
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: BackupParams::ENTRY,
        build: Build::Application(|words, span, streams, name| {
            let p: BackupParams = words.read();
            let batches = Batches {
                bytes: Law::Tailed(Tailed {
                    median: p.median.get() as f64,
                    sigma: p.sigma,
                    tail: 0.0,
                    from: p.largest.get() as f64,
                    shape: 1.0,
                    most: p.largest.get() as f64,
                }),
                pause_s: Law::Exponential(p.every.as_secs_f64()),
                chunk: p.chunk.get(),
                reaction: p.reaction,
            };
            Box::new(Backup::new(batches, span, streams, name))
        }),
        check: |words| {
            let p: BackupParams = words.read();
            match p.median > p.largest {
                true => Err(format!(
                    "median = {} is above largest = {}",
                    p.median, p.largest
                )),
                false => Ok(()),
            }
        },
    },
    Spec {
        entry: SessionsParams::ENTRY,
        build: Build::Application(|words, span, streams, name| {
            let p: SessionsParams = words.read();
            let crowd = Crowd {
                gap_s: p.gap.as_secs_f64(),
                sizes: p.sizes(),
                profile: p.profile,
                day: p.day,
                connections: p.connections,
                pause_s: Law::Exponential(p.pause.as_secs_f64()),
            };
            Box::new(Sessions::new(crowd, span, streams, name))
        }),
        check: |words| {
            let p: SessionsParams = words.read();
            check_sizes(p.median, p.tail_from, p.largest)?;
            if p.profile.iter().sum::<f64>() <= 0.0 {
                return Err("profile: one of its numbers must be above 0".into());
            }
            Ok(())
        },
    },
    Spec {
        entry: WebParams::ENTRY,
        build: Build::Application(|words, span, streams, name| {
            let p: WebParams = words.read();
            let pages = Pages {
                think_s: Law::Pareto(p.think.as_secs_f64(), p.think_shape),
                objects: Law::Pareto(p.objects, p.objects_shape),
                sizes: p.sizes(),
                request_bytes: p.request.get(),
                // Number of connections that browsers use.
                connections: (p.http == Http::One).then_some(6),
            };
            Box::new(Web::new(pages, span, streams, name))
        }),
        check: |words| {
            let p: WebParams = words.read();
            check_sizes(p.median, p.tail_from, p.largest)
        },
    },
    Spec {
        entry: VideoParams::ENTRY,
        build: Build::Application(|words, span, _, _| {
            let p: VideoParams = words.read();
            let part = |share| Duration::from_secs_f64(p.buffer.as_secs_f64() * share);
            let player = Player {
                segment: p.segment,
                buffer: p.buffer,
                reservoir: part(p.reservoir),
                cushion: part(p.cushion),
                startup: p.startup,
                request_bytes: p.request.get(),
                ladder: p.ladder,
            };
            Box::new(Video::new(player, span))
        }),
        check: |words| {
            let p: VideoParams = words.read();
            if p.ladder.windows(2).any(|w| w[0] >= w[1]) {
                return Err("ladder: each bitrate must be above the one before".into());
            }
            for (key, value) in [("segment", p.segment), ("startup", p.startup)] {
                if value > p.buffer {
                    let buffer = p.buffer;
                    return Err(format!(
                        "{key} = \"{value}\" does not fit into buffer = \"{buffer}\""
                    ));
                }
            }
            if p.reservoir + p.cushion > 1.0 {
                return Err(
                    "reservoir and cushion together are more than the buffer: at most 1".into(),
                );
            }
            Ok(())
        },
    },
    Spec {
        entry: TelnetParams::ENTRY,
        build: Build::Application(|words, span, streams, name| {
            let p: TelnetParams = words.read();
            let law = TwoPareto {
                least: p.least.as_secs_f64(),
                shape: p.shape,
                tail: p.tail,
                tail_shape: p.tail_shape,
                most: p.longest.as_secs_f64(),
            };
            Box::new(Telnet::new(Law::TwoPareto(law), span, streams, name))
        }),
        check: |words| {
            let TelnetParams { least, longest, .. } = words.read();
            if longest <= least {
                return Err(format!(
                    "longest = \"{longest}\" must be above least = \"{least}\""
                ));
            }
            Ok(())
        },
    },
    Spec {
        entry: CbrParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: CbrParams = words.read();
            steady(p.size, p.rate, Law::Constant)
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: PoissonParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: PoissonParams = words.read();
            steady(p.size, p.rate, Law::Exponential)
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: ParetoParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: ParetoParams = words.read();
            let span = |d: Duration| Law::Pareto(d.as_secs_f64(), p.shape);
            Pattern {
                on_off_s: Some((span(p.on), span(p.off))),
                ..steady(p.size, p.rate, Law::Constant)
            }
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: VoiceParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: VoiceParams = words.read();
            let span = |d: Duration| Law::Exponential(d.as_secs_f64());
            let talks = p.pause > Duration::ZERO;
            Pattern {
                on_off_s: talks.then(|| (span(p.spurt), span(p.pause))),
                ..Pattern::constant(p.size, p.gap)
            }
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: PmuParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: PmuParams = words.read();
            Pattern::constant(p.size, p.gap)
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: GameParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: GameParams = words.read();
            let size = (p.size.get() + HEADERS) as f64;
            Pattern {
                size: Law::Extreme(size, p.scale),
                gap_s: Law::Extreme(p.gap.as_secs_f64(), p.jitter.as_secs_f64()),
                ..Pattern::constant(p.size, p.gap)
            }
        }),
        check: |_| Ok(()),
    },
    Spec {
        entry: CallParams::ENTRY,
        build: Build::Call(|words| {
            let p: CallParams = words.read();
            Shape {
                limits: Limits {
                    start: p.first,
                    least: p.least,
                    most: p.most,
                },
                frames: p.frames,
                sizes: Law::Tailed(Tailed {
                    // The mean of a log-normal law with this median is 1.
                    median: (-p.sigma * p.sigma / 2.0).exp(),
                    sigma: p.sigma,
                    tail: 0.0,
                    from: f64::INFINITY,
                    shape: 1.0,
                    most: f64::INFINITY,
                }),
                payload: p.payload,
                speech: p.speech,
                speech_gap: Duration::from_millis(20),
                report: p.report,
                ecn: Ecn::NotEct,
                dscp: 0,
            }
        }),
        check: |words| {
            let p: CallParams = words.read();
            match p.least <= p.first && p.first <= p.most {
                true => Ok(()),
                false => Err(format!(
                    "first = \"{}\" must be from least = \"{}\" to most = \"{}\"",
                    p.first, p.least, p.most
                )),
            }
        },
    },
    Spec {
        entry: ProbeParams::ENTRY,
        build: Build::Datagrams(|words| {
            let p: ProbeParams = words.read();
            Pattern {
                echo: true,
                ..Pattern::constant(p.size, p.gap)
            }
        }),
        check: |_| Ok(()),
    },
];

fn steady(size: Bytes, rate: BitsPerSec, law: fn(f64) -> Law) -> Pattern {
    Pattern {
        gap_s: law(size.bits() as f64 / rate.get() as f64),
        ..Pattern::constant(size, Duration::ZERO)
    }
}

macro_rules! sized {
    ($($params:ident),+) => {$(
        impl $params {
            /// Law of sizes: log-normal with a Pareto tail.
            fn sizes(&self) -> Law {
                Law::Tailed(Tailed {
                    median: self.median.get() as f64,
                    sigma: self.sigma,
                    tail: self.tail,
                    from: self.tail_from.get() as f64,
                    shape: self.tail_shape,
                    most: self.largest.get() as f64,
                })
            }
        }
    )+};
}
sized!(SessionsParams, WebParams);

fn check_sizes(median: Bytes, tail_from: Bytes, largest: Bytes) -> Result<(), String> {
    if tail_from < median {
        return Err(format!(
            "tail_from = \"{tail_from}\" is below median = \"{median}\": the tail begins above the body"
        ));
    }
    if largest <= tail_from {
        return Err(format!(
            "largest = \"{largest}\" must be above tail_from = \"{tail_from}\""
        ));
    }
    Ok(())
}

/// Size of a probe's packets.
pub fn probe_size(words: &Words) -> Bytes {
    words.read::<ProbeParams>().size
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
