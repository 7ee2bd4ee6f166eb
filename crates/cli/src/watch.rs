//! What a person sees while a test runs, and the answers that its orchestrator asks for.

use crate::recorder::Shared;
use base::program::{Sending, Train};
use base::record::{Direction, Status};
use base::text::{clean, clean_lines};
use base::{Bytes, Duration};
use indicatif::{ProgressBar, ProgressStyle};
use live::clock::Clock;
use live::test::{Estimate, Phase, Progress, Watch};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

pub struct Terminal {
    shared: Shared,
    clock: Clock,
    disk: Arc<Mutex<Option<String>>>,
    bar: Option<ProgressBar>,
    quiet: bool,
    phase: &'static str,
    stage: String,
}

impl Terminal {
    pub fn new(
        shared: Shared,
        clock: Clock,
        disk: Arc<Mutex<Option<String>>>,
        plain: bool,
        quiet: bool,
    ) -> Terminal {
        let live = !plain && !quiet && std::io::stderr().is_terminal();
        let bar = live.then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{prefix:>9} [{bar:24}] {wide_msg}")
                .expect("the template is valid");
            bar.set_style(style.progress_chars("=> "));
            bar
        });
        Terminal {
            shared,
            clock,
            disk,
            bar,
            quiet,
            phase: "",
            stage: String::new(),
        }
    }

    pub fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(clean_lines(line)),
            None if !self.quiet => eprintln!("{line}"),
            None => {}
        }
    }
}

impl live::craft::Watch for Terminal {
    fn progress(&mut self, p: &live::craft::Progress) {
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

    fn interrupted(&mut self) -> bool {
        Watch::interrupted(self)
    }
}

impl Watch for Terminal {
    fn stable(&mut self, phase: Phase, now_ns: i64) -> (bool, String) {
        let recording = self.shared.lock().expect("no holder panicked");
        let verdict = analysis::stable(&recording, phase.name(), now_ns);
        (verdict.stable, verdict.why)
    }

    fn next_train(
        &mut self,
        direction: Direction,
        trains: &[Train],
        budget: Bytes,
    ) -> Option<Sending> {
        let recording = self.shared.lock().expect("no holder panicked");
        analysis::next_train(&recording, direction, trains, budget)
    }

    fn rtt_now(&mut self) -> Option<Duration> {
        let recording = self.shared.lock().expect("no holder panicked");
        let latest = recording
            .delay
            .iter()
            .rev()
            .take(50)
            .find(|d| d.status == Status::Ok && &*d.target == "udp");
        let latest = latest?;
        // On a slow line the next one is due half a second later, and rows come up to a second late.
        let waiting = self.clock.unix_ns() - latest.sent_ns - 1_500_000_000;
        Some(Duration::from_nanos(
            latest.rtt_ns?.max(waiting).max(0) as u64
        ))
    }

    fn base_rtt(&mut self) -> Option<Duration> {
        let recording = self.shared.lock().expect("no holder panicked");
        let answered = recording
            .delay
            .iter()
            .filter(|d| d.status == Status::Ok && &*d.target == "udp");
        answered
            .filter_map(|d| d.rtt_ns)
            .min()
            .map(|ns| Duration::from_nanos(ns.max(0) as u64))
    }

    fn estimate(&mut self, estimate: Estimate) {
        let limit = format!("at most {:.3} (--budget)", estimate.budget);
        match estimate.about {
            Some(about) => self.say(&format!(
                "This test carries about {about:.3} over the link, both directions combined; {limit}."
            )),
            None => self.say(&format!("This test carries {limit} over the link, both directions combined.")),
        }
    }

    fn progress(&mut self, p: Progress) {
        if p.phase != self.phase {
            self.phase = p.phase;
            let what = match p.phase {
                "idle" => "the line at rest",
                "down" => "a download fills the line",
                "up" => "an upload fills the line",
                "both" => "both at once",
                "trains" => "trains of datagrams settle what the load left open",
                _ => "waiting for a quiet line",
            };
            if self.bar.is_none() {
                self.say(&format!("{}: {what}", p.phase));
            }
        }
        let rtt = self
            .rtt_now()
            .map_or("no answer yet".to_string(), |d| format!("RTT {d:.3}"));
        if let Some(bar) = &self.bar {
            let total = p.elapsed + p.at_most;
            bar.set_prefix(p.phase);
            bar.set_position(
                (p.elapsed.as_secs_f64() / total.as_secs_f64().max(1e-3) * 1000.0) as u64,
            );
            let mut parts = vec![rtt];
            parts.extend(p.rate_down.map(|r| format!("down {r:.3}")));
            parts.extend(p.rate_up.map(|r| format!("up {r:.3}")));
            parts.push(format!("at most {:.0} s more", p.at_most.as_secs_f64()));
            if !p.note.is_empty() {
                parts.push(p.note);
            }
            bar.set_message(clean(&parts.join(" · ")).into_owned());
        }
    }

    fn interrupted(&mut self) -> bool {
        live::signal::interrupted() || self.disk.lock().expect("no holder panicked").is_some()
    }
}
