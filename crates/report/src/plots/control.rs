//! Latency control over time: wait, rate beside the capacity with its interval, and signals, of each direction.

use super::{Scope, calendar};
use crate::plot::{Axis, Panel, PlotSpec, Points, Series, Shape};
use analysis::moments::Moment;
use base::print::RATE;
use base::record::{Decision, Direction};

/// Columns of the plot: a recording of weeks has as many as one of seconds.
const COLUMNS: usize = 400;

/// Decisions of one stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    rows: u32,
    wait_sum_ms: f64,
    wait_most_ms: Option<f64>,
    capacity_bps: Option<f64>,
    interval_bps: Option<(f64, f64)>,
    /// Time and bytes of the last decision.
    passed: Option<(i64, i64)>,
    /// Marks and drops by then.
    cut: i64,
}

/// Decisions of a recording, by direction and stretch of time.
pub struct Decisions {
    scope: Scope,
    title: String,
    directions: Vec<(Direction, Vec<Column>)>,
    moments: Vec<(f64, String)>,
}

impl Decisions {
    /// Decisions of that time range; none yet.
    pub fn new(scope: Scope, title: &str) -> Decisions {
        Decisions {
            scope,
            title: title.to_owned(),
            directions: Vec::new(),
            moments: Vec::new(),
        }
    }

    /// Adds a decision; those of one direction come in the order of time.
    pub fn add(&mut self, d: &Decision) {
        let Scope { from_ns, to_ns, .. } = self.scope;
        if !(from_ns..to_ns).contains(&d.t_ns) {
            return;
        }
        let known = self.directions.iter().position(|k| k.0 == d.direction);
        let at = known.unwrap_or_else(|| {
            let empty = vec![Column::default(); COLUMNS];
            self.directions.push((d.direction, empty));
            self.directions.len() - 1
        });
        let length = i128::from(to_ns) - i128::from(from_ns);
        let since = i128::from(d.t_ns) - i128::from(from_ns);
        let column = &mut self.directions[at].1[(since * COLUMNS as i128 / length) as usize];
        if let Some(wait) = d.wait_ns {
            let ms = wait as f64 * 1e-6;
            column.rows += 1;
            column.wait_sum_ms += ms;
            column.wait_most_ms = Some(column.wait_most_ms.map_or(ms, |m| m.max(ms)));
        }
        column.capacity_bps = d.capacity_bps.map(|c| c as f64).or(column.capacity_bps);
        let interval = d.capacity_low_bps.zip(d.capacity_high_bps);
        column.interval_bps = interval
            .filter(|i| i.0 > 0)
            .map(|(low, high)| (low as f64, high as f64));
        column.passed = Some((d.t_ns, d.passed_bytes));
        column.cut = d.marks + d.drops;
    }

    /// Adds the moments that the user marked, in the order of time.
    pub fn mark(&mut self, moments: &[Moment]) {
        self.moments.extend(self.scope.marked(moments));
    }

    /// Plot of these decisions.
    ///
    /// # Errors
    /// There are none.
    pub fn plot(&self) -> Result<PlotSpec, String> {
        if self.directions.is_empty() {
            return Err(
                "there are no decisions of `tailback control run` in this time range".into(),
            );
        }
        let Scope {
            from_ns,
            to_ns,
            zone,
        } = &self.scope;
        let marks = calendar::marks(*from_ns, *to_ns, zone).into_iter();
        let marks = marks.map(|(t, name)| ((t - from_ns) as f64 / 1e9, name));
        let several = self.directions.len() > 1;
        let panels = self.directions.iter().flat_map(|(direction, columns)| {
            let name = match (several, direction) {
                (false, _) => "",
                (true, Direction::Up) => "up",
                (true, Direction::Down) => "down",
            };
            self.panels(name, columns)
        });
        Ok(PlotSpec {
            title: match &*self.title {
                "" => "latency control".into(),
                // A run's own title says it already.
                name if name.to_lowercase().contains("latency control") => name.to_owned(),
                name => format!("{name}: latency control"),
            },
            x: Axis::even("", 0.0, self.middle(COLUMNS as f64 - 0.5)).marked(marks.collect()),
            panels: panels.collect(),
            moments: self.moments.clone(),
            note: calendar::span(*from_ns, *to_ns, zone),
            ..PlotSpec::default()
        })
    }

    /// Middle of a column, s.
    fn middle(&self, index: f64) -> f64 {
        let length_s = (self.scope.to_ns - self.scope.from_ns) as f64 / 1e9;
        length_s * (index + 0.5) / COLUMNS as f64
    }

    fn line(&self, columns: &[Column], of: impl Fn(&Column) -> Option<f64>) -> Points {
        let points = columns.iter().enumerate();
        points
            .map(|(i, c)| (self.middle(i as f64), of(c)))
            .collect()
    }

    fn panels(&self, direction: &str, columns: &[Column]) -> [Panel; 3] {
        let note = |text: &str| format!("{text} {direction}").trim_end().to_owned();
        let most = |all: &Points| all.iter().filter_map(|p| p.1).fold(0.0, f64::max);
        let longest = self.line(columns, |c| c.wait_most_ms);
        let mean = self.line(columns, |c| {
            (c.rows > 0).then(|| c.wait_sum_ms / f64::from(c.rows))
        });
        let (rate, cut) = self.changes(columns);
        let capacity = self.line(columns, |c| c.capacity_bps);
        let interval = columns.iter().enumerate().map(|(i, c)| {
            let (low, high) = c.interval_bps?;
            Some((self.middle(i as f64), low, high))
        });
        let fastest = most(&rate).max(most(&capacity)) * 1.1;
        let bars = cut.iter().filter(|c| c.1 > 0.0);
        let bars = bars.map(|(x, n)| (*x, 0.0, *n));
        let panel = |y, height, note, series| Panel {
            y,
            height,
            note,
            series,
        };
        [
            panel(
                Axis::up_to("Wait, ms", most(&longest)),
                160.0,
                note("estimated wait"),
                vec![
                    Series::new("longest", "fine s2", Shape::Line(longest)),
                    Series::new("mean", "middle", Shape::Line(mean)),
                ],
            ),
            panel(
                Axis::fitting("Rate", RATE, 0.0, crate::plot::nice_top(fastest)),
                160.0,
                note("rate and capacity"),
                vec![
                    Series::new("95 % interval", "range", Shape::Band(interval.collect()))
                        .sampled("swatch"),
                    Series::new("capacity", "fine s3", Shape::Line(capacity)),
                    Series::new("rate", "probe", Shape::Line(rate)),
                ],
            ),
            panel(
                Axis::up_to("Packets", cut.iter().map(|c| c.1).fold(1.0, f64::max)),
                80.0,
                note("marks and drops"),
                vec![Series::new("", "gone", Shape::Bars(bars.collect()))],
            ),
        ]
    }

    /// Rate in each column in bit/s, and packets cut in it, from the counts at its end and at the one before.
    fn changes(&self, columns: &[Column]) -> (Points, Vec<(f64, f64)>) {
        let mut last: Option<Column> = None;
        let (mut rates, mut cuts) = (Points::new(), Vec::new());
        for (i, column) in columns.iter().enumerate() {
            let x = self.middle(i as f64);
            let Some((at, bytes)) = column.passed else {
                continue;
            };
            if let Some(before) = last
                && let Some((from, had)) = before.passed
            {
                let span_s = (at - from) as f64 / 1e9;
                rates.push((x, Some((bytes - had) as f64 * 8.0 / span_s)));
                cuts.push((x, (column.cut - before.cut) as f64));
            }
            last = Some(*column);
        }
        (rates, cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_rate_and_cuts_of_made_up_decisions_are_drawn() {
        let scope = Scope {
            from_ns: 0,
            to_ns: 40_000_000_000,
            zone: jiff::tz::TimeZone::UTC,
        };
        let mut all = Decisions::new(scope, "eth0");
        assert!(all.plot().is_err());
        // Ten decisions a second; 1 Mbit/s, a wait of 5 ms that is 25 ms once a second, one drop each ten seconds.
        for i in 0..400i64 {
            all.add(&Decision {
                t_ns: i * 100_000_000,
                interface: "eth0".into(),
                direction: Direction::Up,
                why: "short".into(),
                applied: true,
                wait_ns: Some(if i % 10 == 0 { 25_000_000 } else { 5_000_000 }),
                probed_wait_ns: None,
                capacity_bps: Some(1_200_000),
                capacity_low_bps: Some(1_100_000),
                capacity_high_bps: Some(1_300_000),
                passed_bytes: 12_500 * i,
                signals: i / 100,
                probability: None,
                marks: 0,
                drops: i / 100,
                shaper_bps: None,
            });
        }
        let plot = all.plot().expect("decisions");
        assert_eq!(plot.panels.len(), 3);
        let Shape::Line(rate) = &plot.panels[1].series[2].shape else {
            panic!("{:?}", plot.panels[1]);
        };
        assert!(
            rate.iter()
                .all(|p| p.1.is_some_and(|r| (r - 1e6).abs() < 1.0))
        );
        let Shape::Bars(bars) = &plot.panels[2].series[0].shape else {
            panic!("{:?}", plot.panels[2]);
        };
        assert_eq!(bars.len(), 3);
        assert!(plot.svg().contains("eth0: latency control"));
    }
}
