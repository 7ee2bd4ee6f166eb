//! Whether it matters how datagrams are spaced: in pairs, or evenly.
//!
//! **Method.** Datagrams A and B in turn, at rates above and below what the line carries. Pattern I sends B right behind A and
//! then waits; pattern II waits as long before each. Of a queue that is nearly always full, a pair's first
//! datagram takes the place that has become free, and its second finds none.
//!
//! **Source.** G. Peng, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, sections 4.2 to 4.4 (10 000
//! of each, from 3.2 Mbit/s down to 1.8 over a line of 1.97).
//!
//! **Deviations.** 500 of each unless told otherwise. The rates are in the document's proportion to the line's.
//!
//! **Units.** Rates are of payload.

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::sweep;
use super::trains::{of_stage, one, received_rate};
use base::Bytes;
use base::Duration;
use base::program::{Sending, Shot, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use stats::Figure;

const PENG: &str = "Peng 2012, section 4.3";
/// The document's rates over what its line carries: 3.2 to 1.8 Mbit/s over 1.97.
const FACTORS: [f64; 8] = [1.624, 1.523, 1.421, 1.320, 1.218, 1.117, 1.015, 0.914];

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "spacing": "Does it matter on this line whether datagrams come in pairs or evenly spaced?", ["G. Peng, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// which way to send
        direction: Direction = "up", PENG;
        /// payload of the first of each two
        a: Bytes = "1452 B" ["20 B".."65507 B"], PENG;
        /// payload of the second
        b: Bytes = "1452 B" ["20 B".."65507 B"], PENG;
        /// of each, at each rate; the document sends 10000
        count: u64 as Packets = "500" ["20".."100000"], PENG;
        /// silence between trains, once the queue is empty
        rest: Duration = "1 s" ["0 s".."60 s"];
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about two minutes on a line of 2 Mbit/s, and 24 MB with datagrams of 1452 bytes",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// Pattern I or II at a payload rate.
fn pattern(params: &Params, pairs: bool, rate: f64) -> Step {
    let (a, b) = (params.a.get() as u32, params.b.get() as u32);
    let cycle = f64::from(a + b) * 8.0 / rate;
    let gap = |s: f64| Duration::from_secs_f64(s);
    let gaps = if pairs {
        (Duration::ZERO, gap(cycle))
    } else {
        (gap(cycle / 2.0), gap(cycle / 2.0))
    };
    Step::new(
        params.count,
        vec![
            Shot {
                payload: a,
                gap: gaps.0,
            },
            Shot {
                payload: b,
                gap: gaps.1,
            },
        ],
    )
}

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let larger = params.a.max(params.b).get() as u32;
    let plateau = match sweep::overload(params.direction, larger, trains) {
        Ok(plateau) if plateau > 0.0 => plateau,
        Ok(_) => return None,
        Err(sending) => return sending,
    };
    for (i, factor) in FACTORS.iter().enumerate() {
        for (name, pairs) in [("I", true), ("II", false)] {
            let stage = format!("{name} {i}");
            if !trains.iter().any(|t| t.facts.stage == stage) {
                let step = pattern(params, pairs, factor * plateau);
                return Some(one(stage, params.direction, params.rest, step));
            }
        }
    }
    None
}

/// One train: how many of each were sent and arrived.
struct Counts {
    targeted: f64,
    achieved: f64,
    a: (u64, u64),
    b: (u64, u64),
    /// The same in the second half, when the queue has filled.
    late_a: (u64, u64),
    late_b: (u64, u64),
}

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

fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let larger = params.a.max(params.b).get() as u32;
    let Ok(plateau) = sweep::overload(params.direction, larger, trains) else {
        return Outcome::cannot_tell("the run ended before the line's rate was seen");
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
    let figure =
        |key: &str, name: &str, figure: Figure| Figured::new(key, name, Quantity::Share, figure);
    let [a1, b1, a2, b2] = [
        worst.late_a,
        worst.late_b,
        worst_even.late_a,
        worst_even.late_b,
    ]
    .map(lost);
    let percent = |f: &Figure| f.value().map_or("?".into(), |v| significant(v * 100.0, 3));
    let matters = match (&a1, &b1) {
        (Figure::Is { high, .. }, Figure::Is { low, .. }) => low > high,
        _ => false,
    };
    let says = format!(
        "At {} Mbit/s, {} times what the line carries, pairs lose {} % of their first and {} % of their second datagrams; evenly spaced {} % and {} %.{}",
        significant(worst.targeted / 1e6, 3),
        significant(worst.targeted / plateau, 3),
        percent(&a1),
        percent(&b1),
        percent(&a2),
        percent(&b2),
        if matters {
            " Spacing decides which are lost."
        } else {
            " Spacing makes no difference here."
        },
    );
    Outcome {
        says,
        figures: vec![
            figure("pairs_first_lost", "in pairs: first ones lost", a1),
            figure("pairs_second_lost", "in pairs: second ones lost", b1),
            figure("even_first_lost", "evenly: first ones lost", a2),
            figure("even_second_lost", "evenly: second ones lost", b2),
            Figured::new(
                "plateau_bps",
                "what comes out under overload",
                Quantity::Rate,
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

fn table(params: &Params, title: &str, rows: &[Counts]) -> Table {
    let mbit = |r: f64| significant(r / 1e6, 3);
    let of = |n: (u64, u64)| format!("{} of {}", n.1, n.0);
    Table {
        title: title.into(),
        columns: vec![
            "targeted, Mbit/s".into(),
            format!("A ({}) arrived", params.a),
            format!("B ({}) arrived", params.b),
            "achieved, Mbit/s".into(),
        ],
        rows: rows
            .iter()
            .map(|c| vec![mbit(c.targeted), of(c.a), of(c.b), mbit(c.achieved)])
            .collect(),
    }
}

fn plot(pairs: &[Counts], even: &[Counts]) -> Plot {
    let series = |name: &str, rows: &[Counts], which: fn(&Counts) -> (u64, u64)| Series {
        name: name.into(),
        draw: Draw::Knots,
        points: rows
            .iter()
            .rev()
            .map(|c| {
                let (sent, got) = which(c);
                (
                    c.targeted / 1e6,
                    (sent > 0).then(|| 100.0 * got as f64 / sent as f64),
                )
            })
            .collect(),
    };
    Plot {
        title: "Datagrams that get through".into(),
        x: "targeted, Mbit/s of payload".into(),
        y: "arrived, %".into(),
        series: vec![
            series("pairs: first", pairs, |c| c.a),
            series("pairs: second", pairs, |c| c.b),
            series("evenly: first", even, |c| c.a),
            series("evenly: second", even, |c| c.b),
        ],
    }
}
