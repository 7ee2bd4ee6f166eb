//! Answer from all trains.

use super::text::{methods_table, streams_plot, trains_table};
use super::{Params, Said, carries, chirp, line, packet_bits, pairs, size, streams};
use crate::answer::{Figured, Outcome};
use crate::trains::{CLOCK, SCOUT, of_stage};
use base::print::significant;
use base::program::Train;
use stats::Figure;

/// Share of an available rate from which its interval tells too little beside losses.
const UNTOLD: f64 = 0.25;
/// Share of the capacity from which all of it is available.
const ALL_FREE: f64 = 0.995;

/// Estimate from sizes beside the capacity: it reaches up to the capacity, for it adds up all links of the path.
fn sizes_beside(sizes: Figure, carries: &Figure) -> Figure {
    match (sizes.widened(CLOCK), carries) {
        (Figure::Is { value, low, high }, Figure::Is { high: most, .. }) => Figure::Is {
            value,
            low,
            high: high.max(*most),
        },
        (Figure::Is { low, .. }, Figure::CannotTell { .. }) => Figure::cannot_tell(format!(
            "at least {} Mbit/s: all links of the path add up in it",
            significant(low / 1e6, 3)
        )),
        (untold, _) => untold,
    }
}

/// Available rate whose interval is no narrower than the capacity's, if it reaches up to the whole capacity.
fn free_of(free: Figure, carries: &Figure) -> Figure {
    match (free.widened(CLOCK), carries) {
        (
            Figure::Is { value, low, high },
            Figure::Is {
                value: all,
                low: least,
                high: most,
            },
        ) if high > ALL_FREE * all => Figure::Is {
            value,
            low: if value > ALL_FREE * all {
                low.min(*least)
            } else {
                low
            },
            high: high.max(*most),
        },
        (free, _) => free,
    }
}

/// Available rate behind a queue of so many packets that lost before it grew. What others send comes in bursts, of which a
/// short queue loses more than of an even stream, or which leave it empty in between: about a packet of each queue.
fn through_short_queue(free: Figure, capacity: f64, packets: f64) -> Figure {
    let Figure::Is { value, low, high } = free else {
        return free;
    };
    let doubt = (capacity - value).max(0.0) / packets;
    let (low, high) = (
        (low - doubt).max(0.0),
        (high + doubt).min(capacity.max(high)),
    );
    if (high - value).max(value - low) > UNTOLD * value {
        return Figure::cannot_tell(format!(
            "the queue holds {packets:.0} packets and loses before it grows: between {} and {} Mbit/s are free",
            significant(low / 1e6, 2),
            significant(high / 1e6, 2)
        ));
    }
    Figure::Is { value, low, high }
}

fn methods(trains: &[Train], carries: &Figure) -> Vec<Said> {
    let bits = packet_bits(trains);
    let capacity = carries.value();
    let free = |f: fn(&[Train], f64, f64) -> Figure| match capacity {
        Some(c) => free_of(f(trains, c, bits), carries),
        None => Figure::cannot_tell("it needs what the link carries"),
    };
    let short =
        capacity.and_then(|c| streams::short_queue(trains, &line(trains, c)).map(|k| (c, k)));
    let beside_losses = |free: Figure| match short {
        Some((capacity, packets)) => through_short_queue(free, capacity, packets),
        None => free,
    };
    let said = |method, of, key, figure, fails| Said {
        method,
        of,
        key,
        figure,
        fails,
    };
    vec![
        said(
            "pairs",
            "carries",
            "pairs_bps",
            pairs::capacity(trains, bits),
            "shows a token bucket's higher rate; jitter, and lines side by side, are no bottleneck's time",
        ),
        said(
            "sizes",
            "carries",
            "sizes_bps",
            sizes_beside(size::capacity(trains), carries),
            "adds up all links on the way, switches too: too low behind several of like rate",
        ),
        said(
            "trains",
            "between",
            "trains_bps",
            pairs::dispersion(trains, bits),
            "beside others neither of the two: more than is free, less than the link carries",
        ),
        said(
            "streams",
            "free",
            "streams_bps",
            match capacity {
                Some(c) => beside_losses(free_of(streams::free(trains, &line(trains, c)), carries)),
                None => Figure::cannot_tell("it needs what the link carries"),
            },
            "fair queueing shows a flow's share; what others send must last as long as the streams do",
        ),
        said(
            "chirps",
            "free",
            "chirps_bps",
            free(chirp::free),
            "a chirp is over before a queue has grown: too high the more others send, by half and more where they take 60 % or 80 %",
        ),
        said(
            "trains of pairs",
            "free",
            "between_bps",
            beside_losses(free(pairs::free)),
            "sees others only while a pair passes: a wide interval; one bottleneck only",
        ),
    ]
}

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let Some(first) = of_stage(trains, SCOUT).next() else {
        return Outcome::cannot_tell("the run ended before anything was sent");
    };
    if first.lost() == first.sent() {
        return Outcome::cannot_tell("not one datagram of the first train arrived");
    }
    let bits = packet_bits(trains);
    let carries = carries(trains);
    let said = methods(trains, &carries);
    let free = said
        .iter()
        .find(|s| s.key == "streams_bps")
        .map_or(Figure::cannot_tell("no stream was sent"), |s| {
            s.figure.clone()
        });
    let mut figures = vec![
        Figured::rate(
            "capacity_bps",
            "the link carries, whole IP packets",
            carries.clone(),
        ),
        Figured::rate("available_bps", "of which free", free.clone()),
    ];
    figures.extend(said.iter().map(|s| {
        let name = format!("by {} ({})", s.method, s.of);
        Figured::rate(s.key, &name, s.figure.clone())
    }));
    let mut outcome = Outcome {
        says: says(params, &carries, &free),
        figures,
        tables: vec![methods_table(&said), trains_table(trains)],
        ..Outcome::default()
    };
    if let Some(c) = carries.value() {
        let (low, high, _) = streams::between(trains, &line(trains, c));
        outcome.evidence.push(format!(
            "streams up to {} Mbit/s did not make the delay grow, those from {} Mbit/s on did",
            significant(low / 1e6, 3),
            significant(high / 1e6, 3)
        ));
        outcome.plots.push(streams_plot(trains, &line(trains, c)));
    }
    if let (Some(c), Some(s)) = (
        pairs::capacity(trains, bits).value(),
        size::capacity(trains).value(),
    ) && s < 0.8 * c
    {
        outcome.doubts.push(format!(
            "pairs say {} Mbit/s and sizes {}: there is more than one slow link on the way, or one that stores whole packets",
            significant(c / 1e6, 3),
            significant(s / 1e6, 3)
        ));
    }
    for s in &said {
        if let Figure::CannotTell { cannot_tell } = &s.figure {
            outcome
                .evidence
                .push(format!("{} cannot tell: {cannot_tell}", s.method));
        }
    }
    outcome
}

/// Headline: capacity of the line and the free share of it.
fn says(params: &Params, carries: &Figure, free: &Figure) -> String {
    let mbit = |f: &Figure| f.value().map(|v| significant(v / 1e6, 3));
    match (mbit(carries), mbit(free)) {
        (Some(c), Some(a)) => format!(
            "The line carries {c} Mbit/s {}, of which {a} Mbit/s are free.",
            params.direction
        ),
        (Some(c), None) => format!(
            "The line carries {c} Mbit/s {}; how much of it is free cannot be told.",
            params.direction
        ),
        (None, _) => "Cannot tell what the link carries.".into(),
    }
}
