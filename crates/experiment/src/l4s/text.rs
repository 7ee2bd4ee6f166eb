//! Answer of the kind `l4s`: sentences, figures, alerts, tables and plots from the verdict.

use super::judge::{Beside, Judged, Notes, Queues, Threshold, Verdict, judge, ms};
use super::note::Phase;
use crate::alert::{Alert, Severity};
use crate::answer::{Figured, Outcome, Plot, Series, Table};
use crate::flows::seen::{self, FlowSeen, Spread, waits};
use base::print;
use base::record::Recording;
use stats::Figure;

/// Names of the ECN codepoints by their values.
const CODEPOINTS: [&str; 4] = ["Not-ECT", "ECT(1)", "ECT(0)", "CE"];

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    let notes = Notes::of(recording);
    let judged = judge(&notes);
    if let Verdict::Unknown(why) = &judged.verdict
        && notes.flow(Phase::Together, "l4s").is_none()
    {
        return Outcome::cannot_tell(why.clone());
    }
    let all = All { notes, judged };
    Outcome {
        says: all.says(),
        figures: all.figures(),
        alerts: all.alerts(),
        evidence: all.evidence(),
        doubts: all.doubts(),
        tables: vec![all.table()],
        plots: all.plots(),
        ..Outcome::default()
    }
}

struct All {
    notes: Notes,
    judged: Judged,
}

fn time(ms: f64) -> String {
    print::DELAY.print(ms)
}

impl All {
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
        match &self.judged.verdict {
            Verdict::Works => format!(
                "L4S works up: {waits}. The queue marks ECT(1){threshold}, and {}.",
                match self.judged.queues {
                    Queues::Fair => "each flow has a queue of its own",
                    _ => "L4S has a queue of its own beside the classic one",
                }
            ),
            Verdict::OneQueue => format!(
                "Marks up, but one queue: it marks ECT(1){threshold}, and CUBIC fills the same queue ({waits})."
            ),
            Verdict::ClassicMarks => format!(
                "Classic marks up: the queue marks few of the datagrams that wait long{}. {}.",
                self.at_marks(),
                match self.judged.queues {
                    Queues::Fair => "Each flow has a queue of its own",
                    _ => "It is one queue for all flows",
                }
            ),
            Verdict::Changed(tos) => format!(
                "L4S does not work up: ECT(1) arrives as {}.",
                CODEPOINTS[usize::from(tos & 3)]
            ),
            Verdict::Lost => "L4S does not work up: datagrams with ECT(1) are dropped.".into(),
            Verdict::Erased => "L4S does not work up: CE marks do not reach the server.".into(),
            Verdict::NoMarks => format!(
                "No marks up: the queue drops datagrams, after waits up to {}.",
                time(self.highest())
            ),
            Verdict::Policed => {
                "ECT(1) is policed up: it gets less than CUBIC, and is lost without a queue.".into()
            }
            Verdict::Unknown(why) => format!("Cannot tell: {why}."),
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
        vec![
            Figured::time(
                "l4s_wait_up_ms",
                "wait of L4S datagrams up, beside CUBIC's queue",
                wait(|b| b.l4s),
            ),
            Figured::time(
                "classic_wait_up_ms",
                "wait of CUBIC's datagrams up, in its queue",
                wait(|b| b.classic),
            ),
            Figured::time(
                "threshold_up_ms",
                "wait from which on datagrams are marked up",
                threshold,
            ),
            Figured::time(
                "wait_at_marks_up_ms",
                "wait of marked datagrams up (middle half)",
                at_marks,
            ),
            Figured::share(
                "l4s_share_up",
                "Prague's share of the rate up, beside CUBIC",
                share,
            ),
        ]
    }

    fn alerts(&self) -> Vec<Alert> {
        let alert = |severity, title: &str, means: &str| vec![Alert::new(severity, title, means)];
        match &self.judged.verdict {
            Verdict::Lost => alert(
                Severity::Serious,
                "Up: datagrams with ECT(1) are dropped",
                "Programs that use L4S lose all of their packets until they fall back.",
            ),
            Verdict::Changed(_) | Verdict::Erased => alert(
                Severity::Warning,
                "Up: ECN does not survive the path",
                "Marks cannot reach the receiver: L4S gives nothing in this direction. `tailback probe ecn` finds the hop.",
            ),
            Verdict::ClassicMarks if self.judged.queues == Queues::One => alert(
                Severity::Warning,
                "Up: a classic AQM marks ECT(1) in one queue",
                "Prague slows down little for few marks and takes the rate of others: a sender of L4S must fall back (RFC 9331 section 4.3).",
            ),
            Verdict::OneQueue => alert(
                Severity::Note,
                "Up: L4S has no queue of its own",
                "Any other flow can fill the queue that L4S datagrams wait in.",
            ),
            Verdict::Policed => alert(
                Severity::Warning,
                "Up: ECT(1) is policed",
                "Programs that use L4S get less than others.",
            ),
            _ => Vec::new(),
        }
    }

    fn evidence(&self) -> Vec<String> {
        let mut lines = Vec::new();
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
                "Prague alone: {marks} of {} datagrams were marked and {} lost{order}.",
                alone.sent, alone.lost
            ));
        }
        if let Some(t) = self.judged.threshold {
            lines.push(format!(
                "Of its datagrams that waited longer than {}, {:.0} % were marked.",
                time(t.steep),
                t.marked * 100.0
            ));
        }
        if let Some(b) = self.judged.beside {
            lines.push(format!(
                "Both together, while CUBIC's datagrams wait: {} in the median for Prague, {} for CUBIC, {} for single unmarked datagrams.",
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
            doubts.push(format!("queues cannot be told: {why}"));
        }
        let lost = |f: &FlowSeen| seen::lost_echoes(f, person(&f.name));
        doubts.extend(self.notes.flows().filter_map(lost));
        doubts.extend(seen::lateness(self.notes.flows()));
        doubts.push("the downlink was not tried: both flows send from this host".into());
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
        Table::new("Flows", seen::ROW, rows)
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
            (!series.is_empty())
                .then(|| Plot::new(title, ("time in the phase, s", "mean wait, ms"), series))
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
