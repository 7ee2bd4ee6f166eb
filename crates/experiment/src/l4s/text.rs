//! Answer of the kind `l4s`: sentences, figures, alerts, tables and plots from the verdict.

use super::judge::{Beside, Judged, Notes, Queues, Threshold, Verdict, judge, ms};
use super::note::Phase;
use crate::alert::{Alert, Severity};
use crate::answer::{Figured, Outcome, Plot, Series, Table};
use crate::ecn::{self, Place};
use crate::flows;
use crate::flows::seen::{self, FlowSeen, Spread, waits};
use base::print;
use base::record::{Direction, Recording};
use stats::Figure;

/// Names of the ECN codepoints by their values.
const CODEPOINTS: [&str; 4] = ["Not-ECT", "ECT(1)", "ECT(0)", "CE"];

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    flows::answer(|direction| {
        let notes = Notes::of(recording, direction);
        if notes.is_empty() {
            return None;
        }
        let judged = judge(&notes);
        if let Verdict::Unknown(why) = &judged.verdict
            && notes.flow(Phase::Together, "l4s").is_none()
        {
            return Some(Err(why.clone()));
        }
        let all = All {
            notes,
            judged,
            direction,
        };
        Some(Ok(Outcome {
            says: all.says(),
            figures: all.figures(),
            alerts: all.alerts(),
            evidence: all.evidence(),
            doubts: all.doubts(),
            tables: vec![all.table()],
            plots: all.plots(),
            ..Outcome::default()
        }))
    })
}

struct All {
    notes: Notes,
    judged: Judged,
    direction: Direction,
}

fn time(ms: f64) -> String {
    print::DELAY.print(ms)
}

impl All {
    fn at(&self) -> &'static str {
        flows::at(self.direction)
    }

    fn beside(&self, name: &str) -> Option<&FlowSeen> {
        self.notes.flow(Phase::Together, name)
    }

    fn says(&self) -> String {
        let waits = self.judged.beside.map_or(String::new(), |b| {
            format!("{} against {}", time(b.l4s[0]), time(b.classic[0]))
        });
        let from =
            |t: &Option<Threshold>| t.map_or(String::new(), |t| format!(" above {}", time(t.ms)));
        let threshold = from(&self.judged.threshold);
        let way = self.direction;
        match &self.judged.verdict {
            Verdict::Works => format!(
                "L4S works {way}: {waits}. The queue marks ECT(1){threshold}, and {}.",
                match self.judged.queues {
                    Queues::Fair => "each flow has a queue of its own",
                    _ => "L4S has a queue of its own beside the classic one",
                }
            ),
            Verdict::OneQueue => format!(
                "Marks {way}, but one queue: it marks ECT(1){threshold}, and CUBIC fills the same queue ({waits})."
            ),
            Verdict::ClassicMarks if self.judged.queues == Queues::Fair => format!(
                "Classic marks {way}: the queue marks few of the datagrams that wait long{}. Each flow has a queue of its own.",
                self.at_marks(),
            ),
            Verdict::ClassicMarks => format!(
                "Marks {way}, but one queue with a classic AQM: it marks few of the datagrams that wait long{}. {}",
                self.at_marks(),
                self.harm()
            ),
            Verdict::Changed(tos) => format!(
                "L4S does not work {way}: ECT(1) arrives as {}{}.",
                CODEPOINTS[usize::from(tos & 3)],
                self.place(", changed")
            ),
            Verdict::Lost => format!(
                "L4S does not work {way}: datagrams with ECT(1) are dropped{}.",
                self.place("")
            ),
            Verdict::Erased => format!(
                "L4S does not work {way}: CE marks do not reach the receiver{}.",
                self.place(": they are changed")
            ),
            Verdict::NoMarks => format!(
                "No marks {way}: the queue drops datagrams, after waits up to {}.",
                time(self.highest())
            ),
            Verdict::Policed => {
                format!(
                    "ECT(1) is policed {way}: it gets less than CUBIC, and is lost without a queue."
                )
            }
            Verdict::Unknown(why) => format!("Cannot tell {way}: {why}."),
        }
    }

    /// Hops between which the codepoint is changed or lost, behind this verb; nothing if they are unknown.
    fn place(&self, verb: &str) -> String {
        let place = self.judged.hop.as_ref().and_then(ecn::place);
        place.map_or_else(String::new, |place| format!("{verb}{place}"))
    }

    /// Effect of Prague on CUBIC in one queue.
    fn harm(&self) -> String {
        match self.judged.classic_of_fair {
            Figure::Is { value, low, high } if high < 1.0 => format!(
                "CUBIC gets {:.0} % ({:.0} to {:.0} %) of its fair share beside Prague: a sender of L4S must fall back to classic congestion control.",
                value * 100.0,
                low * 100.0,
                high * 100.0
            ),
            Figure::Is { value, low, high } => format!(
                "CUBIC gets {:.0} % ({:.0} to {:.0} %) of its fair share beside Prague: no harm to CUBIC shows.",
                value * 100.0,
                low * 100.0,
                high * 100.0
            ),
            Figure::CannotTell { ref cannot_tell } => {
                format!("Harm to CUBIC cannot be told: {cannot_tell}.")
            }
        }
    }

    fn at_marks(&self) -> String {
        let some = self.judged.at_marks;
        some.map_or(String::new(), |q| {
            format!(", at {} in the median", time(q[1]))
        })
    }

    /// Highest wait of Prague alone, but for one in a hundred.
    fn highest(&self) -> f64 {
        let alone = self.notes.flow(Phase::Alone, "l4s");
        let high = alone.and_then(|f| waits(f).quantile(0.99));
        high.map_or(0.0, ms)
    }

    fn share(&self) -> Option<f64> {
        let rate = |name| self.beside(name).map(|f| f.rate_bps);
        let (l4s, classic) = (rate("l4s")?, rate("classic")?);
        (l4s + classic > 0.0).then(|| l4s / (l4s + classic))
    }

    fn figures(&self) -> Vec<Figured> {
        let none = |why: &str| Figure::cannot_tell(why);
        let threshold = match self.judged.threshold {
            Some(t) => Figure::Is {
                value: t.ms,
                low: t.interval.0,
                high: t.interval.1,
            },
            None => none("Prague alone had too few marks"),
        };
        let at_marks = match self.judged.at_marks {
            Some([low, value, high]) => Figure::Is { value, low, high },
            None => none("Prague alone had no marks"),
        };
        let wait = |of: fn(&Beside) -> Spread| match &self.judged.beside {
            Some(beside) => {
                let [value, low, high] = of(beside);
                Figure::Is { value, low, high }
            }
            None => none("CUBIC built no queue beside Prague"),
        };
        let share = self
            .share()
            .map_or_else(|| none("the flows did not run together"), Figure::exactly);
        let way = self.direction;
        let key = |start: &str, end: &str| format!("{start}_{way}{end}");
        let hop = self.judged.hop.as_ref().and_then(ecn::hop).map(|figure| {
            let name = format!("first hop {way} that sees the codepoint changed or not at all");
            Figured::count(&key("codepoint_hop", ""), &name, figure)
        });
        let mut figures = vec![
            Figured::time(
                &key("l4s_wait", "_ms"),
                &format!("wait of L4S datagrams {way}, beside CUBIC's queue"),
                wait(|b| b.l4s),
            ),
            Figured::time(
                &key("classic_wait", "_ms"),
                &format!("wait of CUBIC's datagrams {way}, in its queue"),
                wait(|b| b.classic),
            ),
            Figured::time(
                &key("threshold", "_ms"),
                &format!("wait from which on datagrams are marked {way}"),
                threshold,
            ),
            Figured::time(
                &key("wait_at_marks", "_ms"),
                &format!("wait of marked datagrams {way} (middle half)"),
                at_marks,
            ),
            Figured::share(
                &key("l4s_share", ""),
                &format!("Prague's share of the rate {way}, beside CUBIC"),
                share,
            ),
            Figured::share(
                &key("classic_of_fair", ""),
                &format!("CUBIC's rate {way} beside Prague, in parts of its fair share"),
                self.judged.classic_of_fair.clone(),
            ),
        ];
        figures.extend(hop);
        figures
    }

    fn alerts(&self) -> Vec<Alert> {
        let at = self.at();
        let alert = |severity, title: &str, means: &str| {
            vec![Alert::new(severity, format!("{at}: {title}"), means)]
        };
        match &self.judged.verdict {
            Verdict::Lost => alert(
                Severity::Serious,
                "datagrams with ECT(1) are dropped",
                "Programs that use L4S lose all of their packets until they fall back.",
            ),
            Verdict::Changed(_) | Verdict::Erased => alert(
                Severity::Warning,
                "ECN does not survive the path",
                "Marks cannot reach the receiver: L4S gives nothing in this direction. `tailback probe ecn` finds the hop.",
            ),
            Verdict::ClassicMarks if self.judged.queues == Queues::One => alert(
                Severity::Warning,
                "a classic AQM marks ECT(1) in one queue",
                "Prague slows down little for few marks and takes the rate of others: a sender of L4S must fall back (RFC 9331 section 4.3).",
            ),
            Verdict::OneQueue => alert(
                Severity::Note,
                "L4S has no queue of its own",
                "Any other flow can fill the queue that L4S datagrams wait in.",
            ),
            Verdict::Policed => alert(
                Severity::Warning,
                "ECT(1) is policed",
                "Programs that use L4S get less than others.",
            ),
            _ => Vec::new(),
        }
    }

    fn evidence(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let at = self.at();
        if let Some(alone) = self.notes.flow(Phase::Alone, "l4s") {
            let marks: u64 = alone.marked.iter().map(|m| m.1).sum();
            let order = match (alone.first_mark_ns, alone.first_loss_ns) {
                (Some(mark), Some(loss)) if mark <= loss => {
                    "; the first mark came before the first loss"
                }
                (Some(_), Some(_)) => "; the first loss came before the first mark",
                (Some(_), None) => ": marks came without losses",
                _ => "",
            };
            lines.push(format!(
                "{at}, Prague alone: {marks} of {} datagrams were marked and {} lost{order}.",
                alone.sent, alone.lost
            ));
        }
        if let Some(t) = self.judged.threshold {
            lines.push(format!(
                "{at}, of its datagrams that waited longer than {}, {:.0} % were marked.",
                time(t.steep),
                t.marked * 100.0
            ));
        }
        if let Some(b) = self.judged.beside {
            lines.push(format!(
                "{at}, both together, while CUBIC's datagrams wait: {} in the median for Prague, {} for CUBIC, {} for single unmarked datagrams.",
                time(b.l4s[0]),
                time(b.classic[0]),
                time(b.sparse[0])
            ));
        }
        lines
    }

    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if let Queues::Unknown(why) = &self.judged.queues {
            doubts.push(format!("queues {} cannot be told: {why}", self.direction));
        }
        if let Some(Place::Unknown(why)) = self.judged.hop.as_ref().and_then(|f| f.place.as_ref()) {
            doubts.push(format!(
                "the hop that changes or drops the codepoint {} cannot be told: {why}",
                self.direction
            ));
        }
        let lost = |f: &FlowSeen| seen::lost_elsewhere(self.direction, f, person(&f.name));
        doubts.extend(self.notes.flows().filter_map(lost));
        doubts.extend(seen::lateness(self.notes.flows()));
        doubts
    }

    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (phase, title) in [
            (Phase::Alone, "Prague alone"),
            (Phase::Classic, "CUBIC alone"),
            (Phase::Together, "together"),
        ] {
            for name in ["l4s", "classic", "sparse"] {
                if let Some(flow) = self.notes.flow(phase, name) {
                    rows.push(seen::row(title, flow, person(name)));
                }
            }
        }
        Table::new(format!("Flows {}", self.direction), seen::ROW, rows)
    }

    fn plots(&self) -> Vec<Plot> {
        let titles = [
            (Phase::Alone, "Prague alone"),
            (Phase::Together, "Prague beside CUBIC"),
        ];
        let plot = |(phase, title): (Phase, &str)| {
            let series: Vec<Series> = ["l4s", "classic", "sparse"]
                .iter()
                .filter_map(|name| Some(seen::curve(self.notes.flow(phase, name)?, person(name))))
                .collect();
            (!series.is_empty()).then(|| {
                Plot::new(
                    format!("{title}, {}", self.direction),
                    ("time in the phase, s", "mean wait, ms"),
                    series,
                )
            })
        };
        titles.into_iter().filter_map(plot).collect()
    }
}

fn person(name: &str) -> &'static str {
    match name {
        "l4s" => "Prague, ECT(1)",
        "classic" => "CUBIC, Not-ECT",
        _ => "single datagrams, Not-ECT",
    }
}
