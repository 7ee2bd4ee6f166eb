//! Median round trips of several targets or recordings over the same time, each in a colour of its own, with their losses
//! below (Catalán 2014, figures 15 to 17).

use super::material::{Material, STRETCHES, Stretch};
use super::over_time::time_axis;
use crate::plot::{Axis, COLOURS, Panel, PlotSpec, Points, Series, Shape, nice_top};

/// Largest number of columns: a line that changes from pixel to pixel hides the others.
const COLUMNS: usize = 200;
/// Largest number of targets: as many as colours and dashes tell apart.
const MOST: usize = 3 * COLOURS;
/// Probes of a column, in the middle of all columns.
const ENOUGH: u64 = 20;
/// Columns of the widest line.
const FEWEST: usize = 25;
/// Columns without a probe that interrupt a line.
const GAP: usize = 5;

/// Stretches of equal length, long enough to hold several probes each; none for one without probes.
struct Columns(Vec<Option<Stretch>>);

impl Columns {
    fn of(m: &Material) -> Columns {
        let mut count = COLUMNS;
        loop {
            let all = m.stretches.chunks(STRETCHES / count).map(|some| {
                let mut sum = Stretch::default();
                some.iter().for_each(|s| sum.add(s));
                (sum.sent() > 0).then_some(sum)
            });
            let all: Vec<Option<Stretch>> = all.collect();
            let mut sent: Vec<u64> = all.iter().flatten().map(Stretch::sent).collect();
            sent.sort_unstable();
            if count <= FEWEST || sent.get(sent.len() / 2).is_none_or(|n| *n >= ENOUGH) {
                return Columns(all);
            }
            count /= 2;
        }
    }

    /// Line through the middles of the columns, interrupted where nothing was probed for long.
    fn line(&self, m: &Material, value: impl Fn(&Stretch) -> Option<f64>) -> Points {
        let width = m.length_ns() as f64 / 1e9 / self.0.len() as f64;
        let mut points = Points::new();
        let mut last = None;
        for (i, stretch) in self.0.iter().enumerate() {
            let Some(stretch) = stretch else { continue };
            let x = (i as f64 + 0.5) * width;
            if last.is_some_and(|last| i - last > GAP) {
                points.push((x - width / 2.0, None));
            }
            points.push((x, value(stretch)));
            last = Some(i);
        }
        points
    }

    fn most(&self, value: impl Fn(&Stretch) -> Option<f64>) -> f64 {
        let values = self.0.iter().flatten().filter_map(value);
        values.fold(0.0, f64::max)
    }
}

fn median(s: &Stretch) -> Option<f64> {
    s.delays.quantile_ms(0.5)
}

fn lost(s: &Stretch) -> Option<f64> {
    s.loss().map(|share| share * 100.0)
}

/// Makes the plot of all materials that have probes, which share one scope.
///
/// # Errors
/// No probes, or too many targets to be told apart.
pub fn plot(all: &[(String, &Material)]) -> Result<PlotSpec, String> {
    let all: Vec<_> = all.iter().filter(|(_, m)| m.has_delays()).collect();
    let Some((_, first)) = all.first() else {
        return Err("there are no probes".into());
    };
    if all.len() > MOST {
        return Err(format!(
            "{} targets are too many for one plot of {MOST}: name fewer recordings",
            all.len()
        ));
    }
    let columns: Vec<Columns> = all.iter().map(|(_, m)| Columns::of(m)).collect();
    let most = |value: fn(&Stretch) -> Option<f64>| {
        columns.iter().map(|c| c.most(value)).fold(0.0, f64::max)
    };
    let lines = |value: fn(&Stretch) -> Option<f64>, named: bool| {
        let each = all.iter().zip(&columns).enumerate();
        let line = each.map(|(i, ((name, m), columns))| {
            let dashes = match i / COLOURS {
                0 => String::new(),
                n => format!(" d{n}"),
            };
            let class = format!("fine s{}{dashes}", i % COLOURS);
            let name = if named { name.as_str() } else { "" };
            Series::new(name, class, Shape::Line(columns.line(m, value)))
        });
        line.collect()
    };
    let mut panels = vec![Panel {
        y: Axis::even(
            "Median round-trip time, ms",
            0.0,
            nice_top(most(median) * 1.05),
        ),
        height: 220.0,
        series: lines(median, true),
        ..Panel::default()
    }];
    if most(lost) > 0.0 {
        panels.push(Panel {
            y: Axis::even("Lost, %", 0.0, nice_top(most(lost)).min(100.0)),
            height: 84.0,
            series: lines(lost, false),
            ..Panel::default()
        });
    }
    Ok(PlotSpec {
        title: format!("Round trips of {} targets", all.len()),
        x: time_axis(first),
        panels,
        moments: first.moments.clone(),
        ..PlotSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::*;
    use base::record::Status;

    /// Two hosts of 20 and 300 ms, and one that loses half of its probes in the second half of the time.
    #[test]
    fn each_host_has_its_median_and_its_losses() {
        let scope = Scope {
            from_ns: 0,
            to_ns: 4_000_000_000_000,
            zone: jiff::tz::TimeZone::UTC,
        };
        let host = |ms: i64, loses: bool| {
            let mut m = Material::new(scope.clone(), "");
            for i in 0..40_000 {
                let lost = loses && i >= 20_000 && i % 2 == 0;
                let status = if lost { Status::Lost } else { Status::Ok };
                m.probe(i * 100_000_000, (!lost).then_some(ms * 1_000_000), status);
            }
            m
        };
        let all = [host(20, false), host(300, true), host(50, false)];
        let named: Vec<(String, &Material)> = ["near", "far", "third"]
            .into_iter()
            .map(str::to_owned)
            .zip(&all)
            .collect();
        let spec = plot(&named).unwrap();
        let points = |panel: usize, i: usize| match &spec.panels[panel].series[i].shape {
            Shape::Line(points) => points.clone(),
            other => panic!("{other:?}"),
        };
        for (i, ms) in [20.0, 300.0, 50.0].into_iter().enumerate() {
            let line = points(0, i);
            assert!(line.len() > 100, "{}", line.len());
            let near = |p: &(f64, Option<f64>)| p.1.is_some_and(|v| (v / ms - 1.0).abs() < 0.003);
            assert!(line.iter().all(near), "{line:?}");
        }
        for (x, lost) in points(1, 1) {
            let expected = if x < 1990.0 { 0.0 } else { 50.0 };
            let between = (1990.0..2010.0).contains(&x);
            assert!(between || lost == Some(expected), "{x} {lost:?}");
        }
        assert!(points(1, 0).iter().all(|p| p.1 == Some(0.0)));
        let names: Vec<&str> = spec.panels[0].series.iter().map(|s| &*s.name).collect();
        assert_eq!(names, ["near", "far", "third"]);
        let many: Vec<_> = (0..19).map(|i| (i.to_string(), &all[0])).collect();
        assert!(plot(&many).unwrap_err().contains("too many"));
        assert!(plot(&[]).unwrap_err().contains("no probes"));
    }
}
