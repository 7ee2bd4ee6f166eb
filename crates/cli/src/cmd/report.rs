//! `tailback report`: pictures of a recording.

use super::{analyse, usage, write_file};
use crate::Outcome;
use anyhow::Context;
use base::record::{Direction, Distribution, Status, TableId, Text};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use report::plots::{self, Material, Scope};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
#[command(
    about = "Draw a recording: one HTML page, or single plots as SVG or PNG",
    after_help = "The format follows the ending of --output: .html for the page, .svg or .png for a plot. PNG is made by rsvg-convert, resvg, inkscape or chromium, whichever is installed."
)]
pub struct Args {
    /// The recording
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Which plot, for SVG and PNG
    #[arg(long, value_enum, default_value_t = Plot::Rtt)]
    plot: Plot,
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
    /// Where it goes [default: report.html in the recording]
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
    /// Share of the minutes with an answer, by day and hour
    Availability,
}

impl Plot {
    fn kind(self) -> plots::Plot {
        match self {
            Plot::Rtt => plots::Plot::Rtt,
            Plot::Cdf => plots::Plot::Cdf,
            Plot::Smoothed => plots::Plot::Smoothed,
            Plot::Bounds => plots::Plot::Bounds,
            Plot::Smoke => plots::Plot::Smoke,
            Plot::Daily => plots::Plot::Daily,
            Plot::Heat => plots::Plot::Heat,
            Plot::Availability => plots::Plot::Availability,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let whole = args.from.is_none() && args.to.is_none();
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.recording.join("report.html"));
    let ending = output.extension().and_then(|e| e.to_str());
    // A test has phases: its page and its two plots show them.
    let test = whole && has_phases(&args.recording)?;
    let text = match (ending, args.plot) {
        (Some("html"), _) if test => {
            let (recording, answer) = analyse::load(&args.recording)?;
            report::html::page(&answer, &recording)
        }
        (Some("html"), _) => plots::page(&material(&args)?),
        (Some("svg" | "png"), plot @ (Plot::Rtt | Plot::Cdf)) if test => {
            let (recording, answer) = analyse::load(&args.recording)?;
            if plot == Plot::Rtt {
                report::svg::rtt_over_time(&answer, &recording)
            } else {
                report::svg::cdf(&answer, &recording)
            }
        }
        (Some("svg" | "png"), plot) => plot
            .kind()
            .svg(&material(&args)?)
            .map_err(|why| anyhow::anyhow!("{}: {why}", args.recording.display()))?,
        _ => {
            return Err(usage(format!(
                "{}: end the name in .html, .svg or .png",
                output.display()
            )));
        }
    };
    if ending == Some("png") {
        png(&text, &output)?;
    } else {
        write_file(&output, &text)?;
    }
    eprintln!("{}", output.display());
    Ok(Outcome::Done)
}

fn has_phases(recording: &Path) -> anyhow::Result<bool> {
    let mut words = Vec::new();
    let mut found = false;
    store::scan(recording, TableId::Event, &["kind"], &mut |rows| {
        rows.words("kind", &mut words);
        found |= words.iter().any(|w| **w == *"phase");
    })?;
    Ok(found)
}

/// Everything the plots need, in two passes over the columns: where it begins and ends, then what it holds.
fn material(args: &Args) -> anyhow::Result<Material> {
    let path = &args.recording;
    let meta = store::read_meta(path)?;
    let zone = match &args.zone {
        Some(name) => TimeZone::get(name).map_err(|e| {
            usage(format!(
                "--zone {name}: {e}. Give a name such as Europe/Oslo or UTC"
            ))
        })?,
        None => TimeZone::system(),
    };
    let given = |name: &str, text: &Option<String>| {
        text.as_deref().map(|t| instant(t, &zone).ok_or_else(|| {
            usage(format!("{name} {t}: no time. Write 2026-05-16T09:17 (in --zone) or 2026-05-16T07:17:00Z"))
        })).transpose()
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
            stamp(first),
            stamp(last)
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
    let mut m = Material::new(
        Scope {
            from_ns,
            to_ns,
            zone,
        },
        &title,
    );
    fill(path, &mut m, target.as_deref(), interface.as_deref())?;
    Ok(m)
}

/// What a recording is about.
#[derive(Default)]
struct Seen {
    /// Of probes and traffic.
    span: Option<(i64, i64)>,
    /// Probes by target.
    targets: BTreeMap<Text, f64>,
    /// Bytes by interface.
    interfaces: BTreeMap<Text, f64>,
}

impl Seen {
    fn of(path: &Path) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        let mut words: Vec<Text> = Vec::new();
        let notes = store::scan(path, TableId::Delay, &["sent_ns", "target"], &mut |rows| {
            let Some(targets) = rows.words("target", &mut words) else {
                return;
            };
            let sent = rows.ints("sent_ns");
            let mut counts = vec![0u64; words.len()];
            for (i, t) in targets.iter().enumerate() {
                counts[*t as usize] += 1;
                seen.widen(sent.get(i));
            }
            for (word, n) in words.iter().zip(counts).filter(|(_, n)| *n > 0) {
                *seen.targets.entry(word.clone()).or_default() += n as f64;
            }
        })?;
        for note in notes {
            eprintln!("{}: {note}", path.display());
        }
        let columns = ["t_ns", "interval_ns", "target", "sent_packets"];
        store::scan(path, TableId::Distribution, &columns, &mut |rows| {
            let Some(targets) = rows.words("target", &mut words) else {
                return;
            };
            let (t, length, sent) = (
                rows.ints("t_ns"),
                rows.ints("interval_ns"),
                rows.ints("sent_packets"),
            );
            for (i, target) in targets.iter().enumerate() {
                let word = words[*target as usize].clone();
                *seen.targets.entry(word).or_default() += sent.get(i).unwrap_or_default() as f64;
                seen.widen(t.get(i));
                seen.widen(t.get(i).zip(length.get(i)).map(|(t, l)| t + l - 1));
            }
        })?;
        let columns = ["t_ns", "interval_ns", "interface", "rx_bytes", "tx_bytes"];
        store::scan(path, TableId::Traffic, &columns, &mut |rows| {
            let Some(names) = rows.words("interface", &mut words) else {
                return;
            };
            let (t, length) = (rows.ints("t_ns"), rows.ints("interval_ns"));
            let (rx, tx) = (rows.ints("rx_bytes"), rows.ints("tx_bytes"));
            for (i, name) in names.iter().enumerate() {
                let bytes = rx.get(i).unwrap_or_default() + tx.get(i).unwrap_or_default();
                *seen
                    .interfaces
                    .entry(words[*name as usize].clone())
                    .or_default() += bytes as f64;
                seen.widen(t.get(i));
                seen.widen(t.get(i).zip(length.get(i)).map(|(t, l)| t - l));
            }
        })?;
        store::scan(path, TableId::Flow, &["t_ns"], &mut |rows| {
            let t = rows.ints("t_ns");
            (0..rows.len()).for_each(|i| seen.widen(t.get(i)));
        })?;
        Ok(seen)
    }

    fn widen(&mut self, t_ns: Option<i64>) {
        if let Some(t) = t_ns {
            let (first, last) = self.span.unwrap_or((t, t));
            self.span = Some((first.min(t), last.max(t)));
        }
    }
}

fn fill(
    path: &Path,
    m: &mut Material,
    target: Option<&str>,
    interface: Option<&str>,
) -> anyhow::Result<()> {
    let mut words: Vec<Text> = Vec::new();
    let columns = ["sent_ns", "rtt_ns", "target", "status"];
    store::scan(path, TableId::Delay, &columns, &mut |rows| {
        let (sent, rtt) = (rows.ints("sent_ns"), rows.ints("rtt_ns"));
        let (Some(targets), Some(states)) = (
            rows.words("target", &mut words),
            rows.words("status", &mut words),
        ) else {
            return;
        };
        let status: Vec<Option<Status>> = words
            .iter()
            .map(|w| Status::ALL.iter().copied().find(|s| s.word() == &**w))
            .collect();
        let mine: Vec<bool> = words.iter().map(|w| Some(&**w) == target).collect();
        for i in 0..rows.len() {
            if mine[targets[i] as usize]
                && let (Some(sent), Some(status)) = (sent.get(i), status[states[i] as usize])
            {
                m.probe(sent, rtt.get(i), status);
            }
        }
    })?;
    let mut unread = None;
    let spec = TableId::Distribution.spec();
    let columns: Vec<&str> = spec.columns.iter().map(|c| c.name).collect();
    store::scan(path, TableId::Distribution, &columns, &mut |rows| {
        // Histograms hardly repeat: they get a list of their own, which goes with the batch.
        let mut histograms = Vec::new();
        let (Some(targets), Some(texts)) = (
            rows.words("target", &mut words),
            rows.words("histogram", &mut histograms),
        ) else {
            return;
        };
        let int = |name: &str, i: usize| rows.ints(name).get(i).unwrap_or_default();
        for i in 0..rows.len() {
            let name = &words[targets[i] as usize];
            if Some(&**name) != target {
                continue;
            }
            let row = Distribution {
                t_ns: int("t_ns", i),
                interval_ns: int("interval_ns", i),
                target: name.clone(),
                sent_packets: int("sent_packets", i),
                ok_packets: int("ok_packets", i),
                late_packets: int("late_packets", i),
                lost_packets: int("lost_packets", i),
                invalid_packets: int("invalid_packets", i),
                not_sent_packets: int("not_sent_packets", i),
                histogram: histograms[texts[i] as usize].clone(),
            };
            if let Err(e) = m.distribution(&row) {
                unread = Some(format!(
                    "{}: a row of distribution at {}: {e}",
                    path.display(),
                    stamp(row.t_ns)
                ));
            }
        }
    })?;
    if let Some(why) = unread {
        anyhow::bail!(why);
    }
    let columns = ["t_ns", "interval_ns", "interface", "rx_bytes", "tx_bytes"];
    store::scan(path, TableId::Traffic, &columns, &mut |rows| {
        let Some(names) = rows.words("interface", &mut words) else {
            return;
        };
        let (t, length) = (rows.ints("t_ns"), rows.ints("interval_ns"));
        let (rx, tx) = (rows.ints("rx_bytes"), rows.ints("tx_bytes"));
        for (i, name) in names.iter().enumerate() {
            if Some(&*words[*name as usize]) == interface
                && let (Some(t), Some(length)) = (t.get(i), length.get(i))
            {
                m.traffic(t, length, rx.get(i), tx.get(i));
            }
        }
    })?;
    if interface.is_none() {
        transfers(path, m)?;
    }
    Ok(())
}

/// What one flow's count of bytes rose by between two samples, at one of its ends.
struct Step {
    /// Its number, and its direction as a number in the list of words.
    flow: (i64, u32),
    /// Counted where the data arrived.
    arrived: bool,
    t_ns: i64,
    length_ns: i64,
    bytes: i64,
}

/// Where no interface was counted, what the transfers carried: each flow's count of bytes is a line through its
/// samples. A flow that was watched at both ends is counted where its data arrived.
fn transfers(path: &Path, m: &mut Material) -> anyhow::Result<()> {
    let mut words: Vec<Text> = Vec::new();
    let mut before: BTreeMap<(i64, u32, bool), (i64, i64)> = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    let columns = ["t_ns", "flow", "direction", "bytes_acked", "bytes_received"];
    store::scan(path, TableId::Flow, &columns, &mut |rows| {
        let (t, flow) = (rows.ints("t_ns"), rows.ints("flow"));
        let (acked, received) = (rows.ints("bytes_acked"), rows.ints("bytes_received"));
        let Some(ways) = rows.words("direction", &mut words) else {
            return;
        };
        for (i, way) in ways.iter().enumerate() {
            let (Some(t), Some(flow)) = (t.get(i), flow.get(i)) else {
                continue;
            };
            for (arrived, bytes) in [(true, received.get(i)), (false, acked.get(i))] {
                let Some(bytes) = bytes else { continue };
                if let Some((earlier, count)) = before.insert((flow, *way, arrived), (t, bytes))
                    && t > earlier
                    && bytes >= count
                {
                    steps.push(Step {
                        flow: (flow, *way),
                        arrived,
                        t_ns: t,
                        length_ns: t - earlier,
                        bytes: bytes - count,
                    });
                }
            }
        }
    })?;
    let arrived: std::collections::BTreeSet<(i64, u32)> =
        steps.iter().filter(|s| s.arrived).map(|s| s.flow).collect();
    let down = Direction::Down.word();
    for s in steps {
        if s.arrived == arrived.contains(&s.flow) {
            let down = *words[s.flow.1 as usize] == *down;
            m.traffic(
                s.t_ns,
                s.length_ns,
                down.then_some(s.bytes),
                (!down).then_some(s.bytes),
            );
        }
    }
    Ok(())
}

/// An instant with its zone, or a civil time in `zone`.
fn instant(text: &str, zone: &TimeZone) -> Option<i64> {
    let stamp: Option<jiff::Timestamp> = text.parse().ok();
    let civil = || {
        let time: DateTime = text.parse().ok()?;
        Some(time.to_zoned(zone.clone()).ok()?.timestamp())
    };
    i64::try_from(stamp.or_else(civil)?.as_nanosecond()).ok()
}

fn stamp(t_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(t_ns))
        .map_or_else(|_| t_ns.to_string(), |t| t.to_string())
}

/// PNG needs fonts and a renderer, which would be a third of this program's build: those that are installed do it.
fn png(svg: &str, output: &Path) -> anyhow::Result<()> {
    let plain = output.with_extension("part.svg");
    write_file(&plain, &report::svg::plain(svg))?;
    let (width, height) = report::svg::size(svg);
    let (from, to) = (plain.as_os_str(), output.as_os_str());
    let shot = |to: &std::ffi::OsStr| {
        let mut arg = std::ffi::OsString::from("--screenshot=");
        arg.push(to);
        arg
    };
    let absolute = std::path::absolute(&plain).unwrap_or_else(|_| plain.clone());
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
            Ok(done) if done.status.success() && output.exists() => true,
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr);
                failed = format!(" ({:?} said: {})", command.get_program(), said.trim());
                false
            }
            Err(_) => false,
        }
    });
    let _ = std::fs::remove_file(&plain);
    anyhow::ensure!(
        made,
        "cannot make {}: no program that draws SVG works here{failed}. Install librsvg2-bin (rsvg-convert), or write .svg",
        output.display()
    );
    Ok(())
}
