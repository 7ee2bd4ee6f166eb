//! `tailback test`: the main job.

use super::{AccessArgs, print, stdout_style, usage, write_file};
use crate::recorder::Recorder;
use crate::watch::{Face, Terminal};
use crate::{Outcome, link_arg};
use analysis::answer::Answer;
use anyhow::Context;
use base::record::{Event, FORMAT_VERSION, Meta, Origin, Recording};
use base::{BitsPerSec, Bytes, Duration};
use experiment::Failure as _;
use experiment::bufferbloat::{self, Bufferbloat, Phase};
use link::LinkSpec;
use live::clock::Clock;
use live::craft::CraftError;
use live::emulate::{self, Emulation};
use live::load::{Access, CongestionControls, Peer};
use live::serve::{ServeConfig, Server};
use live::sockets::{Setup, Sockets};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Find where packets wait on this line: idle, download, upload, both",
    long_about = "Finds where packets wait on this line. Probes it at rest, then while a download, an upload and both fill it, \
        and says: the round trip at rest, the rates, the delay under load, where the queue is, how large (in ms and bytes), \
        which kind, how reliable the line is for delays you care about, a grade, and what to set.\n\n\
        With a SERVER (a machine running `tailback serve`) it measures the real line to it. Without, it runs the whole job \
        on this machine over an emulated line.",
    after_help = "Examples:\n  \
        tailback test far.example\n  \
        tailback test far.example --contract 50mbit/10mbit\n  \
        tailback test --link cable\n  \
        tailback test --link cable --set up.queue=fq_codel    the same line, cured"
)]
pub struct Args {
    /// The far end: a name or address, with :PORT if it is not the usual one
    server: Option<String>,
    /// Without a server: the emulated line, by name (see `tailback list links`) or TOML file
    #[arg(
        long,
        default_value = "adsl",
        conflicts_with = "server",
        value_name = "NAME|FILE"
    )]
    link: String,
    /// Change one value of the emulated line, such as up.queue=codel or down.rate="20 Mbit/s"
    #[arg(long, conflicts_with = "server", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Which phases to run
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "idle,down,up,both",
        value_name = "LIST"
    )]
    phases: Vec<String>,
    /// TCP connections in each direction [default: 2 below 10 Mbit/s, else 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    flows: Option<u32>,
    /// Congestion control of the load [default: cubic where the kernel allows it]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Load with UDP at this rate instead of TCP
    #[arg(long, value_name = "RATE")]
    udp: Option<BitsPerSec>,
    /// Time between probes [default: by the line's rate, 10 ms at the fastest]
    #[arg(long, value_name = "TIME")]
    interval: Option<Duration>,
    /// Upper limit on a loaded phase, warm-up included [default: 15 s after the warm-up, or 40 round trips under load]
    #[arg(long, value_name = "TIME")]
    longest: Option<Duration>,
    /// Upper limit on the data that the test carries, both directions combined
    #[arg(long, default_value = "400 MB", value_name = "SIZE")]
    budget: Bytes,
    /// Interface whose counters show what others send [default: the one that leads to the server]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Wait for others to leave the line before starting, at most this long
    #[arg(long, num_args = 0..=1, default_missing_value = "60 s", value_name = "TIME")]
    hold_off: Option<Duration>,
    /// Fail at once if another client is loading the server's uplink, instead of waiting in the queue
    #[arg(long)]
    no_wait: bool,
    /// What the contract promises, DOWN/UP, such as 50mbit/10mbit
    #[arg(long, value_name = "DOWN/UP")]
    contract: Option<String>,
    /// Exit with 1 if a direction's p95 of added delay is above this
    #[arg(long, value_name = "TIME")]
    fail_above: Option<Duration>,
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

/// A validated request; nothing is open yet.
struct Plan {
    test: bufferbloat::Plan,
    link: Option<LinkSpec>,
    contract: Option<(BitsPerSec, BitsPerSec)>,
    title: String,
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let link = match &args.server {
        Some(_) => None,
        None => Some(link_arg::parse(&args.link, &args.set)?),
    };
    let phases = args
        .phases
        .iter()
        .map(|name| {
            let known = Phase::ALL.into_iter().find(|p| p.name() == name);
            known.ok_or_else(|| usage(format!("no phase \"{name}\". Known: idle, down, up, both")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if phases.first() != Some(&Phase::Idle) {
        return Err(usage(
            "the first phase must be idle: everything else is compared with it",
        ));
    }
    if args
        .interval
        .is_some_and(|i| i < Duration::from_micros(200))
    {
        return Err(usage(
            "--interval below 0.2 ms is more than a probe can do: use 1 ms or more",
        ));
    }
    if let Some(name) = &args.congestion {
        let here = CongestionControls::read().available;
        if !here.contains(name) {
            return Err(usage(format!(
                "no congestion control \"{name}\" in this kernel. Known: {}",
                here.join(", ")
            )));
        }
    }
    let contract = args.contract.as_deref().map(parse_contract).transpose()?;
    let title = args
        .title
        .clone()
        .unwrap_or_else(|| match (&args.server, &link) {
            (Some(server), _) => format!("The line to {server}"),
            (None, Some(link)) => format!("Emulated link {}", link.name),
            (None, None) => unreachable!("a plan has a server or a link"),
        });
    let test = bufferbloat::Plan {
        server: args.server.clone().unwrap_or_else(|| "embedded".into()),
        phases,
        longest: args.longest,
        budget: args.budget,
        flows: args.flows,
        congestion: args.congestion.clone(),
        udp_rate: args.udp,
        probe_interval: args.interval,
        interface: args.interface.clone(),
        hold_off: args.hold_off,
        waits: !args.no_wait,
        ..bufferbloat::Plan::default()
    };
    Ok(Plan {
        test,
        link,
        contract,
        title,
    })
}

fn parse_contract(text: &str) -> anyhow::Result<(BitsPerSec, BitsPerSec)> {
    // "50 Mbit/s/10 Mbit/s" has slashes of its own: try each one.
    let cuts = text
        .match_indices('/')
        .map(|(at, _)| (&text[..at], &text[at + 1..]));
    let rates = |(down, up): (&str, &str)| Some((down.parse().ok()?, up.parse().ok()?));
    cuts.filter_map(rates).next().ok_or_else(|| {
        usage(format!(
            "--contract {text}: write DOWN/UP, such as 50mbit/10mbit"
        ))
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = plan(&args)?;
    let access = args.access.read()?;
    if args.print_plan {
        print(&format!(
            "{}\n",
            serde_json::to_string_pretty(
                &serde_json::json!({ "test": plan.test, "link": plan.link })
            )?
        ))?;
        return Ok(Outcome::Done);
    }
    if plan.link.is_some() {
        // Namespaces must be entered while this process has a single thread.
        live::emulate::prepare()?;
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
    let clock = Clock::start();
    let path = args.output.clone().unwrap_or_else(default_path);
    let meta = meta(&plan, clock)?;
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
    let recorder = Recorder::start(
        writer,
        Recording {
            meta: meta.clone(),
            ..Recording::default()
        },
        clock,
    );
    let mut terminal = Terminal::new(
        (recorder.shared.clone(), clock),
        recorder.failure(),
        Face::Test,
        args.plain,
        args.json,
    );

    let result = match (&plan.link, server) {
        (Some(link), _) => embedded(&plan.test, link, clock, &recorder, &mut terminal),
        (None, Some(server)) => {
            let setup = setup(&plan.test, (server, access), clock, &recorder);
            carry_out(&plan.test, setup, &mut terminal).map_err(anyhow::Error::from)
        }
        (None, None) => unreachable!("a plan has a server or a link"),
    };
    terminal.done();

    let (mut recording, writer, written) = recorder.finish();
    recording.meta.complete = result.is_ok() && written.is_ok();
    recording.meta.ended_ns = Some(clock.unix_ns());
    let closed = writer.close(recording.meta.clone());
    conclude(
        &args,
        &recording,
        &path,
        result,
        written.and(closed.map(|_| ())),
    )
}

fn setup(
    test: &bufferbloat::Plan,
    (server, access): (SocketAddr, Access),
    clock: Clock,
    recorder: &Recorder,
) -> Setup {
    let peer = Peer {
        server,
        access,
        patience: Duration::from_secs(10),
    };
    Setup {
        so_far: recorder.shared.clone(),
        interface: test.interface.clone(),
        ..Setup::new(peer, clock, recorder.rows.clone())
    }
}

/// Runs all phases from the calling thread's network namespace.
fn carry_out(
    test: &bufferbloat::Plan,
    setup: Setup,
    terminal: &mut Terminal,
) -> Result<(), CraftError> {
    let mut steps = Bufferbloat::new(test.clone());
    let mut sockets = Sockets::new(setup);
    experiment::run(&mut steps, &test.bounds(), &mut sockets, terminal).map(drop)
}

/// Both ends on this machine, in two network namespaces with the emulated link between them.
fn embedded(
    test: &bufferbloat::Plan,
    link: &LinkSpec,
    clock: Clock,
    recorder: &Recorder,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let options = emulate::Options {
        rows: Some(recorder.rows.clone()),
        ..emulate::Options::new(clock)
    };
    let emulation = Emulation::start(std::slice::from_ref(link), options)?;
    // Nobody but this run reaches it.
    let config = ServeConfig::default();
    let server = emulation.far().run(|| Server::start(config))??;
    let address = SocketAddr::new(emulate::FAR_V4.into(), server.local_addr().port());
    let setup = setup(test, (address, Access::default()), clock, recorder);
    let result = emulation.near().run(|| carry_out(test, setup, terminal))?;
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
        eprintln!("tailback: {doubt}");
    }
    Ok(result?)
}

/// Tells what was found, also when the run ended early.
fn conclude(
    args: &Args,
    recording: &Recording,
    path: &Path,
    result: anyhow::Result<()>,
    closed: Result<(), store::StoreError>,
) -> anyhow::Result<Outcome> {
    let interrupted = result
        .as_ref()
        .err()
        .and_then(|e| e.downcast_ref::<CraftError>())
        .is_some_and(|e| e.interrupted());
    let answer = match analysis::analyse_test(recording, &analysis::Options::default()) {
        Ok(answer) => answer,
        Err(nothing) => {
            // Not one probe was sent: the first error is the one to read, and there is nothing to keep.
            closed?;
            if recording.delay.is_empty() {
                std::fs::remove_dir_all(path).with_context(|| {
                    format!("cannot remove the empty recording {}", path.display())
                })?;
            }
            return Err(result.err().unwrap_or_else(|| nothing.into()));
        }
    };
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
    } else {
        print(&report::terminal::text(&answer, recording, stdout_style()))?;
    }
    match closed {
        Ok(()) => {
            let page = path.join("report.html");
            write_file(&page, &report::html::page(&answer, recording))?;
            eprintln!("Report: {}", page.display());
            eprintln!("Recording: {}", path.display());
        }
        Err(e) => {
            return Err(anyhow::Error::from(e)
                .context("the figures above are whole, but the recording is not"));
        }
    }
    match result {
        Err(e) if interrupted => {
            eprintln!("tailback: {e}; what was measured until then is above and in the recording");
            Ok(Outcome::CouldNotMeasure)
        }
        Err(e) => Err(e.context(
            "the test ended early; what was measured until then is above and in the recording",
        )),
        Ok(()) => Ok(verdict(&answer, args.fail_above)),
    }
}

fn verdict(answer: &Answer, limit: Option<Duration>) -> Outcome {
    let added = [&answer.up, &answer.down]
        .into_iter()
        .filter_map(|d| d.added.p95_ms.value())
        .fold(0.0, f64::max);
    match limit {
        Some(limit) if added > limit.as_millis_f64() => Outcome::Above,
        _ => Outcome::Done,
    }
}

/// A name for the recording that says when it was made.
pub(super) fn default_path() -> PathBuf {
    format!(
        "tailback-{}.rec",
        jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")
    )
    .into()
}

fn meta(plan: &Plan, clock: Clock) -> anyhow::Result<Meta> {
    let mut known = serde_json::Map::new();
    if let Some(link) = &plan.link {
        known.insert(
            "link".into(),
            serde_json::to_value(link).context("the link's definition")?,
        );
    }
    if let Some((down, up)) = plan.contract {
        known.insert(
            "contract".into(),
            serde_json::json!({ "down": down, "up": up }),
        );
    }
    let known_link = (!known.is_empty()).then_some(known.into());
    Ok(Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: if plan.link.is_some() {
            Origin::Emulated
        } else {
            Origin::Measured
        },
        verb: "test".into(),
        title: plan.title.clone(),
        started_ns: clock.unix_ns(),
        plan: serde_json::to_value(&plan.test).context("the plan")?,
        known_link,
        host: live::host::facts(plan.test.interface.as_deref()),
        ..Meta::default()
    })
}
