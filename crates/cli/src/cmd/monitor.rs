//! `tailback monitor`: delay and traffic for weeks.

use super::config::Configured;
use super::monitor_config::{INTERVAL, Settings};
use super::{AccessArgs, print, print_json};
use crate::Outcome;
use crate::console::{Console, is_quiet};
use experiment::monitor::{MonitorPlan, Target};
use ops::Access;
use ops::monitor::{Plan, Recipients};
use ops::tell::Ways;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Record delay, traffic and availability for weeks",
    long_about = "Probes one or more targets at a fixed interval, for weeks. It records each probe's fate, the traffic \
        of the interface towards the first target, this host's load and the interface's availability. It \
        continues through outages, restarts of the server, changes of address, clock steps and suspends, and \
        records each of them. Every slot gets a row. Its probe leaves at a random time in the slot's first 20 ms, or in the first half \
        of a slot shorter than 40 ms, so that it is never in step with other traffic.\n\n\
        Targets: SERVER (a machine running `tailback serve`), icmp:HOST, \
        stamp:HOST (a reflector of RFC 8762), tcp:HOST:PORT (time to connect), \
        http://HOST/PATH or https://HOST/PATH (fresh connection to first byte), dns:NAME@SERVER. Append \
        ,TIME for an interval of its own; the default for TCP, HTTP and DNS is one second. GROUP= or GROUP/GROUP= \
        before a target is its place in the tree of the live page.",
    after_help = "Examples:\n  \
        tailback monitor far.example\n  \
        tailback monitor far.example icmp:192.0.2.1 \\\n      \
        dns:example.org@192.0.2.53 --output home.rec\n  \
        tailback monitor icmp:192.0.2.1,1s --quiet -o home.rec &\n  \
        tailback monitor far.example --web 127.0.0.1:8117\n  \
        tailback monitor --interface eth0 -o traffic.rec\n  \
        tailback monitor icmp:192.0.2.1 \\\n      \
        --interface wwan0,wwan1 -o modems.rec\n  \
        tailback monitor far.example --print-config > home.toml\n  \
        tailback monitor --config home.toml\n\n\
        If started again with the same targets and --output, it continues the same recording. Stop with Ctrl-C or SIGTERM."
)]
pub struct Args {
    /// Targets to probe; at most one SERVER. With --interface it may be left out: then nothing is sent, and traffic is counted
    #[arg(required_unless_present_any = ["config", "print_config", "interface"], value_name = "TARGET")]
    targets: Vec<String>,
    /// TOML file with settings, named as the options; an option here precedes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings and their origin as TOML, for --config, and stop
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
    /// Print the state of the targets as JSON when it ends, as `tailback status --json` does
    #[arg(long)]
    json: bool,
}

/// Plan that arguments without a configuration file describe.
pub fn plan_of(args: &Args) -> anyhow::Result<Plan> {
    let plan = plan(&args.targets, &args.settings)?;
    ops::monitor::check(&plan)?;
    Ok(plan)
}

fn plan(targets: &[String], s: &Settings) -> anyhow::Result<Plan> {
    let targets = match (targets, &s.targets) {
        ([], Some(targets)) => targets.as_slice(),
        (given, _) => given,
    };
    if targets.is_empty() && s.interface.as_ref().is_none_or(Vec::is_empty) {
        return Err(ops::usage(
            "nothing to monitor was given: name a server, a target such as icmp:192.0.2.1, or an interface with --interface",
        ));
    }
    let usual = Plan::new(MonitorPlan::default());
    let interval = s.interval.unwrap_or(INTERVAL);
    let monitor = MonitorPlan {
        targets: ops::monitor::through(
            ops::monitor::targets(targets, interval)?,
            s.interface.as_deref().unwrap_or_default(),
        )?,
        lost_after: s.lost_after.unwrap_or(usual.monitor.lost_after),
        interfaces: s.interface.clone().unwrap_or_default(),
        traffic_interval: s.traffic_interval.unwrap_or(usual.monitor.traffic_interval),
        only_v4: s.ip.ipv4.unwrap_or(false),
        only_v6: s.ip.ipv6.unwrap_or(false),
        ..MonitorPlan::default()
    };
    Ok(Plan {
        monitor,
        names: targets
            .iter()
            .map(|t| Target::ungrouped(t).to_owned())
            .collect(),
        title: s.title.clone(),
        output: s.output.clone().unwrap_or(usual.output),
        flush: s.flush.unwrap_or(usual.flush),
        keep_free: s.keep_free,
        max_size: s.max_size,
        duration: s.duration,
        alerts: Recipients {
            ways: Ways {
                command: s.on_outage.clone(),
                webhook: s.webhook.clone(),
                mail: s.mail.clone(),
            },
            after: s.alert_after,
            delay: s.alert_delay,
            loss_percent: s.alert_loss,
        },
        metrics: s.metrics.clone(),
        web: s.web,
        web_token: s.web_token.clone(),
        mark_on: s.mark_on.clone(),
        modem_cmd: s.modem_cmd.clone(),
        modem_every: s.modem_every.unwrap_or(usual.modem_every),
        radio_every: s.radio_every.unwrap_or(usual.radio_every),
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let file = args.config.as_deref().map(Settings::read).transpose()?;
    if args.print_config {
        let options = Settings {
            targets: (!args.targets.is_empty()).then_some(args.targets),
            ..args.settings
        };
        print(&options.printed(file.as_ref())?)?;
        return Ok(Outcome::Done);
    }
    let settings = args.settings.over(&file.unwrap_or_default());
    let plan = plan(&args.targets, &settings)?;
    ops::monitor::check(&plan)?;
    if args.print_plan {
        print_json(&serde_json::to_value(&plan.monitor)?)?;
        return Ok(Outcome::Done);
    }
    let access = args.access.read()?;
    carry_out(&plan, &access, args.json)
}

/// Records until the plan ends or is interrupted.
pub fn carry_out(plan: &Plan, access: &Access, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::monitor::run(plan, access, &mut Console::of_monitor())?;
    if !is_quiet() {
        eprintln!("tailback: recording: {}", answer.recording.display());
    }
    if json {
        print_json(&answer.state(&mut Console::new())?.json()?)?;
    }
    Ok(Outcome::Done)
}
