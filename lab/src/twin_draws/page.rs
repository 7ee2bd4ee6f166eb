//! Page of the book.

use super::Args;
use super::beyond::Beyond;
use super::cures::Cures;
use super::fits::Fits;
use super::wrong::Wrong;
use std::fmt::Write;

/// Text of the page.
pub fn page(
    args: &Args,
    groups: &[(&str, &Fits)],
    (wrong, beyond): (&[Wrong], &[Beyond]),
    cures: &[Cures; 2],
    false_positives: u64,
) -> String {
    let mut text = include_str!("page.md")
        .replace("=SEED", &format!("={}", args.seed))
        .replace("=COUNT", &format!("={}", args.count));
    let _ = writeln!(
        text,
        "Seed {}, {} links of each group, {}.\n",
        args.seed,
        args.count,
        jiff::Zoned::now().strftime("%-d %B %Y")
    );
    text += "## Fits\n\n| | links | refused | agrees | doubtful | rejected | rate | rate at 100 ms | buffer | buffer in its interval | held-out p95 | of the mean | by chance | W1/p95 | score | CPU s a fit |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (name, f) in groups {
        let fitted = (f.links - f.refused.len() as u64).max(1);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {} | {} | {} | {} | {} | {:.1} |",
            f.links,
            f.refused.len(),
            f.agrees,
            f.doubtful,
            f.rejected,
            percent(&f.rates),
            percent(&f.tables),
            percent(&f.buffers),
            f.buffers_held,
            f.buffers.len(),
            percent(&f.p95s),
            percent(&f.means),
            percent(&f.chances),
            plain(&f.w1s),
            plain(&f.scores),
            f.took_s / fitted as f64,
        );
    }
    constant(&mut text, groups);
    disciplines(&mut text, groups);
    refused(&mut text, groups);
    text += "\n## Wrong twins\n\n| the twin is wrong by | tried | rejected | doubtful | refused with a reason | passed |\n|---|---|---|---|---|---|\n";
    for w in wrong {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            w.what,
            w.tried,
            w.rejected,
            w.doubtful,
            w.refused,
            w.tried - w.rejected - w.doubtful - w.refused
        );
    }
    text += "\n## Links with more than a twin has\n\n| | links | right | cannot tell | wrong |\n|---|---|---|---|---|\n";
    for b in beyond {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            b.what, b.links, b.right, b.untold, b.wrong
        );
    }
    text += "\n## Cures\n\n| | fixed links | radio links |\n|---|---|---|\n";
    let mut row = |what: &str, of: &dyn Fn(&Cures) -> String| {
        let _ = writeln!(text, "| {what} | {} | {} |", of(&cures[0]), of(&cures[1]));
    };
    row("links", &|c| c.taus.len().to_string());
    row(
        "Kendall's τ of the cures' delays, twin against link",
        &|c| plain(&c.taus),
    );
    row("error of the delay under a cure", &|c| percent(&c.errors));
    row("95 % intervals that hold the truth", &|c| {
        format!("{} of {}", c.held, c.intervals)
    });
    row(
        "best cure of the twin is as good as the best of the link",
        &|c| format!("{} of {}", c.best_right, c.taus.len()),
    );
    row("CPU s of 30 seeds of the usual cures, slowest link", &|c| {
        format!("{:.1}", c.took_s)
    });
    let _ = writeln!(
        text,
        "\nProofs without an effect that show one: {false_positives} of {} of 8 pairs ({:.1} %).",
        args.proofs,
        100.0 * false_positives as f64 / args.proofs.max(1) as f64,
    );
    text
}

fn constant(text: &mut String, groups: &[(&str, &Fits)]) {
    for (name, f) in groups.iter().filter(|g| !g.1.constant_p95s.is_empty()) {
        let _ = writeln!(
            text,
            "\nA twin with a constant rate beside, {name}: held-out p95 {}, W1/p95 {}.",
            percent(&f.constant_p95s),
            plain(&f.constant_w1s)
        );
    }
    for (name, f) in groups.iter().filter(|g| !g.1.replayed_p95s.is_empty()) {
        let _ = writeln!(
            text,
            "\nWith the capacity of the held-out phase, {name}: p95 {}, W1/p95 {}.",
            percent(&f.replayed_p95s),
            plain(&f.replayed_w1s)
        );
    }
}

fn disciplines(text: &mut String, groups: &[(&str, &Fits)]) {
    *text += "\n## Disciplines\n\n| | named rightly | cannot tell | named wrongly |\n|---|---|---|---|\n";
    for (name, f) in groups {
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} |",
            f.named,
            f.untold,
            f.misnamed.len()
        );
    }
    for m in groups.iter().flat_map(|g| &g.1.misnamed) {
        let _ = writeln!(text, "\nNamed wrongly: {m}.");
    }
}

fn refused(text: &mut String, groups: &[(&str, &Fits)]) {
    let all: Vec<&String> = groups.iter().flat_map(|g| &g.1.refused).collect();
    if !all.is_empty() {
        *text += "\nRefused, with the reason:\n\n";
    }
    for why in all {
        let _ = writeln!(text, "- {why}");
    }
}

/// Median and 90 % point of relative errors.
fn percent(values: &[f64]) -> String {
    let at = |p| stats::quantile(values, p);
    match (at(0.5), at(0.9)) {
        (Some(median), Some(high)) => {
            format!("{:.2} % (90 %: {:.1} %)", 100.0 * median, 100.0 * high)
        }
        _ => "–".into(),
    }
}

/// Median and 90 % point of figures.
fn plain(values: &[f64]) -> String {
    let at = |p| stats::quantile(values, p);
    match (at(0.5), at(0.9)) {
        (Some(median), Some(high)) => format!("{median:.3} (90 %: {high:.3})"),
        _ => "–".into(),
    }
}
