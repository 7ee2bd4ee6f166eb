//! `tailback control`: latency control of a gateway's link.

mod metrics;
mod place;
mod switch;

use live::control::Why;
pub use live::control::{Asked, Directions, Law, Settings, Status};
pub use place::{Answer as Place, plan};
pub use switch::{Switch, switch};

use crate::monitor::{Guard, MonitorWriter};
use crate::progress::{Event as News, Observer, Shared};
use crate::{Progress, usage, write_file};
use base::record::{FORMAT_VERSION, Meta, Origin};
use base::{BitsPerSec, Bytes, Duration};
use live::clock::Clock;
use live::control::{ControlError, Gateway, Overseer};
use live::load::Access;
use live::resolve;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use store::{Name, Options};

/// Gateway, server and recording of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub settings: Settings,
    /// Server beyond the link, as the user names it.
    pub server: String,
    /// True to use only addresses of this family.
    #[serde(default)]
    pub ipv4: bool,
    #[serde(default)]
    pub ipv6: bool,
    /// Recording to write; a number is added if it exists.
    pub output: PathBuf,
    /// Name of the recording in reports.
    #[serde(default)]
    pub title: Option<String>,
    /// Largest size of the recording, above which old detail is thinned.
    #[serde(default)]
    pub max_size: Option<Bytes>,
    /// Time after which control ends; by default it runs until interrupted.
    #[serde(default)]
    pub duration: Option<Duration>,
    /// File that gets the state once a second, as text for Prometheus.
    #[serde(default)]
    pub metrics: Option<PathBuf>,
}

impl Plan {
    /// Plan with the usual settings, as a dry run.
    pub fn new(wan: &str, server: &str) -> Plan {
        Plan {
            settings: Settings {
                wan: wan.into(),
                ..Settings::default()
            },
            server: server.into(),
            ipv4: false,
            ipv6: false,
            output: "control.rec".into(),
            title: None,
            max_size: None,
            duration: None,
            metrics: None,
        }
    }

    /// # Errors
    /// Values out of their ranges.
    fn check(&self) -> anyhow::Result<()> {
        let Settings {
            upload,
            download,
            interval,
            exempt,
            overhead,
            ..
        } = &self.settings;
        let ms = Duration::from_millis;
        if *interval < ms(5) || *interval > ms(200) {
            return Err(usage("--interval must be from 5 ms to 200 ms"));
        }
        if download.target < ms(1) || upload.target < ms(1) || upload.cap <= upload.target {
            return Err(usage(format!(
                "--target {} and --cap {}: the target is at least 1 ms, and the cap is above it",
                upload.target, upload.cap
            )));
        }
        let Settings {
            directions,
            shape_up,
            shape_down,
            wan,
            ..
        } = &self.settings;
        let idle = match directions {
            Directions::Up => shape_down.as_ref().map(|_| ("--shape-down", "down")),
            Directions::Down => shape_up.as_ref().map(|_| ("--shape-up", "up")),
            Directions::Both => None,
        };
        if let Some((option, direction)) = idle {
            return Err(usage(format!(
                "{option} needs --direction {direction} or --direction both"
            )));
        }
        if shape_down.as_ref() == Some(wan) {
            return Err(usage(
                "--shape-down names an IFB interface, to which arriving packets are redirected: the interface towards the modem shapes uploads",
            ));
        }
        if let Some(dscp) = exempt.iter().find(|&&d| d > 63) {
            return Err(usage(format!("--exempt {dscp}: a DSCP is from 0 to 63")));
        }
        if overhead.abs() > 200 {
            return Err(usage("--overhead must be from -200 to 200 bytes"));
        }
        Ok(())
    }
}

/// Recording of a run, and its state at the end. Its JSON is that of `tailback control run --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Control run")]
pub struct Answer {
    pub recording: PathBuf,
    pub status: Status,
}

/// Error of the gateway as that of the verb: a wrong name is the user's to change.
fn told(e: ControlError) -> anyhow::Error {
    match e {
        ControlError::NoInterface { .. } => usage(e.to_string()),
        e => e.into(),
    }
}

/// Checks a plan without running it.
///
/// # Errors
/// Values out of their ranges.
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    plan.check()
}

/// Controls the link until the plan's end, an interruption or `tailback control stop`; then restores it.
///
/// # Errors
/// An invalid plan, a server or a host that refuses, a recording that cannot be written. Nothing is changed
/// then.
pub fn run(plan: &Plan, access: &Access, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    plan.check()?;
    observer.tell(News::Interruptible);
    let server = resolve::server(
        &plan.server,
        measure::control::DEFAULT_PORT,
        plan.ipv4,
        plan.ipv6,
    )
    .map_err(|e| usage(e.to_string()))?;
    let clock = Clock::start();
    let (rows, waiting) = std::sync::mpsc::channel();
    let gateway =
        Gateway::start(plan.settings.clone(), server, access, clock, rows).map_err(told)?;
    let meta = meta(plan, clock)?;
    let options = Options {
        name: Name::NextFree,
        utc_offset_s: jiff::Zoned::now().offset().seconds(),
        flush_every: Some(Duration::from_secs(1)),
        ..Options::default()
    };
    let writer = options.create(&plan.output, meta.clone())?;
    let recording = writer.path().to_owned();
    let guard = Guard {
        keep_free: None,
        max_size: plan.max_size,
    };
    let writer = MonitorWriter::start(writer, guard)?;
    let to_disk = writer.rows.clone();
    // Ends with the gateway, which holds the only sender.
    let forward = std::thread::Builder::new()
        .name("rows".into())
        .stack_size(256 << 10)
        .spawn(move || waiting.iter().all(|row| to_disk.send(row).is_ok()))?;
    observer.tell(News::Recording {
        path: &recording,
        resumed: false,
    });
    let result = gateway.run(&mut Watch {
        observer,
        writer: &writer,
        duration: plan.duration,
        metrics: plan.metrics.as_deref(),
        over: false,
        seconds: 0,
    });
    let _ = forward.join();
    observer.tell(News::Finished);
    let closed = writer.finish(observer).close(Meta {
        ended_ns: Some(live::clock::wall_ns()),
        complete: result.is_ok(),
        ..meta
    });
    let status = result.map_err(told)?;
    closed?;
    Ok(Answer { recording, status })
}

fn meta(plan: &Plan, clock: Clock) -> anyhow::Result<Meta> {
    let wan = &plan.settings.wan;
    Ok(Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Measured,
        verb: "control".into(),
        title: plan
            .title
            .clone()
            .unwrap_or_else(|| format!("Latency control of {wan}")),
        started_ns: clock.unix_ns(),
        plan: serde_json::to_value(plan)?,
        host: live::host::facts(Some(wan)),
        ..Meta::default()
    })
}

/// Asks the run on this interface for its state, or to stop; it has restored the interface then.
///
/// # Errors
/// There is no such run, or it does not answer.
pub fn ask(wan: &str, asked: Asked) -> anyhow::Result<Status> {
    let answer = live::control::ask(wan, asked)?;
    serde_json::from_str(&answer)
        .map_err(|e| anyhow::anyhow!("the run on {wan} answered something else: {e}"))
}

/// State of a gateway in one line; 80 columns unless something is wrong or downloads are controlled.
pub fn line(s: &Status) -> String {
    let rate = |r: Option<f64>| {
        r.map_or("unknown".to_owned(), |r| {
            format!("{:.3}", BitsPerSec::new(r.max(0.0) as u64))
        })
    };
    let why = serde_json::to_value(s.why).unwrap_or_default();
    let (mut carried, capacity) = (rate(s.rate_bps), rate(s.capacity_bps));
    if let (Some((number, unit)), Some((_, same))) =
        (carried.split_once(' '), capacity.split_once(' '))
        && unit == same
    {
        carried = number.to_owned();
    }
    let cut = |shaper: Option<f64>, marks: u64, drops: u64| match shaper {
        Some(_) => format!("shaped to {}", rate(shaper)),
        None => format!("{marks} CE, {drops} drops"),
    };
    let mut line = format!(
        "{}{}: {}, wait {}, {} of {}, {}",
        s.wan,
        if s.applied { "" } else { " (dry)" },
        why.as_str().unwrap_or_default(),
        s.wait_ms
            .map_or("unknown".to_owned(), |w| format!("{w:.1} ms")),
        carried,
        capacity,
        cut(s.shaper_bps, s.marks, s.drops)
    );
    if let Some(down) = &s.down {
        let why = serde_json::to_value(down.why).unwrap_or_default();
        line.push_str(&format!(
            "; down {}, wait {}, {} of {}, {}",
            why.as_str().unwrap_or_default(),
            down.wait_ms
                .map_or("unknown".to_owned(), |w| format!("{w:.1} ms")),
            rate(down.rate_bps),
            rate(down.capacity_bps),
            cut(down.shaper_bps, down.marks, down.drops)
        ));
    }
    for why in [reason(s.why), s.trouble.as_deref()].into_iter().flatten() {
        line.push_str(&format!(" [{why}]"));
    }
    line
}

/// Reason why the gateway does not act although it could have to.
fn reason(why: Why) -> Option<&'static str> {
    match why {
        Why::Blind => Some("no answer for a second: packets pass"),
        Why::Others => {
            Some("this gateway sends next to nothing, so the queue is not its own: packets pass")
        }
        Why::Bypassed => {
            Some("the link is full and probes do not wait: they bypass its queue; packets pass")
        }
        Why::Unseen => Some(
            "the interface sends packets that the hook does not see, for example by offload: packets pass",
        ),
        Why::Clock => Some(
            "a wait jumped while that of the other direction fell: the server's clock may have been set, so the jump counts as none",
        ),
        Why::Learning | Why::Short | Why::Long | Why::Capped => None,
    }
}

/// Forwards the state of the gateway, and ends the run in time.
struct Watch<'w> {
    observer: &'w dyn Observer,
    writer: &'w MonitorWriter,
    duration: Option<Duration>,
    metrics: Option<&'w Path>,
    over: bool,
    /// Seconds so far.
    seconds: u64,
}

/// Seconds after which the start is over, and its memory is given back; and those after which that is done again.
const STARTED_S: u64 = 5;
const AGAIN_S: u64 = 600;

impl Overseer for Watch<'_> {
    fn status(&mut self, status: &Status) {
        let end = self.duration.map(Duration::as_secs_f64);
        self.over = end.is_some_and(|end| status.elapsed_s >= end);
        self.observer.tell(News::Control(status));
        if let Some(path) = self.metrics
            && let Err(e) = write_file(path, &metrics::render(status))
        {
            self.observer.warn(&format!("{e:#}"));
            // Said once; the next seconds would say the same.
            self.metrics = None;
        }
        self.writer.tell(self.observer);
        self.seconds += 1;
        if self.seconds % AGAIN_S == STARTED_S {
            live::host::release_memory();
        }
    }

    fn interrupted(&mut self) -> bool {
        self.over || self.observer.interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_line_fits_80_columns_and_says_why_nothing_is_cut() {
        let status = |why| Status {
            wan: "wwan0".into(),
            server: ([192, 0, 2, 1], 7117).into(),
            applied: false,
            elapsed_s: 86_400.0,
            why,
            wait_ms: Some(39.96),
            probed_wait_ms: Some(38.1),
            capacity_bps: Some(95_648_123.0),
            rate_bps: Some(94_512_345.0),
            passed_bytes: 1 << 40,
            signals: 345,
            marks: 1234,
            drops: 12_345,
            shaper_bps: None,
            down: None,
            trouble: None,
        };
        let long = line(&status(Why::Learning));
        assert!(long.len() <= 80, "{} columns: {long}", long.len());
        for why in [Why::Blind, Why::Others, Why::Bypassed, Why::Unseen] {
            assert!(line(&status(why)).contains("packets pass"));
        }
    }
}
