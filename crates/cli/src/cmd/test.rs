//! `tailback test`: finds the queue of a link.

use super::{
    AccessArgs, LogInArgs, Printing, ThroughArgs, compare, finish, print, print_json, stdout_style,
};
use crate::Outcome;
use crate::watch::{Face, Terminal};
use base::{BitsPerSec, Bytes, Duration};
use experiment::bufferbloat::{self, Phase};
use ops::Access;
use ops::test::{Answer, Contract, Plan, Via};
use std::path::{Path, PathBuf};

#[derive(clap::Args, Clone)]
#[command(
    about = "Find the queue of a link: idle, download, upload, both",
    long_about = "Finds the queue of a link. Probes measure the link at rest, then while a download, an upload and \
        both fill it. The answer has the round trip at rest, the rates, the delay under load, the direction, \
        size (in ms and bytes) and kind of the queue, the reliability for the delays that you need, a grade, \
        and commands for a cure.\n\n\
        With a SERVER (a machine running `tailback serve`) it tests the real link to it. With --via it tests the \
        link to a server of somebody else: an iperf3 server, a web server, a responsiveness server or ndt7. Delay is \
        then that of ICMP echo or of TCP handshakes, and the direction of a wait is the one that was loaded. Without \
        either, it tests an emulated link on this machine.",
    after_help = "Examples:\n  \
        tailback test far.example\n  \
        tailback test far.example --contract 50mbit/10mbit\n  \
        tailback test --via iperf3:far.example\n  \
        tailback test --via https://far.example/large-file\n  \
        tailback test --link cable\n  \
        tailback test --link cable --set up.queue=fq_codel\n  \
        tailback test --link cable --virtual\n  \
        tailback test far.example --interface wwan0,wwan1\n  \
        tailback test far.example --load-from laptop\n\n\
        A twin of the link answers what a cure would do: tailback twin RECORDING, tailback whatif RECORDING."
)]
pub struct Args {
    /// Server: a name or address, with :PORT if it is not the default port
    server: Option<String>,
    /// Server of another protocol: https://HOST/.well-known/nq, ndt7:HOST, https://HOST/FILE or iperf3:HOST[:PORT]
    #[arg(
        long,
        conflicts_with_all = ["server", "link", "set", "virtual_time"],
        value_name = "TARGET"
    )]
    via: Option<String>,
    /// Trust a private authority, a PEM file, for the certificate of the --via server
    #[arg(long, requires = "via", value_name = "FILE")]
    via_ca: Option<PathBuf>,
    /// Emulated link to test if there is no server: a name (see `tailback list links`) or TOML file
    #[arg(
        long,
        default_value = "adsl",
        conflicts_with = "server",
        value_name = "NAME|FILE"
    )]
    link: String,
    /// Change one value of the emulated link, such as up.queue=codel or down.rate="20 Mbit/s"
    #[arg(long, conflicts_with = "server", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run in virtual time instead of emulating the link: needs no privileges, takes seconds
    #[arg(long = "virtual", conflicts_with = "server")]
    virtual_time: bool,
    /// Seed of the run in virtual time
    #[arg(long, requires = "virtual_time", value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    log_in: LogInArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Phases to run [default: idle,down,up,both; with --via those that the server can load]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    phases: Vec<String>,
    /// TCP connections in each direction [default: 2 below 10 Mbit/s, else 4; 1 over ndt7]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    flows: Option<u32>,
    /// Congestion control of the load [default: cubic where the kernel allows it]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Load with UDP at this rate instead of TCP
    #[arg(long, value_name = "RATE")]
    udp: Option<BitsPerSec>,
    /// Interval between probes [default: by the link's rate, 10 ms at the fastest]
    #[arg(long, value_name = "TIME")]
    interval: Option<Duration>,
    /// Upper limit on a loaded phase, warm-up included [default: 15 s after the warm-up, or 40 round trips under load]
    #[arg(long, value_name = "TIME")]
    longest: Option<Duration>,
    /// Upper limit on traffic, both directions combined
    #[arg(long, default_value = "400MB", value_name = "SIZE")]
    budget: Bytes,
    #[command(flatten)]
    through: ThroughArgs,
    /// Second machine behind the same link that makes the loads, by ssh(1), so that this host's own queue stays empty; it
    /// needs this program. Trains above the link's rate are left out
    #[arg(long, value_name = "HOST", requires = "server", conflicts_with = "udp")]
    load_from: Option<String>,
    /// Wait until there is no cross traffic, at most this long, before the test starts
    #[arg(long, num_args = 0..=1, default_missing_value = "60 s", value_name = "TIME")]
    hold_off: Option<Duration>,
    /// Fail at once if another client is loading the server's uplink, instead of waiting in the queue
    #[arg(long)]
    no_wait: bool,
    /// Contracted rates, DOWN/UP, such as 50mbit/10mbit
    #[arg(long, value_name = "DOWN/UP")]
    contract: Option<String>,
    /// Exit with 1 if the 95th percentile of the delay added in a direction is above this
    #[arg(long, value_name = "TIME")]
    fail_above: Option<Duration>,
    /// Capture TCP packets of the loads at both ends (`serve --allow-capture`), compare the captures packet by packet, and
    /// keep them in the recording; it needs CAP_NET_RAW here
    #[arg(long, conflicts_with_all = ["virtual_time", "via", "load_from"])]
    capture: bool,
    /// Name of the run in its report
    #[arg(long)]
    title: Option<String>,
    /// Recording to write [default: tailback-DATE-TIME.rec in this directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the answer as JSON instead of text
    #[arg(long)]
    json: bool,
    /// Print all figures with their evidence, instead of an answer of one screen
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Show plain lines instead of a live view
    #[arg(long)]
    plain: bool,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
}

/// Plan that the arguments describe.
pub fn plan(args: &Args) -> anyhow::Result<Plan> {
    let link = match (&args.server, &args.via) {
        (Some(_), _) | (_, Some(_)) => None,
        (None, None) => Some(ops::links::parse(&args.link, &args.set)?),
    };
    let test = bufferbloat::Plan {
        server: args.server.clone().unwrap_or_else(|| "embedded".into()),
        phases: match args.phases.is_empty() {
            true => Phase::ALL.to_vec(),
            false => ops::test::phases(&args.phases)?,
        },
        longest: args.longest,
        budget: args.budget,
        flows: args.flows,
        congestion: args.congestion.clone(),
        udp_rate: args.udp,
        probe_interval: args.interval,
        interface: args.through.one(link.is_some())?,
        hold_off: args.hold_off,
        waits: !args.no_wait,
        train_budget: match args.load_from {
            // The second machine has the server's uplink.
            Some(_) => Bytes::ZERO,
            None => bufferbloat::Plan::default().train_budget,
        },
        ..bufferbloat::Plan::default()
    };
    let via = args.via.as_ref().map(|target| Via {
        target: target.clone(),
        ca: args.via_ca.clone(),
    });
    let test = match &via {
        None => test,
        Some(via) => ops::test::adapted(test, via, !args.phases.is_empty())?,
    };
    let plan = Plan {
        via,
        test,
        link,
        virtual_seed: args.virtual_time.then_some(args.seed),
        capture: args.capture,
        contract: None,
        title: args.title.clone(),
        output: args.output.clone(),
        ipv4: args.ipv4,
        ipv6: args.ipv6,
        log_in: args.log_in.read(),
        load_from: args.load_from.clone(),
    };
    ops::test::check(&plan)?;
    let contract = args.contract.as_deref().map(Contract::parse);
    Ok(Plan {
        contract: contract.transpose()?,
        ..plan
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let access = args.access.read()?;
    if args.through.are_several() && !args.print_plan {
        let (json, output) = (args.json, args.output.as_deref());
        let run = |through, path: &Path, shown: bool| -> anyhow::Result<Printing> {
            let plan = plan(&Args {
                through,
                output: Some(path.to_owned()),
                ..args.clone()
            })?;
            let mut terminal = Terminal::new(Face::Test, args.plain, json || !shown);
            let answer = ops::test::run(&plan, &access, &mut terminal)?;
            let (full, fail_above) = (args.full, args.fail_above);
            Ok(Box::new(move || {
                if !json {
                    show(&answer, (false, full))?;
                }
                end(answer, fail_above)
            }))
        };
        return args.through.each(output, &run, &|measured| {
            let network = |(name, path)| ops::compare::Network {
                name,
                medium: None,
                rounds: vec![path],
            };
            let plan = ops::compare::Plan {
                networks: measured.into_iter().map(network).collect(),
                output: None,
            };
            compare::carry_out(&plan, json)
        });
    }
    let plan = plan(&args)?;
    if args.print_plan {
        let whole = serde_json::json!({ "test": plan.test, "link": plan.link, "via": plan.via });
        print_json(&whole)?;
        return Ok(Outcome::Done);
    }
    carry_out(
        &plan,
        &access,
        (args.plain, args.json, args.full),
        args.fail_above,
    )
}

/// Tests a plan's link. Figures are shown even if the test ended early.
pub fn carry_out(
    plan: &Plan,
    access: &Access,
    (plain, json, full): (bool, bool, bool),
    fail_above: Option<Duration>,
) -> anyhow::Result<Outcome> {
    let answer = ops::test::run(plan, access, &mut Terminal::new(Face::Test, plain, json))?;
    show(&answer, (json, full))?;
    end(answer, fail_above)
}

/// Prints the figures of a test.
fn show(answer: &Answer, (json, full): (bool, bool)) -> anyhow::Result<()> {
    let (figures, style) = (&answer.figures, stdout_style());
    print(&match json {
        true => format!("{}\n", serde_json::to_string_pretty(figures)?),
        false if full => report::terminal::text(figures, &answer.recording, style),
        false => report::terminal::brief(figures, &answer.end.recording, style),
    })?;
    match &answer.captured {
        Some(captured) if !json => {
            let files = answer.end.recording.join("capture");
            let [near, far] = ["near", "far"].map(|end| files.join(end).with_extension("pcapng"));
            print(&format!(
                "\nCaptured at both ends, and told by\ntailback trace {} --far {}\n\n{}",
                near.display(),
                far.display(),
                captured.text(style.width)
            ))
        }
        _ => Ok(()),
    }
}

fn end(answer: Answer, fail_above: Option<Duration>) -> anyhow::Result<Outcome> {
    let above = fail_above.is_some_and(|limit| answer.added_ms() > limit.as_millis_f64());
    Ok(match finish(answer.end)? {
        Outcome::Done if above => Outcome::Above,
        outcome => outcome,
    })
}
