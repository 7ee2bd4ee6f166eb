//! `tailback report`: plots of recordings.

use super::print_json;
use crate::Outcome;
use crate::console::Console;
use clap::ValueEnum;
use ops::report::Plan;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Draw recordings: one HTML page, or single plots as SVG, PDF or PNG",
    after_help = "Several recordings make one page: their distributions over each other, their figures side by side. Runs of one \
        experiment make a page of their figures over the day. An .svg of an experiment has all of its plots, one below \
        the other.\n\nThe extension of --output sets the format: .html for the page, .svg, .pdf or .png for a plot. PDF needs \
        rsvg-convert, inkscape or cairosvg; PNG needs rsvg-convert, resvg, inkscape or chromium.\n\nExamples:\n  \
        tailback report home.rec\n  \
        tailback report home.rec --plot smoke \\\n      --size 178mm -o smoke.pdf\n  \
        tailback report home.rec --theme dark -o slide.svg"
)]
pub struct Args {
    /// Recordings to plot
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Plot to draw, for SVG and PNG [default: rtt]
    #[arg(long, value_enum)]
    plot: Option<Plot>,
    /// Connection of a capture: its number, or both ends as they are listed, 'A:PORT>B:PORT' [default: the one with the
    /// most data]
    #[arg(long, value_name = "CONNECTION")]
    connection: Option<String>,
    /// Begin of the time range, such as 2026-05-16T09:17 or 2026-05-16T09:17:20Z [default: the recording's begin]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the time range [default: the recording's end]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Time zone of days and hours, and of times given without one, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Target whose round trips are drawn, if several were probed [default: udp, or the one probed most]
    #[arg(long)]
    target: Option<String>,
    /// Interface whose traffic is drawn [default: the interface that carried most]
    #[arg(long)]
    interface: Option<String>,
    /// Width of an SVG or PDF, in mm, cm, in, pt or px; the height follows
    #[arg(long, value_name = "WIDTH")]
    size: Option<String>,
    /// Colours of an SVG, PDF or PNG
    #[arg(long, value_enum, default_value = "light")]
    theme: Theme,
    /// File to write [default: report.html in the recording, comparison.html in this directory for several; with
    /// --plot, PLOT.svg there]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print path, format and size of the written file as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Theme {
    /// Dark on white, for paper
    Light,
    /// Light on black, for slides
    Dark,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Plot {
    /// Round trips over time, with download and upload below; losses are marked
    Rtt,
    /// Cumulative distribution: share of the probes answered within a time
    Cdf,
    /// Mean round trip over a sliding window, with traffic
    Smoothed,
    /// Smallest, 5 %, median, 95 % and largest, with traffic
    Bounds,
    /// Distribution of round trips in each stretch of time, coloured by loss, with its 99th percentile
    Smoke,
    /// Median round trips of all targets, of one recording or several, with their losses below
    Hosts,
    /// Bytes of each day
    Daily,
    /// 95th percentile of the round trip by weekday and hour
    Heat,
    /// Share of the time with answers, by day and hour
    Availability,
    /// Load of the measuring host: processors by kind of work, and its interface
    Host,
    /// State of the modem: synchronous rates, noise margins, and errors as rates
    Modem,
    /// Signal and handovers of the radios, above round trips and traffic
    Radio,
    /// Wait of packets in each queue of a simulation
    Queue,
    /// Congestion window of each transfer of a simulation
    Window,
    /// Drops and marks of each queue of a simulation over time
    Signals,
    /// Wait in the fullest queue of a simulation against the windows of all transfers
    Phase,
    /// Packets in the queues of a simulation, windows, drops and marks as a film: a page (.html)
    Film,
    /// Wait, rate with capacity, and signals over time, of `tailback control run`
    Control,
    /// Bytes sent and acknowledged over time, from a capture; retransmissions are marked by their cause
    Sequence,
    /// Bytes in flight over time, from a capture
    InFlight,
    /// Payload sent and acknowledged a second, from a capture; payload of the transfers, from a simulation without
    /// probes
    Throughput,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let output = match (args.plot, args.output) {
        (Some(plot), None) => Some(beside(&args.recordings, plot)),
        (Some(plot), Some(o))
            if plot != Plot::Film && o.extension().is_some_and(|e| e == "html") =>
        {
            return Err(ops::usage(format!(
                "--plot draws a single plot, and {} is a page of all: end the name in .svg, .pdf or .png, or leave --plot out",
                o.display()
            )));
        }
        (_, output) => output,
    };
    let plan = Plan {
        recordings: args.recordings,
        plot: plot(args.plot.unwrap_or(Plot::Rtt)),
        connection: args.connection,
        from: args.from,
        to: args.to,
        zone: args.zone,
        target: args.target,
        interface: args.interface,
        size: args.size,
        theme: match args.theme {
            Theme::Light => ops::report::Theme::Light,
            Theme::Dark => ops::report::Theme::Dark,
        },
        output,
    };
    carry_out(&plan, args.json)
}

/// File of a plot without --output: in the recording, or in this directory for several.
fn beside(recordings: &[PathBuf], plot: Plot) -> PathBuf {
    let value = plot.to_possible_value();
    let name = value.as_ref().map_or("plot", |v| v.get_name());
    let ending = if plot == Plot::Film { "html" } else { "svg" };
    let file = format!("{name}.{ending}");
    match recordings {
        [only] => only.join(file),
        _ => file.into(),
    }
}

/// Draws a plan.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::report::run(plan, &mut Console::new())?;
    if json {
        print_json(&answer)?;
    }
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
        Plot::Hosts => Drawn::Hosts,
        Plot::Daily => Drawn::Daily,
        Plot::Heat => Drawn::Heat,
        Plot::Availability => Drawn::Availability,
        Plot::Host => Drawn::Host,
        Plot::Modem => Drawn::Modem,
        Plot::Radio => Drawn::Radio,
        Plot::Queue => Drawn::Queue,
        Plot::Window => Drawn::Window,
        Plot::Signals => Drawn::Signals,
        Plot::Phase => Drawn::Phase,
        Plot::Film => Drawn::Film,
        Plot::Control => Drawn::Control,
        Plot::Sequence => Drawn::Sequence,
        Plot::InFlight => Drawn::InFlight,
        Plot::Throughput => Drawn::Throughput,
    }
}
