//! Answer of the kind `wifi`: sentences, figures, tables and plots from the verdict.

use super::judge::{Judged, Notes, Place, Point, judged, reasons};
use super::note::Phase;
use crate::alert::{Alert, Severity};
use crate::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use base::print;
use base::record::Recording;
use stats::Figure;

const PHASES: [(Phase, &str); 3] = [
    (Phase::Idle, "without load"),
    (Phase::Down, "download"),
    (Phase::Up, "upload"),
];

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    let notes = Notes::of(recording);
    if notes.phases.is_empty() {
        let why = notes
            .untried
            .unwrap_or_else(|| "the run ended too early".into());
        return Outcome::cannot_tell(why);
    }
    let found = judged(recording);
    let name = notes.interface.as_deref().unwrap_or("Wi-Fi");
    Outcome {
        says: says(name, &found),
        figures: figures(&found),
        alerts: alerts(&found),
        evidence: evidence(&found),
        advice: advice(&found),
        doubts: doubts(&notes, &found),
        tables: vec![table(&notes, &found)],
        plots: vec![plot(&notes, &found)],
    }
}

fn wait(judged: &Judged) -> String {
    match judged.wait_ms {
        Figure::Is { value, .. } => print::DELAY.print(value),
        Figure::CannotTell { .. } => "for an unknown time".into(),
    }
}

fn says(name: &str, judged: &Judged) -> String {
    let wait = wait(judged);
    let because = reasons(judged);
    let because = match because.is_empty() {
        true => String::new(),
        false => format!(": {}", because.join(", ")),
    };
    let place = match &judged.place {
        Place::Air => format!(
            "Packets wait {wait} between {name} and the gateway, in the air or the access point{because}."
        ),
        Place::Host => format!("Packets wait {wait} in this host's queue of {name}."),
        Place::AirOrHost => format!(
            "Packets wait {wait} on the Wi-Fi of {name}, in the air or in this host's queue{because}."
        ),
        Place::Beyond => format!("Packets wait {wait} beyond the gateway: {name} is not to blame."),
        Place::Nowhere => format!("No packet waits long: neither on {name} nor beyond."),
        Place::Unknown(why) => format!("Cannot tell: {why}."),
    };
    match judged.moved.len() {
        0 => place,
        n => format!("{place} The access point or its channel changed {n} times."),
    }
}

fn figures(judged: &Judged) -> Vec<Figured> {
    let known = |value: Option<f64>| {
        value.map_or_else(
            || Figure::cannot_tell("the driver does not tell it, or no wait is long"),
            Figure::exactly,
        )
    };
    vec![
        Figured::time(
            "wait_ms",
            "wait to the server while it is long",
            judged.wait_ms.clone(),
        ),
        Figured::share(
            "gateway_of_wait",
            "part of it on this side of the gateway",
            judged.gateway.clone(),
        ),
        Figured::share(
            "host_of_wait",
            "part of it in this host's queue",
            judged.host.clone(),
        ),
        Figured::share(
            "retries_per_packet",
            "retries for a packet in that time",
            known(judged.retries),
        ),
        Figured::share(
            "channel_busy",
            "share of that time in which others use the channel",
            known(judged.busy),
        ),
    ]
}

fn alerts(judged: &Judged) -> Vec<Alert> {
    match judged.power_save {
        Some(true) => vec![Alert::new(
            Severity::Note,
            "Power save is on",
            "The radio sleeps between beacons: packets to this host wait for up to a beacon interval, mostly 102 ms, when it is idle.",
        )],
        _ => Vec::new(),
    }
}

fn evidence(judged: &Judged) -> Vec<String> {
    let mut lines = Vec::new();
    let percent = |f: &Figure| match f {
        Figure::Is { value, low, high } => Some(format!(
            "{:.0} % ({:.0} to {:.0} %)",
            value * 100.0,
            low * 100.0,
            high * 100.0
        )),
        Figure::CannotTell { .. } => None,
    };
    if let Some(part) = percent(&judged.gateway) {
        lines.push(format!("The gateway's wait is {part} of the server's."));
    }
    if let Some(part) = percent(&judged.host) {
        lines.push(format!("This host's backlog takes {part} of the wait."));
    }
    if let Some(dbm) = judged.signal_dbm {
        lines.push(format!("The signal is {dbm:.0} dBm."));
    }
    let moved = judged.moved.iter().take(10);
    lines.extend(moved.map(|m| format!("The connection went {}.", m.what)));
    lines
}

fn advice(judged: &Judged) -> Vec<String> {
    match judged.place {
        Place::Air | Place::AirOrHost => {
            vec!["Run the same test by cable: what remains of the wait is not the Wi-Fi's.".into()]
        }
        _ => Vec::new(),
    }
}

fn doubts(notes: &Notes, judged: &Judged) -> Vec<String> {
    let mut doubts: Vec<String> = notes.untried.iter().cloned().collect();
    if judged.busy.is_none() && matches!(judged.place, Place::Air | Place::AirOrHost) {
        doubts.push("the driver does not tell how busy the channel is".into());
    }
    doubts
}

fn points(judged: &Judged, phase: Phase) -> &[Point] {
    judged.points.get(&(phase as u8)).map_or(&[], Vec::as_slice)
}

fn table(notes: &Notes, judged: &Judged) -> Table {
    let mut rows = Vec::new();
    for (phase, title) in PHASES {
        let its = points(judged, phase);
        let samples = notes.phases.iter().find(|p| p.0 == phase).map(|p| &p.1);
        let Some(samples) = samples.filter(|_| !its.is_empty()) else {
            continue;
        };
        let middle = |of: &dyn Fn(&Point) -> Option<f64>| {
            stats::median(&its.iter().filter_map(of).collect::<Vec<f64>>())
        };
        let time = |ms: Option<f64>| ms.map_or("–".into(), |ms| print::DELAY.print(ms));
        let share = |s: Option<f64>| s.map_or("–".into(), |s| format!("{:.0} %", s * 100.0));
        let rates: Vec<f64> = samples
            .iter()
            .filter_map(|s| Some(s.tx_bps? as f64))
            .collect();
        rows.push(vec![
            title.into(),
            time(middle(&|p| Some(p.server_ms))),
            time(middle(&|p| p.gateway_ms)),
            time(middle(&|p| p.host_ms)),
            stats::median(&rates).map_or("–".into(), |r| print::RATE.print(r)),
            share(middle(&|p| p.retries)),
            share(middle(&|p| p.busy)),
            middle(&|p| p.signal_dbm).map_or("–".into(), |s| format!("{s:.0} dBm")),
        ]);
    }
    let titles = [
        "phase",
        "wait to server",
        "to gateway",
        "in host",
        "rate of the radio",
        "retries",
        "channel busy",
        "signal",
    ];
    Table::new("Wi-Fi by phase, medians", titles, rows)
}

fn plot(notes: &Notes, judged: &Judged) -> Plot {
    let mut at = 0.0;
    let (mut server, mut gateway) = (Vec::new(), Vec::new());
    for (phase, _) in &notes.phases {
        for point in points(judged, *phase) {
            at += 0.1;
            server.push((at, Some(point.server_ms)));
            gateway.push((at, point.gateway_ms));
        }
    }
    let series = [("to the server", server), ("to the gateway", gateway)]
        .map(|(name, points)| Series::new(name, Draw::Line, points));
    let axes = ("time of the samples, s", "wait, ms");
    Plot::new("Waits beside Wi-Fi", axes, series.into())
}
