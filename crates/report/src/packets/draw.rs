//! Plots as SVG. Everything on one pixel is drawn once, as its extremes: a million packets make a small picture, and no
//! outlier is lost.

use super::seen::{Again, Mark, Packets, Plot, told};
use crate::svg::{INNER, LEFT, document, even_marks, nice_top, path, short};
use base::print::{RATE, SIZE, number};
use base::record::Cause;
use maud::{Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

/// Style of this plot: colours of the causes, in addition to the common ones.
const STYLE: &str = "
.tb-plot .seg{stroke:var(--down);stroke-width:1}.tb-plot .seg.wide{stroke-width:2.2}.tb-plot .ack{stroke:var(--flow);stroke-width:1.3}.tb-plot .room{stroke:var(--muted);stroke-width:1;stroke-dasharray:5 3}
.tb-plot .sackd{stroke:var(--both);stroke-width:1.6;opacity:.45}.tb-plot .sample{stroke:var(--ink);stroke-width:1.4}.tb-plot .base{stroke:var(--flow);stroke-width:1.2;stroke-dasharray:5 3}
.tb-plot .rto{stroke:var(--loss);fill:var(--loss)}.tb-plot .fast{stroke:var(--up);fill:var(--up)}.tb-plot .sack{stroke:var(--both);fill:var(--both)}.tb-plot .recovery{stroke:#c77dd8;fill:#c77dd8}.tb-plot .tail{stroke:#b8860b;fill:#b8860b}.tb-plot .unknown{stroke:var(--idle);fill:var(--idle)}
.tb-plot path.mark{stroke-width:1.3;fill-opacity:.9}.tb-plot path.mark.vain{fill:var(--paper)}.tb-plot .small{font-size:12px}.tb-plot .letter{font-size:12px;font-weight:700;fill:var(--ink)}.tb-plot .letter.reset{fill:var(--loss)}
";

const TOP: f64 = 66.0;
/// Width of the columns in which lines are merged: half a pixel.
const COLUMN: f64 = 0.5;
/// Number of segments in a picture above which they have no end marks.
const FEW: usize = 400;
/// Steps of throughput in a picture.
const STEPS: usize = 200;

/// Drawing area with its axes' ranges.
struct Frame {
    from_s: f64,
    to_s: f64,
    height: f64,
    low: f64,
    high: f64,
}

impl Frame {
    fn x(&self, t_s: f64) -> f64 {
        let width = (self.to_s - self.from_s).max(1e-9);
        LEFT + INNER * (t_s - self.from_s) / width
    }

    fn y(&self, v: f64) -> f64 {
        let height = (self.high - self.low).max(1e-9);
        TOP + self.height * (1.0 - (v - self.low) / height)
    }

    fn shows(&self, t_s: f64) -> bool {
        (self.from_s..=self.to_s).contains(&t_s)
    }

    /// Draws the frame of a picture around `inside`.
    fn around(
        &self,
        p: &Packets,
        what: &str,
        axis: &str,
        size: f64,
        keys: Markup,
        inside: Markup,
    ) -> Markup {
        let bottom = TOP + self.height;
        let height = bottom + 46.0;
        let title = format!("{}: {what}", p.name);
        document(
            height,
            &title,
            html! {
                style { (PreEscaped(STYLE)) }
                defs { clipPath id=(clip(what)) { rect x=(LEFT) y=(TOP - 6.0) width=(INNER) height=(self.height + 6.0) {} } }
                text.name x=(LEFT) y="20" { (title) }
                text.name x=(LEFT) y=(TOP - 16.0) { (axis) }
                (keys)
                @for v in even_marks(self.low / size, self.high / size) {
                    line class=(if v == 0.0 { "axis" } else { "rule" }) x1=(LEFT) x2=(LEFT + INNER) y1=(short(self.y(v * size))) y2=(short(self.y(v * size))) {}
                    text x=(LEFT - 8.0) y=(short(self.y(v * size) + 5.0)) text-anchor="end" { (exact(v, (self.high - self.low) / size)) }
                }
                g clip-path=(format!("url(#{})", clip(what))) { (inside) }
                @for t in even_marks(self.from_s, self.to_s) {
                    line.rule x1=(short(self.x(t))) x2=(short(self.x(t))) y1=(short(bottom)) y2=(short(bottom + 5.0)) {}
                    text x=(short(self.x(t))) y=(short(bottom + 20.0)) text-anchor="middle" { (exact(t, self.to_s - self.from_s)) }
                }
                text x=(LEFT + INNER / 2.0) y=(short(height - 8.0)) text-anchor="middle" { "time since the connection began, s" }
            },
        )
    }
}

/// Returns the name of a picture's clip path, which must be unique because a page has several.
fn clip(what: &str) -> String {
    format!("tb-{}", what.replace([' ', '.'], "-"))
}

/// Formats a number with enough digits to distinguish the marks of an axis of this length.
fn exact(v: f64, length: f64) -> String {
    let digits = (2.0 - length.max(1e-12).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{v:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn plot(plot: Plot, p: &Packets) -> Result<Markup, String> {
    let lacking = match plot {
        Plot::Rtt if p.rtt.is_empty() => "no round trip was measured",
        Plot::InFlight | Plot::Throughput if p.sent.is_empty() => "no data was sent",
        _ if p.is_empty() => "there are no packets",
        _ => "",
    };
    if !lacking.is_empty() {
        return Err(format!(
            "{}: {lacking} from {} to {} s",
            p.name,
            number(p.span_s.0),
            number(p.span_s.1)
        ));
    }
    Ok(match plot {
        Plot::Sequence => sequence(p),
        Plot::Rtt => round_trips(p),
        Plot::InFlight => in_flight(p),
        Plot::Throughput => throughput(p),
    })
}

fn frame(p: &Packets, height: f64, low: f64, high: f64) -> Frame {
    Frame {
        from_s: p.span_s.0,
        to_s: p.span_s.1,
        height,
        low,
        high,
    }
}

/// Draws the legend: line samples, and above them a mark for each cause with its count; right-aligned.
fn keys(lines: &[(&str, &str)], p: &Packets) -> Markup {
    let causes: Vec<(Cause, String)> = by_cause(p)
        .into_iter()
        .map(|(cause, n)| (cause, format!("{n} {}", told(cause).0)))
        .collect();
    let upper = placed(causes.iter().map(|(_, name)| name.as_str()), 16.0);
    let lower = placed(lines.iter().map(|(_, name)| *name), 26.0);
    html! {
        @for ((cause, name), x) in causes.iter().zip(upper) {
            path class=(format!("mark {}", told(*cause).1)) d=(shape(*cause, x + 6.0, 31.0)) {}
            text.small x=(short(x + 16.0)) y="35" { (name) }
        }
        @for ((class, name), x) in lines.iter().zip(lower) {
            path class=(format!("line {class}")) d=(format!("M{} {}h20", short(x), TOP - 20.0)) {}
            text.small x=(short(x + 26.0)) y=(TOP - 16.0) { (name) }
        }
    }
}

/// Returns the positions of samples whose names take about 7 px per letter, with `room` px before each name.
fn placed<'a>(names: impl Iterator<Item = &'a str>, room: f64) -> Vec<f64> {
    let width = |name: &str| room + 14.0 + 7.0 * name.chars().count() as f64;
    let widths: Vec<f64> = names.map(width).collect();
    let start = LEFT + INNER - widths.iter().sum::<f64>();
    let places = widths
        .iter()
        .scan(start, |x, w| Some(std::mem::replace(x, *x + w)));
    places.collect()
}

fn by_cause(p: &Packets) -> BTreeMap<Cause, usize> {
    let mut causes = BTreeMap::new();
    let shown = |a: &&Again| (p.span_s.0..=p.span_s.1).contains(&a.t_s);
    for a in p.again.iter().filter(shown) {
        *causes.entry(a.cause).or_default() += 1;
    }
    causes
}

/// Returns the shape of a cause: shapes distinguish causes even without colour.
fn shape(cause: Cause, x: f64, y: f64) -> String {
    let at = format!("M{} {}", short(x), short(y));
    match cause {
        Cause::Timeout => format!("{at}m0-5l5 5l-5 5l-5-5Z"),
        Cause::Fast => format!("{at}m0-5l5 9h-10Z"),
        Cause::Sack => format!("{at}m4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0"),
        Cause::Recovery => format!("{at}m-3.5-3.5h7v7h-7Z"),
        Cause::TailProbe => format!("{at}m0 5l5-9h-10Z"),
        Cause::Unknown => format!("{at}m-4-4l8 8m0-8l-8 8"),
    }
}

/// Merges touching vertical bars of a column: (x, low y, high y) in pixels.
fn bars(places: impl Iterator<Item = (f64, f64, f64)>) -> String {
    let mut columns: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for (x, a, b) in places {
        let column = columns.entry((x / COLUMN).round() as i64).or_default();
        let (low, high) = (a.min(b), a.max(b).max(a.min(b) + 0.4));
        match column.last_mut() {
            Some((l, h)) if low <= *h + 0.5 && high >= *l - 0.5 => {
                *l = l.min(low);
                *h = h.max(high);
            }
            _ => column.push((low, high)),
        }
    }
    let mut out = String::new();
    for (column, mut parts) in columns {
        parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut end = f64::NEG_INFINITY;
        for (low, high) in parts {
            let low = low.max(end);
            if high > low {
                let x = short(column as f64 * COLUMN);
                out.push_str(&format!("M{x} {}v{}", short(low), short(high - low)));
                end = high;
            }
        }
    }
    out
}

fn sequence(p: &Packets) -> Markup {
    let shown = |t: f64| (p.span_s.0..=p.span_s.1).contains(&t);
    let mut low = u64::MAX;
    let mut high = 0;
    for s in p.sent.iter().filter(|s| shown(s.t_s)) {
        (low, high) = (low.min(s.from), high.max(s.to));
    }
    for a in p.acked.iter().filter(|a| shown(a.t_s)) {
        (low, high) = (low.min(a.to), high.max(a.to));
    }
    let (low, high) = (low.min(high) as f64, high as f64);
    // If the receive window is far above, its line is left out of the range.
    let room = p.acked.iter().filter(|a| shown(a.t_s)).map(|a| a.room);
    let room = room.min().map_or(high, |r| r as f64);
    let head = (high - low).max(1.0);
    let high = if room < high + 0.25 * head {
        room.max(high)
    } else {
        high
    };
    let f = frame(p, 400.0, low, high + 0.04 * head);
    let (unit, size) = SIZE.fitting(f.high);
    let bar = |t: f64, from: u64, to: u64| (f.x(t), f.y(to as f64), f.y(from as f64));
    let sent: Vec<_> = p.sent.iter().filter(|s| f.shows(s.t_s)).collect();
    let few = sent.len() <= FEW;
    let segments = bars(sent.iter().map(|s| bar(s.t_s, s.from, s.to)));
    // With few segments each bar has ends, as in xplot, so that neighbouring segments can be told apart.
    let ends: String = match few {
        true => sent
            .iter()
            .filter(|s| s.to > s.from)
            .flat_map(|s| [s.from, s.to].map(|v| (f.x(s.t_s), f.y(v as f64))))
            .map(|(x, y)| format!("M{} {}h5", short(x - 2.5), short(y)))
            .collect(),
        false => String::new(),
    };
    let sacked = p.sacked.iter().filter(|s| f.shows(s.0));
    let sacked = bars(sacked.map(|(t, from, to)| bar(*t, *from, *to)));
    let steps =
        |of: fn(&super::seen::Acked) -> u64| stairs(p.acked.iter().map(|a| (a.t_s, of(a))), &f);
    let mut lines = vec![("seg", "segments"), ("ack", "acknowledged")];
    if !p.acked.is_empty() && room <= f.high {
        lines.push(("room", "receive window"));
    }
    if !sacked.is_empty() {
        lines.push(("sackd", "SACK"));
    }
    let marks = p.marks.iter().filter(|m| f.shows(m.0));
    let inside = html! {
        path.room d=(steps(|a| a.room)) {}
        path.sackd d=(sacked) {}
        path.seg.wide[few] d=(segments) {}
        @if few { path.seg d=(ends) {} }
        path.ack d=(steps(|a| a.to)) {}
        (repeated(p, &f))
        @for (t, at, mark) in marks.take(60) {
            text.letter.reset[*mark == Mark::Reset] x=(short((f.x(*t) + 3.0).min(LEFT + INNER - 12.0))) y=(short((f.y(*at as f64) - 5.0).max(TOP + 8.0))) { (mark.letter()) }
        }
    };
    let axis = format!("Bytes, {unit}");
    f.around(p, "bytes over time", &axis, size, keys(&lines, p), inside)
}

/// Draws the retransmissions: a bar over the bytes, and a mark that is visible at any scale.
fn repeated(p: &Packets, f: &Frame) -> Markup {
    let mut by_class: BTreeMap<(Cause, bool), Vec<&Again>> = BTreeMap::new();
    for a in p.again.iter().filter(|a| f.shows(a.t_s)) {
        by_class.entry((a.cause, a.needless)).or_default().push(a);
    }
    html! {
        @for ((cause, needless), all) in &by_class {
            @let class = told(*cause).1;
            path.seg.wide.(class) d=(bars(all.iter().map(|a| (f.x(a.t_s), f.y(a.to as f64), f.y(a.from as f64))))) {}
            path.mark.(class).vain[*needless] d=(marks(*cause, all.iter().map(|a| (f.x(a.t_s), f.y((a.from + a.to) as f64 / 2.0))))) {}
        }
    }
}

/// Draws the marks of a cause; of those within two pixels of each other, one.
fn marks(cause: Cause, places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut seen = BTreeSet::new();
    places
        .filter(|(x, y)| seen.insert(((x / 2.0).round() as i64, (y / 2.0).round() as i64)))
        .map(|(x, y)| shape(cause, x, y))
        .collect()
}

/// Draws a step line, which keeps its value until the next one.
fn stairs(points: impl Iterator<Item = (f64, u64)>, f: &Frame) -> String {
    let mut before: Option<u64> = None;
    let mut places = Vec::new();
    for (t, v) in points {
        if t < f.from_s {
            before = Some(v);
            continue;
        }
        if t > f.to_s {
            break;
        }
        if places.is_empty()
            && let Some(b) = before
        {
            places.push((f.x(f.from_s), Some(f.y(b as f64))));
        }
        if let Some(b) = before.filter(|b| *b != v) {
            places.push((f.x(t), Some(f.y(b as f64))));
        }
        places.push((f.x(t), Some(f.y(v as f64))));
        before = Some(v);
    }
    path(places.into_iter())
}

fn round_trips(p: &Packets) -> Markup {
    let shown = || {
        p.rtt
            .iter()
            .filter(|r| (p.span_s.0..=p.span_s.1).contains(&r.0))
    };
    let most = shown()
        .map(|r| r.1)
        .fold(p.base_ms.unwrap_or(0.0), f64::max);
    let f = frame(p, 260.0, 0.0, nice_top(most));
    let mut lines = vec![("sample", "round trips")];
    if p.base_ms.is_some() {
        lines.push(("base", "least between the hosts"));
    }
    let inside = html! {
        @if let Some(base) = p.base_ms {
            path.base d=(format!("M{LEFT} {}h{INNER}", short(f.y(base)))) {}
        }
        path.sample d=(bars(shown().map(|(t, ms)| (f.x(*t), f.y(*ms) - 0.7, f.y(*ms) + 0.7)))) {}
        (ticks(p, &f))
    };
    f.around(
        p,
        "round trips",
        "Round-trip time, ms",
        1.0,
        keys(&lines, p),
        inside,
    )
}

/// Draws the times of retransmissions at the top of another plot.
fn ticks(p: &Packets, f: &Frame) -> Markup {
    let mut by_class: BTreeMap<Cause, BTreeSet<i64>> = BTreeMap::new();
    for a in p.again.iter().filter(|a| f.shows(a.t_s)) {
        let column = (f.x(a.t_s) / COLUMN).round() as i64;
        by_class.entry(a.cause).or_default().insert(column);
    }
    html! {
        @for (cause, columns) in &by_class {
            path.seg.(told(*cause).1) d=(columns.iter().map(|c| format!("M{} {}v8", short(*c as f64 * COLUMN), TOP - 5.0)).collect::<String>()) {}
        }
    }
}

fn in_flight(p: &Packets) -> Markup {
    let shown = || {
        p.sent
            .iter()
            .filter(|s| (p.span_s.0..=p.span_s.1).contains(&s.t_s))
    };
    let most = shown().map(|s| s.in_flight).max().unwrap_or(0) as f64;
    let f = frame(p, 260.0, 0.0, nice_top(most));
    let (unit, size) = SIZE.fitting(f.high);
    let inside = html! {
        path.seg d=(path(shown().map(|s| (f.x(s.t_s), Some(f.y(s.in_flight as f64)))))) {}
        path.room d=(stairs(p.acked.iter().map(|a| (a.t_s, a.room.saturating_sub(a.to))), &f)) {}
        (ticks(p, &f))
    };
    let mut lines = vec![("seg", "in flight")];
    if p.acked
        .iter()
        .any(|a| (a.room.saturating_sub(a.to) as f64) < f.high)
    {
        lines.push(("room", "receive window"));
    }
    let axis = format!("Bytes in flight, {unit}");
    f.around(p, "bytes in flight", &axis, size, keys(&lines, p), inside)
}

fn throughput(p: &Packets) -> Markup {
    let (from, to) = p.span_s;
    let step = ((to - from) / STEPS as f64).max(1e-6);
    let mut fresh = vec![0.0; STEPS];
    let mut again = vec![0.0; STEPS];
    let mut acked = vec![0.0; STEPS];
    let place = |t: f64| {
        let at = (t - from) / step;
        (t <= to && at >= 0.0).then(|| (at as usize).min(STEPS - 1))
    };
    for s in &p.sent {
        if let Some(i) = place(s.t_s) {
            let sent = s.to - s.from;
            fresh[i] += s.fresh as f64;
            again[i] += sent.saturating_sub(s.fresh) as f64;
        }
    }
    let mut before = None;
    for a in &p.acked {
        let news = before.map_or(0, |b: u64| a.to.saturating_sub(b));
        before = Some(before.map_or(a.to, |b| b.max(a.to)));
        if let Some(i) = place(a.t_s) {
            acked[i] += news as f64;
        }
    }
    let rate = |bytes: &[f64]| -> Vec<f64> { bytes.iter().map(|b| 8.0 * b / step).collect() };
    let [fresh, again, acked] = [rate(&fresh), rate(&again), rate(&acked)];
    let top = fresh.iter().chain(&again).chain(&acked).copied();
    let f = frame(p, 260.0, 0.0, nice_top(top.fold(0.0, f64::max)));
    let (unit, size) = RATE.fitting(f.high);
    let line = |rates: &[f64]| {
        let middle = |i: usize| f.x(from + (i as f64 + 0.5) * step);
        path(
            rates
                .iter()
                .enumerate()
                .map(|(i, r)| (middle(i), Some(f.y(*r)))),
        )
    };
    let mut lines = vec![("seg", "sent for the first time"), ("ack", "acknowledged")];
    let repeats = again.iter().any(|r| *r > 0.0);
    if repeats {
        lines.push(("loss", "sent again"));
    }
    let inside = html! {
        path.seg.wide d=(line(&fresh)) {}
        path.ack d=(line(&acked)) {}
        @if repeats { path.loss d=(line(&again)) {} }
        (ticks(p, &f))
    };
    let axis = format!("Payload, {unit}");
    let what = format!("throughput in steps of {} ms", number(step * 1e3));
    f.around(p, &what, &axis, size, keys(&lines, p), inside)
}

#[cfg(test)]
mod tests {
    use super::super::{Acked, Sent};
    use super::*;

    /// Makes a million segments with one retransmission and one long RTT.
    fn million() -> Packets {
        let n = 1_000_000u64;
        let sent = (0..n).map(|i| Sent {
            t_s: i as f64 / 1e4,
            from: i * 1000,
            to: (i + 1) * 1000,
            fresh: 1000,
            in_flight: 20_000,
        });
        let acked = (0..n).map(|i| Acked {
            t_s: i as f64 / 1e4 + 0.02,
            to: (i + 1) * 1000,
            room: (i + 1) * 1000 + 65_536,
        });
        Packets {
            name: "a > b".into(),
            span_s: (0.0, 100.02),
            sent: sent.collect(),
            acked: acked.collect(),
            again: vec![Again {
                t_s: 50.0,
                from: 499_000_000,
                to: 499_001_000,
                cause: Cause::Timeout,
                needless: false,
            }],
            rtt: (0..n)
                .map(|i| (i as f64 / 1e4, if i == 700_000 { 90.0 } else { 20.0 }))
                .collect(),
            base_ms: Some(20.0),
            ..Packets::default()
        }
    }

    #[test]
    fn a_million_packets_make_a_small_picture_that_keeps_the_one_that_matters() {
        let p = million();
        for plot in Plot::ALL {
            let svg = plot.svg(&p).unwrap();
            assert!(svg.len() < 150_000, "{plot:?}: {}", svg.len());
        }
        let sequence = Plot::Sequence.svg(&p).unwrap();
        assert!(sequence.contains("1 time-out"));
        // The mark is in the middle of the picture: its diamond, and the legend's.
        assert_eq!(sequence.matches("l5 5l-5 5l-5-5Z").count(), 2);
        // 90 ms on an axis to 100: the only bar in the upper third.
        let rtt = Plot::Rtt.svg(&p).unwrap();
        let f = frame(&p, 260.0, 0.0, 100.0);
        assert!(
            rtt.contains(&format!(" {}v", short(f.y(90.0) - 0.7))),
            "{rtt}"
        );
    }

    #[test]
    fn bars_of_a_column_that_touch_are_one_and_others_are_not() {
        let all = [(10.0, 5.0, 8.0), (10.1, 8.0, 12.0), (10.0, 40.0, 41.0)];
        assert_eq!(bars(all.into_iter()), "M10 5v7M10 40v1");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let p = Packets {
            rtt: Vec::new(),
            ..million()
        };
        let said = Plot::Rtt.svg(&p).unwrap_err();
        assert!(said.contains("no round trip was measured"), "{said}");
        let empty = Packets::default();
        assert!(
            Plot::Sequence
                .svg(&empty)
                .unwrap_err()
                .contains("no packets")
        );
    }

    #[test]
    fn axes_of_a_close_up_have_digits_enough() {
        assert_eq!(exact(12.3456, 0.01), "12.3456");
        assert_eq!(exact(12.0, 0.01), "12");
        assert_eq!(exact(40.0, 100.0), "40");
    }
}
