//! Answer from all trains.

use super::text::{rates_plot, rates_table, sizes_plot, sizes_table};
use super::{PLAIN, Params, arrived, counted, edges, fragments, held, rates, whole};
use crate::answer::{Figured, Outcome};
use crate::sweep;
use crate::trains::of_stage;
use base::print::significant;
use base::program::{Fragments, Train};
use stats::Figure;

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let way = params.direction;
    let Ok(plateau) = sweep::overload(way, PLAIN, trains) else {
        return Outcome::cannot_tell("the run ended before the link's rate was seen");
    };
    let headers = trains.first().map_or(28, |t| t.facts.headers);
    let to = params.to.get() as u32;
    let held = held(trains);
    let (Ok(longest), Some(best)) = (
        whole(trains, to),
        held.iter().copied().max_by(|a, b| a.bps.total_cmp(&b.bps)),
    ) else {
        return Outcome::cannot_tell("the run ended before the sizes were sent");
    };
    let line = plateau * f64::from(PLAIN + headers) / f64::from(PLAIN);
    let Ok(edges) = edges(trains, longest, to) else {
        return Outcome::cannot_tell("the run ended before it was seen where datagrams are cut");
    };
    let edge = |i: usize| match edges.get(i) {
        Some(e) => Figure::exactly(f64::from(e.below)),
        None => Figure::cannot_tell(format!("no further edge up to {to} bytes")),
    };
    let brings = |size: u32| held.iter().find(|h| h.size == size).map(|h| h.bps);
    let falls: Vec<(u32, f64, f64)> = edges
        .iter()
        .filter_map(|e| Some((e.below, brings(e.below)?, brings(e.below + 1)?)))
        .collect();
    // Where several do as well as each other, the largest needs the fewest.
    let as_well = held
        .iter()
        .filter(|h| h.bps > 0.99 * best.bps && (h.size <= longest || best.size > longest));
    let best_size = as_well.map(|h| h.size).max().unwrap_or(best.size);
    let worst_of = |share: f64| {
        held.iter()
            .filter(|h| h.size <= best_size && h.bps >= share * best.bps)
            .map(|h| h.size)
            .min()
    };
    let from = worst_of(0.9).unwrap_or(best_size);
    let rates = rates(trains, line, longest, headers);
    let (sent, received) = fragments(trains);
    let mut outcome = Outcome {
        says: says(best_size, best.bps, longest, falls.first()),
        figures: figures(best_size, longest, headers, [edge(0), edge(1)]),
        advice: vec![format!(
            "Send between {from} and {best_size} bytes: less wastes the link on headers, more is cut into fragments, of which every one must arrive."
        )],
        tables: vec![sizes_table(&held, line, longest, headers)],
        plots: vec![sizes_plot(&held, line, longest, headers)],
        ..Outcome::default()
    };
    for (below, before, after) in &falls {
        outcome.evidence.push(format!(
            "{below} bytes bring {} Mbit/s, {} bytes {}",
            significant(before / 1e6, 3),
            below + 1,
            significant(after / 1e6, 3)
        ));
    }
    if !rates.is_empty() {
        outcome.tables.push(rates_table(&rates));
        outcome.plots.push(rates_plot(&rates));
    }
    outcome.doubts = doubts(edges.iter().all(|e| e.seen), unassembled(trains));
    add_fragments(sent, received, &mut outcome);
    outcome
}

/// Reasons to distrust the edges, or the goodput of large sizes.
fn doubts(edges_seen: bool, unassembled: Option<u64>) -> Vec<String> {
    let mut doubts: Vec<String> = Vec::new();
    if !edges_seen {
        doubts.push(
            "where datagrams are cut was not seen but reckoned from the path MTU: watching an interface needs CAP_NET_RAW".into(),
        );
    }
    if let Some(lacking) = unassembled {
        doubts.push(format!(
            "the receiving host did not put {lacking} datagrams together of which all pieces seem to have arrived: it had no room for more incomplete ones (net.ipv6.ip6frag_high_thresh, net.ipv4.ipfrag_high_thresh); what larger sizes bring is told too low"
        ));
    }
    doubts
}

/// Headline: the best size, and the loss of goodput beyond the first edge.
fn says(best_size: u32, best_bps: f64, longest: u32, first: Option<&(u32, f64, f64)>) -> String {
    format!(
        "Datagrams of {best_size} bytes get most through, {} Mbit/s; {} bytes pass in one piece{}.",
        significant(best_bps / 1e6, 3),
        longest,
        match first {
            Some((below, before, after)) => format!(
                ", and from {} on what arrives of an overload falls from {} to {} Mbit/s",
                below + 1,
                significant(before / 1e6, 3),
                significant(after / 1e6, 3)
            ),
            None => String::new(),
        }
    )
}

/// Best payload, last payloads of one and of two pieces, and the path MTU.
fn figures(best_size: u32, longest: u32, headers: u32, edges: [Figure; 2]) -> Vec<Figured> {
    let [first_edge, second_edge] = edges;
    vec![
        Figured::count(
            "best_payload_bytes",
            "best payload, bytes",
            Figure::exactly(f64::from(best_size)),
        ),
        Figured::count(
            "first_edge_bytes",
            "last payload of one piece, bytes",
            first_edge,
        ),
        Figured::count(
            "second_edge_bytes",
            "last payload of two pieces, bytes",
            second_edge,
        ),
        Figured::count(
            "whole_payload_bytes",
            "largest payload that passes in one piece, bytes",
            Figure::exactly(f64::from(longest)),
        ),
        Figured::count(
            "path_mtu_bytes",
            "path MTU, bytes",
            Figure::exactly(f64::from(longest + headers)),
        ),
    ]
}

/// Adds the shares of fragments that arrived.
fn add_fragments(sent: Option<Fragments>, received: Option<Fragments>, outcome: &mut Outcome) {
    match (sent, received) {
        (Some(sent), Some(received)) => {
            outcome.evidence.push(format!(
                "of {} first and {} second fragments sent into a full queue, {} and {} arrived",
                sent.first, sent.second, received.first, received.second
            ));
            let share = |got: u64, of: u64| stats::wilson(got.min(of) as f64, of as f64);
            outcome.figures.push(Figured::share(
                "first_fragments_arrived",
                "first fragments that arrived",
                share(received.first, sent.first),
            ));
            outcome.figures.push(Figured::share(
                "second_fragments_arrived",
                "second fragments that arrived",
                share(received.second, sent.second),
            ));
        }
        _ => outcome.evidence.push(
            "fragments could not be counted: watching an interface needs CAP_NET_RAW at both ends"
                .into(),
        ),
    }
}

/// Datagrams of two fragments that were not delivered although as many second fragments arrived; none if those are few.
fn unassembled(trains: &[Train]) -> Option<u64> {
    let lacking = |t: &Train| {
        let f = t.facts.fragments_received?;
        // Of second pieces hardly any arrives whose first one was lost before it.
        (f.first > 0 && f.further == 0).then(|| f.first.min(f.second).saturating_sub(arrived(t)))
    };
    let all = of_stage(trains, "size").chain(of_stage(trains, "rate"));
    let (lacking, sent) = all.fold((0, 0), |(n, of), t| match lacking(t) {
        Some(l) => (n + l, of + counted(t).count() as u64),
        None => (n, of),
    });
    (lacking * 10 > sent).then_some(lacking)
}
