//! Answer of the kind `nqb`: sentences, figures, tables and plots from the verdict.

use super::judge::{Judged, Notes, Protection, Verdict, judge};
use super::note::Phase;
use crate::alert::{Alert, Severity};
use crate::answer::{Figured, Outcome, Plot, Series, Table};
use crate::flows;
use crate::flows::seen::{self, FlowSeen, Spread};
use base::print;
use base::record::{Direction, Recording};
use stats::Figure;

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    flows::answer(|direction| {
        let notes = Notes::of(recording, direction);
        if notes.is_empty() {
            return None;
        }
        let judged = judge(&notes);
        if let Verdict::Unknown(why) = &judged.verdict
            && notes.flow(Phase::Cheat, "nqb").is_none()
        {
            return Some(Err(why.clone()));
        }
        Some(Ok(Outcome {
            says: says(&judged, direction),
            figures: figures(&judged, direction),
            alerts: alerts(&judged, direction),
            evidence: evidence(&judged, direction),
            doubts: doubts(&notes, &judged, direction),
            tables: vec![table(&notes, direction)],
            plots: plots(&notes, direction),
            ..Outcome::default()
        }))
    })
}

fn time(ms: f64) -> String {
    print::DELAY.print(ms)
}

fn says(judged: &Judged, way: Direction) -> String {
    let waits = judged.beside.map_or(String::new(), |[nqb, classic, _]| {
        format!("{} against {}", time(nqb[0]), time(classic[0]))
    });
    let protected = match &judged.protection {
        Protection::Protected => " It is protected against a flow that cheats.",
        Protection::Exposed => " A flow that cheats fills it: it is not protected.",
        Protection::Unknown(_) => "",
    };
    match &judged.verdict {
        Verdict::Own => format!("NQB has a queue of its own {way}: {waits}.{protected}"),
        Verdict::Fair => format!(
            "Each flow has a queue of its own {way} ({waits}): DSCP 45 changes nothing.{protected}"
        ),
        Verdict::Shared => {
            format!("NQB has no queue of its own {way}: its datagrams wait like CUBIC's ({waits}).")
        }
        Verdict::Changed(dscp) => format!(
            "NQB has no queue of its own {way}: DSCP 45 arrives as {dscp}, and its datagrams wait like CUBIC's ({waits})."
        ),
        Verdict::Lost => format!("Datagrams with DSCP 45 are dropped {way}."),
        Verdict::Unknown(why) => format!("Cannot tell {way}: {why}."),
    }
}

fn figures(judged: &Judged, way: Direction) -> Vec<Figured> {
    let wait = |spread: Option<Spread>, why: &str| match spread {
        Some([value, low, high]) => Figure::Is { value, low, high },
        None => Figure::cannot_tell(why),
    };
    let none = "CUBIC built no queue";
    vec![
        Figured::time(
            &format!("nqb_wait_{way}_ms"),
            &format!("wait of NQB datagrams {way}, beside CUBIC's queue"),
            wait(judged.beside.map(|b| b[0]), none),
        ),
        Figured::time(
            &format!("classic_wait_{way}_ms"),
            &format!("wait of CUBIC's datagrams {way}, in its queue"),
            wait(judged.beside.map(|b| b[1]), none),
        ),
        Figured::time(
            &format!("nqb_wait_cheated_{way}_ms"),
            &format!("wait of NQB datagrams {way}, beside a flow that cheats"),
            wait(
                judged.cheated.map(|c| c[0]),
                "the flow that cheats built no queue",
            ),
        ),
    ]
}

fn alerts(judged: &Judged, way: Direction) -> Vec<Alert> {
    let at = flows::at(way);
    let alert = |severity, title: &str, means: &str| {
        vec![Alert::new(severity, format!("{at}: {title}"), means)]
    };
    match (&judged.verdict, &judged.protection) {
        (Verdict::Lost, _) => alert(
            Severity::Warning,
            "datagrams with DSCP 45 are dropped",
            "Programs that ask for NQB lose all of their packets.",
        ),
        (Verdict::Own, Protection::Exposed) => alert(
            Severity::Note,
            "the NQB queue is not protected",
            "Any flow of this link that marks itself NQB takes the short waits from all others.",
        ),
        _ => Vec::new(),
    }
}

fn evidence(judged: &Judged, way: Direction) -> Vec<String> {
    let at = flows::at(way);
    let mut lines = Vec::new();
    if let Some([nqb, classic, sparse]) = judged.beside {
        lines.push(format!(
            "{at}, while CUBIC's datagrams wait: {} in the median with DSCP 45, {} for CUBIC, {} for single datagrams without DSCP.",
            time(nqb[0]),
            time(classic[0]),
            time(sparse[0])
        ));
    }
    if let Some([nqb, cheat]) = judged.cheated {
        lines.push(format!(
            "{at}, while the datagrams of a CUBIC flow with DSCP 45 wait: {} in the median for it, {} for single ones with DSCP 45.",
            time(cheat[0]),
            time(nqb[0])
        ));
    }
    lines
}

fn person(name: &str) -> &'static str {
    match name {
        "classic" => "CUBIC",
        "nqb" => "single datagrams, DSCP 45",
        "cheat" => "CUBIC, DSCP 45",
        _ => "single datagrams",
    }
}

fn doubts(notes: &Notes, judged: &Judged, way: Direction) -> Vec<String> {
    let mut doubts = Vec::new();
    if let (Verdict::Own | Verdict::Fair, Protection::Unknown(why)) =
        (&judged.verdict, &judged.protection)
    {
        doubts.push(format!("protection {way} cannot be told: {why}"));
    }
    let lost = |f: &FlowSeen| seen::lost_elsewhere(way, f, person(&f.name));
    doubts.extend(notes.flows().filter_map(lost));
    doubts.extend(seen::lateness(notes.flows()));
    doubts
}

const PHASES: [(Phase, &str); 2] = [
    (Phase::Beside, "beside CUBIC"),
    (Phase::Cheat, "beside a flow that cheats"),
];

fn table(notes: &Notes, way: Direction) -> Table {
    let mut rows = Vec::new();
    for (phase, title) in PHASES {
        for name in ["nqb", "classic", "cheat", "sparse"] {
            if let Some(flow) = notes.flow(phase, name) {
                rows.push(seen::row(title, flow, person(name)));
            }
        }
    }
    Table::new(format!("Flows {way}"), seen::ROW, rows)
}

fn plots(notes: &Notes, way: Direction) -> Vec<Plot> {
    let plot = |(phase, title): (Phase, &str)| {
        let names = ["nqb", "classic", "cheat", "sparse"].into_iter();
        let curve = |name| Some(seen::curve(notes.flow(phase, name)?, person(name)));
        let series: Vec<Series> = names.filter_map(curve).collect();
        let axes = ("time in the phase, s", "mean wait, ms");
        (!series.is_empty()).then(|| Plot::new(format!("NQB {title}, {way}"), axes, series))
    };
    PHASES.into_iter().filter_map(plot).collect()
}
