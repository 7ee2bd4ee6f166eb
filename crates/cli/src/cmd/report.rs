//! `tailback report`: pictures of a recording.

use super::{analyse, trace, usage, write_file};
use crate::Outcome;
use crate::gather::{self, Seen, fill};
use crate::inside;
use crate::survey::{self, Ask};
use crate::when;
use analysis::compare;
use anyhow::Context;
use base::record::Text;
use report::packets;
use report::plots::{self, Material, Scope};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

impl Plot {
    /// Of the packets of a capture.
    fn of_packets(self) -> Option<packets::Plot> {
        match self {
            Plot::Rtt => Some(packets::Plot::Rtt),
            Plot::Sequence => Some(packets::Plot::Sequence),
            Plot::InFlight => Some(packets::Plot::InFlight),
            Plot::Throughput => Some(packets::Plot::Throughput),
            _ => None,
        }
    }

    fn kind(self) -> Option<plots::Plot> {
        Some(match self {
            Plot::Rtt => plots::Plot::Rtt,
            Plot::Cdf => plots::Plot::Cdf,
            Plot::Smoothed => plots::Plot::Smoothed,
            Plot::Bounds => plots::Plot::Bounds,
            Plot::Smoke => plots::Plot::Smoke,
            Plot::Daily => plots::Plot::Daily,
            Plot::Heat => plots::Plot::Heat,
            Plot::Availability => plots::Plot::Availability,
            Plot::Queue | Plot::Sequence | Plot::InFlight | Plot::Throughput => return None,
        })
    }
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match &args.recordings[..] {
        [recording] => one(&args, recording),
        _ => several(&args),
    }
}

/// Over each other and side by side.
fn several(args: &Args) -> anyhow::Result<Outcome> {
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from("comparison.html"));
    let ending = output.extension().and_then(|e| e.to_str());
    let probes = args.recordings.iter().map(|r| super::probe::made(r));
    let probes = probes.collect::<anyhow::Result<Vec<bool>>>()?;
    if !probes.contains(&false)
        && let (Some("html" | "svg" | "png"), Plot::Rtt) = (ending, args.plot)
    {
        let text = super::probe::draw_all(&args.recordings, ending == Some("html"))?;
        return write(&text, &output, ending);
    }
    let picture = match (ending, args.plot) {
        (Some("html"), _) => false,
        (Some("svg" | "png"), Plot::Cdf) => true,
        _ => {
            return Err(usage(format!(
                "{}: several recordings make a page (.html), or with --plot cdf one plot (.svg, .png)",
                output.display()
            )));
        }
    };
    let zone = when::zone(args.zone.as_deref())?;
    let mut ask = Ask::of(zone.clone(), super::threads(None));
    for (text, at) in [(&args.from, &mut ask.from_ns), (&args.to, &mut ask.to_ns)] {
        if let Some(text) = text {
            *at = Some(when::instant("--from, --to", text, &zone)?);
        }
    }
    ask.target = args.target.clone();
    let mut materials = Vec::new();
    let mut all = Vec::new();
    for path in &args.recordings {
        materials.push(material(args, path, false)?);
        all.push((path.display().to_string(), survey::statistics(path, &ask)?));
    }
    let named: Vec<_> = all
        .iter()
        .map(|(name, s)| (name.clone(), s, analyse::main_target(s)))
        .collect();
    let c = compare::compare(&named);
    let text = match picture {
        true => report::compared::distributions(&c, &materials),
        false => report::compared::page(&c, &materials),
    };
    write(&text, &output, ending)
}

fn one(args: &Args, recording: &Path) -> anyhow::Result<Outcome> {
    let whole = args.from.is_none() && args.to.is_none();
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| recording.join("report.html"));
    let ending = output.extension().and_then(|e| e.to_str());
    // A test has phases: its page and its two plots show them.
    let test = whole && analyse::has_phases(recording)?;
    let probe = whole && super::probe::made(recording)?;
    if trace::made(recording)? {
        return captured(args, recording, &output, ending);
    }
    if let Some(name) = &args.connection {
        return Err(usage(format!(
            "--connection {name}: {} is not of a capture",
            recording.display()
        )));
    }
    // What a probe has found comes before what the emulator knows.
    if let (true, Some("svg" | "png"), Plot::Rtt) | (true, Some("html"), _) =
        (probe, ending, args.plot)
    {
        let text = super::probe::draw(recording, ending == Some("html"))?;
        return write(&text, &output, ending);
    }
    if let Some(text) = from_inside(args, recording, ending)? {
        return write(&text, &output, ending);
    }
    let text = match (ending, args.plot) {
        (Some("html"), _) if test => {
            let (recording, answer) = analyse::load(recording)?;
            report::html::page(&answer, &recording)
        }
        (Some("html"), _) => plots::page(&material(args, recording, true)?),
        (Some("svg" | "png"), plot @ (Plot::Rtt | Plot::Cdf)) if test => {
            let (recording, answer) = analyse::load(recording)?;
            if plot == Plot::Rtt {
                report::svg::rtt_over_time(&answer, &recording)
            } else {
                report::svg::cdf(&answer, &recording)
            }
        }
        (Some("svg" | "png"), plot) => plot
            .kind()
            .ok_or_else(|| {
                usage(format!(
                    "{} is not of a capture: sequence, in-flight and throughput are drawn of packets",
                    recording.display()
                ))
            })?
            .svg(&material(args, recording, false)?)
            .map_err(|why| anyhow::anyhow!("{}: {why}", recording.display()))?,
        _ => {
            return Err(usage(format!(
                "{}: end the name in .html, .svg or .png",
                output.display()
            )));
        }
    };
    write(&text, &output, ending)
}

/// The queues that a simulation knows, where they are asked for; and a page of a recording that has no probes, of queues and transfers.
fn from_inside(args: &Args, path: &Path, ending: Option<&str>) -> anyhow::Result<Option<String>> {
    let of_queues = args.plot == Plot::Queue && ending != Some("html");
    if !of_queues && inside::had_probes(path) {
        return Ok(None);
    }
    let zone = when::zone(args.zone.as_deref())?;
    let given = |name: &str, text: &Option<String>| {
        text.as_deref()
            .map(|t| when::instant(name, t, &zone))
            .transpose()
    };
    let (from, to) = (given("--from", &args.from)?, given("--to", &args.to)?);
    let found = inside::gathered(path, from, to)?;
    let Some((answer, samples)) = found else {
        return match of_queues {
            true => Err(anyhow::anyhow!(
                "{}: no queue was sampled; those of a simulation are",
                path.display()
            )),
            false => Ok(None),
        };
    };
    let refused = |why: String| anyhow::anyhow!("{}: {why}", path.display());
    Ok(match (ending, args.plot) {
        (Some("html"), _) => Some(report::inside::page(&answer, &samples, &zone)),
        (Some("svg" | "png"), Plot::Queue) => {
            Some(report::inside::waits(&answer, &samples).map_err(refused)?)
        }
        (Some("svg" | "png"), Plot::Rtt) => {
            let drawn = report::inside::round_trips(&answer, &samples);
            let waits = || report::inside::waits(&answer, &samples).ok();
            drawn.or_else(waits)
        }
        (Some("svg" | "png"), Plot::Throughput) => {
            let drawn = report::inside::throughput(&answer, &samples);
            Some(drawn.ok_or_else(|| refused("no transfer was sampled".into()))?)
        }
        _ => None,
    })
}

/// A recording of a capture: its packets.
fn captured(
    args: &Args,
    recording: &Path,
    output: &Path,
    ending: Option<&str>,
) -> anyhow::Result<Outcome> {
    let zone = when::zone(args.zone.as_deref())?;
    let given = |name: &str, text: &Option<String>| {
        text.as_deref()
            .map(|t| when::instant(name, t, &zone))
            .transpose()
    };
    let span = trace::Span {
        from_ns: given("--from", &args.from)?,
        to_ns: given("--to", &args.to)?,
    };
    let connection = args.connection.as_deref();
    let text = match (ending, args.plot.of_packets()) {
        (Some("html"), _) => trace::page(recording, connection, span)?,
        (Some("svg" | "png"), Some(plot)) => trace::svg(recording, plot, connection, span)?,
        (Some("svg" | "png"), None) => {
            return Err(usage(format!(
                "{} is of a capture: draw --plot sequence, throughput, in-flight or rtt",
                recording.display()
            )));
        }
        _ => {
            return Err(usage(format!(
                "{}: end the name in .html, .svg or .png",
                output.display()
            )));
        }
    };
    write(&text, output, ending)
}

fn write(text: &str, output: &Path, ending: Option<&str>) -> anyhow::Result<Outcome> {
    if ending == Some("png") {
        png(text, output)?;
    } else {
        write_file(output, text)?;
    }
    eprintln!("{}", output.display());
    Ok(Outcome::Done)
}

/// Everything the plots need, in two passes over the columns: where it begins and ends, then what it holds. A `page` has
/// all plots.
fn material(args: &Args, path: &Path, page: bool) -> anyhow::Result<Material> {
    let meta = gather::meta(path)?;
    let zone = when::zone(args.zone.as_deref())?;
    let given = |name: &str, text: &Option<String>| {
        text.as_deref()
            .map(|t| when::instant(name, t, &zone))
            .transpose()
    };
    let (from, to) = (given("--from", &args.from)?, given("--to", &args.to)?);
    let seen = Seen::of(path)?;
    let (first, last) = seen
        .span
        .with_context(|| format!("{} has neither probes nor traffic to draw", path.display()))?;
    let (from_ns, to_ns) = (from.unwrap_or(first), to.unwrap_or(last + 1));
    if from_ns >= to_ns {
        return Err(usage(format!(
            "--from and --to leave nothing: the recording goes from {} to {}",
            when::stamp(first),
            when::stamp(last)
        )));
    }
    let chosen = |what: &str, asked: &Option<String>, known: &BTreeMap<Text, f64>| match asked {
        Some(name) if !known.contains_key(&**name) => {
            let names: Vec<&str> = known.keys().map(|k| &**k).collect();
            Err(usage(format!(
                "no {what} {name:?} in it. There are: {}",
                names.join(", ")
            )))
        }
        Some(name) => Ok(Some(Text::from(&**name))),
        None => Ok(known
            .iter()
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(k, _)| k.clone())),
    };
    let own = args.target.is_none() && seen.targets.contains_key("udp");
    let target = if own {
        Some("udp".into())
    } else {
        chosen("target", &args.target, &seen.targets)?
    };
    let interface = chosen("interface", &args.interface, &seen.interfaces)?;
    let title = match (&*meta.title, &target) {
        ("", Some(t)) if seen.targets.len() > 1 => t.to_string(),
        (title, Some(t)) if seen.targets.len() > 1 => format!("{title}, {t}"),
        (title, _) => title.to_owned(),
    };
    let ask = Ask {
        from_ns: from,
        to_ns: to,
        ..Ask::of(zone.clone(), 1)
    };
    let mut m = Material::new(
        Scope {
            from_ns,
            to_ns,
            zone,
        },
        &title,
    );
    fill(path, &mut m, target.as_deref(), interface.as_deref())?;
    if let Some(target) = &target
        && (page || args.plot == Plot::Availability)
        && let Some(found) = survey::holes(path, target, &ask)?
    {
        let outages = found.outages.iter().map(|o| (o.from_ns, o.to_ns));
        m.holes(&found.due, &outages.collect::<Vec<_>>());
    }
    Ok(m)
}

/// PNG needs fonts and a renderer, which would be a third of this program's build: those that are installed do it.
fn png(svg: &str, output: &Path) -> anyhow::Result<()> {
    let beside = |ending| {
        store::disk::create_temporary(output, ending)
            .map_err(|e| anyhow::anyhow!("cannot write beside {}: {e}", output.display()))
    };
    let (mut file, plain) = beside(".svg")?;
    file.write_all(report::svg::plain(svg).as_bytes())
        .with_context(|| format!("cannot write {}", plain.display()))?;
    let picture = beside(".png").map(|(_, path)| path);
    let made = picture.and_then(|picture| {
        let made =
            convert(svg, &plain, &picture).and_then(|()| Ok(std::fs::rename(&picture, output)?));
        let _ = std::fs::remove_file(&picture);
        made
    });
    let _ = std::fs::remove_file(&plain);
    made.map_err(|why| anyhow::anyhow!("cannot make {}: {why}", output.display()))
}

/// Has the file `plain` drawn into the file `picture`.
fn convert(svg: &str, plain: &Path, picture: &Path) -> anyhow::Result<()> {
    let (width, height) = report::svg::size(svg);
    let (from, to) = (plain.as_os_str(), picture.as_os_str());
    let shot = |to: &std::ffi::OsStr| {
        let mut arg = std::ffi::OsString::from("--screenshot=");
        arg.push(to);
        arg
    };
    let absolute = std::path::absolute(plain).unwrap_or_else(|_| plain.to_owned());
    let window = format!("--window-size={},{}", width.ceil(), height.ceil());
    let quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-device-scale-factor=2",
    ];
    let mut ways: Vec<Command> = Vec::new();
    let mut way = |program: &str, args: &[&std::ffi::OsStr]| {
        let mut command = Command::new(program);
        command.args(args);
        ways.push(command);
    };
    way(
        "rsvg-convert",
        &["--zoom=2".as_ref(), from, "-o".as_ref(), to],
    );
    way("resvg", &["--zoom=2".as_ref(), from, to]);
    way(
        "inkscape",
        &[from, "--export-dpi=192".as_ref(), "-o".as_ref(), to],
    );
    for browser in ["chromium", "google-chrome"] {
        let mut args: Vec<&std::ffi::OsStr> = quiet.iter().map(|a| a.as_ref()).collect();
        let screenshot = shot(to);
        args.extend([
            screenshot.as_os_str(),
            window.as_ref(),
            absolute.as_os_str(),
        ]);
        way(browser, &args);
    }
    let mut failed = String::new();
    let made = ways.iter_mut().any(|command| {
        let ran = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        match ran {
            Ok(done) if done.status.success() && is_written(picture) => true,
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr);
                failed = format!(" ({:?} said: {})", command.get_program(), said.trim());
                false
            }
            Err(_) => false,
        }
    });
    anyhow::ensure!(
        made,
        "no program that draws SVG works here{failed}. Install librsvg2-bin (rsvg-convert), or write .svg"
    );
    Ok(())
}

fn is_written(picture: &Path) -> bool {
    picture.metadata().is_ok_and(|m| m.len() > 0)
}
