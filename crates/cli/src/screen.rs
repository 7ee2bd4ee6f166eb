//! Live screen of a monitor: a row a target with a sparkline, the round trips of the chosen one below, and keys.
//!
//! The screen is a pure picture of the state; one thread owns the terminal, draws it and reads the keys.

use crate::status::{columns, cut, padded};
use crate::terminal::redraws;
use base::print::{DELAY, SPAN, percent};
use experiment::monitor::{MonitorStatus, TargetStatus};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ops::monitor::history::{History, Recent, Second};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as Paint};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use report::terminal::{Growing, Style, shown};
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lengths of the shown time, s.
const ZOOMS: [usize; 4] = [60, 300, 900, 3_600];
/// Longest wait for a key, ms.
const WAIT_MS: u16 = 200;
/// Messages that are kept, and those that are shown.
const MESSAGES: usize = 100;
const MESSAGES_SHOWN: usize = 2;
/// Smallest height of the plot with its heading and axis, lines.
const PLOT: u16 = 8;
/// Width from which a problem stands beside the sparkline, and not in its place.
const WIDE: usize = 100;
/// Width below which an outage is a word and its length.
const NARROW: usize = 72;

/// State of the screen.
pub struct Screen {
    style: Style,
    recording: String,
    status: Option<MonitorStatus>,
    history: History,
    messages: VecDeque<String>,
    chosen: usize,
    zoom: usize,
}

impl Screen {
    pub fn new(style: Style) -> Screen {
        Screen {
            style,
            recording: String::new(),
            status: None,
            history: History::default(),
            messages: VecDeque::new(),
            chosen: 0,
            zoom: 0,
        }
    }

    /// Takes the state of a second.
    pub fn take(&mut self, status: &MonitorStatus) {
        self.history.take(status);
        self.status = Some(status.clone());
    }

    pub fn name(&mut self, recording: &str) {
        self.recording = recording.to_owned();
    }

    pub fn say(&mut self, line: &str) {
        self.messages.push_back(line.to_owned());
        if self.messages.len() > MESSAGES {
            self.messages.pop_front();
        }
    }

    /// Takes a key; returns true if it asks to stop.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let targets = self.history.targets.len();
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                self.chosen = (self.chosen + 1).min(targets.saturating_sub(1));
            }
            KeyCode::Char('-') | KeyCode::Left => self.zoom = (self.zoom + 1).min(ZOOMS.len() - 1),
            KeyCode::Char('+' | '=') | KeyCode::Right => self.zoom = self.zoom.saturating_sub(1),
            _ => {}
        }
        false
    }

    /// Draws the screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let Some(status) = &self.status else {
            frame.render_widget(Paragraph::new("waiting for the first second"), area);
            return;
        };
        let messages = self.messages.len().min(MESSAGES_SHOWN) as u16;
        let rows = status.targets.len() as u16 + 1;
        // The head and the keys take a line each; what is left belongs to the plot, once it has room enough.
        let fixed = 2 + messages;
        let left = area.height.saturating_sub(fixed + rows);
        let plot = if left >= PLOT { left } else { 0 };
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(plot),
            Constraint::Length(messages),
            Constraint::Length(1),
        ]);
        let [head, table, plot, said, keys] = areas.areas(area);
        let width = usize::from(area.width);
        frame.render_widget(Paragraph::new(self.head(status, width)), head);
        let rows = self.rows(status, width, usize::from(table.height));
        frame.render_widget(Paragraph::new(rows), table);
        self.draw_plot(frame, status, plot);
        let first = self.messages.len() - usize::from(messages);
        let lines = self.messages.iter().skip(first);
        let lines: Vec<Line<'_>> = lines
            .map(|m| Line::from(cut(&shown(m, self.style), width)))
            .collect();
        frame.render_widget(Paragraph::new(lines), said);
        let help = match self.style.unicode {
            true => "↑↓ choose   + - zoom   q stop",
            false => "up/down choose   + - zoom   q stop",
        };
        frame.render_widget(Paragraph::new(help).style(self.faint()), keys);
    }

    fn paint(&self, colour: Color) -> Paint {
        match self.style.colour {
            true => Paint::new().fg(colour),
            false => Paint::new(),
        }
    }

    fn faint(&self) -> Paint {
        Paint::new().add_modifier(Modifier::DIM)
    }

    fn head(&self, status: &MonitorStatus, width: usize) -> Line<'static> {
        let mut text = format!(
            "{} · {}",
            self.recording,
            SPAN.print(status.elapsed.as_secs_f64())
        );
        if let (Some(name), Some(down), Some(up)) = (&status.interface, status.down, status.up) {
            text += &format!(" · {name} down {down:.2} up {up:.2}");
        }
        Line::from(cut(&shown(&text, self.style), width)).style(Modifier::BOLD)
    }

    /// Rows of the table with its heading; the chosen one is always among them.
    fn rows(&self, status: &MonitorStatus, width: usize, height: usize) -> Vec<Line<'static>> {
        let names: Vec<String> = status
            .targets
            .iter()
            .map(|t| cut(&shown(&t.name, self.style), width / 3))
            .collect();
        let longest = names.iter().map(|n| columns(n)).max().unwrap_or(0).max(6);
        let room = height.saturating_sub(1).max(1);
        let first = (self.chosen + 1).saturating_sub(room);
        let head = format!(
            "  {}{:>9}{:>9}{:>8}",
            padded("target", longest),
            "RTT",
            "IPDV",
            "lost"
        );
        let mut lines = vec![Line::from(cut(&head, width)).style(self.faint())];
        let all = status.targets.iter().zip(&names).enumerate();
        for (i, (t, name)) in all.skip(first).take(room) {
            lines.push(self.row(t, &padded(name, longest), width, i == self.chosen));
        }
        lines
    }

    fn row(&self, t: &TargetStatus, name: &str, width: usize, chosen: bool) -> Line<'static> {
        let mark = match (chosen, self.style.unicode) {
            (false, _) => "  ",
            (true, true) => "▸ ",
            (true, false) => "> ",
        };
        let delay = |d: Option<base::Duration>| match d {
            Some(d) => shown(&DELAY.print(d.as_millis_f64()), self.style),
            None => "-".to_owned(),
        };
        let loss = match t.judged() {
            0 => "-".to_owned(),
            n => format!("{} %", percent(t.unanswered() as f64 / n as f64)),
        };
        let figures = format!(
            "{mark}{name}{:>9}{:>9}{loss:>8}",
            delay(t.rtt),
            delay(t.ipdv())
        );
        let recent = self.history.of(&t.name);
        let outage = recent.and_then(Recent::outage);
        let trouble = match outage {
            // A narrow terminal has room for the figure only.
            Some(silent) if width < NARROW => Some(format!("out {:.0} s", silent.as_secs_f64())),
            Some(silent) => Some(format!("no answer for {:.0} s", silent.as_secs_f64())),
            None => t.trouble.clone(),
        };
        let weight = if chosen {
            Modifier::BOLD
        } else {
            Modifier::empty()
        };
        let mut spans = vec![Span::styled(cut(&figures, width), weight)];
        let left = width.saturating_sub(columns(&figures) + 2);
        let spark = match &trouble {
            Some(why) => {
                let why = cut(&shown(why, self.style), left);
                let after = left.saturating_sub(columns(&why) + 2);
                spans.push(Span::styled(
                    format!("  {why}"),
                    self.paint(Color::Red).bold(),
                ));
                if width >= WIDE { after } else { 0 }
            }
            None => left,
        };
        if let (Some(recent), true) = (recent, spark >= 4) {
            spans.push(Span::raw("  "));
            spans.extend(self.sparkline(recent, spark));
        }
        Line::from(spans)
    }

    /// Largest round trip of each stretch of the shown time, in so many columns; `x` where probes were lost.
    fn sparkline(&self, recent: &Recent, width: usize) -> Vec<Span<'static>> {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const PLAIN: [char; 8] = ['_', '.', '-', '=', '+', '*', '#', '@'];
        let bars = if self.style.unicode { BARS } else { PLAIN };
        let each = ZOOMS[self.zoom].div_ceil(width).max(1);
        // Stretches end at the latest second.
        let shown = recent.seconds.len().min(each * width);
        let seconds: Vec<Second> = recent
            .seconds
            .range(recent.seconds.len() - shown..)
            .copied()
            .collect();
        let top = seconds.iter().filter_map(|s| s.max_ms).fold(0.0, f64::max);
        let stretches = seconds.rchunks(each).rev();
        let empty = width.saturating_sub(seconds.len().div_ceil(each));
        let before = std::iter::once(Span::raw(" ".repeat(empty)));
        let drawn = stretches.map(|all| {
            let most = all
                .iter()
                .filter_map(|s| s.max_ms)
                .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
            match most {
                _ if all.iter().any(|s| s.lost > 0) => Span::styled("x", self.paint(Color::Red)),
                None => Span::raw(" "),
                Some(most) => {
                    let level = (most / top.max(f64::MIN_POSITIVE) * 8.0).ceil() as usize;
                    Span::raw(bars[level.clamp(1, 8) - 1].to_string())
                }
            }
        });
        before.chain(drawn).collect()
    }

    fn draw_plot(&self, frame: &mut Frame<'_>, status: &MonitorStatus, area: Rect) {
        let target = status.targets.get(self.chosen);
        let recent = target.and_then(|t| self.history.of(&t.name));
        let (Some(recent), true) = (recent, area.height > 0) else {
            return;
        };
        let span = ZOOMS[self.zoom];
        let now = recent.seconds.back().map_or(0.0, |s| s.at_s);
        let shown_from = now - span as f64;
        let seconds = recent.seconds.iter().filter(|s| s.at_s > shown_from);
        let points: Vec<(f64, Option<f64>)> =
            seconds.clone().map(|s| (s.at_s - now, s.max_ms)).collect();
        let lost = seconds.filter(|s| s.lost > 0);
        let lost: Vec<f64> = lost.map(|s| s.at_s - now).collect();
        let curve = Growing {
            span: (-(span as f64), 0.0),
            points: &points,
            lost: &lost,
        };
        let width = usize::from(area.width).saturating_sub(1);
        // The heading, the axis, the losses and the ends of the axis take a line each.
        let room = usize::from(area.height).saturating_sub(4);
        // Heights at which the labels of the axis are halves, quarters and eighths.
        let rows = [16, 8].into_iter().find(|rows| *rows <= room).unwrap_or(4);
        let title = format!("{}: largest RTT of each second, ms; x: lost", recent.name);
        let title = Line::from(cut(&shown(&title, self.style), width)).style(Modifier::BOLD);
        let lines = curve.lines(width, rows, self.style.unicode);
        let lines = lines.into_iter().map(|l| Line::from(shown(&l, self.style)));
        let lines: Vec<Line<'_>> = std::iter::once(title).chain(lines).collect();
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// Thread that owns the terminal.
pub struct Live {
    screen: Arc<Mutex<Screen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// True if a screen with keys is possible: a terminal at both ends, and this process in its foreground.
pub fn is_possible() -> bool {
    let terminals = io::stdin().is_terminal() && io::stdout().is_terminal();
    let is_named = std::env::var_os("TERM").is_some_and(|t| !t.is_empty());
    terminals && redraws() && is_named && live::host::in_foreground()
}

impl Live {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// A terminal that cannot be prepared.
    pub fn start(style: Style) -> io::Result<Live> {
        let mut terminal = ratatui::try_init()?;
        let screen = Arc::new(Mutex::new(Screen::new(style)));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (screen.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("screen".into())
            .spawn(move || {
                while !stopped.load(Ordering::Acquire) {
                    // A terminal that is gone ends the screen, and not the monitor.
                    let drawn = terminal.draw(|frame| locked(&shared).draw(frame)).is_ok();
                    match drawn.then(|| key(&shared)) {
                        Some(Ok(false)) => {}
                        Some(Ok(true)) => {
                            // Further signals find an ordinary terminal.
                            ratatui::restore();
                            live::signal::interrupt();
                            return;
                        }
                        _ => break,
                    }
                }
                ratatui::restore();
            })
            .inspect_err(|_| ratatui::restore())?;
        Ok(Live {
            screen,
            stop,
            thread: Some(thread),
        })
    }

    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        locked(&self.screen)
    }

    /// Gives the terminal back. Returns the messages, which the screen took with it.
    pub fn finish(mut self) -> Vec<String> {
        self.leave();
        std::mem::take(&mut self.screen().messages).into()
    }

    fn leave(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.leave();
    }
}

fn locked(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a key for a moment; returns true if it asks to stop. Fails if the terminal is gone: crossterm would read its end
/// again and again, and never return.
fn key(screen: &Mutex<Screen>) -> io::Result<bool> {
    let input = io::stdin();
    let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::from(WAIT_MS)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    if fds[0].revents().is_some_and(|r| r.intersects(gone)) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    if !event::poll(Duration::ZERO)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => locked(screen).key(key),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Text;
    use base::rng::{Streams, uniform};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn style(width: usize, unicode: bool) -> Style {
        Style {
            width,
            colour: false,
            unicode,
        }
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a backend");
        terminal.draw(|frame| screen.draw(frame)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let cell = |x, y| buffer.cell((x, y)).map_or(" ", |c| c.symbol()).to_owned();
        let line = |y| (0..width).map(|x| cell(x, y)).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    /// Status after so many seconds, in which target `i` has answered all but those that `silent` names.
    fn status(second: u64, names: &[String], silent: impl Fn(usize, u64) -> bool) -> MonitorStatus {
        let targets = names.iter().enumerate().map(|(i, name)| {
            let mut t =
                TargetStatus::new(Text::from(name.as_str()), base::Duration::from_millis(100));
            let answers = |upto: u64| (1..=upto).filter(|s| !silent(i, *s)).count() as u64 * 10;
            t.rows = second * 10;
            t.answered = answers(second);
            t.sum = base::Duration::from_millis(20) * t.answered;
            let heard = !silent(i, second);
            t.rtt = heard.then_some(base::Duration::from_millis(20));
            t.largest = t.rtt;
            t
        });
        MonitorStatus {
            elapsed: base::Duration::from_secs(second),
            targets: targets.collect(),
            interface: None,
            down: None,
            up: None,
        }
    }

    /// Random terminals and keys: nothing is wider than the terminal, the chosen target is always shown, and a screen without
    /// Unicode has none.
    #[test]
    fn the_chosen_target_is_shown_in_every_terminal() {
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("screen");
            let mut draw = |most: usize| (uniform(&mut rng) * most as f64) as usize;
            let (width, height) = (40 + draw(170) as u16, 5 + draw(60) as u16);
            let unicode = draw(2) == 0;
            let names: Vec<String> = (0..1 + draw(20))
                .map(|i| format!("T{i}{}", "x".repeat(draw(40))))
                .collect();
            let mut screen = Screen::new(style(usize::from(width), unicode));
            screen.name("home.rec");
            let out = draw(names.len());
            for second in 1..=30 {
                screen.take(&status(second, &names, |i, s| i == out && s > 12));
            }
            for _ in 0..draw(30) {
                let keys = [
                    KeyCode::Up,
                    KeyCode::Down,
                    KeyCode::Char('+'),
                    KeyCode::Char('-'),
                ];
                assert!(!screen.key(KeyEvent::from(keys[draw(4)])));
            }
            let lines = drawn(&screen, width, height);
            let mark = if unicode { "▸ " } else { "> " };
            let chosen = lines.iter().filter(|l| l.starts_with(mark)).count();
            assert_eq!(chosen, 1, "seed {seed}: {lines:#?}");
            assert!(
                unicode || lines.iter().all(|l| l.is_ascii()),
                "seed {seed}: {lines:#?}"
            );
            let name = |l: &str| l.trim_start_matches(['▸', '>', ' ']).to_owned();
            let row = lines
                .iter()
                .find(|l| name(l).starts_with(&format!("T{out}")) && !l.contains("RTT"));
            if let Some(row) = row.filter(|_| width >= 60 && names.len() < 10) {
                assert!(row.contains("18 s"), "seed {seed}: {row}");
            }
        }
    }

    #[test]
    fn sixty_columns_hold_five_targets_and_a_plot() {
        let names: Vec<String> = (1..=5).map(|i| format!("icmp:192.0.2.{i}")).collect();
        let mut screen = Screen::new(style(60, true));
        screen.name("home.rec");
        for second in 1..=30 {
            screen.take(&status(second, &names, |i, s| i == 3 && s > 12));
        }
        let lines = drawn(&screen, 60, 24);
        assert_eq!(lines[0], "home.rec · 30 s");
        assert_eq!(lines[1], "  target              RTT     IPDV    lost");
        assert!(
            lines[2].starts_with("▸ icmp:192.0.2.1    20 ms"),
            "{lines:#?}"
        );
        assert!(lines[5].ends_with("0 %  out 18 s"), "{lines:#?}");
        assert!(
            lines.iter().any(|l| l.contains('⠉') || l.contains('⣀')),
            "a curve: {lines:#?}"
        );
        assert!(lines[23].contains("q stop"));
        assert!(screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
