//! Smoke: the distribution of each stretch of time as nested grey areas, its median in the colour of its losses, as
//! known from SmokePing, and its 99th percentile. SmokePing cannot show that percentile, because its long spans are
//! means of sorted pings. Here each stretch is the sum of its histograms.

use super::material::{Material, STRETCHES, Stretch};
use super::over_time::{area, most_of, quantile, start, time_axis};
use crate::plot::{Axis, Panel, PlotSpec, Series, Shape};
use base::print::{number, percent};

/// Shares p of the nested areas; each area spans the quantiles p to 1 − p.
const PUFFS: [f64; 8] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45];
/// Largest loss of each colour, with class and name, as in SmokePing for a round of 20 pings. A stretch of thousands of
/// probes keeps the first colour up to 0.5 % loss.
const LOSSES: [(f64, &str, &str); 8] = [
    (0.005, "l0", "<0.5"),
    (0.05, "l1", "5"),
    (0.1, "l2", "10"),
    (0.15, "l3", "15"),
    (0.2, "l4", "20"),
    (0.5, "l5", "50"),
    (0.999_999, "l6", "<100"),
    (1.0, "l7", "100"),
];
/// Largest number of stretches drawn: each is two pixels wide.
const COLUMNS: usize = 400;

pub fn plot(m: &Material) -> PlotSpec {
    let columns = m.joined(20, STRETCHES / COLUMNS);
    let tails = columns.iter();
    let tails = tails.filter_map(|c| c.stretch.delays.quantile_ms(0.99));
    let top = most_of(tails, 0.98);
    let puffs = PUFFS.map(|low| Series::new("", "puff", area(m, &columns, low, 1.0 - low)));
    let mut series = Vec::from(puffs);
    series.push(Series::new("p99", "p99", quantile(m, &columns, 0.99)));
    for (at, (_, class, name)) in LOSSES.iter().enumerate() {
        let marked = columns.iter();
        let marked = marked.filter(|c| colour(&c.stretch) == Some(*class));
        let strokes = marked.map(|c| {
            // A column without answers has no median: its mark is at the bottom.
            let y = c.stretch.delays.quantile_ms(0.5).unwrap_or_default();
            (start(m, c.from), start(m, c.to), y)
        });
        let name = match at {
            0 => format!("median, lost %: {name}"),
            _ => (*name).to_owned(),
        };
        series.push(Series::new(
            name,
            format!("med {class}"),
            Shape::Strokes(strokes.collect()),
        ));
    }
    PlotSpec {
        title: "smoke".into(),
        x: time_axis(m),
        panels: vec![Panel {
            y: Axis::even("Round-trip time, ms", 0.0, top),
            height: 250.0,
            note: all_of_it(m, top),
            series,
        }],
        moments: m.moments.clone(),
        ..PlotSpec::default()
    }
}

/// Describes the whole span; empty if nothing was answered.
fn all_of_it(m: &Material, top: f64) -> String {
    let delays = &m.whole.delays;
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|p| delays.quantile_ms(p));
    let (Some(p50), Some(p99), Some(most)) = (p50, p99, most) else {
        return String::new();
    };
    format!(
        "all of it: median {} ms, p99 {} ms, largest {} ms{}, lost {} % of {}",
        number(p50),
        number(p99),
        number(most),
        if most > top { " (cut off)" } else { "" },
        percent(m.whole.loss().unwrap_or_default()),
        m.whole.sent()
    )
}

fn colour(s: &Stretch) -> Option<&'static str> {
    let loss = s.loss()?;
    LOSSES
        .iter()
        .find(|(up_to, ..)| loss <= *up_to)
        .map(|(_, class, _)| *class)
}

/// Returns the largest loss of each colour, for the page's script.
pub fn loss_limits() -> Vec<f64> {
    LOSSES.iter().map(|(up_to, ..)| *up_to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Status;

    #[test]
    fn colours_are_smokepings_for_the_same_share_of_losses() {
        let with = |answered: i64, lost: i64| {
            let mut s = Stretch::default();
            (0..answered).for_each(|_| s.delays.record_ns(1_000_000));
            s.lost = lost as u64;
            colour(&s)
        };
        let twenty: Vec<_> = [0, 1, 2, 3, 4, 10, 11, 19, 20]
            .iter()
            .map(|l| with(20 - l, *l).unwrap())
            .collect();
        assert_eq!(
            twenty,
            ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l6", "l7"]
        );
        assert_eq!(with(0, 0), None);
    }

    /// Every fiftieth probe waits 1 s, all year: the mean of sorted pings would hide it.
    #[test]
    fn a_slow_hundredth_stays_visible_over_a_year() {
        use super::super::{Plot, Scope};
        let year = 365 * 86_400;
        let scope = Scope {
            from_ns: 0,
            to_ns: year * 1_000_000_000,
            zone: jiff::tz::TimeZone::UTC,
        };
        let mut m = Material::new(scope, "");
        for i in 0..year / 60 {
            let ms = if i % 50 == 0 { 1000 } else { 20 };
            m.probe(i * 60_000_000_000, Some(ms * 1_000_000), Status::Ok);
        }
        assert!(m.whole.delays.quantile_ms(0.99).unwrap() > 990.0);
        let svg = Plot::Smoke.spec(&m).unwrap().svg();
        // The middle of the step that holds 1 s: a value is drawn within 0.2 % of its true value.
        assert!(
            svg.contains("p99 999 ms"),
            "{}",
            &svg[svg.find("all of it").unwrap()..][..200]
        );
        assert!(svg.len() < 300_000, "{}", svg.len());
    }
}
