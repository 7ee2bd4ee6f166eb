//! `tailback probe`: one experiment, one question.

use super::test::default_path;
use super::{AccessArgs, print, stdout_style, write_file};
use crate::recorder::Recorder;
use crate::watch::{Face, Terminal};
use crate::{Outcome, link_arg, runners};
use anyhow::Context;
use base::record::{Event, FORMAT_VERSION, Meta, Origin, Recording};
use base::{BitsPerSec, Bytes, Duration};
use experiment::{How, PROBES, ProbeSpec, Stopped};
use link::LinkSpec;
use live::clock::Clock;
use live::craft::{self, CraftError, Others};
use live::emulate::{self, Emulation, NetNs};
use live::errand::Tally;
use live::load::{Access, Peer};
use live::serve::{PortSet, ServeConfig, Server};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Ask a line one question: the highest rate without loss, the largest burst, the best size …",
    long_about = "Asks a line one question and answers it with a number, its interval and the evidence.\n\n\
        KIND is one of the kinds below, with what it shall be told: `sweep`, `sweep:size=1000,mode=full`; `tailback list probes` \
        prints every parameter. SERVER is a machine beyond the line that runs `tailback serve`. With --link both ends are \
        on this machine and an emulated line lies between them.\n\n\
        What it sends goes only to a server that has agreed, never exceeds --budget, and does not begin while others use the line.",
    after_help = kinds(),
)]
pub struct Args {
    /// Which kind, with its parameters: KIND or KIND:key=value,key=value
    #[arg(value_name = "KIND")]
    probe: ProbeSpec,
    /// The far end: a name or address, with :PORT if it is not the usual one
    #[arg(required_unless_present = "link", conflicts_with = "link")]
    server: Option<String>,
    /// Both ends here, over the emulated line of this name (see `tailback list links`) or TOML file; of several, near
    /// end first, with a router between one and the next
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    link: Vec<String>,
    /// Change one value of the emulated line, such as up.queue=codel; of the second of several hop2.up.queue=codel
    #[arg(long, requires = "link", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Let others send this much up the emulated line beside the probe, packets of mixed sizes at random
    #[arg(long, requires = "link", value_name = "RATE")]
    others: Option<BitsPerSec>,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Send at most so much, both directions together
    #[arg(long, default_value = "100 MB", value_name = "SIZE")]
    budget: Bytes,
    /// Interface whose counters show what others send [default: the one that leads to the server]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Wait for others to leave the line, at most this long, instead of giving up
    #[arg(long, num_args = 0..=1, default_missing_value = "60 s", value_name = "TIME")]
    hold_off: Option<Duration>,
    /// Fail at once if another client is loading the server's uplink, instead of waiting in the queue
    #[arg(long)]
    no_wait: bool,
    /// Measure although others use the line
    #[arg(long)]
    beside_others: bool,
    /// Run again so long after the begin of the run before, each into a recording of its own
    #[arg(long, value_name = "TIME", conflicts_with_all = ["output", "json"])]
    every: Option<Duration>,
    /// How many runs in all, with --every [default: until interrupted]
    #[arg(long, requires = "every", value_name = "N")]
    times: Option<u64>,
    /// Name of the run in its report
    #[arg(long)]
    title: Option<String>,
    /// Where the recording goes [default: tailback-DATE-TIME.rec here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the answer as JSON instead of text
    #[arg(long)]
    json: bool,
    /// No live view, plain lines only
    #[arg(long)]
    plain: bool,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
}

/// The kinds, their questions and what each takes: the end of `--help`.
fn kinds() -> String {
    let mut text = String::from("Kinds:\n");
    for spec in PROBES {
        text += &format!(
            "  {:10} {}\n             takes {}\n",
            spec.entry.name, spec.entry.summary, spec.takes
        );
    }
    text + "\nExamples:\n  tailback probe sweep far.example\n  \
        tailback probe sweep:direction=down,size=500 far.example\n  \
        tailback probe sweep --link shdsl                      both ends here, over an emulated line\n  \
        tailback list probes                                   what each kind can be told"
}

fn plan_json(args: &Args, links: &[LinkSpec]) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::json!({
        "probe": args.probe,
        "server": args.server.as_deref().unwrap_or("embedded"),
        "link": links_json(links)?,
        "others": args.others,
        "budget": args.budget,
        "hold_off": args.hold_off,
        "beside_others": args.beside_others,
    }))
}

/// One as itself, a chain as a list; null where there is none.
fn links_json(links: &[LinkSpec]) -> anyhow::Result<serde_json::Value> {
    let json = match links {
        [] => Ok(serde_json::Value::Null),
        [link] => serde_json::to_value(link),
        chain => serde_json::to_value(chain),
    };
    json.context("the link's definition")
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let links = link_arg::chain(&args.link, &args.set)?;
    let access = args.access.read()?;
    let plan = plan_json(&args, &links)?;
    if args.print_plan {
        print(&format!("{}\n", serde_json::to_string_pretty(&plan)?))?;
        return Ok(Outcome::Done);
    }
    if !links.is_empty() {
        // Namespaces must be entered while this process has a single thread.
        emulate::prepare()?;
    }
    let server = match &args.server {
        Some(name) => Some(live::resolve::server(
            name,
            measure::control::DEFAULT_PORT,
            args.ipv4,
            args.ipv6,
        )?),
        None => None,
    };
    live::signal::catch_interrupt();
    let Some(every) = args.every else {
        return run_once(&args, &links, plan, server, access);
    };
    let began = Clock::start();
    let mut latest = Outcome::Done;
    for n in 1.. {
        match run_once(&args, &links, plan.clone(), server, access.clone()) {
            Ok(outcome) => latest = outcome,
            // A line that is down for an hour is back in the next.
            Err(e) => {
                eprintln!("tailback: run {n}: {e:#}");
                latest = Outcome::CouldNotMeasure;
            }
        }
        if args.times.is_some_and(|times| n >= times) {
            break;
        }
        // A run that took longer than that is followed by the next at once.
        let due = Duration::from_nanos(every.as_nanos() * n);
        let mut told = false;
        loop {
            if live::signal::interrupted() {
                return Ok(latest);
            }
            let left = due.saturating_sub(began.now() - base::Time::ZERO);
            if left == Duration::ZERO {
                break;
            }
            if !told {
                told = true;
                eprintln!("Run {} begins in {:.0}.", n + 1, left);
            }
            std::thread::sleep(left.min(LOOK).to_std());
        }
    }
    Ok(latest)
}

/// How often whoever waits for the next run is asked whether to go on.
const LOOK: Duration = Duration::from_millis(200);

fn run_once(
    args: &Args,
    links: &[LinkSpec],
    plan: serde_json::Value,
    server: Option<SocketAddr>,
    access: Access,
) -> anyhow::Result<Outcome> {
    let clock = Clock::start();
    let path = args.output.clone().unwrap_or_else(default_path);
    let meta = meta(args, links, plan, clock)?;
    let writer = store::Options {
        name: if args.output.is_some() {
            store::Name::Exact
        } else {
            store::Name::NextFree
        },
        utc_offset_s: jiff::Zoned::now().offset().seconds(),
        ..store::Options::default()
    }
    .create(&path, meta.clone())?;
    let path = writer.path().to_path_buf();
    let recording = Recording {
        meta,
        ..Recording::default()
    };
    let recorder = Recorder::start(writer, recording, clock);
    let mut terminal = Terminal::new(
        (recorder.shared.clone(), clock),
        recorder.failure(),
        Face::Probe,
        args.plain,
        args.json,
    );
    let kind = args.probe.kind();
    if !args.json {
        eprintln!("{} Takes {}.", kind.entry.summary, kind.takes);
        if matches!(kind.how, How::Trains(_))
            || matches!(
                kind.entry.name,
                "path" | "tcp" | "page" | "collapse" | "check"
            )
        {
            eprintln!("Sends at most {:.3} in all (--budget).", args.budget);
        }
    }
    let result = match server {
        Some(server) => {
            let to = (server, None);
            probe(args, to, access, clock, (&recorder, &path), &mut terminal)
        }
        None => embedded(args, links, clock, (&recorder, &path), &mut terminal),
    };
    terminal.done();
    let (mut recording, writer, written) = recorder.finish();
    recording.meta.complete = result.is_ok() && written.is_ok();
    recording.meta.ended_ns = Some(clock.unix_ns());
    let closed = writer.close(recording.meta.clone());
    conclude(
        args,
        &recording,
        &path,
        result,
        written.and(closed.map(|_| ())),
    )
}

fn probe(
    args: &Args,
    (server, far): (SocketAddr, Option<&NetNs>),
    access: Access,
    clock: Clock,
    (recorder, path): (&Recorder, &Path),
    watch: &mut Terminal,
) -> anyhow::Result<()> {
    let plan = craft::Plan {
        peer: Peer {
            server,
            access,
            patience: Duration::from_secs(20),
        },
        first_train: 0,
        budget: args.budget,
        interface: args.interface.clone(),
        hold_off: args.hold_off,
        waits: !args.no_wait,
        beside_others: args.beside_others || args.probe.kind().beside_others,
    };
    let tally = Tally::default();
    let run = runners::Run {
        words: args.probe.words(),
        plan: &plan,
        far,
        clock,
        rows: recorder.rows.clone(),
        so_far: recorder.shared.clone(),
        recording: path,
        tally: tally.clone(),
        watch,
    };
    let result = runners::carry_out(&args.probe, run, &mut |_| {});
    if let Some(event) = tally.event(clock.unix_ns()) {
        let _ = recorder.rows.send(event.into());
    }
    result
}

/// Both ends on this machine, in two network namespaces with the emulated links between them.
fn embedded(
    args: &Args,
    links: &[LinkSpec],
    clock: Clock,
    (recorder, path): (&Recorder, &Path),
    watch: &mut Terminal,
) -> anyhow::Result<()> {
    let options = emulate::Options {
        rows: Some(recorder.rows.clone()),
        routed: true,
        ..emulate::Options::new(clock)
    };
    let emulation = Emulation::start(links, options)?;
    let config = ServeConfig {
        // Nobody but this run reaches it.
        allow_listen: PortSet::any(),
        ..ServeConfig::default()
    };
    let server = emulation.far().run(|| Server::start(config))??;
    let port = server.local_addr().port();
    let address: SocketAddr = if args.ipv6 {
        (emulate::FAR_V6, port).into()
    } else {
        (emulate::FAR_V4, port).into()
    };
    let others = args
        .others
        .map(|rate| Others::start(&emulation, rate, 1))
        .transpose()?;
    let result = emulation.near().run(|| {
        let to = (address, Some(emulation.far()));
        probe(args, to, Access::default(), clock, (recorder, path), watch)
    })?;
    drop(others);
    server.stop();
    let summary = emulation.stop()?;
    // A host that was too busy to emulate the line makes every figure doubtful, so the recording says so.
    if let Some(doubt) = summary.doubt() {
        let event = Event {
            t_ns: clock.unix_ns(),
            kind: "doubt".into(),
            subject: "emulator".into(),
            detail: doubt.as_str().into(),
        };
        let _ = recorder.rows.send(event.into());
    }
    result
}

/// Tells what was found, also when the run ended early.
fn conclude(
    args: &Args,
    recording: &Recording,
    path: &Path,
    result: anyhow::Result<()>,
    closed: Result<(), store::StoreError>,
) -> anyhow::Result<Outcome> {
    let nothing = recording.datagram.is_empty()
        && recording.delay.is_empty()
        && !recording
            .event
            .iter()
            .any(|e| &*e.kind == args.probe.kind().entry.name);
    if let (true, Err(_)) = (nothing, &result) {
        closed?;
        std::fs::remove_dir_all(path)
            .with_context(|| format!("cannot remove the empty recording {}", path.display()))?;
        return result.map(|()| Outcome::Done);
    }
    let answer = experiment::analyse(recording)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
    } else {
        print(&report::terminal::probe(
            &answer,
            &recording.meta,
            stdout_style(),
        ))?;
    }
    closed.context("the figures above are whole, but the recording is not")?;
    let page = path.join("report.html");
    write_file(&page, &report::probe::page(&answer, &recording.meta))?;
    eprintln!("Report: {}", page.display());
    eprintln!("Recording: {}", path.display());
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(e)
            if matches!(
                e.downcast_ref(),
                Some(CraftError::Stopped(Stopped::Interrupted))
            ) =>
        {
            eprintln!("tailback: {e}; what was measured until then is above and in the recording");
            Ok(Outcome::CouldNotMeasure)
        }
        Err(e) => Err(e.context(
            "the probe ended early; what was measured until then is above and in the recording",
        )),
    }
}

fn meta(
    args: &Args,
    links: &[LinkSpec],
    plan: serde_json::Value,
    clock: Clock,
) -> anyhow::Result<Meta> {
    let names: Vec<&str> = links.iter().map(|l| l.name.as_str()).collect();
    let title = args
        .title
        .clone()
        .unwrap_or_else(|| match (&args.server, &names[..]) {
            (Some(server), _) => format!("The line to {server}"),
            (None, [name]) => format!("Emulated link {name}"),
            (None, names) => format!("Emulated links {}", names.join(", ")),
        });
    let known_link = match links {
        [] => None,
        links => Some(serde_json::json!({ "link": links_json(links)? })),
    };
    Ok(Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: match links {
            [] => Origin::Measured,
            _ => Origin::Emulated,
        },
        verb: "probe".into(),
        title,
        started_ns: clock.unix_ns(),
        plan,
        known_link,
        host: live::host::facts(args.interface.as_deref()),
        ..Meta::default()
    })
}
