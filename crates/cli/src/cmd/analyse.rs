//! `tailback analyse`: what recordings say.

use super::{print, stdout_style, threads, usage};
use crate::Outcome;
use crate::gather;
use crate::hidden_queue;
use crate::inside;
use crate::layout::Layout;
use crate::survey::{self, Ask};
use crate::when;
use analysis::compare::{self, SideBySide};
use analysis::services::{self, Can};
use analysis::statistics::{Statistics, TargetStatistics};
use analysis::survey::Span;
use analysis::together::{Link, Together, together};
use base::record::{Exclusion, TableId};
use base::{BitsPerSec, Duration};
use jiff::tz::TimeZone;
use report::Table;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Say what recordings show, also ones that were cut short",
    long_about = "Says what a recording shows, also one that was cut short. One of `tailback test` is answered as after the test; any other, \
        and with any of the options below that one too, by statistics: loss, round trips, reliability, what services it can carry, and what \
        is wrong with the recording. Where there were no probes, as in many simulations, it says how long packets waited in the queues and what \
        the transfers got. Several recordings are set side by side; with --together they are taken as links of one place.",
    after_help = "Examples:\n  tailback analyse weeks.rec --zone Europe/Oslo --exclude gaps.toml\n  \
        tailback analyse weeks.rec --span upload=2014-05-16T09:14/2014-05-16T09:40 --window 10min\n  \
        tailback analyse adsl.rec twin.rec pie.rec --markdown\n  \
        tailback analyse adsl.rec lte.rec --together\n  \
        tailback analyse weeks.rec --services mine.toml --fail\n  \
        tailback analyse weeks.rec --hidden-queue --rate-up 700kbit/s --from 2014-05-16T09:14 --to 2014-05-16T09:40"
)]
pub struct Args {
    /// The recordings
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Print JSON instead of text
    #[arg(long, conflicts_with_all = ["markdown", "csv"])]
    json: bool,
    /// Print the tables as Markdown
    #[arg(long, conflicts_with = "csv")]
    markdown: bool,
    /// Print the tables as CSV
    #[arg(long)]
    csv: bool,
    /// Statistics, also of a test
    #[arg(long)]
    statistics: bool,
    /// Begin, such as 2026-05-16T09:17 or 2026-05-16T07:17:20Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Time zone of days and of times given without one, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Figures of each window of that length, such as 10min
    #[arg(long, value_name = "TIME")]
    window: Option<Duration>,
    /// Length of the sliding window [default: 10min, or a tenth of a short recording]
    #[arg(long, value_name = "TIME")]
    sliding: Option<Duration>,
    /// A span of its own, more than once if need be
    #[arg(long, value_name = "NAME=FROM/TO")]
    span: Vec<String>,
    /// Leave out what this file lists: `[[exclude]]` with from, to and reason
    #[arg(long, value_name = "FILE.toml")]
    exclude: Option<PathBuf>,
    /// Leave out where the base line says that the instrument was at fault
    #[arg(long)]
    exclude_faults: bool,
    /// Limits of reliability in ms
    #[arg(long, value_name = "MS,MS,...", value_delimiter = ',')]
    limits: Vec<f64>,
    /// Which services it can carry: `built-in`, or a file of `[[table]]` with `[[table.service]]`
    #[arg(long, value_name = "FILE.toml")]
    services: Vec<String>,
    /// End with exit code 1 where a service fails, in the whole or any part
    #[arg(long)]
    fail: bool,
    /// Take the recordings, or the targets of one, as links of one place: how often does at least one work?
    #[arg(long)]
    together: bool,
    /// How well the bytes that were sent and a round trip a second tell of the queue in a modem that cannot be asked
    #[arg(long, conflicts_with_all = ["together", "tables", "fail"])]
    hidden_queue: bool,
    /// With --hidden-queue: take one round trip each so often
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        requires = "hidden_queue"
    )]
    every: Duration,
    /// Print the tables that this file lays out, with what was printed elsewhere beside ours
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["json", "together"])]
    tables: Option<PathBuf>,
    /// Rate of the line upwards, to know when it was full [default: found, where it can be]
    #[arg(long, value_name = "RATE")]
    rate_up: Option<BitsPerSec>,
    /// And downwards
    #[arg(long, value_name = "RATE")]
    rate_down: Option<BitsPerSec>,
    /// Only this target
    #[arg(long)]
    target: Option<String>,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let [path] = &args.recordings[..]
        && !asks_for_statistics(&args)
        && super::probe::made(path)?
    {
        return super::probe::analyse(path, args.json);
    }
    if args.recordings.len() > 1 && !asks_for_statistics(&args) {
        let probes = args.recordings.iter().map(|p| super::probe::made(p));
        let probes: Vec<bool> = probes.collect::<Result<_, _>>()?;
        if probes.iter().all(|p| *p) {
            return super::probe::compare(&args.recordings, args.json);
        }
    }
    if let [path] = &args.recordings[..]
        && !asks_for_statistics(&args)
        && super::trace::made(path)?
    {
        return super::trace::analyse(path, args.json);
    }
    if let [path] = &args.recordings[..]
        && !asks_for_statistics(&args)
        && has_phases(path)?
    {
        return test(path, args.json);
    }
    let mut ask = ask(&args)?;
    if args.hidden_queue {
        return hidden(&args, &ask);
    }
    let layout = match &args.tables {
        Some(path) => Some(Layout::read(path, &mut ask)?),
        None => None,
    };
    let format = Format::of(&args);
    let mut all = Vec::new();
    for path in &args.recordings {
        match one(path, &ask, args.exclude_faults) {
            Ok(s) => all.push((path.as_path(), s)),
            Err(why) if why.is::<survey::NoProbes>() && takes_without_probes(&args) => {
                return without_probes(path, &ask, format, why);
            }
            Err(why) => return Err(why),
        }
    }
    if let Some(layout) = layout {
        for (_, s) in &all {
            let tables = layout.tables(s, main_target(s), &ask.zone);
            let each = |lines: &str, form: fn(&[Table]) -> String| {
                let all = tables.iter();
                all.map(|(caption, t)| format!("{caption}{lines}{}", form(std::slice::from_ref(t))))
                    .collect::<String>()
            };
            print(&match format {
                Format::Markdown => each("\n\n", report::statistics::markdown),
                Format::Csv => each("\n", report::statistics::csv),
                Format::Text | Format::Json => report::terminal::captioned(&tables, stdout_style()),
            })?;
        }
    } else if let [(_, s)] = &all[..]
        && !args.together
    {
        match format {
            Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(s)?))?,
            _ => show(format, &report::statistics::all(s, &ask.zone), || {
                report::terminal::statistics(s, stdout_style(), &ask.zone)
            })?,
        }
    } else {
        several(&all, &ask, format, args.together)?;
    }
    let failed = all.iter().any(|(_, s)| fails(s));
    Ok(if args.fail && failed {
        Outcome::Above
    } else {
        Outcome::Done
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Text,
    Json,
    Markdown,
    Csv,
}

impl Format {
    fn of(args: &Args) -> Format {
        match (args.json, args.markdown, args.csv) {
            (true, ..) => Format::Json,
            (_, true, _) => Format::Markdown,
            (.., true) => Format::Csv,
            _ => Format::Text,
        }
    }
}

fn show(format: Format, tables: &[Table], text: impl Fn() -> String) -> anyhow::Result<()> {
    print(&match format {
        Format::Markdown => report::statistics::markdown(tables),
        Format::Csv => report::statistics::csv(tables),
        Format::Text | Format::Json => text(),
    })
}

/// Side by side, and together where that is asked for.
fn several(
    all: &[(&Path, Statistics)],
    ask: &Ask,
    format: Format,
    as_one: bool,
) -> anyhow::Result<()> {
    let named: Vec<(String, &Statistics, &TargetStatistics)> = match all {
        // The links of one place may be targets of one recording.
        [(_, s)] => s.targets.iter().map(|t| (t.target.clone(), s, t)).collect(),
        _ => all
            .iter()
            .map(|(path, s)| (path.display().to_string(), s, main_target(s)))
            .collect(),
    };
    let joint = match as_one {
        true => Some(joined(all, &named, ask)?),
        false => None,
    };
    let c = compare::compare(&named);
    if format == Format::Json {
        let whole = SideBySide {
            version: compare::COMPARISON_VERSION,
            comparison: c,
            recordings: all.iter().map(|(_, s)| s.clone()).collect(),
            together: joint,
        };
        return print(&format!("{}\n", serde_json::to_string_pretty(&whole)?));
    }
    let mut tables = report::statistics::comparison(&c);
    tables.extend(joint.iter().map(report::statistics::together));
    show(format, &tables, || {
        report::terminal::comparison(&c, joint.as_ref(), stdout_style(), &ask.zone)
    })
}

fn joined(
    all: &[(&Path, Statistics)],
    named: &[(String, &Statistics, &TargetStatistics)],
    ask: &Ask,
) -> anyhow::Result<Together> {
    let mut links = Vec::new();
    for (i, (name, _, t)) in named.iter().enumerate() {
        let path = all[i.min(all.len() - 1)].0;
        links.push(Link {
            name: name.clone(),
            statistics: t,
            probes: survey::missed(path, &t.target, (t.interval_ms * 1e6) as i64, ask)?,
        });
    }
    together(links, &ask.limits_ns).map_err(|e| usage(format!("--together: {e}")))
}

fn fails(s: &Statistics) -> bool {
    let verdicts = s.targets.iter().flat_map(|t| &t.services);
    verdicts.flat_map(|v| &v.spans).any(|j| j.can == Can::Fail)
}

fn asks_for_statistics(args: &Args) -> bool {
    let given = [&args.from, &args.to, &args.zone, &args.target];
    args.statistics
        || args.markdown
        || args.csv
        || args.exclude_faults
        || given.iter().any(|a| a.is_some())
        || args.window.is_some()
        || args.sliding.is_some()
        || !args.span.is_empty()
        || args.exclude.is_some()
        || !args.limits.is_empty()
        || !args.services.is_empty()
        || args.rate_up.is_some()
        || args.rate_down.is_some()
        || args.fail
        || args.together
        || args.hidden_queue
        || args.tables.is_some()
}

/// Nothing was asked that only probes can answer.
fn takes_without_probes(args: &Args) -> bool {
    args.recordings.len() == 1
        && !(args.fail || args.together || args.tables.is_some() || args.window.is_some())
        && args.services.is_empty()
        && args.span.is_empty()
        && args.limits.is_empty()
        && args.target.is_none()
}

/// What queues and transfers say by themselves.
fn without_probes(
    path: &Path,
    ask: &Ask,
    format: Format,
    why: anyhow::Error,
) -> anyhow::Result<Outcome> {
    if inside::had_probes(path) {
        return Err(why);
    }
    let Some((answer, _)) = inside::gathered(path, ask.from_ns, ask.to_ns)? else {
        return Err(why);
    };
    match format {
        Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?,
        _ => show(format, &report::inside::tables(&answer), || {
            report::terminal::inside(&answer, stdout_style(), &ask.zone)
        })?,
    }
    Ok(Outcome::Done)
}

/// The estimate of a queue that cannot be seen.
fn hidden(args: &Args, ask: &Ask) -> anyhow::Result<Outcome> {
    let [path] = &args.recordings[..] else {
        return Err(usage("--hidden-queue is of one recording"));
    };
    if args.every < Duration::from_millis(1) {
        return Err(usage(format!(
            "--every {}: give a time of a millisecond or more, such as 1s",
            args.every
        )));
    }
    let answer = hidden_queue::analysed(path, ask, args.every)?;
    match Format::of(args) {
        Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?,
        format => {
            let (caption, table) = report::hidden_queue::table(&answer, &ask.zone);
            show(format, std::slice::from_ref(&table), || {
                let captioned = [(
                    caption.clone(),
                    report::hidden_queue::table(&answer, &ask.zone).1,
                )];
                report::terminal::captioned(&captioned, stdout_style())
            })?;
        }
    }
    Ok(Outcome::Done)
}

fn test(path: &Path, json: bool) -> anyhow::Result<Outcome> {
    let (recording, answer) = load(path)?;
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
    } else {
        print(&report::terminal::text(&answer, &recording, stdout_style()))?;
    }
    Ok(Outcome::Done)
}

pub fn load(path: &Path) -> anyhow::Result<(base::record::Recording, analysis::answer::Answer)> {
    let recording = gather::whole(path)?;
    let answer = analysis::analyse_test(&recording, &analysis::Options::default())?;
    Ok((recording, answer))
}

/// Whether it is of a test.
pub fn has_phases(recording: &Path) -> anyhow::Result<bool> {
    gather::meta(recording)?;
    let mut words = Vec::new();
    let mut found = false;
    gather::scan(recording, TableId::Event, &["kind"], &mut |rows| {
        rows.words("kind", &mut words);
        found |= words.iter().any(|w| **w == *"phase");
    })?;
    Ok(found)
}

fn one(path: &Path, ask: &Ask, without_faults: bool) -> anyhow::Result<Statistics> {
    let s = survey::statistics(path, ask)?;
    let faults = survey::faults(&s);
    if !without_faults || faults.is_empty() {
        return Ok(s);
    }
    let mut again = ask.clone();
    again.exclusions.extend(faults);
    survey::statistics(path, &again)
}

/// Our own probes, or the target that was probed most.
pub fn main_target(s: &Statistics) -> &TargetStatistics {
    let own = s.targets.iter().find(|t| t.target == "udp");
    own.or_else(|| s.targets.iter().max_by_key(|t| t.whole.sent))
        .expect("statistics have at least one target")
}

fn ask(args: &Args) -> anyhow::Result<Ask> {
    let zone = when::zone(args.zone.as_deref())?;
    let instant = |name: &str, text: &Option<String>| {
        text.as_deref()
            .map(|t| when::instant(name, t, &zone))
            .transpose()
    };
    let length = |name: &str, d: Option<Duration>| match d.map(|d| i64::try_from(d.as_nanos())) {
        None => Ok(None),
        Some(Ok(ns)) if ns > 0 => Ok(Some(ns)),
        Some(_) => Err(usage(format!(
            "{name}: give a time above zero, such as 10min"
        ))),
    };
    let mut limits_ns = Vec::new();
    let limits = if args.limits.is_empty() {
        &analysis::reliability::LIMITS_MS[..]
    } else {
        &args.limits
    };
    for ms in limits {
        if !(*ms > 0.0 && *ms <= 1e9) {
            return Err(usage(format!(
                "--limits {ms}: give milliseconds above zero"
            )));
        }
        limits_ns.push((ms * 1e6).round() as i64);
    }
    limits_ns.sort_unstable();
    limits_ns.dedup();
    let (from_ns, to_ns) = (instant("--from", &args.from)?, instant("--to", &args.to)?);
    if from_ns.zip(to_ns).is_some_and(|(a, b)| a >= b) {
        return Err(usage("--from is not before --to"));
    }
    Ok(Ask {
        from_ns,
        to_ns,
        window_ns: length("--window", args.window)?,
        sliding_ns: length("--sliding", args.sliding)?,
        spans: args
            .span
            .iter()
            .map(|s| span(s, &zone))
            .collect::<anyhow::Result<_>>()?,
        exclusions: match &args.exclude {
            Some(path) => exclusions(path, &zone)?,
            None => Vec::new(),
        },
        limits_ns,
        services: tables(&args.services)?,
        up_bps: args.rate_up.map(|r| r.get() as f64),
        down_bps: args.rate_down.map(|r| r.get() as f64),
        target: args.target.clone(),
        threads: threads(args.threads),
        zone,
    })
}

fn span(text: &str, zone: &TimeZone) -> anyhow::Result<Span> {
    let parts = text.split_once('=').and_then(|(name, times)| {
        let (from, to) = times.split_once('/')?;
        Some((name.trim(), from.trim(), to.trim()))
    });
    let Some((name, from, to)) = parts.filter(|(name, ..)| !name.is_empty()) else {
        return Err(usage(format!(
            "--span {text}: write NAME=FROM/TO, such as upload=2014-05-16T09:14/2014-05-16T09:40"
        )));
    };
    let (from_ns, to_ns) = (
        when::instant("--span", from, zone)?,
        when::instant("--span", to, zone)?,
    );
    if from_ns >= to_ns {
        return Err(usage(format!("--span {text}: it ends before it begins")));
    }
    Ok(Span {
        name: name.into(),
        from_ns,
        to_ns,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExclusionFile {
    exclude: Vec<ExclusionLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExclusionLine {
    from: String,
    to: String,
    reason: String,
}

pub fn text_of(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|e| usage(format!("cannot read {}: {e}", path.display())))
}

pub fn exclusions(path: &Path, zone: &TimeZone) -> anyhow::Result<Vec<Exclusion>> {
    let file: ExclusionFile =
        toml::from_str(&text_of(path)?).map_err(|e| usage(format!("{}: {e}", path.display())))?;
    let one = |x: ExclusionLine| {
        let what = path.display().to_string();
        let e = Exclusion {
            from_ns: when::instant(&what, &x.from, zone)?,
            to_ns: when::instant(&what, &x.to, zone)?,
            reason: x.reason,
        };
        if e.from_ns >= e.to_ns {
            return Err(usage(format!(
                "{what}: {} to {}: it ends before it begins",
                x.from, x.to
            )));
        }
        Ok(e)
    };
    file.exclude.into_iter().map(one).collect()
}

fn tables(names: &[String]) -> anyhow::Result<Vec<services::Table>> {
    let mut all = Vec::new();
    for name in names {
        let (what, text) = match name.as_str() {
            "built-in" => (name.clone(), services::BUILT_IN.to_owned()),
            path => (path.to_owned(), text_of(Path::new(path))?),
        };
        all.extend(services::read(&text).map_err(|e| usage(format!("{what}: {e}")))?);
    }
    if names.is_empty() {
        all = services::read(services::BUILT_IN)?;
    }
    Ok(all)
}
