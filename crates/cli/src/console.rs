//! Progress of a run on standard error: bars, live lines, news.

use crate::face::{self, Face};
use crate::screen::{self, Live};
use crate::{status, terminal};
use experiment::monitor::MonitorStatus;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
#[cfg(target_os = "linux")]
use ops::control::Status;
use ops::{Event, Progress};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Interval in seconds between two lines on a capture, if there is no terminal.
const LINE_EVERY: u64 = 10;

/// True once `--quiet` was given, which belongs to every verb.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Keeps progress from being shown from here on.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// True if the user asked for no progress.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Person at a terminal, or a log.
pub struct Console {
    /// True to leave out lines that only show progress.
    quiet: bool,
    terminal: bool,
    bar: Option<ProgressBar>,
    /// Number of lines of a live view on the terminal.
    drawn: usize,
    /// True if the live view stays when the run ends.
    stays: bool,
    seconds: u64,
    /// Current problem of each target of a monitor.
    troubles: BTreeMap<String, Option<String>>,
    /// Screen with keys of a monitor.
    screen: Option<Live>,
    /// True if a screen with keys may be opened.
    keys: bool,
    recording: String,
    /// Receiver of all news, instead of the terminal.
    face: Option<Arc<dyn Face>>,
}

impl Console {
    pub fn new() -> Console {
        Console {
            quiet: is_quiet(),
            terminal: terminal::redraws(),
            bar: None,
            drawn: 0,
            stays: false,
            seconds: 0,
            troubles: BTreeMap::new(),
            screen: None,
            keys: false,
            recording: String::new(),
            face: face::face(),
        }
    }

    /// Creates the view of a monitor: a screen with keys if the terminal has room for one.
    pub fn of_monitor() -> Console {
        Console {
            keys: !is_quiet() && face::face().is_none() && screen::is_possible(),
            ..Console::new()
        }
    }

    /// Prints a line above the live view, which is drawn again with its next news.
    fn print(&mut self, line: &str) {
        if let Some(live) = &self.screen {
            live.screen().say(line);
            return;
        }
        self.clear_screen();
        let print = || eprintln!("{line}");
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn finish(&mut self) {
        if let Some(live) = self.screen.take() {
            let messages = live.finish();
            messages.iter().for_each(|line| eprintln!("{line}"));
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if std::mem::take(&mut self.stays) {
            self.drawn = 0;
        }
        self.clear_screen();
    }

    /// Erases the live view.
    fn clear_screen(&mut self) {
        if self.drawn > 0 {
            // ECMA-48: up so many lines, and erase what is below.
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.drawn);
        }
        self.drawn = 0;
    }

    /// Replaces the lines on the terminal by these.
    fn draw(&mut self, lines: Vec<String>) {
        self.clear_screen();
        let lines = status::fitted(lines, terminal::stderr_style(), terminal::stderr_height());
        self.drawn = lines.len();
        for line in lines {
            eprintln!("{line}");
        }
        let _ = std::io::stderr().flush();
    }

    fn capture(&mut self, text: &str) {
        self.seconds += 1;
        if self.terminal {
            self.draw(text.lines().map(str::to_owned).collect());
        } else if self.seconds.is_multiple_of(LINE_EVERY) {
            self.print(text.lines().next().unwrap_or_default());
        }
        let _ = std::io::stderr().flush();
    }

    /// Prints failures and recoveries only, without a terminal.
    fn changes(&mut self, status: &MonitorStatus) {
        for t in &status.targets {
            let before = self.troubles.insert(t.name.to_string(), t.trouble.clone());
            if before.clone().flatten() != t.trouble {
                match &t.trouble {
                    Some(why) => self.tell(Event::Warned(&format!("{}: {why}", t.name))),
                    None if before.is_some() => {
                        self.tell(Event::Warned(&format!("{}: answers again", t.name)));
                    }
                    None => {}
                }
            }
        }
    }

    fn monitor(&mut self, status: &MonitorStatus) {
        if self.quiet {
            return;
        }
        if !self.terminal {
            self.changes(status);
            return;
        }
        if std::mem::take(&mut self.keys)
            && let Ok(live) = Live::start(terminal::stdout_style())
        {
            live.screen().name(&self.recording);
            self.screen = Some(live);
        }
        if let Some(live) = &self.screen {
            live.screen().take(status);
            if !live::signal::interrupted() {
                return;
            }
            // The screen is gone: the rest of the run is told in plain lines.
            self.finish();
        }
        let (style, height) = (terminal::stderr_style(), terminal::stderr_height());
        self.draw(status::lines(status, style, height));
        self.stays = true;
    }

    /// Shows a gateway's state; without a terminal, failures and recoveries only.
    #[cfg(target_os = "linux")]
    fn control(&mut self, status: &Status) {
        if self.quiet {
            return;
        }
        if self.terminal {
            self.draw(vec![ops::control::line(status)]);
            self.stays = true;
            return;
        }
        let server = status.server.to_string();
        let trouble = status.trouble.clone();
        let before = self.troubles.insert(server.clone(), trouble.clone());
        match (before.flatten(), trouble) {
            (before, Some(why)) if before.as_deref() != Some(why.as_str()) => {
                self.tell(Event::Warned(&format!("{server}: {why}")));
            }
            (Some(_), None) => self.tell(Event::Warned(&format!("{server}: answers again"))),
            _ => {}
        }
    }
}

impl Progress for Console {
    fn tell(&mut self, event: Event<'_>) {
        if let Some(face) = &self.face {
            face.tell(event);
            return;
        }
        match event {
            Event::Interruptible => live::signal::catch_interrupt(),
            Event::Share(share) => {
                let bar = self.bar.get_or_insert_with(bar);
                bar.set_position((share * 1000.0) as u64);
            }
            Event::Finished => self.finish(),
            Event::Recording { path, resumed } => {
                self.recording = path.display().to_string();
                if !self.quiet {
                    let what = match resumed {
                        true => "going on with",
                        false => "recording to",
                    };
                    self.print(&format!("tailback: {what} {}", path.display()));
                }
            }
            Event::Wrote(path) => self.print(&path.display().to_string()),
            Event::Said(text) => self.print(text),
            Event::Warned(text) => self.print(&format!("tailback: {text}")),
            Event::Monitor(status) => self.monitor(status),
            #[cfg(target_os = "linux")]
            Event::Control(status) => self.control(status),
            Event::Capture(text) => self.capture(text),
            // An experiment has a view of its own.
            Event::Stage { .. } | Event::Told(_) => {}
        }
    }

    fn interrupted(&mut self) -> bool {
        match &self.face {
            Some(face) => face.interrupted(),
            None => live::signal::interrupted(),
        }
    }
}

/// Progress bar in thousandths.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent} %  {left}")
        .expect("the template is valid")
        // Nothing can be told of the time before the first step.
        .with_key(
            "left",
            |bar: &ProgressState, out: &mut dyn std::fmt::Write| {
                if bar.pos() > 0 {
                    let _ = write!(out, "{} left", HumanDuration(bar.eta()));
                }
            },
        );
    match terminal::redraws() {
        true => ProgressBar::new(1000).with_style(style),
        false => ProgressBar::hidden(),
    }
}
