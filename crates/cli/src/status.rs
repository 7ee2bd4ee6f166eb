//! Live view of a monitor: one line a target, and one of the interface's traffic.

use base::print::DELAY;
use experiment::monitor::{MonitorStatus, TargetStatus};
use report::terminal::{Style, shown};
use unicode_width::UnicodeWidthChar;

/// Columns that stay free at the right, where some terminals already wrap.
const MARGIN: usize = 1;
/// Lines that stay free: of the shell's prompt, and of a message above the view.
const SPARE: usize = 2;

/// One target.
struct Shown {
    name: String,
    /// Round trip, loss, delay variation, mean: the most important first.
    figures: Vec<String>,
    trouble: Option<String>,
}

/// Returns the lines for a terminal of this style and height. No line is wider than the terminal, and there are fewer
/// lines than it has: targets with a problem come first if not all fit.
pub fn lines(status: &MonitorStatus, style: Style, height: usize) -> Vec<String> {
    let targets = status.targets.iter().map(Shown::of).collect();
    layout(targets, traffic(status), style, height)
}

fn layout(mut targets: Vec<Shown>, traffic: String, style: Style, height: usize) -> Vec<String> {
    let width = style.width - MARGIN;
    let room = height.saturating_sub(SPARE + 1).max(1);
    let mut hidden = 0;
    if targets.len() > room {
        targets.sort_by_key(|t| t.trouble.is_none());
        hidden = targets.split_off(room.saturating_sub(1).max(1)).len();
    }
    for t in &mut targets {
        t.name = cut(&shown(&t.name, style), width / 3);
    }
    let names = targets.iter().map(|t| columns(&t.name)).max().unwrap_or(0);
    let figures = targets.iter().map(|t| t.figures.len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..figures)
        .map(|i| {
            let of = targets.iter().filter_map(|t| t.figures.get(i));
            of.map(|f| columns(&shown(f, style))).max().unwrap_or(0)
        })
        .collect();
    let mut lines = Vec::new();
    for t in &targets {
        let mut line = padded(&t.name, names);
        // A problem stands before the figures that it explains.
        if let Some(why) = &t.trouble {
            line += &format!("  {}", shown(why, style));
        }
        for (figure, w) in t.figures.iter().zip(&widths) {
            let figure = shown(figure, style);
            if columns(&line) + 2 + w > width {
                break;
            }
            line += &format!("  {}", padded(&figure, *w));
        }
        lines.push(line);
    }
    if hidden > 0 && room > 1 {
        lines.push(format!("and {hidden} more"));
    }
    lines.push(shown(&traffic, style));
    fitted(lines, style, height)
}

/// Returns lines that fit a terminal: each narrower than it, and fewer than it has.
pub fn fitted(mut lines: Vec<String>, style: Style, height: usize) -> Vec<String> {
    lines.truncate(height.saturating_sub(SPARE).max(1));
    let fit = |line: String| cut(line.trim_end(), style.width - MARGIN);
    lines.into_iter().map(fit).collect()
}

impl Shown {
    fn of(t: &TargetStatus) -> Shown {
        let delay = |d: Option<base::Duration>| {
            d.map_or("no answer yet".to_owned(), |d| {
                DELAY.print(d.as_millis_f64())
            })
        };
        let mut figures = vec![
            delay(t.rtt),
            format!("lost {} of {}", t.unanswered(), t.judged()),
            format!(
                "IPDV {}",
                t.ipdv()
                    .map_or("?".into(), |d| DELAY.print(d.as_millis_f64()))
            ),
            format!("mean of 10: {}", delay(t.mean_of_ten())),
        ];
        if t.late + t.not_sent > 0 {
            figures.push(format!("late {}, not sent {}", t.late, t.not_sent));
        }
        Shown {
            name: t.name.to_string(),
            figures,
            trouble: t.trouble.clone(),
        }
    }
}

fn traffic(status: &MonitorStatus) -> String {
    match (&status.interface, status.down, status.up) {
        (Some(name), Some(down), Some(up)) => format!("{name}  down {down:.2}  up {up:.2}"),
        (Some(name), ..) => name.to_string(),
        _ => "no interface".into(),
    }
}

/// Columns that a text takes in a terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

pub fn padded(text: &str, width: usize) -> String {
    let space = width.saturating_sub(columns(text));
    format!("{text}{:space$}", "")
}

/// Returns a text that fits a width; one that is too long ends in `..`.
pub fn cut(text: &str, width: usize) -> String {
    const MORE: &str = "..";
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = MORE.len();
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.push_str(MORE);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    fn style(width: usize) -> Style {
        Style {
            width,
            colour: false,
            unicode: true,
        }
    }

    /// Random monitors: the view fits the terminal, and a target with a problem is not hidden behind one without.
    #[test]
    fn a_view_fits_its_terminal_and_shows_problems() {
        for seed in 0..500 {
            let mut rng = Streams::new(seed).stream("status");
            let mut draw = |most: usize| (uniform(&mut rng) * most as f64) as usize;
            let (width, height) = (40 + draw(100), 3 + draw(40));
            let targets: Vec<Shown> = (0..1 + draw(12))
                .map(|i| Shown {
                    name: format!("{i}{}", ["x", "界", "é"][draw(3)].repeat(draw(60))),
                    figures: vec!["20.3 ms".into(), format!("lost {} of 12345", draw(999))],
                    trouble: (draw(3) == 0).then(|| format!("T{i} {}", "long ".repeat(draw(30)))),
                })
                .collect();
            let troubles: Vec<String> = targets
                .iter()
                .filter(|t| t.trouble.is_some())
                .map(|t| t.name[..1].to_owned())
                .collect();
            let quiet = targets.len() - troubles.len();
            let all = targets.len();
            let lines = layout(targets, "eth0  down 1 Mbit/s".into(), style(width), height);
            assert!(lines.len() < height, "seed {seed}: {lines:#?}");
            for line in &lines {
                assert!(columns(line) < width, "seed {seed}: {line}");
            }
            let shown = lines.iter().filter(|l| l.contains("T")).count();
            let hidden = lines.iter().find_map(|l| l.strip_prefix("and "));
            let hidden: usize = hidden.map_or(0, |l| {
                l.split(' ')
                    .next()
                    .expect("a number")
                    .parse()
                    .expect("a number")
            });
            if height > 4 {
                assert_eq!(
                    lines.len() - 1 - usize::from(hidden > 0) + hidden,
                    all,
                    "seed {seed}"
                );
                assert!(
                    hidden <= quiet || shown + hidden >= troubles.len(),
                    "seed {seed}"
                );
                assert!(
                    shown == troubles.len() || hidden >= quiet,
                    "seed {seed}: {lines:#?}"
                );
            }
        }
    }

    #[test]
    fn all_targets_are_in_sixty_columns() {
        let targets = (1..=5)
            .map(|i| Shown {
                name: format!("icmp:192.0.2.{i}"),
                figures: ["19.3 ms", "lost 0 of 1200", "mean of 10: 19.4 ms"]
                    .map(String::from)
                    .into(),
                trouble: (i == 4).then(|| "no answer for 3 s".into()),
            })
            .collect();
        let lines = layout(
            targets,
            "eth0  down 1 Mbit/s  up 2 Mbit/s".into(),
            style(60),
            24,
        );
        assert_eq!(
            lines,
            [
                "icmp:192.0.2.1  19.3 ms  lost 0 of 1200",
                "icmp:192.0.2.2  19.3 ms  lost 0 of 1200",
                "icmp:192.0.2.3  19.3 ms  lost 0 of 1200",
                "icmp:192.0.2.4  no answer for 3 s  19.3 ms  lost 0 of 1200",
                "icmp:192.0.2.5  19.3 ms  lost 0 of 1200",
                "eth0  down 1 Mbit/s  up 2 Mbit/s",
            ]
        );
    }
}
