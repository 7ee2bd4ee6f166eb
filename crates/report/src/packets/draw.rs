//! Plots of packets. Everything on one pixel is drawn once, as its extremes: a million packets make a small picture, and
//! no outlier is lost.

use super::seen::{Acked, Again, Mark, Packets, Plot, told};
use crate::plot::{Axis, Panel, PlotSpec, Series, Shape, nice_top};
use base::print::{RATE, SIZE, number};
use base::record::Cause;
use std::collections::BTreeMap;

/// Number of segments in a picture above which they have no end marks.
const FEW: usize = 400;
/// Steps of throughput in a picture.
const STEPS: usize = 200;
/// Number of letters in a picture.
const LETTERS: usize = 60;
/// Height of a small plot, px.
const HEIGHT: f64 = 260.0;

pub(super) fn plot(plot: Plot, p: &Packets) -> Result<PlotSpec, String> {
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

/// Makes a plot with one panel.
fn spec(p: &Packets, what: &str, y: Axis, height: f64, series: Vec<Series>) -> PlotSpec {
    PlotSpec {
        title: format!("{}: {what}", p.name),
        x: Axis::even("time since the connection began, s", p.span_s.0, p.span_s.1),
        panels: vec![Panel {
            y,
            height,
            series,
            ..Panel::default()
        }],
        ..PlotSpec::default()
    }
}

fn shows(p: &Packets, t_s: f64) -> bool {
    (p.span_s.0..=p.span_s.1).contains(&t_s)
}

fn by_cause(p: &Packets) -> BTreeMap<Cause, usize> {
    let mut causes = BTreeMap::new();
    for a in p.again.iter().filter(|a| shows(p, a.t_s)) {
        *causes.entry(a.cause).or_default() += 1;
    }
    causes
}

/// Returns the symbol of a cause, around its place: symbols distinguish causes even without colour.
fn symbol(cause: Cause) -> &'static str {
    match cause {
        Cause::Timeout => "m0-5l5 5l-5 5l-5-5Z",
        Cause::Fast => "m0-5l5 9h-10Z",
        Cause::Sack => "m4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0",
        Cause::Recovery => "m-3.5-3.5h7v7h-7Z",
        Cause::TailProbe => "m0 5l5-9h-10Z",
        Cause::Unknown => "m-4-4l8 8m0-8l-8 8",
    }
}

fn sequence(p: &Packets) -> PlotSpec {
    let sent: Vec<_> = p.sent.iter().filter(|s| shows(p, s.t_s)).collect();
    let acked = || p.acked.iter().filter(|a| shows(p, a.t_s));
    let low = sent.iter().map(|s| s.from).chain(acked().map(|a| a.to));
    let high = sent.iter().map(|s| s.to).chain(acked().map(|a| a.to));
    let high = high.max().unwrap_or(0);
    let (low, high) = (low.min().unwrap_or(0).min(high) as f64, high as f64);
    // If the receive window is far above, its line is left out of the range.
    let room = acked().map(|a| a.room).min().map_or(high, |r| r as f64);
    let head = (high - low).max(1.0);
    let top = match room < high + 0.25 * head {
        true => room.max(high),
        false => high,
    } + 0.04 * head;
    let few = sent.len() <= FEW;
    let bars = |bars: &mut dyn Iterator<Item = (f64, u64, u64)>| {
        Shape::Bars(bars.map(|(t, a, b)| (t, a as f64, b as f64)).collect())
    };
    let segments = bars(&mut sent.iter().map(|s| (s.t_s, s.from, s.to)));
    let class = if few { "seg wide" } else { "seg" };
    let mut series = vec![Series::new("segments", class, segments)];
    if few {
        // With few segments each bar has ends, as in xplot, so that neighbouring segments can be told apart.
        let full = sent.iter().filter(|s| s.to > s.from);
        let ends = full.flat_map(|s| [s.from, s.to].map(|v| (s.t_s, v as f64)));
        series.push(Series::new(
            "",
            "seg",
            Shape::Symbols("m-2.5 0h5", ends.collect()),
        ));
    }
    series.push(Series::new("acknowledged", "ack", stairs(p, |a| a.to, top)));
    let room_name = match !p.acked.is_empty() && room <= top {
        true => "receive window",
        false => "",
    };
    series.insert(
        0,
        Series::new(room_name, "room", stairs(p, |a| a.room, top)),
    );
    let sacked: Vec<_> = p.sacked.iter().filter(|s| shows(p, s.0)).copied().collect();
    if !sacked.is_empty() {
        let sacked = bars(&mut sacked.into_iter());
        series.insert(1, Series::new("SACK", "sackd", sacked));
    }
    series.extend(repeated(p));
    let marks: Vec<_> = p.marks.iter().filter(|m| shows(p, m.0)).collect();
    let letters = |reset: bool| {
        let those = marks.iter().take(LETTERS);
        let those = those.filter(|m| (m.2 == Mark::Reset) == reset);
        let letters = those.map(|(t, at, mark)| (*t, *at as f64, mark.letter().into()));
        let class = if reset { "reset" } else { "" };
        Series::new("", class, Shape::Letters(letters.collect()))
    };
    series.extend([letters(false), letters(true)]);
    let y = Axis::fitting("Bytes", SIZE, low, top);
    spec(p, "bytes over time", y, 400.0, series)
}

/// Returns the retransmissions: a bar over the bytes, and a symbol that is visible at any scale. The first of each cause
/// has its name.
fn repeated(p: &Packets) -> Vec<Series> {
    let mut by_class: BTreeMap<(Cause, bool), Vec<&Again>> = BTreeMap::new();
    for a in p.again.iter().filter(|a| shows(p, a.t_s)) {
        by_class.entry((a.cause, a.needless)).or_default().push(a);
    }
    let counts = by_cause(p);
    let mut named: Option<Cause> = None;
    let mut series = Vec::new();
    for ((cause, needless), all) in &by_class {
        let (word, class) = told(*cause);
        let name = match named.replace(*cause) == Some(*cause) {
            true => String::new(),
            false => format!("{} {word}", counts[cause]),
        };
        let bars = all.iter().map(|a| (a.t_s, a.from as f64, a.to as f64));
        let bars = Shape::Bars(bars.collect());
        series.push(Series::new("", format!("seg wide {class}"), bars));
        let places = all.iter().map(|a| (a.t_s, (a.from + a.to) as f64 / 2.0));
        let vain = if *needless { " vain" } else { "" };
        let symbols = Shape::Symbols(symbol(*cause), places.collect());
        series.push(Series::new(name, format!("mark {class}{vain}"), symbols));
    }
    series
}

/// Returns the times of retransmissions as ticks at the top of another plot.
fn ticks(p: &Packets) -> Vec<Series> {
    let counts = by_cause(p).into_iter();
    let ticks = counts.map(|(cause, count)| {
        let (word, class) = told(cause);
        let mine = p.again.iter().filter(|a| a.cause == cause);
        let times = mine.map(|a| a.t_s).filter(|t| shows(p, *t)).collect();
        let name = format!("{count} {word}");
        Series::new(name, format!("seg {class}"), Shape::Ticks(times, 8.0))
    });
    ticks.collect()
}

/// Returns a step line, which keeps its value until the next one; values above `top` interrupt it.
fn stairs(p: &Packets, of: impl Fn(&Acked) -> u64, top: f64) -> Shape {
    let (from_s, to_s) = p.span_s;
    let shown = |v: u64| Some(v as f64).filter(|v| *v <= top);
    let mut before: Option<u64> = None;
    let mut places: Vec<(f64, Option<f64>)> = Vec::new();
    for a in &p.acked {
        let (t, v) = (a.t_s, of(a));
        if t < from_s {
            before = Some(v);
            continue;
        }
        if t > to_s {
            break;
        }
        if let Some(b) = before {
            if places.is_empty() {
                places.push((from_s, shown(b)));
            }
            if b != v {
                places.push((t, shown(b)));
            }
        }
        places.push((t, shown(v)));
        before = Some(v);
    }
    Shape::Line(places)
}

fn round_trips(p: &Packets) -> PlotSpec {
    let shown: Vec<_> = p.rtt.iter().filter(|r| shows(p, r.0)).collect();
    let most = shown.iter().map(|r| r.1);
    let y = Axis::up_to(
        "Round-trip time, ms",
        most.fold(p.base_ms.unwrap_or(0.0), f64::max),
    );
    // A sample is a bar of 1.4 pixels.
    let half = 0.7 * y.to / HEIGHT;
    let bars = shown.iter().map(|(t, ms)| (*t, ms - half, ms + half));
    let mut series = vec![Series::new(
        "round trips",
        "sample",
        Shape::Bars(bars.collect()),
    )];
    if let Some(base) = p.base_ms {
        let line = Shape::Line(vec![(p.span_s.0, Some(base)), (p.span_s.1, Some(base))]);
        series.insert(0, Series::new("least between the hosts", "base", line));
    }
    series.extend(ticks(p));
    spec(p, "round trips", y, HEIGHT, series)
}

fn in_flight(p: &Packets) -> PlotSpec {
    let shown: Vec<_> = p.sent.iter().filter(|s| shows(p, s.t_s)).collect();
    let most = shown.iter().map(|s| s.in_flight).max().unwrap_or(0) as f64;
    let top = nice_top(most);
    let line = shown.iter().map(|s| (s.t_s, Some(s.in_flight as f64)));
    let open = |a: &Acked| a.room.saturating_sub(a.to);
    let room_name = match p.acked.iter().any(|a| (open(a) as f64) < top) {
        true => "receive window",
        false => "",
    };
    let mut series = vec![
        Series::new("in flight", "seg", Shape::Line(line.collect())),
        Series::new(room_name, "room", stairs(p, open, top)),
    ];
    series.extend(ticks(p));
    let y = Axis::fitting("Bytes in flight", SIZE, 0.0, top);
    spec(p, "bytes in flight", y, HEIGHT, series)
}

fn throughput(p: &Packets) -> PlotSpec {
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
    let top = nice_top(top.fold(0.0, f64::max));
    let line = |name: &str, class: &str, rates: &[f64]| {
        let points = rates.iter().enumerate();
        let points = points.map(|(i, r)| (from + (i as f64 + 0.5) * step, Some(*r)));
        Series::new(name, class, Shape::Line(points.collect()))
    };
    let mut series = vec![
        line("sent for the first time", "seg wide", &fresh),
        line("acknowledged", "ack", &acked),
    ];
    if again.iter().any(|r| *r > 0.0) {
        series.push(line("sent again", "loss", &again));
    }
    series.extend(ticks(p));
    let what = format!("throughput in steps of {} ms", number(step * 1e3));
    let y = Axis::fitting("Payload", RATE, 0.0, top);
    spec(p, &what, y, HEIGHT, series)
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
            let svg = plot.spec(&p).unwrap().svg();
            assert!(svg.len() < 150_000, "{plot:?}: {}", svg.len());
        }
        let sequence = Plot::Sequence.spec(&p).unwrap().svg();
        assert!(sequence.contains("1 time-out"));
        // The mark is in the middle of the picture: its diamond, and the legend's.
        assert_eq!(sequence.matches("l5 5l-5 5l-5-5Z").count(), 2);
        // 90 ms on an axis to 100: the only bar in the upper third.
        let rtt = Plot::Rtt.spec(&p).unwrap().svg();
        let bars = rtt.split("class=\"sample\"").nth(1).unwrap();
        let bars = bars.split("</path>").next().unwrap();
        let tops = bars.split('M').skip(1).filter_map(|bar| {
            let (_, y) = bar.split_once(' ')?;
            y.split_once('v')?.0.parse::<f64>().ok()
        });
        let high = tops.filter(|y| *y < 62.0 + 260.0 / 3.0).count();
        assert_eq!(high, 1, "{rtt}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let p = Packets {
            rtt: Vec::new(),
            ..million()
        };
        let said = Plot::Rtt.spec(&p).unwrap_err();
        assert!(said.contains("no round trip was measured"), "{said}");
        let empty = Packets::default();
        assert!(
            Plot::Sequence
                .spec(&empty)
                .unwrap_err()
                .contains("no packets")
        );
    }
}
