//! Live view of an experiment in the terminal.

use crate::console::is_quiet;
use crate::status::cut;
use crate::terminal::{redraws, stderr_height, stderr_style};
use base::Duration;
use base::text::{clean, clean_lines};
use experiment::Progress as Stage;
use experiment::steps::Told;
use indicatif::{ProgressBar, ProgressStyle};
use ops::{Event, Progress};
use report::terminal::{Growing, shown};
use std::sync::Arc;

/// Height of a terminal from which a test has a plot, lines, and rows of that plot.
const PLOT_FROM: usize = 20;
const PLOT_ROWS: usize = 8;
/// Shortest axis of time, s.
const SHORTEST_AXIS: f64 = 10.0;

/// Kind of run that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Experiment: stages with their numbers.
    Probe,
    /// Test: phases with their rates.
    Test,
}

pub struct Terminal {
    bar: Option<ProgressBar>,
    quiet: bool,
    face: Face,
    stage: String,
    /// Figures of the stage, last seen.
    seen: Option<String>,
    /// Round trips of a test over the time since its begin, s and ms.
    points: Vec<(f64, Option<f64>)>,
    began: Option<std::time::Instant>,
    /// Receiver of all news, instead of the terminal.
    receiver: Option<Arc<dyn crate::Face>>,
}

impl Terminal {
    /// Creates the view. `plain` leaves out the bar, `quiet` everything but warnings.
    pub fn new(face: Face, plain: bool, quiet: bool) -> Terminal {
        let quiet = quiet || is_quiet();
        let live = !plain && !quiet && redraws();
        let bar = live.then(|| {
            let bar = ProgressBar::new(1000);
            // A narrow terminal needs its columns for the figures. The plot of a test stands above the line.
            let template = match (face, stderr_style().width < 100) {
                (Face::Test, _) => "{msg}",
                (Face::Probe, true) => "{prefix:>8} [{bar:10}] {wide_msg}",
                (Face::Probe, false) => "{prefix:>9} [{bar:24}] {wide_msg}",
            };
            let style = ProgressStyle::with_template(template).expect("the template is valid");
            bar.set_style(style.progress_chars("=> "));
            bar
        });
        Terminal {
            bar,
            quiet,
            face,
            stage: String::new(),
            seen: None,
            points: Vec::new(),
            began: None,
            receiver: crate::face::face(),
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(clean_lines(line)),
            None if !self.quiet => eprintln!("{line}"),
            None => {}
        }
    }

    /// Leaves a line of a phase that is over on the terminal.
    fn tick(&mut self) {
        let Some(seen) = self.seen.take().filter(|_| self.bar.is_some()) else {
            return;
        };
        let stage = &self.stage;
        let line = match seen.is_empty() {
            true => format!("✓ {stage}"),
            false => format!("✓ {stage}: {seen}"),
        };
        self.say(&shown(&line, stderr_style()));
    }

    fn told(&self, Told::Estimate { about, budget }: Told) {
        let limit = format!("at most {budget:.3} (--budget)");
        match about {
            Some(about) => self.say(&format!(
                "This test carries about {about:.3} over the link, both directions combined; {limit}."
            )),
            None => self.say(&format!("This test carries {limit} over the link, both directions combined.")),
        }
    }
}

impl Progress for Terminal {
    fn tell(&mut self, event: Event<'_>) {
        if let Some(face) = &self.receiver {
            face.tell(event);
            return;
        }
        match event {
            Event::Interruptible => live::signal::catch_interrupt(),
            Event::Stage { progress, rtt } => match self.face {
                Face::Probe => self.show_probe(progress),
                Face::Test => self.show_test(progress, rtt),
            },
            Event::Told(told) => self.told(told),
            Event::Finished => {
                self.tick();
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
            Event::Said(text) => self.say(text),
            Event::Warned(text) => eprintln!("tailback: {text}"),
            Event::Wrote(path) => eprintln!("{}", path.display()),
            // News of other verbs.
            Event::Share(_) | Event::Recording { .. } | Event::Monitor(_) | Event::Capture(_) => {}
            #[cfg(target_os = "linux")]
            Event::Control(_) => {}
        }
    }

    fn interrupted(&mut self) -> bool {
        match &self.receiver {
            Some(face) => face.interrupted(),
            None => live::signal::interrupted(),
        }
    }
}

impl Terminal {
    fn show_probe(&mut self, p: &Stage) {
        let stage = format!("{}: {}", p.number, p.stage);
        if self.stage != stage {
            self.stage.clone_from(&stage);
            if self.bar.is_none() {
                self.say(&stage);
            }
        }
        if let Some(bar) = &self.bar {
            let left = p.whole.saturating_sub(p.elapsed);
            let share = p.elapsed.as_secs_f64() / p.whole.as_secs_f64().max(1e-3);
            bar.set_prefix(p.number.to_string());
            bar.set_position((share.min(1.0) * 1000.0) as u64);
            bar.set_message(format!(
                "{} · {:.0} s more · {:.3} sent so far · {}",
                p.stage,
                left.as_secs_f64(),
                p.spent,
                clean(&p.note)
            ));
        }
    }

    fn show_test(&mut self, p: &Stage, rtt: &dyn Fn() -> Option<Duration>) {
        if p.stage != self.stage {
            self.tick();
            self.stage = p.stage.into();
            let what = match p.stage {
                "idle" => "the link at rest",
                "down" => "a download fills the link",
                "up" => "an upload fills the link",
                "both" => "both at once",
                "trains" => "trains of datagrams settle what the load left open",
                _ => "waiting for a quiet link",
            };
            if self.bar.is_none() {
                self.say(&format!("{}: {what}", p.stage));
            }
        }
        if self.bar.is_none() {
            return;
        }
        let rtt = rtt();
        let at = self
            .began
            .get_or_insert_with(std::time::Instant::now)
            .elapsed();
        self.points
            .push((at.as_secs_f64(), rtt.map(|d| d.as_millis_f64())));
        let mut parts: Vec<String> = rtt.map(|d| format!("RTT {d:.3}")).into_iter().collect();
        parts.extend(p.rate_down.map(|r| format!("down {r:.3}")));
        parts.extend(p.rate_up.map(|r| format!("up {r:.3}")));
        // In virtual time the rows come at the end: no round trip is known until then.
        self.seen = Some(clean(&parts.join(" · ")).into_owned());
        if rtt.is_none() {
            parts.insert(0, "no answer yet".into());
        }
        let at_most = p.whole.saturating_sub(p.elapsed);
        parts.push(format!("at most {:.0} s", at_most.as_secs_f64()));
        if !p.note.is_empty() {
            parts.push(p.note.clone());
        }
        let share = p.elapsed.as_secs_f64() / p.whole.as_secs_f64().max(1e-3);
        let line = format!("{} {}", test_bar(p.stage, share), parts.join(" · "));
        if let Some(bar) = &self.bar {
            bar.set_message(self.picture(&line));
        }
    }

    /// Plot of the round trips so far above the line of figures; the line alone in a small terminal.
    fn picture(&self, line: &str) -> String {
        let (style, height) = (stderr_style(), stderr_height());
        let width = style.width - 1;
        let line = cut(&shown(line, style), width);
        if height < PLOT_FROM || self.points.len() < 2 {
            return line;
        }
        let last = self.points.last().map_or(0.0, |p| p.0);
        let curve = Growing {
            span: (0.0, last.max(SHORTEST_AXIS)),
            points: &self.points,
            lost: &[],
        };
        let mut lines = vec!["round-trip time, ms".to_owned()];
        lines.extend(curve.lines(width, PLOT_ROWS, style.unicode));
        let lines = lines.iter().map(|l| cut(&shown(l, style), width));
        lines.chain([line]).collect::<Vec<_>>().join("\n")
    }
}

/// Name of a test's phase and the share of its time as a bar.
fn test_bar(stage: &str, share: f64) -> String {
    const WIDTH: usize = 10;
    let done = ((share * WIDTH as f64) as usize).min(WIDTH);
    let arrow = if done < WIDTH { ">" } else { "" };
    let left = WIDTH - done - arrow.len();
    format!("{stage:>8} [{}{arrow}{:left$}]", "=".repeat(done), "")
}
