//! Progress on standard error.

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use ops::{Event, Progress};

/// Bar of a run, and the lines that it says.
#[derive(Default)]
pub struct Console {
    bar: Option<ProgressBar>,
}

impl Console {
    fn print(&self, line: &str) {
        let print = || eprintln!("{line}");
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
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
            Event::Finished => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
            Event::Wrote(path) => self.print(&path.display().to_string()),
            Event::Said(text) => self.print(text),
            Event::Warned(text) => self.print(&format!("tailback-lab: {text}")),
            _ => {}
        }
    }

    fn interrupted(&mut self) -> bool {
        live::signal::interrupted()
    }
}

/// Bar in thousandths, with the time left.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent} %  {left}")
        .expect("the template is valid")
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
