//! `tailback monitor`: delay and traffic for weeks.

use super::{AccessArgs, usage};
use crate::Outcome;
use crate::diary::{Diary, say};
use crate::thinning::Guard;
use base::record::{Event, FORMAT_VERSION, Meta, Origin, Row, TableId};
use base::{Bytes, Duration};
use live::clock::Clock;
use live::monitor::{Monitor, MonitorPlan, MonitorStatus, Overseer, Target, TargetKind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use store::{Name, Options, Writer};

#[derive(clap::Args)]
#[command(
    about = "Watch delay, traffic and availability for weeks",
    long_about = "Probes one or more targets at a fixed interval, for weeks, and records each probe's fate, the traffic of the \
        interface that leads there, this host's load and the interface's availability. It goes on through outages, restarts of \
        the server, changes of address, clock steps and a sleeping host, and says each of them in the recording. \
        Every slot gets a row.\n\n\
        Targets: SERVER (a machine running `tailback serve`), icmp:HOST, tcp:HOST:PORT (time to connect), http://HOST/PATH or \
        https://HOST/PATH (fresh connection to first byte), dns:NAME@SERVER. Append ,TIME for an interval of its own. TCP, HTTP and DNS are asked once a \
        second unless you say so.",
    after_help = "Examples:\n  \
        tailback monitor far.example\n  \
        tailback monitor far.example icmp:192.0.2.1 dns:example.org@192.0.2.53 --output home.rec\n  \
        tailback monitor icmp:192.0.2.1,1s --quiet --output home.rec &\n\n\
        Started again with the same targets and --output, it goes on with the same recording. Stop with Ctrl-C or SIGTERM."
)]
pub struct Args {
    /// What to probe; at most one SERVER
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Time between probes, 1 ms to 1 h
    #[arg(long, default_value = "100 ms", value_name = "TIME")]
    interval: Duration,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Interface whose traffic and availability are recorded; may be repeated [default: the one that leads to the first target]
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// Time between readings of the interface's counters
    #[arg(long, default_value = "100 ms", value_name = "TIME")]
    traffic_interval: Duration,
    /// A probe unanswered for this long is lost; if an answer comes after all, it is recorded as late
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    lost_after: Duration,
    /// Rows go to disk this often: what a power cut may cost
    #[arg(long, default_value = "500 ms", value_name = "TIME")]
    flush: Duration,
    /// Thin old detail when less than this is left on the disk [default: 5 % of it, at most 1 GB]
    #[arg(long, value_name = "SIZE")]
    keep_free: Option<Bytes>,
    /// Thin old detail when the recording is larger than this
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    /// Name of the recording in reports
    #[arg(long)]
    title: Option<String>,
    /// Where the recording goes, and is gone on with
    #[arg(short, long, default_value = "monitor.rec", value_name = "DIR")]
    output: PathBuf,
    /// Stop by itself after this long
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// No live line
    #[arg(short, long)]
    quiet: bool,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
}

fn plan(args: &Args) -> anyhow::Result<MonitorPlan> {
    let wrong = |e: live::monitor::TargetError| usage(e.to_string());
    let targets = args
        .targets
        .iter()
        .map(|t| Target::parse(t, args.interval).map_err(wrong))
        .collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = targets.iter().map(Target::name).collect();
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            return Err(usage(match targets[i].kind {
                TargetKind::Server(_) => {
                    "two servers: run one monitor for each, with its own --output".to_owned()
                }
                _ => format!("{name} is given twice"),
            }));
        }
    }
    if args.traffic_interval < Duration::from_millis(10) {
        return Err(usage("--traffic-interval must be at least 10 ms"));
    }
    if args.lost_after < Duration::from_millis(100) || args.lost_after > Duration::from_secs(60) {
        return Err(usage("--lost-after must be from 100 ms to 60 s"));
    }
    if args.flush < Duration::from_millis(500) || args.flush > Duration::from_secs(60) {
        return Err(usage("--flush must be from 500 ms to 60 s"));
    }
    Ok(MonitorPlan {
        targets,
        lost_after: args.lost_after,
        interfaces: args.interface.clone(),
        traffic_interval: args.traffic_interval,
        only_v4: args.ipv4,
        only_v6: args.ipv6,
        ..MonitorPlan::default()
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = plan(&args)?;
    if args.print_plan {
        super::print(&format!("{}\n", serde_json::to_string_pretty(&plan)?))?;
        return Ok(Outcome::Done);
    }
    let access = args.access.read()?;
    live::signal::catch_interrupt();
    live::signal::ignore_hangup();
    let clock = Clock::start();
    let (meta, resumed) = meta(&args, &plan, clock)?;
    let options = Options {
        name: Name::NextFree,
        utc_offset_s: jiff::Zoned::now().offset().seconds(),
        flush_every: Some(args.flush),
        ..Options::default()
    };
    let writer = match &resumed {
        Some(path) => options.resume(path, meta.clone())?,
        None => options.create(&args.output, meta.clone())?,
    };
    // Once nobody else writes there.
    let first_seq = match &resumed {
        Some(path) => next_numbers(path),
        None => BTreeMap::new(),
    };
    let path = writer.path().to_owned();
    let diary = Diary::start(
        writer,
        Guard {
            keep_free: args.keep_free,
            max_size: args.max_size,
        },
    )?;
    let monitor = match Monitor::new(plan.clone(), &access, clock, diary.rows.clone(), &first_seq) {
        Ok(monitor) => monitor,
        Err(e) => {
            let writer = diary.finish();
            let empty = resumed.is_none() && writer.rows_saved() == 0;
            drop(writer);
            if empty {
                // Nothing was measured: there is nothing to keep.
                let _ = std::fs::remove_dir_all(&path);
            }
            return Err(e.into());
        }
    };
    let run = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "resumed": resumed.is_some(),
        "kernel": meta.host.kernel,
    });
    let _ = diary.rows.send(Row::Event(Event {
        t_ns: clock.unix_ns(),
        kind: "run".into(),
        subject: "monitor".into(),
        detail: run.to_string().into(),
    }));
    if !args.quiet {
        let what = if resumed.is_some() {
            "going on with"
        } else {
            "recording to"
        };
        say(&format!("{what} {}", path.display()));
    }
    let mut view = View::new(args.quiet, args.duration);
    monitor.run(&mut view);
    view.done();
    let writer = diary.finish();
    close(writer, meta)?;
    if !args.quiet {
        say(&format!("recording: {}", path.display()));
    }
    Ok(Outcome::Done)
}

fn close(writer: Writer, meta: Meta) -> anyhow::Result<()> {
    let ended_ns = Some(live::clock::wall_ns());
    writer.close(Meta {
        ended_ns,
        complete: true,
        ..meta
    })?;
    Ok(())
}

/// The recording's facts, and its directory where there is one of the same plan to go on with. One of another plan is
/// left alone: a sibling is begun.
fn meta(args: &Args, plan: &MonitorPlan, clock: Clock) -> anyhow::Result<(Meta, Option<PathBuf>)> {
    let plan_json = serde_json::to_value(plan)?;
    let fresh = Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Measured,
        verb: "monitor".into(),
        title: args
            .title
            .clone()
            .unwrap_or_else(|| format!("Monitoring {}", args.targets.join(", "))),
        started_ns: clock.unix_ns(),
        plan: plan_json.clone(),
        host: live::host::facts(plan.interfaces.first().map(String::as_str)),
        ..Meta::default()
    };
    let mut path = args.output.clone();
    for number in 2.. {
        match store::read_meta(&path) {
            Ok(old) if old.verb == "monitor" && old.plan == plan_json => {
                let meta = Meta {
                    started_ns: old.started_ns,
                    title: args.title.clone().unwrap_or(old.title),
                    exclusions: old.exclusions,
                    ..fresh
                };
                return Ok((meta, Some(path)));
            }
            _ if !path.exists() => break,
            _ => path = sibling(&args.output, number),
        }
    }
    Ok((fresh, None))
}

fn sibling(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()))
}

/// With which numbers the probes go on: those of the delays on disk, plus one. What a crash tore off is told.
fn next_numbers(path: &Path) -> BTreeMap<String, u64> {
    let mut next: Vec<u64> = Vec::new();
    let mut words = Vec::new();
    let scanned = store::scan(path, TableId::Delay, &["seq", "target"], &mut |columns| {
        let seq = columns.ints("seq");
        let targets = columns.words("target", &mut words).unwrap_or_default();
        next.resize(words.len(), 0);
        for (row, target) in targets.into_iter().enumerate() {
            let after = seq.get(row).map_or(0, |s| s.unsigned_abs() + 1);
            next[target as usize] = next[target as usize].max(after);
        }
    });
    match scanned {
        Ok(notes) => notes.iter().for_each(|n| say(&n.to_string())),
        Err(e) => say(&e.to_string()),
    }
    words.iter().map(ToString::to_string).zip(next).collect()
}

/// The live line.
struct View {
    quiet: bool,
    terminal: bool,
    duration: Option<Duration>,
    over: bool,
    troubles: BTreeMap<String, Option<String>>,
}

impl View {
    fn new(quiet: bool, duration: Option<Duration>) -> View {
        View {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            duration,
            over: false,
            troubles: BTreeMap::new(),
        }
    }

    fn done(&self) {
        if !self.quiet && self.terminal {
            let _ = writeln!(std::io::stderr());
        }
    }

    /// Without a terminal, only what goes wrong and right again.
    fn tell_changes(&mut self, status: &MonitorStatus) {
        for t in &status.targets {
            let before = self.troubles.insert(t.name.to_string(), t.trouble.clone());
            if before.clone().flatten() != t.trouble {
                match &t.trouble {
                    Some(why) => say(&format!("{}: {why}", t.name)),
                    None if before.is_some() => say(&format!("{}: answers again", t.name)),
                    None => {}
                }
            }
        }
    }
}

impl Overseer for View {
    fn status(&mut self, status: &MonitorStatus) {
        self.over = self.duration.is_some_and(|d| status.elapsed >= d);
        if self.quiet {
            return;
        }
        if !self.terminal {
            self.tell_changes(status);
            return;
        }
        let mut line = String::new();
        for t in &status.targets {
            let shown = |d: Option<Duration>| d.map_or("–".into(), |d| format!("{d:.1}"));
            let _ = write!(
                line,
                "{} {} (mean of 10 {})",
                t.name,
                shown(t.rtt),
                shown(t.mean_of_ten())
            );
            let _ = write!(line, ", lost {} of {}", t.lost, t.rows);
            if t.late + t.not_sent > 0 {
                let _ = write!(line, ", late {}, not sent {}", t.late, t.not_sent);
            }
            if let Some(why) = &t.trouble {
                let _ = write!(line, " [{why}]");
            }
            line.push_str(" · ");
        }
        match (&status.interface, status.down, status.up) {
            (Some(name), Some(down), Some(up)) => {
                let _ = write!(line, "{name} ↓{down:.2} ↑{up:.2}");
            }
            (Some(name), ..) => line.push_str(name),
            _ => line.push_str("no interface"),
        }
        // Longer than the terminal is wide, it would scroll.
        let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let line: String = line.chars().take(width.unwrap_or(120)).collect();
        let mut out = std::io::stderr();
        let _ = write!(out, "\r\x1b[K{}", base::text::clean(&line)).and_then(|()| out.flush());
    }

    fn interrupted(&mut self) -> bool {
        self.over || live::signal::interrupted()
    }
}
