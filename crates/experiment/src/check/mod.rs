//! Check of a link for all common faults, in two minutes.
//!
//! **Method.** Other kinds run one after the other, each within its part of the time, cheap ones before those that
//! flood the link. Their rows stand in one recording, from which each part is answered by its kind; the findings are
//! judged against the limits of `judge`. A step that could not run is reported with the reason, and never as fine.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on
//! Networks", UTFSM, tables 2 to 4; C. Kreibich, N. Weaver, B. Nechaev, V. Paxson, "Netalyzr: illuminating the edge
//! network", IMC 2010, whose report those tables are of.
//!
//! **Deviations.** Whether root servers' signatures come through (alert 8) is asked only of who wants it: they are not ours.

mod judge;

use super::alert::{Alert, Severity};
use super::answer::{Figured, Outcome, Plot, Quantity, Table};
use super::registry::ProbeSpec;
use super::spec::{Far, How, Setting, Spec};
use super::steps;
use crate::ask::Ask;
use crate::course::{Course, OfCourse};
use crate::dns;
use crate::host::Stopped;
use crate::ports;
use base::noted::Noted;
use base::noted::check::CheckNote;
use base::print::significant;
use base::record::{Direction, Recording};
use base::spec::{Params as _, params};
use base::words::Words;
use base::{Bytes, Duration};
use stats::Figure;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "check": "What is wrong with this link, how bad is it, and what does it mean for its users?", ["J. S. Catalán Olmos, Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks, UTFSM",
            "C. Kreibich et al., Netalyzr: illuminating the edge network, IMC 2010",] {
        /// time limit; steps without time are reported
        within: Duration = "110 s" ["40 s".."600 s"];
        /// number of small packets for delay and loss at rest, one each 25 ms
        count: u64 = "400" ["50".."10000"];
        /// resolvers to ask instead of those of this host
        resolvers: Vec<Arc<str>> as List(Address);
        /// domain for made-up names; the answer that they do not exist is an answer too
        zone: Arc<str> as Name = "example.com";
        /// name with valid signatures
        signed: Arc<str> as Name = "example.com";
        /// name with wrong signatures
        bogus: Arc<str> as Name = "dnssec-failed.org";
        /// also ask the 13 root servers for their signatures
        roots: bool = "false", "Catalán 2014, table 4";
        /// servers to ask instead of the 13 root servers
        rootservers: Vec<Arc<str>> as List(Address);
        /// TCP ports to test instead of the usual ones of `ports`
        tcp: Vec<u16> ["1".."65535"];
        /// UDP ports to test instead of the usual ones of `ports`
        udp: Vec<u16> ["1".."65535"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "one to two minutes, within the budget; it floods each direction for some seconds",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(course_of(w.read(), setting)?))),
    answer,
};

/// Interval between two small packets.
const APART: &str = "25 ms";
/// Time kept for the end: the page has to be written too.
const LAST: Duration = Duration::from_secs(3);
/// Shortest useful time of a flood.
const LEAST_FLOOD: Duration = Duration::from_secs(8);

/// Step: a kind and its longest duration.
#[derive(Clone, Debug)]
pub struct Step {
    /// Title in the table of steps.
    pub title: &'static str,
    /// Kind to run, with its parameters.
    pub probe: ProbeSpec,
    /// Longest duration.
    pub at_most: Duration,
}

/// A list as a person writes it; `None` for an empty one.
fn list<T: ToString>(key: &str, values: &[T]) -> Option<String> {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| format!("{key}={}", texts.join("; ")))
}

/// Step about names: whom it asks, and which.
fn names(params: &Params) -> String {
    let whom = [
        list("resolvers", &params.resolvers),
        list("rootservers", &params.rootservers),
    ];
    let whom: Vec<String> = whom.into_iter().flatten().collect();
    let whom: String = whom.iter().map(|l| format!("{l},")).collect();
    let roots = if params.roots { "roots=true," } else { "" };
    format!(
        "dns:{whom}{roots}count=10,patience=2 s,zone={},signed={},bogus={}",
        params.zone, params.signed, params.bogus
    )
}

/// Next step of a check that has done `done` steps, with `left` of its time and the rest of its budget. None at the
/// end.
pub fn next(params: &Params, done: usize, left: Duration, budget: Bytes) -> Option<Step> {
    let left = left.saturating_sub(LAST);
    let step = |title, text: String, at_most: Duration| Step {
        title,
        probe: text.parse().expect("a check asks for what its kinds know"),
        at_most: at_most.min(left),
    };
    let s = Duration::from_secs;
    let floods = |way: Direction, within: Duration, most: Bytes| {
        // The kind's own bounds; the step's is the last resort.
        let within = within.max(LEAST_FLOOD);
        let most = most.max(Bytes::new(10_000));
        // Whole seconds and kilobytes are read more easily.
        let within = Duration::from_secs(within.as_nanos() / 1_000_000_000);
        let most = Bytes::new(most.get() / 1000 * 1000);
        step(
            match way {
                Direction::Up => "the buffer up",
                Direction::Down => "the buffer down",
            },
            format!("buffer:direction={way},within={within},most={most}"),
            within + s(4),
        )
    };
    Some(match done {
        0 => {
            let count = params.count;
            let apart: Duration = APART.parse().expect("a duration");
            step(
                "delay and loss at rest",
                format!("rtt:count={count},interval={APART}"),
                apart * count + s(8),
            )
        }
        1 => step("names", names(params), s(20)),
        2 => step(
            "connections, IPv6, the largest packet",
            // Over a slow line: the half of it in round trips, the rest in large packets.
            "ipv6:count=10,within=6 s".into(),
            s(18),
        ),
        3 => {
            let ports = [list("tcp", &params.tcp), list("udp", &params.udp)];
            let ports: Vec<String> = ports.into_iter().flatten().collect();
            step("ports", format!("ports:{}", ports.join(",")), s(20))
        }
        4 => step("boxes on the way", "middlebox".into(), s(30)),
        5 => step(
            "translation of addresses",
            "nat:sockets=3,during=300 ms".into(),
            s(16),
        ),
        6 => floods(Direction::Up, left / 2, Bytes::new(budget.get() / 2)),
        7 => floods(Direction::Down, left, budget),
        _ => return None,
    })
}

/// Limit on each answer of the server.
const PATIENCE: Duration = Duration::from_secs(8);
/// A step that cannot have this much time is not begun.
const LEAST: Duration = Duration::from_secs(1);
/// Distance between the first trains of two steps.
const TRAINS: i64 = 1000;

/// # Errors
/// None: each step is told its part of the budget.
fn course_of(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let setting = *setting;
    let whole = params.within;
    Ok(OfCourse::new(whole, move |course| {
        events(course, params, setting)
    }))
}

async fn events(course: Course, params: Params, setting: Setting) -> Result<(), Stopped> {
    // If nobody is there at all, that is the answer, once.
    course.ask(Ask::Reach(PATIENCE)).await;
    let (began, whole) = (course.now(), params.within);
    let mut trains = Bytes::ZERO;
    let mut failures: Vec<String> = Vec::new();
    let mut done = 0;
    loop {
        let left = whole.saturating_sub(course.now().saturating_since(began));
        let spent = trains + course.tally();
        let budget = Bytes::new(setting.budget.get().saturating_sub(spent.get()));
        let Some(step) = next(&params, done, left, budget) else {
            break;
        };
        let began_ns = course.unix_ns();
        let setting = Setting { budget, ..setting };
        let went = match prepared(&step, &setting) {
            Err(problem) => steps::PartDone {
                problem: Some(problem),
                ..steps::PartDone::default()
            },
            Ok(its) => {
                let part = steps::Part {
                    steps: Rc::new(RefCell::new(its)),
                    title: step.title,
                    number: done + 1,
                    at_most: step.at_most,
                    budget,
                    first_train: done as i64 * TRAINS,
                    began,
                    whole,
                };
                course.carry(part).await
            }
        };
        trains += went.trains;
        let note = CheckNote {
            probe: step.probe.to_string(),
            began_ns,
            ended_ns: course.unix_ns(),
            problem: went.problem.clone(),
            bytes: went.tally.get(),
        };
        course.note(&note, step.title).await;
        if went.interrupted {
            return Err(Stopped::Interrupted);
        }
        failures.extend(went.problem);
        done += 1;
    }
    match failures.first() {
        Some(first) if failures.len() == done => Err(Stopped::Unusable {
            why: format!("none of the steps could be done: {first}"),
        }),
        _ => Ok(()),
    }
}

/// The steps of one step.
///
/// # Errors
/// The reason why it is not begun.
fn prepared(step: &Step, setting: &Setting) -> Result<Box<dyn steps::Steps>, String> {
    if step.at_most < LEAST {
        return Err("no time was left for it".into());
    }
    if let Some(why) = cannot(step, setting.far) {
        return Err(why.into());
    }
    step.probe.steps(setting).map_err(|e| e.to_string())
}

/// Reason why a step would find a fault that is none.
fn cannot(step: &Step, far: Far) -> Option<&'static str> {
    let in_use = step.probe.kind().entry.name == "dns"
        && step
            .probe
            .words()
            .read::<dns::Params>()
            .resolvers
            .is_empty();
    (in_use && far == Far::Namespace)
        .then_some("both ends are on this machine, and no resolver is beyond the emulated link")
}

/// Completed step: its kind, its own rows, and its answer.
struct Part {
    title: String,
    note: CheckNote,
    spec: ProbeSpec,
    rows: Recording,
    outcome: Outcome,
}

impl Part {
    fn all_of(recording: &Recording) -> Vec<Part> {
        CheckNote::all_of(recording)
            .filter_map(|(title, note)| {
                let spec: ProbeSpec = note.probe.parse().ok()?;
                let rows = part(recording, note.began_ns, note.ended_ns);
                let outcome = (spec.kind().answer)(spec.words(), &rows);
                Some(Part {
                    title: title.to_owned(),
                    note,
                    spec,
                    rows,
                    outcome,
                })
            })
            .collect()
    }

    fn kind(&self) -> &'static str {
        self.spec.kind().entry.name
    }

    /// Traffic of the step, bytes: datagrams of trains, and the counts that other kinds noted.
    fn bytes(&self) -> u64 {
        let trains = self.rows.datagram.iter().map(|d| d.size_bytes.max(0));
        self.note.bytes + trains.sum::<i64>() as u64
    }

    fn took_s(&self) -> f64 {
        (self.note.ended_ns - self.note.began_ns) as f64 * 1e-9
    }
}

/// Rows of this time. Datagrams go with their train: the far end's stamps are of another clock.
fn part(recording: &Recording, from: i64, to: i64) -> Recording {
    let within = |t: i64| (from..=to).contains(&t);
    let event: Vec<_> = recording
        .event
        .iter()
        .filter(|e| within(e.t_ns))
        .cloned()
        .collect();
    let trains: BTreeSet<i64> = event
        .iter()
        .filter(|e| &*e.kind == "train")
        .filter_map(|e| e.subject.parse().ok())
        .collect();
    let delay = recording.delay.iter().filter(|d| within(d.sent_ns));
    let datagram = recording
        .datagram
        .iter()
        .filter(|d| trains.contains(&d.train));
    Recording {
        meta: recording.meta.clone(),
        delay: delay.cloned().collect(),
        datagram: datagram.cloned().collect(),
        event,
        ..Recording::default()
    }
}

/// State of one checked property.
#[derive(Clone, Debug)]
enum State {
    Fine,
    /// No fault, but a figure that a person may notice, with its consequence.
    Note(String),
    /// Fault, with its alerts, the gravest first.
    Alerts(Vec<Alert>),
    /// Unknown, with the reason.
    Unknown(String),
    /// Skipped unless requested, with the option that requests it.
    NotAsked(&'static str),
}

struct Finding {
    what: String,
    found: String,
    state: State,
}

impl Finding {
    fn fine(what: impl Into<String>, found: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            found: found.into(),
            state: State::Fine,
        }
    }

    fn unknown(what: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            found: String::new(),
            state: State::Unknown(why.into()),
        }
    }

    /// Property with its alerts; it is fine if there are none.
    fn with(what: &str, found: impl Into<String>, alerts: Vec<Alert>) -> Finding {
        let state = if alerts.is_empty() {
            State::Fine
        } else {
            State::Alerts(super::alert::sorted(alerts))
        };
        Finding {
            what: what.into(),
            found: found.into(),
            state,
        }
    }

    fn alerts(&self) -> &[Alert] {
        match &self.state {
            State::Alerts(all) => all,
            _ => &[],
        }
    }

    fn severity(&self) -> Option<Severity> {
        self.alerts().iter().map(|a| a.severity).min()
    }

    fn row(&self) -> Vec<String> {
        let (judged, found) = match &self.state {
            State::Fine => ("fine", self.found.clone()),
            State::Note(means) => ("note", format!("{}; {means}", self.found)),
            State::Unknown(why) => ("cannot tell", format!("because {why}")),
            State::NotAsked(how) => ("not asked for", (*how).to_owned()),
            State::Alerts(all) => (
                all.first().map_or("fine", |a| a.severity.word()),
                self.found.clone(),
            ),
        };
        vec![self.what.clone(), judged.to_owned(), found]
    }
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let parts = Part::all_of(recording);
    if parts.is_empty() {
        return Outcome::cannot_tell("no step was carried out");
    }
    let findings: Vec<Finding> = parts.iter().flat_map(judge::findings).collect();
    let alerts: Vec<Alert> = findings.iter().flat_map(|f| f.alerts().to_vec()).collect();
    let evidence = parts.iter().flat_map(|p| {
        let lines = p.outcome.evidence.iter();
        lines.map(|e| format!("{}: {e}", p.kind()))
    });
    let doubts = parts.iter().flat_map(|p| {
        // A step that has no answer has its reason among the findings.
        let answered = !p.outcome.figures.is_empty();
        let lines = p.outcome.doubts.iter().filter(move |_| answered);
        lines.map(|d| format!("{}: {d}", p.kind()))
    });
    Outcome {
        says: says(&findings),
        figures: figures(&parts),
        alerts: super::alert::sorted(alerts),
        evidence: evidence.collect(),
        advice: parts
            .iter()
            .flat_map(|p| p.outcome.advice.clone())
            .collect(),
        doubts: doubts.collect(),
        tables: vec![
            Table::new(
                "Findings",
                ["what", "judged", "found"],
                findings.iter().map(Finding::row).collect(),
            ),
            steps(&parts),
        ],
        plots: plots(&parts),
    }
}

fn says(findings: &[Finding]) -> String {
    let of = |severity| {
        findings
            .iter()
            .filter(|f| f.severity() == Some(severity))
            .map(|f| f.what.as_str())
            .collect::<Vec<_>>()
    };
    let (serious, warnings) = (of(Severity::Serious), of(Severity::Warning));
    let in_state = |is: fn(&State) -> bool| -> Vec<&str> {
        let found = findings.iter().filter(|f| is(&f.state));
        found.map(|f| f.what.as_str()).collect()
    };
    let unknown = in_state(|s| matches!(s, State::Unknown(_)));
    let noted = in_state(|s| matches!(s, State::Note(_)));
    let asked = findings
        .iter()
        .filter(|f| !matches!(f.state, State::NotAsked(_)));
    let told = asked.count() - unknown.len();
    let mut text = match (&serious[..], &warnings[..]) {
        ([], []) if told == 0 => "Cannot tell: nothing could be looked at.".to_owned(),
        ([], []) => format!("Nothing is wrong with the {told} things that could be looked at."),
        ([], some) => format!("Works badly: {}.", some.join(", ")),
        (some, []) => format!("Something is wrong: {}.", some.join(", ")),
        (some, more) => format!(
            "Something is wrong: {}. Works badly: {}.",
            some.join(", "),
            more.join(", ")
        ),
    };
    if !noted.is_empty() {
        text += &format!(" Worth a look: {}.", noted.join(", "));
    }
    if !unknown.is_empty() && told > 0 {
        text += &format!(" Cannot be told: {}.", unknown.join(", "));
    }
    text
}

/// Figures of table 2 of the source, and further ones.
fn figures(parts: &[Part]) -> Vec<Figured> {
    let mut all: Vec<Figured> = Vec::new();
    for part in parts {
        let mut take = |key: &str, from: &str, name: &str, unit| {
            let found = part.outcome.figures.iter().find(|f| f.key == from);
            let figure = match found {
                Some(f) => f.figure.clone(),
                None => Figure::cannot_tell(judge::why(part)),
            };
            all.push(Figured::new(key, name, unit, figure));
        };
        use Quantity::{Rate, Share, Size, Time};
        match part.kind() {
            "buffer" => {
                let way = part.spec.words().read::<crate::buffer::Params>().direction;
                let (ms, bps) = (format!("buffer_{way}_ms"), format!("link_{way}_bps"));
                take(&ms, "queue_ms", &format!("buffer {way}"), Time);
                take(&bps, "link_bps", &format!("rate of the link {way}"), Rate);
            }
            "dns" => take("dns_ms", "cold_ms", "lookup of a new name", Time),
            "rtt" => {
                take("latency_ms", "median_ms", "round trip at rest", Time);
                take("loss", "lost", "lost at rest", Share);
            }
            "ipv6" => {
                for v in ["v4", "v6"] {
                    let key = format!("connect_{v}_ms");
                    let name = format!("set-up of a connection over IP{v}");
                    take(&key, &key, &name, Time);
                }
                for (v, from) in [("v4", "path_mtu_v4_bytes"), ("v6", "path_mtu_bytes")] {
                    let key = format!("path_mtu_{v}_bytes");
                    let name = format!("largest packet of IP{v}, up");
                    take(&key, from, &name, Size);
                }
            }
            _ => {}
        }
        let counted = match part.kind() {
            "rtt" => Some(("loss_bursts", "bursts of loss")),
            "ports" => Some(("ports_blocked", "ports blocked, or not the server's")),
            _ => None,
        };
        if let Some((key, name)) = counted {
            let count = judge::count(part).map_or_else(
                || Figure::cannot_tell(judge::why(part)),
                |n| ports::at_most(n as usize, n as usize + ports::hidden(&part.rows)),
            );
            all.push(Figured::count(key, name, count));
        }
    }
    all
}

fn steps(parts: &[Part]) -> Table {
    Table {
        title: "Steps".into(),
        columns: [
            "step",
            "asked",
            "took, s",
            "put on the link, kB",
            "how it ended",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: parts
            .iter()
            .map(|p| {
                vec![
                    p.title.clone(),
                    p.note.probe.clone(),
                    format!("{:.1}", p.took_s()),
                    significant(p.bytes() as f64 / 1e3, 3),
                    p.note.problem.clone().unwrap_or_else(|| "done".into()),
                ]
            })
            .collect(),
    }
}

/// Plot of each step that has one, named after its step.
fn plots(parts: &[Part]) -> Vec<Plot> {
    let mut all = Vec::new();
    for part in parts {
        let named = |title: String, plot: &Plot| Plot {
            title,
            ..plot.clone()
        };
        let first = part.outcome.plots.first();
        all.extend(match (part.kind(), first) {
            ("buffer", Some(plot)) => {
                let way = part.spec.words().read::<crate::buffer::Params>().direction;
                Some(named(format!("Delay in the flood {way}"), plot))
            }
            ("rtt", Some(plot)) => Some(named("Round trips at rest".into(), plot)),
            (_, Some(plot)) => Some(plot.clone()),
            _ => None,
        });
    }
    all
}
