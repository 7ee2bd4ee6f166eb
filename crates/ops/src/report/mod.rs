//! `tailback report`: plots of recordings.

mod converted;
mod hosts;

use crate::analyse::{self, probes};
use crate::progress::{Observer, Shared};
use crate::scan::{self, Contents, Source, fill};
use crate::statistics::{self, Ask};
use crate::{Progress, queue_samples, threads, times, trace, usage, write_file};
use analysis::compare;
use analysis::statistics::Statistics;
use anyhow::Context;
use base::record::{Row, TableId, Text};
use converted::Format;
use jiff::tz::TimeZone;
use report::data::PageProbes;
use report::packets;
use report::plots::{self, Material, Scope};
pub use report::svg::Theme;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Recordings to draw. The extension of `output` decides the format: .html is a page, .svg, .pdf and .png are one plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub recordings: Vec<PathBuf>,
    /// Plot of an SVG or PNG.
    pub plot: Plot,
    /// Connection of a capture: its number, or both ends as they are listed.
    pub connection: Option<String>,
    /// Begin of the time range, such as 2026-05-16T09:17.
    pub from: Option<String>,
    pub to: Option<String>,
    /// Time zone of days, hours and of times without one; by default this host's.
    pub zone: Option<String>,
    /// Target whose round trips are drawn; by default our own, or the one probed most.
    pub target: Option<String>,
    /// Interface whose traffic is drawn; by default the one that carried most.
    pub interface: Option<String>,
    /// Width of the drawn plot, such as 85mm; its height follows.
    pub size: Option<String>,
    /// Colours of the drawn plot.
    pub theme: Theme,
    /// File to write; by default report.html in the recording, or comparison.html in this directory for several.
    pub output: Option<PathBuf>,
}

impl Plan {
    /// Width of the paper that a plot is drawn for, points.
    fn paper(&self) -> Option<f64> {
        let (width, (_, points)) = width(self.size.as_deref()?).ok()?;
        Some(width * points)
    }

    /// True if the plan draws all of a recording: every time, and every target.
    fn is_whole(&self) -> bool {
        let narrowed = [&self.from, &self.to, &self.target, &self.interface];
        narrowed.iter().all(|given| given.is_none())
    }

    /// Refuses a target or an interface for a recording that has neither.
    fn refuse_targets(&self, from: Source<'_>, has: &str) -> anyhow::Result<()> {
        for (option, given) in [("--target", &self.target), ("--interface", &self.interface)] {
            if let Some(name) = given {
                return Err(usage(format!(
                    "{option} {name}: {} has {has}",
                    from.display()
                )));
            }
        }
        Ok(())
    }
}

/// File that was written. Its JSON is that of `tailback report --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Report")]
pub struct Answer {
    pub output: PathBuf,
    /// Ending of its name: html, svg, pdf or png.
    pub format: String,
    pub bytes: u64,
}

/// Plot of one SVG or PNG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// Round trips over time, with download and upload below; losses are marked
    #[default]
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

impl Plot {
    /// Plot of the packets of a capture, if this is one.
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
            Plot::Host => plots::Plot::Host,
            Plot::Modem => plots::Plot::Modem,
            Plot::Radio => plots::Plot::Radio,
            Plot::Hosts
            | Plot::Queue
            | Plot::Window
            | Plot::Signals
            | Plot::Phase
            | Plot::Film
            | Plot::Control
            | Plot::Sequence
            | Plot::InFlight
            | Plot::Throughput => {
                return None;
            }
        })
    }
}

/// Draws the recordings and writes the plot or page.
///
/// # Errors
/// Recordings that cannot be read, and plots that they cannot fill.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    times::zone(plan.zone.as_deref())?;
    let (text, output) = match &plan.recordings[..] {
        [] => return Err(usage("give at least one recording")),
        _ if plan.plot == Plot::Hosts => hosts::draw(plan, observer)?,
        [path] => one(plan, Source { path, observer })?,
        _ => several(plan, observer)?,
    };
    let text = match &plan.size {
        Some(size) => sized(&text, size, &output)?,
        None => text,
    };
    let text = match plan.theme {
        Theme::Light => text,
        theme if output.extension().is_some_and(|e| e == "html") => {
            return Err(usage(format!(
                "--theme {}: a page has both themes, and follows its reader's browser",
                serde_json::to_value(theme)?.as_str().unwrap_or_default()
            )));
        }
        theme => report::svg::themed(&text, theme),
    };
    match Format::of(&output) {
        Some(format) => converted::write(&text, &output, format)?,
        None => write_file(&output, &text)?,
    }
    observer.wrote(&output);
    let format = output.extension().and_then(|e| e.to_str());
    Ok(Answer {
        format: format.unwrap_or_default().to_owned(),
        bytes: std::fs::metadata(&output).map_or(0, |m| m.len()),
        output,
    })
}

/// Begin and end of the plan's time range.
fn span(plan: &Plan, zone: &TimeZone) -> anyhow::Result<(Option<i64>, Option<i64>)> {
    let given = |name: &str, text: &Option<String>| {
        text.as_deref()
            .map(|t| times::instant(name, t, zone))
            .transpose()
    };
    Ok((given("--from", &plan.from)?, given("--to", &plan.to)?))
}

/// Ending of the file, which decides what is drawn. A PDF is made of an SVG.
fn ending(output: &Path) -> Option<&str> {
    let ending = output.extension().and_then(|e| e.to_str())?;
    Some(if ending == "pdf" { "svg" } else { ending })
}

/// Gives a drawn plot the width that the plan asks for.
fn sized(svg: &str, size: &str, output: &Path) -> anyhow::Result<String> {
    let name = output.extension().and_then(|e| e.to_str());
    if !matches!(name, Some("svg" | "pdf")) {
        let output = output.display();
        return Err(usage(format!(
            "--size is of an .svg or .pdf, and not of {output}"
        )));
    }
    let (width, (unit, _)) = width(size)?;
    Ok(report::svg::sized(svg, width, unit))
}

/// Width with its unit, and the unit in points.
fn width(size: &str) -> anyhow::Result<(f64, (&'static str, f64))> {
    let units = report::svg::UNITS;
    let unit = units.iter().find(|u| size.ends_with(u.0));
    let number = unit.and_then(|u| size[..size.len() - u.0.len()].trim().parse().ok());
    match (unit, number) {
        (Some(unit), Some(width)) if (1.0..=10_000.0).contains(&width) => Ok((width, *unit)),
        _ => Err(usage(format!(
            "--size {size}: give a width from 1 to 10000 in {}, such as 85mm",
            units.map(|u| u.0).join(", ")
        ))),
    }
}

/// Several recordings, drawn over each other and side by side.
fn several(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<(String, PathBuf)> {
    let paper = plan.paper();
    let output = plan
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from("comparison.html"));
    let ending = ending(&output);
    let source = |path| Source { path, observer };
    let probes = plan.recordings.iter().map(|r| probes::made(source(r)));
    let probes = probes.collect::<anyhow::Result<Vec<bool>>>()?;
    if !probes.contains(&false)
        && plan.is_whole()
        && let (Some("html" | "svg" | "png"), Plot::Rtt) = (ending, plan.plot)
    {
        let text = probes::draw_all(&plan.recordings, ending == Some("html"), observer)?;
        return Ok((text, output));
    }
    let picture = match (ending, plan.plot) {
        (Some("html"), _) => false,
        (Some("svg" | "png"), Plot::Cdf) => true,
        _ => {
            return Err(usage(format!(
                "{}: several recordings make a page (.html), or with --plot cdf one plot (.svg, .png)",
                output.display()
            )));
        }
    };
    let zone = times::zone(plan.zone.as_deref())?;
    let mut ask = Ask::of(zone.clone(), threads(None));
    for (text, at) in [(&plan.from, &mut ask.from_ns), (&plan.to, &mut ask.to_ns)] {
        if let Some(text) = text {
            *at = Some(times::instant("--from, --to", text, &zone)?);
        }
    }
    ask.target = plan.target.clone();
    let mut materials = Vec::new();
    let mut all = Vec::new();
    for path in &plan.recordings {
        materials.push(material(plan, source(path))?);
        all.push((
            path.display().to_string(),
            statistics::statistics(source(path), &ask)?,
        ));
    }
    let named: Vec<_> = all
        .iter()
        .map(|(name, s)| (name.clone(), s, analyse::main_target(s)))
        .collect();
    let c = compare::compare(&named);
    let text = match picture {
        true => report::compared::distributions(&c, &materials).svg_on(paper),
        false => report::compared::page(&c, &materials),
    };
    Ok((text, output))
}

fn one(plan: &Plan, from: Source<'_>) -> anyhow::Result<(String, PathBuf)> {
    let recording = from.path;
    let whole = plan.is_whole();
    let output = plan
        .output
        .clone()
        .unwrap_or_else(|| recording.join("report.html"));
    let ending = ending(&output);
    // A test has phases: its page and its two plots show them.
    let test = whole && analyse::has_phases(from)?;
    let probe = whole && probes::made(from)?;
    if trace::made(from)? {
        let text = captured(plan, from, &output, ending)?;
        return Ok((text, output));
    }
    if let Some(name) = &plan.connection {
        return Err(usage(format!(
            "--connection {name}: {} is not of a capture",
            recording.display()
        )));
    }
    if plan.plot == Plot::Control && ending != Some("html") {
        let text = of_decisions(plan, from)?;
        return Ok((text, output));
    }
    // What a probe has found comes before what the emulator knows.
    if let (true, Some("svg" | "png"), Plot::Rtt) | (true, Some("html"), _) =
        (probe, ending, plan.plot)
    {
        let text = probes::draw(from, ending == Some("html"))?;
        return Ok((text, output));
    }
    if let Some(text) = of_queue_samples(plan, from, ending)? {
        return Ok((text, output));
    }
    let text = of_probes(plan, from, test, &output)?;
    Ok((text, output))
}

/// Writes the scripts of the advice beside the page.
///
/// # Errors
/// A directory that cannot be written to.
pub(crate) fn write_scripts(
    recording: &Path,
    answer: &analysis::answer::Answer,
) -> anyhow::Result<()> {
    for script in answer.advice.iter().filter_map(|a| a.script.as_ref()) {
        write_file(&recording.join(&script.file), &script.text)?;
    }
    Ok(())
}

/// Page or plot of a recording with probes; with `test`, its phases are shown.
fn of_probes(plan: &Plan, from: Source<'_>, test: bool, output: &Path) -> anyhow::Result<String> {
    let paper = plan.paper();
    Ok(match (ending(output), plan.plot) {
        (Some("html"), _) if test => {
            let (answer, recording) = analyse::test(from)?;
            if plan.output.is_none() {
                write_scripts(from.path, &answer)?;
            }
            report::html::page(&answer, &recording)
        }
        (Some("html"), _) => whole_page(plan, from)?,
        (Some("svg" | "png"), plot @ (Plot::Rtt | Plot::Cdf)) if test => {
            let (answer, recording) = analyse::test(from)?;
            if plot == Plot::Rtt {
                report::test_plots::rtt_over_time(&answer, &recording).svg_on(paper)
            } else {
                report::test_plots::cdf(&answer, &recording).svg_on(paper)
            }
        }
        (Some("svg" | "png"), plot) => plot
            .kind()
            .ok_or_else(|| {
                usage(format!(
                    "{} is not of a capture: sequence, in-flight and throughput are drawn of packets",
                    from.display()
                ))
            })?
            .spec(&material(plan, from)?)
            .map_err(|why| anyhow::anyhow!("{}: {why}", from.display()))?
            .svg_on(paper),
        _ => {
            return Err(usage(format!(
                "{}: end the name in .html, .svg, .pdf or .png",
                output.display()
            )));
        }
    })
}

/// Plot of the decisions of latency control, in two passes: the time range first, then the content.
fn of_decisions(plan: &Plan, source: Source<'_>) -> anyhow::Result<String> {
    let paper = plan.paper();
    let zone = times::zone(plan.zone.as_deref())?;
    let (from, to) = span(plan, &zone)?;
    let mut seen: Option<(i64, i64)> = None;
    scan::each_row(source, TableId::Decision, &mut |row| {
        if let Row::Decision(d) = row {
            let (first, last) = seen.unwrap_or((d.t_ns, d.t_ns));
            seen = Some((first.min(d.t_ns), last.max(d.t_ns)));
        }
    })?;
    let (first, last) = seen.unwrap_or_default();
    let (from_ns, to_ns) = (from.unwrap_or(first), to.unwrap_or(last + 1));
    if from_ns >= to_ns {
        return Err(usage("--from and --to leave nothing"));
    }
    let scope = Scope {
        from_ns,
        to_ns,
        zone,
    };
    let mut all = plots::Decisions::new(scope, &scan::meta(source)?.title);
    scan::each_row(source, TableId::Decision, &mut |row| {
        if let Row::Decision(d) = row {
            all.add(&d);
        }
    })?;
    all.mark(&scan::moments(source)?);
    let plot = all.plot();
    Ok(plot
        .map_err(|why| anyhow::anyhow!("{}: {why}", source.display()))?
        .svg_on(paper))
}

/// Plot of the queues that a simulation knows, if the plan asks for it; or the page of queues and transfers of a
/// recording without probes.
fn of_queue_samples(
    plan: &Plan,
    source: Source<'_>,
    ending: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let paper = plan.paper();
    let inside = matches!(
        plan.plot,
        Plot::Queue | Plot::Window | Plot::Signals | Plot::Phase
    );
    let of_queues = match plan.plot {
        Plot::Film if ending != Some("html") => {
            return Err(usage("a film is a page: end the name in .html"));
        }
        Plot::Film => true,
        _ => inside && ending != Some("html"),
    };
    if !of_queues && queue_samples::had_probes(source) {
        return Ok(None);
    }
    let zone = times::zone(plan.zone.as_deref())?;
    let (from, to) = span(plan, &zone)?;
    let found = queue_samples::gathered(source, from, to)?;
    let Some((answer, samples)) = found else {
        return match of_queues {
            true => Err(anyhow::anyhow!(
                "{}: no queue was sampled; those of a simulation are",
                source.display()
            )),
            false => Ok(None),
        };
    };
    plan.refuse_targets(source, "queues and transfers, and no probes")?;
    let refused = |why: String| anyhow::anyhow!("{}: {why}", source.display());
    Ok(match (ending, plan.plot) {
        (Some("html"), Plot::Film) => {
            Some(report::film::page(&answer, &samples, &zone).map_err(refused)?)
        }
        (Some("html"), _) => Some(report::inside::page(&answer, &samples, &zone)),
        (Some("svg" | "png"), Plot::Queue) => Some(
            report::inside::waits(&answer, &samples)
                .map_err(refused)?
                .svg_on(paper),
        ),
        (Some("svg" | "png"), Plot::Signals) => Some(
            report::inside::signals(&answer, &samples)
                .map_err(refused)?
                .svg_on(paper),
        ),
        (Some("svg" | "png"), Plot::Phase) => Some(
            report::inside::phase(&answer, &samples)
                .map_err(refused)?
                .svg_on(paper),
        ),
        (Some("svg" | "png"), Plot::Window) => {
            let drawn = report::inside::windows(&answer, &samples);
            let drawn = drawn.ok_or_else(|| refused("no transfer was sampled".into()))?;
            Some(drawn.svg_on(paper))
        }
        (Some("svg" | "png"), Plot::Rtt) => {
            let drawn = report::inside::round_trips(&answer, &samples);
            let waits = || report::inside::waits(&answer, &samples).ok();
            drawn.or_else(waits).map(|p| p.svg_on(paper))
        }
        (Some("svg" | "png"), Plot::Throughput) => {
            let drawn = report::inside::throughput(&answer, &samples);
            Some(
                drawn
                    .ok_or_else(|| refused("no transfer was sampled".into()))?
                    .svg_on(paper),
            )
        }
        _ => None,
    })
}

/// Plots of a capture's packets.
fn captured(
    plan: &Plan,
    source: Source<'_>,
    output: &Path,
    ending: Option<&str>,
) -> anyhow::Result<String> {
    plan.refuse_targets(source, "packets of a capture: choose one with --connection")?;
    let zone = times::zone(plan.zone.as_deref())?;
    let (from_ns, to_ns) = span(plan, &zone)?;
    let span = trace::Span { from_ns, to_ns };
    let connection = plan.connection.as_deref();
    Ok(match (ending, plan.plot.of_packets()) {
        (Some("html"), _) => trace::page(source, connection, span)?,
        (Some("svg" | "png"), Some(plot)) => trace::svg(source, plot, connection, span)?,
        (Some("svg" | "png"), None) => {
            return Err(usage(format!(
                "{} is of a capture: draw --plot sequence, throughput, in-flight or rtt",
                source.display()
            )));
        }
        _ => {
            return Err(usage(format!(
                "{}: end the name in .html, .svg, .pdf or .png",
                output.display()
            )));
        }
    })
}

/// Data for the plots of one target: the requested one, our own, or the one probed most.
fn material(plan: &Plan, source: Source<'_>) -> anyhow::Result<Material> {
    let mut all = materials(plan, source, false)?;
    Ok(all.swap_remove(0))
}

/// Data for the plots, in two passes over the columns: the time range first, then the content. A `page` has all plots,
/// of all targets unless one is requested; the main target comes first.
fn materials(plan: &Plan, source: Source<'_>, page: bool) -> anyhow::Result<Vec<Material>> {
    let meta = scan::meta(source)?;
    let zone = times::zone(plan.zone.as_deref())?;
    let (from, to) = span(plan, &zone)?;
    let seen = Contents::of(source)?;
    let (first, last) = seen.span.with_context(|| {
        format!(
            "{} has neither probes nor traffic to draw",
            source.display()
        )
    })?;
    let (from_ns, to_ns) = (from.unwrap_or(first), to.unwrap_or(last + 1));
    if from_ns >= to_ns {
        return Err(usage(format!(
            "--from and --to leave nothing: the recording goes from {} to {}",
            times::stamp(first),
            times::stamp(last)
        )));
    }
    let own = plan.target.is_none() && seen.targets.contains_key("udp");
    let target = if own {
        Some("udp".into())
    } else {
        chosen("target", &plan.target, &seen.targets)?
    };
    let interface = chosen("interface", &plan.interface, &seen.interfaces)?;
    let mut names: Vec<Text> = target.into_iter().collect();
    if page && plan.target.is_none() {
        let others = seen.targets.keys().filter(|t| Some(*t) != names.first());
        let others: Vec<Text> = others.cloned().collect();
        names.extend(others);
    }
    let scope = Scope {
        from_ns,
        to_ns,
        zone: zone.clone(),
    };
    let material = |name: Option<&Text>| {
        let title = match (&*meta.title, name) {
            ("", Some(t)) if seen.targets.len() > 1 => t.to_string(),
            (title, Some(t)) if seen.targets.len() > 1 && !page => format!("{title}, {t}"),
            (title, _) => title.to_owned(),
        };
        let mut m = Material::new(scope.clone(), &title);
        m.target = name.map(ToString::to_string).unwrap_or_default();
        m
    };
    let mut all: Vec<Material> = match names.is_empty() {
        true => vec![material(None)],
        false => names.iter().map(|n| material(Some(n))).collect(),
    };
    fill(source, &mut all, interface.as_deref())?;
    let named = interface.as_deref().map(str::to_owned);
    all.iter_mut().for_each(|m| m.interface.clone_from(&named));
    if page || plan.plot == Plot::Availability {
        let ask = Ask {
            from_ns: from,
            to_ns: to,
            target: (all.len() == 1).then(|| all[0].target.clone()),
            ..Ask::of(zone, 1)
        };
        let found = statistics::holes(source, &ask)?;
        for m in &mut all {
            let Some(holes) = found.get(&*m.target) else {
                continue;
            };
            let outages = holes.outages.iter().map(|o| (o.from_ns, o.to_ns));
            m.holes(&holes.due, &outages.collect::<Vec<_>>());
        }
    }
    Ok(all)
}

/// Page of all targets: their figures, outages, incidents and plots.
fn whole_page(plan: &Plan, source: Source<'_>) -> anyhow::Result<String> {
    let (all, found) = page_content(plan, source)?;
    Ok(plots::page(&all, found.as_ref()))
}

/// Page of a recording that its monitor serves.
///
/// # Errors
/// A recording without probes, or one that cannot be read.
pub(crate) fn live_page(recording: &Path, observer: &dyn Observer) -> anyhow::Result<LivePage> {
    let source = Source {
        path: recording,
        observer,
    };
    let (all, found) = page_content(&Plan::default(), source)?;
    Ok(LivePage {
        html: plots::live_page(&all, found.as_ref()),
        zoomed: all.first().map(Zoomed::of).unwrap_or_default(),
    })
}

/// Page that a monitor serves.
pub(crate) struct LivePage {
    pub(crate) html: String,
    /// Content of the plots that can be zoomed.
    pub(crate) zoomed: Zoomed,
}

/// Target and interface of a page's first plot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zoomed {
    target: String,
    interface: Option<String>,
}

impl Zoomed {
    fn of(m: &Material) -> Zoomed {
        Zoomed {
            target: m.target.clone(),
            interface: m.interface.clone(),
        }
    }
}

/// Single probes of a target in a short time, with the traffic beside them, for the page that a monitor serves.
///
/// # Errors
/// A recording that cannot be read.
pub(crate) fn single_probes(
    recording: &Path,
    of: &Zoomed,
    (from_ns, to_ns): (i64, i64),
    observer: &dyn Observer,
) -> anyhow::Result<PageProbes> {
    let source = Source {
        path: recording,
        observer,
    };
    let mut is_thinned = false;
    scan::thinned(source, &mut |row| {
        let end_ns = row.t_ns.saturating_add(row.interval_ns);
        is_thinned |= *row.target == *of.target && row.t_ns < to_ns && end_ns > from_ns;
    })?;
    if is_thinned {
        return Ok(PageProbes::none(
            "single probes of this time were thinned to their distribution",
        ));
    }
    let scope = Scope {
        from_ns,
        to_ns,
        zone: TimeZone::UTC,
    };
    let mut m = Material::new(scope, "");
    scan::probes_about(source, (from_ns, to_ns), |name, sent, rtt, status| {
        if **name == *of.target {
            m.probe(sent, rtt, status);
        }
    })?;
    scan::interfaces_about(source, (from_ns, to_ns), &mut |name, t, length, rx, tx| {
        if of.interface.as_deref() == Some(&**name) {
            m.traffic(t, length, rx, tx);
        }
    })?;
    Ok(plots::single_probes(&m))
}

/// Page of a monitor that has no probes yet.
#[cfg(target_os = "linux")]
pub(crate) use report::plots::empty_live_page;

/// Material of the plots of all targets, and their statistics.
fn page_content(
    plan: &Plan,
    source: Source<'_>,
) -> anyhow::Result<(Vec<Material>, Option<Statistics>)> {
    let all = materials(plan, source, true)?;
    let zone = times::zone(plan.zone.as_deref())?;
    let (from_ns, to_ns) = span(plan, &zone)?;
    let has_probes = all.iter().any(Material::has_delays);
    let ask = Ask {
        from_ns,
        to_ns,
        target: plan.target.clone(),
        ..Ask::of(zone, threads(None))
    };
    let found = has_probes.then(|| statistics::statistics(source, &ask));
    // Plots need less than figures do: the page has those even of a recording that is too long for figures.
    let found = found.and_then(|s| match s {
        Ok(s) => Some(s),
        Err(why) => {
            source.observer.warn(&why.to_string());
            None
        }
    });
    Ok((all, found))
}

/// The requested name, or the one with the most rows or bytes.
fn chosen(
    what: &str,
    asked: &Option<String>,
    known: &BTreeMap<Text, f64>,
) -> anyhow::Result<Option<Text>> {
    match asked {
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
    }
}
