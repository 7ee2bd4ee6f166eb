//! Progress of a run on standard error: bars, live lines, news.

use base::Duration;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use live::monitor::MonitorStatus;
use ops::control::Status;
use ops::{Event, Progress};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

/// Interval in seconds between two lines on a capture, if there is no terminal.
const LINE_EVERY: u64 = 10;

/// Person at a terminal, or a log.
pub struct Console {
    /// True to leave out lines that only show progress.
    quiet: bool,
    terminal: bool,
    bar: Option<ProgressBar>,
    /// Number of lines drawn for a capture.
    drawn: usize,
    seconds: u64,
    /// True while the monitor's live line is shown.
    line: bool,
    /// Current problem of each target of a monitor.
    troubles: BTreeMap<String, Option<String>>,
}

impl Console {
    pub fn new(quiet: bool) -> Console {
        Console {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            bar: None,
            drawn: 0,
            seconds: 0,
            line: false,
            troubles: BTreeMap::new(),
        }
    }

    fn print(&self, line: &str) {
        let print = || eprintln!("{line}");
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.clear_screen();
        if std::mem::take(&mut self.line) {
            let _ = writeln!(std::io::stderr());
        }
    }

    /// Erases the lines drawn for a capture.
    fn clear_screen(&mut self) {
        if self.drawn > 0 {
            // ECMA-48: up so many lines, and erase what is below.
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.drawn);
        }
        self.drawn = 0;
    }

    fn capture(&mut self, text: &str) {
        self.seconds += 1;
        if self.terminal {
            self.clear_screen();
            self.drawn = text.lines().count();
            eprint!("{text}");
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
        match self.terminal {
            true => Console::live(&live_line(status)),
            false => self.changes(status),
        }
    }

    /// Shows a gateway's state; without a terminal, failures and recoveries only.
    fn control(&mut self, status: &Status) {
        if self.quiet {
            return;
        }
        if self.terminal {
            Console::live(&ops::control::line(status));
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

    /// Replaces the live line.
    fn live(line: &str) {
        // Longer than the terminal is wide, it would scroll.
        let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let line: String = line.chars().take(width.unwrap_or(120)).collect();
        let mut out = std::io::stderr();
        let _ = write!(out, "\r\x1b[K{}", base::text::clean(&line)).and_then(|()| out.flush());
    }
}

impl Progress for Console {
    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::Interruptible => live::signal::catch_interrupt(),
            Event::Share(share) => {
                let bar = self.bar.get_or_insert_with(bar);
                bar.set_position((share * 1000.0) as u64);
            }
            Event::Finished => self.finish(),
            Event::Recording { path, resumed } => {
                if !self.quiet {
                    let what = match resumed {
                        true => "going on with",
                        false => "recording to",
                    };
                    self.print(&format!("tailback: {what} {}", path.display()));
                    self.line = self.terminal;
                }
            }
            Event::Wrote(path) => self.print(&path.display().to_string()),
            Event::Said(text) => self.print(text),
            Event::Warned(text) => self.print(&format!("tailback: {text}")),
            Event::Monitor(status) => self.monitor(status),
            Event::Control(status) => self.control(status),
            Event::Capture(text) => self.capture(text),
            // An experiment has a view of its own.
            Event::Stage { .. } | Event::Told(_) => {}
        }
    }

    fn interrupted(&mut self) -> bool {
        live::signal::interrupted()
    }
}

/// Progress bar in thousandths.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent} %  {left}")
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
    ProgressBar::new(1000).with_style(style)
}

/// State of all targets in one line.
fn live_line(status: &MonitorStatus) -> String {
    let mut line = String::new();
    for t in &status.targets {
        let shown = |d: Option<Duration>| d.map_or("–".into(), |d| format!("{d:.1}"));
        let _ = write!(
            line,
            "{} {} (mean of 10 {})",
            t.name,
            shown(t.rtt),
            shown(t.mean_of_ten())
        );
        let _ = write!(line, ", lost {} of {}", t.lost, t.rows);
        if t.late + t.not_sent > 0 {
            let _ = write!(line, ", late {}, not sent {}", t.late, t.not_sent);
        }
        if let Some(why) = &t.trouble {
            let _ = write!(line, " [{why}]");
        }
        line.push_str(" · ");
    }
    match (&status.interface, status.down, status.up) {
        (Some(name), Some(down), Some(up)) => {
            let _ = write!(line, "{name} ↓{down:.2} ↑{up:.2}");
        }
        (Some(name), ..) => line.push_str(name),
        _ => line.push_str("no interface"),
    }
    line
}
