//! `tailback report`: pictures of recordings.

use crate::Outcome;
use crate::console::Console;
use ops::report::Plan;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Draw recordings: one HTML page, or single plots as SVG or PNG",
    after_help = "Several recordings make one page: their distributions over each other, their figures side by side. Runs of one probe make \
                  one of their figures over the day. Of a probe's recording .svg has all of its pictures, one below the other.\n\nThe format follows the ending of --output: .html for the page, .svg or .png for a plot. PNG is made by rsvg-convert, resvg, inkscape or chromium, whichever is installed."
)]
pub struct Args {
    /// The recordings
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Which plot, for SVG and PNG
    #[arg(long, value_enum, default_value_t = Plot::Rtt)]
    plot: Plot,
    /// Which connection of a capture: its number, or both ends as they are listed, 'A:PORT>B:PORT' [default: the one with the most data]
    #[arg(long, value_name = "CONNECTION")]
    connection: Option<String>,
    /// Begin of the span to draw, such as 2026-05-16T09:17 or 2026-05-16T09:17:20Z [default: the recording's begin]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Its end
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Time zone of days, hours and of times given without one, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Whose round trips, where several targets were probed [default: udp, or the one probed most]
    #[arg(long)]
    target: Option<String>,
    /// Whose traffic [default: the interface that carried most]
    #[arg(long)]
    interface: Option<String>,
    /// Where it goes [default: report.html in the recording, comparison.html here for several]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Plot {
    /// Round trips over time, download and upload below; losses marked
    Rtt,
    /// Share of the probes answered within a time
    Cdf,
    /// Mean round trip over a sliding window, with traffic
    Smoothed,
    /// Smallest, 5 %, median, 95 % and largest, with traffic
    Bounds,
    /// Distribution of each stretch of time, coloured by loss, with its 99th percentile
    Smoke,
    /// Bytes a day
    Daily,
    /// 95th percentile by weekday and hour
    Heat,
    /// Share of the time with answers, by day and hour
    Availability,
    /// Of a simulation: how long packets waited in each queue
    Queue,
    /// Of a capture: bytes sent and acknowledged over time, what was sent again marked by its cause
    Sequence,
    /// Of a capture: bytes in flight over time
    InFlight,
    /// Of a capture: payload sent and acknowledged a second; of a simulation without probes: payload of its transfers
    Throughput,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    carry_out(&Plan {
        recordings: args.recordings,
        plot: plot(args.plot),
        connection: args.connection,
        from: args.from,
        to: args.to,
        zone: args.zone,
        target: args.target,
        interface: args.interface,
        output: args.output,
    })
}

/// Draws a plan.
pub fn carry_out(plan: &Plan) -> anyhow::Result<Outcome> {
    ops::report::run(plan, &mut Console::new(false))?;
    Ok(Outcome::Done)
}

fn plot(plot: Plot) -> ops::report::Plot {
    use ops::report::Plot as Drawn;
    match plot {
        Plot::Rtt => Drawn::Rtt,
        Plot::Cdf => Drawn::Cdf,
        Plot::Smoothed => Drawn::Smoothed,
        Plot::Bounds => Drawn::Bounds,
        Plot::Smoke => Drawn::Smoke,
        Plot::Daily => Drawn::Daily,
        Plot::Heat => Drawn::Heat,
        Plot::Availability => Drawn::Availability,
        Plot::Queue => Drawn::Queue,
        Plot::Sequence => Drawn::Sequence,
        Plot::InFlight => Drawn::InFlight,
        Plot::Throughput => Drawn::Throughput,
    }
}
