//! `tailback analyse`: the figures of recordings.

use super::{print, print_with, stdout_style};
use crate::Outcome;
use crate::console::Console;
use base::{BitsPerSec, Duration};
use ops::analyse::{Format, Plan};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Print the answer or the statistics of recordings, even of incomplete ones",
    long_about = "Prints the answer of a recording, even of an incomplete one. A recording of `tailback test` gets the \
        answer of the test. Any other gets statistics on one screen: loss, round trips, delay variation, \
        availability, outages with their causes, and the uses of a home that work. With --full, or an option \
        that asks for a table, it gets all tables. Each of the options below selects statistics for a test too. A \
        recording without probes, as of many simulations, gets the waits in its queues and the throughput of \
        its transfers. Several recordings are compared; with --together they are redundant uplinks.",
    after_help = "Examples:\n  tailback analyse weeks.rec --exclude gaps.toml\n  \
        tailback analyse weeks.rec --window 10min \\\n      \
        --span upload=2014-05-16T09:14/2014-05-16T09:40\n  \
        tailback analyse adsl.rec twin.rec pie.rec --markdown\n  \
        tailback analyse adsl.rec lte.rec --together\n  \
        tailback analyse weeks.rec --services mine.toml --fail\n  \
        tailback analyse satellite.rec --patterns\n  \
        tailback analyse tailback-*.rec --paths\n  \
        tailback analyse weeks.rec --hidden-queue \\\n      \
        --rate-up 700kbit/s --from 2014-05-16T09:14"
)]
pub struct Args {
    /// Recordings to analyse
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Print JSON instead of text
    #[arg(long, conflicts_with_all = ["markdown", "csv"])]
    json: bool,
    /// Print the tables as Markdown
    #[arg(long, conflicts_with = "csv")]
    markdown: bool,
    /// Print CSV: statistics as one row a figure with plain numbers, other answers as their tables
    #[arg(long)]
    csv: bool,
    /// Print statistics, even of a recording of `tailback test`
    #[arg(long)]
    statistics: bool,
    /// Print all tables of statistics, instead of one screen
    #[arg(long)]
    full: bool,
    /// Begin of the time range, such as 2026-05-16T09:17 or 2026-05-16T07:17:20Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the time range
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Time zone of days, and of times given without one, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Also give figures for each window of this length, such as 10min
    #[arg(long, value_name = "TIME")]
    window: Option<Duration>,
    /// Length of the sliding window [default: 10min, or a tenth of a short recording]
    #[arg(long, value_name = "TIME")]
    sliding: Option<Duration>,
    /// Also give figures for this span; may be repeated
    #[arg(long, value_name = "NAME=FROM/TO")]
    span: Vec<String>,
    /// File of times to exclude: `[[exclude]]` entries with from, to and reason
    #[arg(long, value_name = "FILE.toml")]
    exclude: Option<PathBuf>,
    /// Exclude times in which the base line shows a fault of the instrument
    #[arg(long)]
    exclude_faults: bool,
    /// Delay limits for which the reliability is given, in ms
    #[arg(long, value_name = "MS,MS,...", value_delimiter = ',')]
    limits: Vec<f64>,
    /// Services to check the link against: `built-in` (smart grid, power automation), or a file of `[[table]]` with
    /// `[[table.service]]`
    #[arg(long, value_name = "FILE.toml")]
    services: Vec<String>,
    /// Exit with 1 if a service fails, in the recording or any part of it. If no service is asked for: if calls, games,
    /// video, web or work fail
    #[arg(long)]
    fail: bool,
    /// Treat the recordings, or the targets of one, as redundant uplinks and report their combined availability
    #[arg(long)]
    together: bool,
    /// Estimate the modem's hidden queue from bytes sent and one RTT sample per interval
    #[arg(long, conflicts_with_all = ["together", "tables", "fail"])]
    hidden_queue: bool,
    /// Estimate the queue of any recording: discipline, size in ms and bytes, bandwidth-delay product and their ratio
    #[arg(long, conflicts_with_all = ["hidden_queue", "together", "tables", "fail", "markdown", "csv"])]
    queue: bool,
    /// Look for patterns of radio and satellite links: reconfiguration each 15 s, scheduling grants, DRX cycles, handovers
    #[arg(long, conflicts_with_all = ["queue", "hidden_queue", "together", "tables", "fail", "markdown", "csv"])]
    patterns: bool,
    /// Look for changes of the route in many recordings of `probe path`, and tell them from shared load
    #[arg(long, conflicts_with_all = ["patterns", "queue", "hidden_queue", "together", "tables", "fail", "markdown", "csv"])]
    paths: bool,
    /// Interval between RTT samples, with --hidden-queue
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        requires = "hidden_queue"
    )]
    every: Duration,
    /// Print the tables that this file lays out, with published values beside the computed ones
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["json", "together"])]
    tables: Option<PathBuf>,
    /// Uplink rate, to find the times at which the uplink was full [default: estimated, if possible]
    #[arg(long, value_name = "RATE")]
    rate_up: Option<BitsPerSec>,
    /// Downlink rate, to find the times at which the downlink was full [default: estimated, if possible]
    #[arg(long, value_name = "RATE")]
    rate_down: Option<BitsPerSec>,
    /// Analyse this target only
    #[arg(long)]
    target: Option<String>,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Args {
    fn format(&self) -> Format {
        match (self.json, self.markdown, self.csv) {
            (true, ..) => Format::Json,
            (_, true, _) => Format::Markdown,
            (.., true) => Format::Csv,
            _ => Format::Text,
        }
    }

    fn plan(self) -> Plan {
        Plan {
            recordings: self.recordings,
            statistics: self.statistics || self.markdown || self.csv,
            from: self.from,
            to: self.to,
            zone: self.zone,
            window: self.window,
            sliding: self.sliding,
            spans: self.span,
            exclude: self.exclude,
            exclude_faults: self.exclude_faults,
            limits: self.limits,
            services: self.services,
            fail: self.fail,
            together: self.together,
            hidden_queue: self.hidden_queue.then_some(self.every),
            queue: self.queue,
            patterns: self.patterns,
            paths: self.paths,
            tables: self.tables,
            rate_up: self.rate_up,
            rate_down: self.rate_down,
            target: self.target,
            threads: self.threads,
            full: self.full,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let format = args.format();
    carry_out(&args.plan(), format)
}

/// Carries out a plan. The outcome tells if a service failed, if the user asked for that.
pub fn carry_out(plan: &Plan, format: Format) -> anyhow::Result<Outcome> {
    let answer = ops::analyse::run(plan, &mut Console::new())?;
    let style = stdout_style();
    match format {
        Format::Json => print_with(|out| answer.write(format, style, out))?,
        _ => {
            let mut text = Vec::new();
            answer.write(format, style, &mut text)?;
            print(&String::from_utf8(text)?)?;
        }
    }
    Ok(match plan.fail && answer.fails {
        true => Outcome::Above,
        false => Outcome::Done,
    })
}
