//! Answer from all trains.

use super::text::{plot, table};
use super::{Counts, FACTORS, Params};
use crate::answer::{Figured, Outcome};
use crate::sweep;
use crate::trains::{of_stage, received_rate};
use base::print::significant;
use base::program::Train;
use stats::Figure;

fn counts(train: &Train, targeted: f64) -> Counts {
    let half = train.facts.program.count() / 2;
    let of = |shot: usize, from: u64| {
        train
            .datagrams()
            .filter(|(due, fate)| due.shot == shot && due.seq >= from && fate.sent_ns.is_some())
            .fold((0, 0), |(sent, got), (_, fate)| {
                (sent + 1, got + u64::from(fate.received_ns.is_some()))
            })
    };
    Counts {
        targeted,
        achieved: received_rate(train, 0.0).unwrap_or(0.0),
        a: of(0, 0),
        b: of(1, 0),
        late_a: of(0, half),
        late_b: of(1, half),
    }
}

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let larger = params.a.max(params.b).get() as u32;
    let Ok(plateau) = sweep::overload(params.direction, larger, trains) else {
        return Outcome::cannot_tell("the run ended before the link's rate was seen");
    };
    let all = |name: &str| -> Vec<Counts> {
        of_stage(trains, name)
            .filter_map(|t| {
                let i: usize = t.facts.stage.split(' ').nth(1)?.parse().ok()?;
                Some(counts(t, FACTORS.get(i)? * plateau))
            })
            .collect()
    };
    let (pairs, even) = (all("I"), all("II"));
    let (Some(worst), Some(worst_even)) = (pairs.first(), even.first()) else {
        return Outcome::cannot_tell("the run ended before both patterns were sent");
    };
    let lost = |(sent, got): (u64, u64)| stats::wilson((sent - got) as f64, sent as f64);
    let figure = |key: &str, name: &str, figure: Figure| Figured::share(key, name, figure);
    let [a1, b1, a2, b2] = [
        worst.late_a,
        worst.late_b,
        worst_even.late_a,
        worst_even.late_b,
    ]
    .map(lost);
    let matters = match (&a1, &b1) {
        (Figure::Is { high, .. }, Figure::Is { low, .. }) => low > high,
        _ => false,
    };
    let says = says(worst, plateau, [&a1, &b1, &a2, &b2], matters);
    Outcome {
        says,
        figures: vec![
            figure("pairs_first_lost", "in pairs: first ones lost", a1),
            figure("pairs_second_lost", "in pairs: second ones lost", b1),
            figure("even_first_lost", "evenly: first ones lost", a2),
            figure("even_second_lost", "evenly: second ones lost", b2),
            Figured::rate(
                "plateau_bps",
                "what comes out under overload",
                sweep::overloaded_rate(trains),
            ),
        ],
        evidence: vec![format!(
            "shares are of the second half of each train, when the queue has filled; the tables count all {} of each",
            params.count
        )],
        advice: if matters {
            vec!["Space datagrams evenly: what is sent in pairs loses its second half first, and a datagram that is cut into two fragments is such a pair.".into()]
        } else {
            Vec::new()
        },
        tables: vec![
            table(params, "Pattern I: B right behind A", &pairs),
            table(params, "Pattern II: evenly spaced", &even),
        ],
        plots: vec![plot(&pairs, &even)],
        ..Outcome::default()
    }
}

/// Headline: loss of first and second datagrams in pairs and evenly spaced.
fn says(worst: &Counts, plateau: f64, [a1, b1, a2, b2]: [&Figure; 4], matters: bool) -> String {
    let percent = |f: &Figure| f.value().map_or("?".into(), |v| significant(v * 100.0, 3));
    format!(
        "At {} Mbit/s, {} times what the link carries, pairs lose {} % of their first and {} % of their second datagrams; evenly spaced {} % and {} %.{}",
        significant(worst.targeted / 1e6, 3),
        significant(worst.targeted / plateau, 3),
        percent(a1),
        percent(b1),
        percent(a2),
        percent(b2),
        if matters {
            " Spacing decides which are lost."
        } else {
            " Spacing makes no difference here."
        },
    )
}
