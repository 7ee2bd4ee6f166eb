//! `tailback monitor`: delay and traffic for weeks.

mod alert;
pub mod history;
mod metrics;
mod quality;
mod readings;
mod site;
mod thinning;
mod writer;

use crate::mark::Follower;
use crate::progress::{Event as News, Observer, Shared};
use crate::tell::Teller;
use crate::{Progress, usage};
pub use alert::Recipients;
use alert::{Alerts, silence};
use anyhow::Context;
use base::record::{Event, FORMAT_VERSION, Meta, Origin, Row, TableId};
use base::{Bytes, Duration};
use experiment::monitor::{MonitorPlan, MonitorStatus, Target, TargetKind};
use live::clock::Clock;
use live::load::Access;
use live::monitor::{Monitor, Overseer};
use live::notify::Manager;
use live::outlet::Outlet;
use live::web::Web;
use readings::Reader;
use serde::{Deserialize, Serialize};
use site::Site;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Name, Options, Writer};
pub(crate) use thinning::Guard;
pub(crate) use writer::MonitorWriter;

/// Targets to probe, and the recording to write.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Settings that decide what is recorded; `meta.json` stores them.
    pub monitor: MonitorPlan,
    /// Targets as the user names them, for the recording's title.
    #[serde(default)]
    pub names: Vec<String>,
    /// Name of the recording in reports; by default made of the targets' names.
    pub title: Option<String>,
    /// Recording to write; an existing one of the same plan is continued.
    pub output: PathBuf,
    /// Interval at which rows are written to disk.
    pub flush: Duration,
    /// Least free space on the disk, below which old detail is thinned.
    pub keep_free: Option<Bytes>,
    /// Largest size of the recording, above which old detail is thinned.
    pub max_size: Option<Bytes>,
    /// Time after which the monitor stops; by default it runs until interrupted.
    pub duration: Option<Duration>,
    /// Recipients of alerts. A file of a plan cannot set them: it would run a stranger's commands.
    #[serde(skip)]
    pub alerts: Recipients,
    /// File that gets the monitor's state in Prometheus' text format, once a second.
    #[serde(default)]
    pub metrics: Option<PathBuf>,
    /// Address on which the page, the state and the metrics are served. A file of a plan cannot set it: it would open a
    /// stranger's port.
    #[serde(skip)]
    pub web: Option<SocketAddr>,
    /// Token that readers need; by default none on a loopback address, and a new random one elsewhere.
    #[serde(skip)]
    pub web_token: Option<String>,
    /// Command of which each printed line is a marked moment. A file of a plan cannot set it: it would run a stranger's
    /// command.
    #[serde(skip)]
    pub mark_on: Option<String>,
    /// Command that prints the state of the modem. A file of a plan cannot set it: it would run a stranger's command.
    #[serde(skip)]
    pub modem_cmd: Option<String>,
    /// Interval at which that command runs.
    #[serde(default = "modem_every")]
    pub modem_every: Duration,
    /// Interval between readings of the radios: Wi-Fi and cellular modems. Zero: none.
    #[serde(default = "radio_every")]
    pub radio_every: Duration,
}

fn modem_every() -> Duration {
    Duration::from_secs(30)
}

fn radio_every() -> Duration {
    Duration::from_secs(10)
}

impl Plan {
    /// Plan with the usual settings.
    pub fn new(monitor: MonitorPlan) -> Plan {
        Plan {
            monitor,
            names: Vec::new(),
            title: None,
            output: "monitor.rec".into(),
            flush: Duration::from_millis(500),
            keep_free: None,
            max_size: None,
            duration: None,
            alerts: Recipients::default(),
            metrics: None,
            web: None,
            web_token: None,
            mark_on: None,
            modem_cmd: None,
            modem_every: modem_every(),
            radio_every: radio_every(),
        }
    }

    fn names(&self) -> Vec<String> {
        match (self.names.is_empty(), self.monitor.targets.is_empty()) {
            (false, _) => self.names.clone(),
            (true, false) => self.monitor.targets.iter().map(Target::name).collect(),
            (true, true) => self.monitor.interfaces.clone(),
        }
    }

    /// # Errors
    /// Two targets of one name, and intervals out of their ranges.
    fn check(&self) -> anyhow::Result<()> {
        unique(&self.monitor.targets)?;
        if self.monitor.traffic_interval < Duration::from_millis(10) {
            return Err(usage("--traffic-interval must be at least 10 ms"));
        }
        let lost_after = self.monitor.lost_after;
        if lost_after < Duration::from_millis(100) || lost_after > Duration::from_secs(60) {
            return Err(usage("--lost-after must be from 100 ms to 60 s"));
        }
        if self.flush < Duration::from_millis(500) || self.flush > Duration::from_secs(60) {
            return Err(usage("--flush must be from 500 ms to 60 s"));
        }
        if self.modem_every < Duration::from_secs(1) {
            return Err(usage("--modem-every must be at least 1 s"));
        }
        if self.radio_every > Duration::ZERO && self.radio_every < Duration::from_secs(1) {
            return Err(usage("--radio-every must be at least 1 s, or 0 s for none"));
        }
        let is_token = |t: &String| t.len() >= 8 && t.bytes().all(|b| b.is_ascii_alphanumeric());
        if !self.web_token.iter().all(is_token) {
            return Err(usage("--web-token must be letters and digits, at least 8"));
        }
        self.alerts.check()
    }
}

/// Reads targets as the user names them, each probed at `interval` unless it says otherwise.
///
/// # Errors
/// A target that cannot be read.
pub fn targets(names: &[String], interval: Duration) -> anyhow::Result<Vec<Target>> {
    let read = |t: &String| Target::parse(t, interval).map_err(|e| usage(e.to_string()));
    names.iter().map(read).collect()
}

/// The targets through each of several interfaces. One alone needs no names of its own.
///
/// # Errors
/// Two targets of one name.
pub fn through(targets: Vec<Target>, interfaces: &[String]) -> anyhow::Result<Vec<Target>> {
    unique(&targets)?;
    if interfaces.len() < 2 {
        return Ok(targets);
    }
    let by = |target: &Target, name: &String| Target {
        interface: Some(name.clone()),
        ..target.clone()
    };
    let all = targets
        .iter()
        .flat_map(|t| interfaces.iter().map(move |name| by(t, name)));
    Ok(all.collect())
}

/// # Errors
/// Two targets of one name.
fn unique(targets: &[Target]) -> anyhow::Result<()> {
    let names: Vec<String> = targets.iter().map(Target::name).collect();
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            return Err(usage(match targets[i].kind {
                TargetKind::Server(_) => {
                    "two servers: run one monitor for each, with its own --output".to_owned()
                }
                _ => format!("{name} is given twice"),
            }));
        }
    }
    Ok(())
}

/// Access through the one interface that the plan names; of several, each target names its own.
fn bound(plan: &Plan, access: &Access) -> Access {
    let one = match &plan.monitor.interfaces[..] {
        [one] => Some(one.as_str()),
        _ => None,
    };
    Access {
        outlet: Outlet::of(one),
        ..access.clone()
    }
}

/// Recording of a monitor.
pub struct Answer {
    pub recording: PathBuf,
    /// Length of this run.
    pub ran: Duration,
}

impl Answer {
    /// Returns the state of the targets at the end of this run, over its last seven days.
    ///
    /// # Errors
    /// A recording that cannot be read.
    pub fn state(&self, progress: &mut dyn Progress) -> anyhow::Result<crate::status::Answer> {
        let plan = crate::status::Plan {
            recording: self.recording.clone(),
            last: self
                .ran
                .clamp(crate::status::SHORTEST, crate::status::LONGEST),
        };
        crate::status::run(&plan, progress)
    }
}

/// Checks a plan without running it.
///
/// # Errors
/// Errors of [`run`].
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    plan.check()
}

/// Probes the targets until the plan's end or an interruption.
///
/// # Errors
/// An invalid plan, targets that cannot be probed, a recording that cannot be written.
pub fn run(plan: &Plan, access: &Access, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    plan.check()?;
    observer.tell(News::Interruptible);
    live::signal::ignore_hangup();
    let clock = Clock::start();
    let (meta, resumed) = meta(plan, clock)?;
    let options = Options {
        name: Name::NextFree,
        utc_offset_s: jiff::Zoned::now().offset().seconds(),
        flush_every: Some(plan.flush),
        ..Options::default()
    };
    let writer = match &resumed {
        Some(path) => options.resume(path, meta.clone())?,
        None => options.create(&plan.output, meta.clone())?,
    };
    // Once nobody else writes there.
    let first_seq = match &resumed {
        Some(path) => next_numbers(path, observer),
        None => BTreeMap::new(),
    };
    let recording = writer.path().to_owned();
    let guard = Guard {
        keep_free: plan.keep_free,
        max_size: plan.max_size,
    };
    let site = Served::start(plan, &recording, observer)?;
    let marks = Follower::start(plan.mark_on.as_deref())?;
    let writer = MonitorWriter::start(writer, guard)?;
    let readers = readers(plan, &writer)?;
    let rows = writer.rows.clone();
    let access = bound(plan, access);
    let monitor = match Monitor::new(plan.monitor.clone(), &access, clock, rows, &first_seq) {
        Ok(monitor) => monitor,
        Err(e) => {
            // The writer ends once nobody sends rows.
            drop(readers);
            let writer = writer.finish(observer);
            let empty = resumed.is_none() && writer.rows_saved() == 0;
            drop(writer);
            if empty {
                // Nothing was measured: there is nothing to keep.
                let _ = std::fs::remove_dir_all(&recording);
            }
            return Err(e.into());
        }
    };
    let _ = writer.rows.send(began(&meta, resumed.is_some(), clock));
    observer.tell(News::Recording {
        path: &recording,
        resumed: resumed.is_some(),
    });
    let manager = Manager::of_environment();
    if let Some(manager) = &manager {
        manager.tell("READY=1");
    }
    monitor.run(&mut Watch {
        observer,
        writer: &writer,
        plan,
        alerts: Alerts::new(&plan.monitor.targets, &plan.alerts),
        teller: Teller::new(&plan.alerts.ways, "--on-outage"),
        host: live::host::name(),
        site: site.as_ref().map(|s| s.site.clone()),
        manager: manager.as_ref(),
        marks,
        readers,
        metrics_failed: false,
        over: false,
    });
    if let Some(manager) = &manager {
        manager.tell("STOPPING=1");
    }
    drop(site);
    observer.tell(News::Finished);
    let ran = clock.now().saturating_since(base::Time::ZERO);
    close(writer.finish(observer), meta)?;
    Ok(Answer { recording, ran })
}

/// Starts what is read beside the probes.
fn readers(plan: &Plan, writer: &MonitorWriter) -> anyhow::Result<Vec<Reader>> {
    let every = |time: Duration| std::time::Duration::from_nanos(time.as_nanos());
    let mut readers = Vec::new();
    if let Some(command) = plan.modem_cmd.clone() {
        let (every, read) = (every(plan.modem_every), readings::modem(command));
        readers.push(Reader::start(
            "--modem-cmd",
            every,
            writer.rows.clone(),
            read,
        )?);
    }
    if plan.radio_every > Duration::ZERO {
        let read = readings::radios(plan.monitor.interfaces.clone());
        let every = every(plan.radio_every);
        readers.push(Reader::start(
            "--radio-every",
            every,
            writer.rows.clone(),
            read,
        )?);
    }
    Ok(readers)
}

/// Site of the monitor, its server and the thread that renders its page.
struct Served {
    site: Arc<Site>,
    _renderer: site::Renderer,
    _web: Web,
}

impl Served {
    /// Starts the site that the plan asks for, and tells its address.
    ///
    /// # Errors
    /// An address that cannot be bound.
    fn start(
        plan: &Plan,
        recording: &Path,
        observer: &dyn Observer,
    ) -> anyhow::Result<Option<Served>> {
        let Some(listen) = plan.web else {
            return Ok(None);
        };
        let token = match (&plan.web_token, listen.ip().is_loopback()) {
            (Some(token), _) => Some(token.clone()),
            (None, true) => None,
            (None, false) => Some(live::web::new_token()?),
        };
        let site = Site::new(&plan.monitor.targets);
        let web = Web::start(listen, token.clone(), site.clone());
        let web = web.with_context(|| format!("--web {listen}"))?;
        let renderer = site.render(recording.to_owned())?;
        let query = token.map(|t| format!("?token={t}")).unwrap_or_default();
        observer.say(&format!("tailback: page: http://{}/{query}", web.address()));
        Ok(Some(Served {
            site,
            _renderer: renderer,
            _web: web,
        }))
    }
}

/// Event with which each run begins.
fn began(meta: &Meta, resumed: bool, clock: Clock) -> Row {
    let run = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "resumed": resumed,
        "kernel": meta.host.kernel,
    });
    Row::Event(Event {
        t_ns: clock.unix_ns(),
        kind: "run".into(),
        subject: "monitor".into(),
        detail: run.to_string().into(),
    })
}

fn close(writer: Writer, meta: Meta) -> anyhow::Result<()> {
    let ended_ns = Some(live::clock::wall_ns());
    writer.close(Meta {
        ended_ns,
        complete: true,
        ..meta
    })?;
    Ok(())
}

/// Facts of the recording, and its directory if there is one of the same plan to continue. A recording of another plan
/// is left alone: a sibling is created.
fn meta(plan: &Plan, clock: Clock) -> anyhow::Result<(Meta, Option<PathBuf>)> {
    let monitor = serde_json::to_value(&plan.monitor)?;
    let interfaces = &plan.monitor.interfaces;
    let fresh = Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Measured,
        verb: "monitor".into(),
        title: plan
            .title
            .clone()
            .unwrap_or_else(|| format!("Monitoring {}", plan.names().join(", "))),
        started_ns: clock.unix_ns(),
        plan: monitor.clone(),
        host: live::host::facts(interfaces.first().map(String::as_str)),
        ..Meta::default()
    };
    let mut path = plan.output.clone();
    for number in 2.. {
        match store::read_meta(&path) {
            Ok(old) if old.verb == "monitor" && old.plan == monitor => {
                let meta = Meta {
                    started_ns: old.started_ns,
                    title: plan.title.clone().unwrap_or(old.title),
                    exclusions: old.exclusions,
                    ..fresh
                };
                return Ok((meta, Some(path)));
            }
            _ if !path.exists() => break,
            _ => path = sibling(&plan.output, number),
        }
    }
    Ok((fresh, None))
}

fn sibling(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()))
}

/// First sequence numbers of the run: those of the delays on disk, plus one. Rows lost in a crash are reported.
fn next_numbers(path: &Path, observer: &dyn Observer) -> BTreeMap<String, u64> {
    let mut next: Vec<u64> = Vec::new();
    let mut words = Vec::new();
    let scanned = store::scan(path, TableId::Delay, &["seq", "target"], &mut |columns| {
        let seq = columns.ints("seq");
        let targets = columns.words("target", &mut words).unwrap_or_default();
        next.resize(words.len(), 0);
        for (row, target) in targets.into_iter().enumerate() {
            let after = seq.get(row).map_or(0, |s| s.unsigned_abs() + 1);
            next[target as usize] = next[target as usize].max(after);
        }
    });
    match scanned {
        Ok(notes) => observer.recovered(notes),
        Err(e) => observer.warn(&e.to_string()),
    }
    words.iter().map(ToString::to_string).zip(next).collect()
}

/// Forwards the monitor's state, and stops it in time.
struct Watch<'w> {
    observer: &'w dyn Observer,
    writer: &'w MonitorWriter,
    plan: &'w Plan,
    alerts: Alerts,
    teller: Teller,
    /// Name of this host.
    host: String,
    site: Option<Arc<Site>>,
    manager: Option<&'w Manager>,
    marks: Follower,
    readers: Vec<Reader>,
    metrics_failed: bool,
    over: bool,
}

impl Watch<'_> {
    /// Writes the file of metrics; the first failure is reported, and the monitor goes on.
    fn write_metrics(&mut self, status: &MonitorStatus) {
        let Some(file) = &self.plan.metrics else {
            return;
        };
        match metrics::write(file, &crate::metrics::text(&metrics::families(status))) {
            Ok(()) => self.metrics_failed = false,
            Err(_) if self.metrics_failed => {}
            Err(why) => {
                self.metrics_failed = true;
                let what = file.display();
                self.observer.warn(&format!("cannot write {what}: {why}"));
            }
        }
    }
}

impl Overseer for Watch<'_> {
    fn status(&mut self, status: &MonitorStatus) {
        self.over = self.plan.duration.is_some_and(|d| status.elapsed >= d);
        self.observer.tell(News::Monitor(status));
        for row in self.marks.rows(self.observer) {
            // The writer ends after this.
            let _ = self.writer.rows.send(row);
        }
        for reader in &mut self.readers {
            reader.tell(self.observer);
        }
        let changes = alert::changes(&mut self.alerts, status, &self.host);
        let observer = self.observer;
        self.teller.tell(&changes, &mut |text| observer.warn(text));
        if let Some(site) = &self.site {
            site.take(status);
        }
        if let Some(manager) = self.manager {
            // systemd kills and starts again what stays silent for WatchdogSec=.
            manager.tell("WATCHDOG=1");
        }
        self.write_metrics(status);
        self.writer.tell(self.observer);
    }

    fn interrupted(&mut self) -> bool {
        self.over || self.observer.interrupted()
    }
}
