//! Sentence at the top of the report: where packets wait, how long, in which queue, and how much too large it is.

use crate::words::direction;
use analysis::answer::{Answer, DirectionAnswer, Discipline, QueueIs};
use base::print::{DELAY, SIZE, TIMES};
use base::record::Direction;
use stats::Figure;

/// Largest size of a fitting queue, relative to the link's bandwidth-delay product: a single sender needs 1, and
/// measurement adds its own error.
const FITTING_FACTOR: f64 = 1.5;

/// Warning for a run that ended early.
pub const UNFINISHED: &str =
    "The run did not go to its planned end, so this rests on what was measured until then.";

/// Returns the verdict in plain language. It ends with the grade, and with a warning if the run ended early.
pub fn verdict(answer: &Answer) -> String {
    let unfinished = if answer.complete {
        String::new()
    } else {
        format!(" {UNFINISHED}")
    };
    format!("{}{unfinished}", sentence(answer))
}

/// Returns the verdict without that warning.
pub fn sentence(answer: &Answer) -> String {
    let first = match answer.worst_direction {
        Some(d) => waiting(d, of(answer, d)),
        None => quick(answer),
    };
    match answer.grade.letter.as_str() {
        "?" => format!("{first} No grade can be given."),
        letter => format!("{first} Grade {letter}."),
    }
}

pub fn of(answer: &Answer, d: Direction) -> &DirectionAnswer {
    match d {
        Direction::Up => &answer.up,
        Direction::Down => &answer.down,
    }
}

fn waiting(d: Direction, a: &DirectionAnswer) -> String {
    let loads = direction(d);
    let queue = match a.discipline.is {
        Discipline::DropTail => "a drop-tail queue",
        Discipline::Aqm => "a queue under active queue management (AQM)",
        Discipline::FairQueueing => "a fair queue",
        Discipline::FairQueueingAqm => "a fair queue under active queue management (AQM)",
        Discipline::Policer => "a policer, which queues nothing,",
        Discipline::CannotTell => "a queue",
    };
    let bound = match a.queue_is {
        QueueIs::Size => "",
        QueueIs::AtLeast => "at least ",
        QueueIs::Controlled => "up to ",
    };
    let Some(ms) = a.queue_ms.value() else {
        let reason = because(&a.queue_ms);
        return match a.added.p95_ms.value() {
            Some(ms) => format!(
                "When this link {loads}s, one packet in twenty comes {} late or later; how long the queue is cannot be told: {reason}.",
                DELAY.print(ms)
            ),
            None => format!(
                "When this link {loads}s, packets wait, but how long cannot be told: {reason}."
            ),
        };
    };
    let size = a
        .queue_bytes
        .value()
        .map_or(String::new(), |b| format!(" of {bound}{}", SIZE.print(b)));
    let factor = match a.factor_too_large.value() {
        // A queue that an AQM keeps short is no buffer of a fixed size: its peaks are not too large.
        _ if a.queue_is == QueueIs::Controlled => String::new(),
        Some(f) if f > FITTING_FACTOR => format!(", {bound}{} what the link needs", TIMES.print(f)),
        // A queue that was never seen full may be larger than measured.
        Some(_) if a.queue_is != QueueIs::AtLeast => ", no more than the link needs".to_string(),
        _ => String::new(),
    };
    let unknown = match a.discipline.is {
        Discipline::CannotTell => " Which kind of queue it is did not show.",
        _ => "",
    };
    format!(
        "When this link {loads}s, packets wait {bound}{} in {queue}{size}{factor}.{unknown}",
        DELAY.print(ms)
    )
}

fn quick(answer: &Answer) -> String {
    let (up, down) = (&answer.up.added.p95_ms, &answer.down.added.p95_ms);
    match (up.value(), down.value()) {
        (Some(u), Some(d)) => format!(
            "This line stays quick under load: for 95 % of packets an upload adds at most {} and a download at most {}.",
            DELAY.print(u.max(0.0)),
            DELAY.print(d.max(0.0))
        ),
        (None, Some(d)) => format!(
            "A download adds at most {} for 95 % of packets; what an upload adds cannot be told: {}.",
            DELAY.print(d.max(0.0)),
            because(up)
        ),
        (Some(u), None) => format!(
            "An upload adds at most {} for 95 % of packets; what a download adds cannot be told: {}.",
            DELAY.print(u.max(0.0)),
            because(down)
        ),
        (None, None) => format!(
            "Whether packets wait under load cannot be told: {}.",
            because(up)
        ),
    }
}

fn because(figure: &Figure) -> &str {
    match figure {
        Figure::CannotTell { cannot_tell } => cannot_tell.trim_end_matches('.'),
        Figure::Is { .. } => "",
    }
}
