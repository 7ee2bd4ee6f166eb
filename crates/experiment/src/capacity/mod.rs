//! Capacity of a link, and its available rate.
//!
//! **Method.** Six methods follow each other, for they fail in different ways. Pairs back to back and sizes in turn
//! measure the capacity, trains back to back the rate of arrivals. Streams that load the link themselves, chirps, and
//! pairs that show the packets between them measure the available rate. Floods and trickles of large and of small
//! packets show the link under load and at rest. Pairs decide on the capacity, or trains if these are not slower, and
//! streams on the available rate; the others stand beside them.
//!
//! **Source.** Each method's is in its file; the choice of them is that of Chandele 2012, sections 2.1 and 2.3.1.
//!
//! **Units.** Rates are of whole IP packets, bit/s.
//!
//! **Validated against.** Links of known rate under known cross traffic: docs/book/probe/accuracy.md.

mod answer;
mod chirp;
mod pairs;
mod size;
mod steps;
mod streams;
mod text;

use super::spec::{How, Spec};
use super::trains::{CLOCK, of_stage};
use base::program::Train;
use base::record::Direction;
use base::spec::{Params as _, params};
use stats::Figure;
use streams::Line;

/// Payload that is whole on every link of 1500 bytes, IPv4 and IPv6.
const PAYLOAD: u32 = 1452;

/// Share up to which a train slower than pairs met no cross traffic.
const AGREE: f64 = 0.005;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "capacity": "What is the capacity of this link, and how much of it does cross traffic leave free?", ["Jain, Dovrolis, Pathload: A Measurement Tool for End-to-End Available Bandwidth, PAM 2002",
            "Kapoor et al., CapProbe: A Simple and Accurate Capacity Estimation Technique, SIGCOMM 2004",
            "Ribeiro et al., pathChirp: Efficient Available Bandwidth Estimation for Network Paths, PAM 2003",
            "Strauss, Katabi, Kaashoek, A Measurement Study of Available Bandwidth Estimation Tools, IMC 2003",] {
        /// direction of the measurement
        direction: Direction = "up";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "three minutes at 2 Mbit/s, one minute from 20 Mbit/s; about 25 MB",
    beside_others: true,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Bits of a large packet.
fn packet_bits(trains: &[Train]) -> f64 {
    f64::from(PAYLOAD + trains.first().map_or(28, |t| t.facts.headers)) * 8.0
}

/// Capacity of the link. Sizes alone give a lower bound only, for all links of the path add up in them.
fn carries(trains: &[Train]) -> Figure {
    let bits = packet_bits(trains);
    let train = pairs::dispersion(trains, bits);
    let found = match (pairs::capacity(trains, bits), size::capacity(trains)) {
        (found @ Figure::Is { .. }, _) => at_least_trains(found, &train),
        (untold, Figure::CannotTell { .. }) => untold,
        (Figure::CannotTell { cannot_tell }, sizes @ Figure::Is { .. }) => match (&sizes, &train) {
            (Figure::Is { low, .. }, Figure::Is { value, .. }) if *value >= (1.0 - AGREE) * low => {
                at_least_trains(sizes, &train)
            }
            _ => Figure::cannot_tell(cannot_tell),
        },
    };
    found.widened(CLOCK)
}

/// Capacity raised to that of trains, if these are not slower than `found` allows. Nothing makes a long train leave a
/// link faster than the link carries, and on an idle link nothing makes it slower. Stamps that are late by a part of a
/// packet's time bend pairs, and hardly a train.
fn at_least_trains(found: Figure, train: &Figure) -> Figure {
    let (
        Figure::Is { value, low, .. },
        Figure::Is {
            value: by,
            low: least,
            high: most,
        },
    ) = (&found, train)
    else {
        return found;
    };
    if *by < (1.0 - AGREE) * low {
        // Cross traffic came between the packets of the train.
        return found;
    }
    Figure::Is {
        value: *by,
        low: *least,
        // Little cross traffic would make the train slower than the link, by no more than this.
        high: most.max(*value),
    }
}

/// Facts about the link for the streams.
fn line(trains: &[Train], capacity: f64) -> Line {
    let light = of_stage(trains, "pairs").chain(of_stage(trains, "size"));
    let (sent, lost) = light.fold((0, 0), |(s, l), t| (s + t.sent(), l + t.lost()));
    Line {
        capacity,
        bits: packet_bits(trains),
        loss: lost as f64 / f64::from(u32::try_from(sent).unwrap_or(u32::MAX).max(1)),
    }
}

/// Result of one method.
struct Said {
    method: &'static str,
    of: &'static str,
    key: &'static str,
    figure: Figure,
    fails: &'static str,
}
