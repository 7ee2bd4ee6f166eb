//! Redundant uplinks: the probability that at least one of several links works.
//!
//! **Method.** Only time counts in which every link was probed and none was excluded. Availability is exact in time: it
//! lacks the time in which all links were in outage at once. For reliability, each probe of the least probed link is
//! set beside the nearest probe of every other link, at most half an interval away; the message is in time if one of
//! them is. *If independent* is the product of the links' own shares, as if their failures had nothing in common. A
//! smaller share than that shows that they share a cable, a provider, or the host.
//!
//! **Source.** Borlaug 2014, sections 3.4.3 and 6.3.4: five nines from two cellular providers.
//!
//! **Limits.** Outages shorter than each recording's shortest hole do not count against availability; reliability has them.

use crate::statistics::{TargetStatistics, share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Combined figures of redundant uplinks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Names of the links.
    pub links: Vec<String>,
    /// Begin of the common time, UNIX ns.
    pub from_ns: i64,
    /// End of the common time, UNIX ns.
    pub to_ns: i64,
    /// Time in which all links were probed.
    pub seconds: f64,
    /// Number of probes that were set beside each other.
    pub compared: u64,
    /// Share of the time outside outages.
    pub availability: Beside,
    /// Share of the messages within each limit.
    pub reliability: Vec<Within>,
    /// Outages of all links at once.
    pub outages: Vec<(i64, i64)>,
}

/// Figures of each link, and of all together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Figure of each link.
    pub each: Vec<Figure>,
    /// Figure of all links together.
    pub together: Figure,
    /// Combined figure if the links' failures were independent.
    pub if_independent: Figure,
}

/// Shares within one limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Within {
    /// Limit of the round trip, ms.
    pub limit_ms: f64,
    /// Share of each link, and of all together.
    #[serde(flatten)]
    pub shares: Beside,
}

/// Probes of one link: send time of each judged one, and the number of the ascending limits that it missed.
pub struct Link<'a> {
    /// Name of the link.
    pub name: String,
    /// Statistics of its target.
    pub statistics: &'a TargetStatistics,
    /// Due time of each judged probe, and the limits that it missed.
    pub probes: Vec<(i64, u8)>,
}

/// Reason why there are no combined figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TogetherError {
    #[error("two links are needed, and there is {0}")]
    TooFew(usize),
    #[error(
        "the links were never probed at the same time: how they fail together takes recordings of the same days"
    )]
    Apart,
}

type Spans = Vec<(i64, i64)>;

/// Intersection of two lists of spans, each ascending and without overlap.
fn both(a: &[(i64, i64)], b: &[(i64, i64)]) -> Spans {
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (from, to) = (a[i].0.max(b[j].0), a[i].1.min(b[j].1));
        if from < to {
            found.push((from, to));
        }
        if a[i].1 <= b[j].1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

fn length(spans: &[(i64, i64)]) -> i64 {
    spans.iter().map(|(a, b)| b - a).sum()
}

/// Times at which a link was probed: all of its time without its gaps.
fn probed(t: &TargetStatistics) -> Spans {
    let interval = (t.interval_ms * 1e6) as i64;
    let mut spans = Vec::new();
    let mut from = t.whole.from_ns;
    for g in &t.gaps {
        spans.push((from, g.from_ns.saturating_add(interval)));
        from = g.to_ns;
    }
    spans.push((from, t.whole.to_ns));
    spans
}

fn outages(t: &TargetStatistics) -> Spans {
    t.outages.iter().map(|o| (o.from_ns, o.to_ns)).collect()
}

/// Combined share of independent links: 1 less the product of their complements.
fn independent(each: &[Figure]) -> Figure {
    each.iter()
        .map(Figure::value)
        .try_fold(1.0, |lack, share| Some(lack * (1.0 - share?)))
        .map_or_else(
            || Figure::cannot_tell("one of the links has no such figure"),
            |lack| Figure::exactly(1.0 - lack),
        )
}

/// Number of blocks of compared probes that show the correlation of neighbours.
const BLOCKS: usize = 480;

/// # Errors
/// If there are not two links, or no time that they share.
pub fn together(mut links: Vec<Link>, limits_ns: &[i64]) -> Result<Together, TogetherError> {
    if links.len() < 2 {
        return Err(TogetherError::TooFew(links.len()));
    }
    let common = links
        .iter()
        .map(|l| probed(l.statistics))
        .reduce(|a, b| both(&a, &b))
        .unwrap_or_default();
    let time = length(&common);
    let (Some(first), Some(last)) = (common.first(), common.last()) else {
        return Err(TogetherError::Apart);
    };
    let (from_ns, to_ns) = (first.0, last.1);
    let out: Vec<Spans> = links
        .iter()
        .map(|l| both(&outages(l.statistics), &common))
        .collect();
    let all_out = out
        .iter()
        .cloned()
        .reduce(|a, b| both(&a, &b))
        .unwrap_or_default();
    let up = |spans: &[(i64, i64)]| Figure::exactly(1.0 - length(spans) as f64 / time as f64);
    let each: Vec<Figure> = out.iter().map(|o| up(o)).collect();
    for l in &mut links {
        if !l.probes.is_sorted() {
            l.probes.sort_unstable();
        }
    }
    let missed = side_by_side(&links, &common);
    if missed.is_empty() {
        return Err(TogetherError::Apart);
    }
    let width = links.len();
    let within = |(i, limit): (usize, &i64)| Within {
        limit_ms: *limit as f64 / 1e6,
        shares: in_time(&missed, width, i),
    };
    Ok(Together {
        from_ns,
        to_ns,
        seconds: time as f64 / 1e9,
        compared: (missed.len() / width) as u64,
        availability: Beside {
            together: up(&all_out),
            if_independent: independent(&each),
            each,
        },
        reliability: limits_ns.iter().enumerate().map(within).collect(),
        outages: all_out,
        links: links.iter().map(|l| l.name.clone()).collect(),
    })
}

/// Shares of probes answered within the limit of number `limit`: of each of `width` links, and of the best of them.
fn in_time(missed: &[u8], width: usize, limit: usize) -> Beside {
    let block = (missed.len() / width).div_ceil(BLOCKS) * width;
    let answered = |of: &dyn Fn(&[u8]) -> u8| {
        let blocks: Vec<(u64, u64)> = missed
            .chunks(block)
            .map(|rows| {
                let yes = rows
                    .chunks(width)
                    .filter(|row| usize::from(of(row)) <= limit);
                (yes.count() as u64, (rows.len() / width) as u64)
            })
            .collect();
        share(&blocks)
    };
    let each: Vec<Figure> = (0..width).map(|l| answered(&|row| row[l])).collect();
    Beside {
        if_independent: independent(&each),
        together: answered(&|row| row.iter().copied().min().unwrap_or(u8::MAX)),
        each,
    }
}

/// Number of limits that each link missed at each probe of the least probed link, one link after the other.
fn side_by_side(links: &[Link], common: &[(i64, i64)]) -> Vec<u8> {
    let interval = |l: &Link| l.statistics.interval_ms;
    let Some(rare) =
        (0..links.len()).max_by(|a, b| interval(&links[*a]).total_cmp(&interval(&links[*b])))
    else {
        return Vec::new();
    };
    let reach = (interval(&links[rare]) * 1e6 / 2.0).ceil() as i64;
    let mut at = vec![0usize; links.len()];
    let mut span = 0;
    let mut rows = Vec::new();
    for (t, missed) in &links[rare].probes {
        while span < common.len() && common[span].1 <= *t {
            span += 1;
        }
        if span == common.len() || *t < common[span].0 {
            continue;
        }
        let complete = rows.len();
        for (l, at) in at.iter_mut().enumerate() {
            if l == rare {
                rows.push(*missed);
                continue;
            }
            let probes = &links[l].probes;
            while *at + 1 < probes.len()
                && (probes[*at + 1].0 - t).abs() <= (probes[*at].0 - t).abs()
            {
                *at += 1;
            }
            match probes.get(*at) {
                Some((sent, missed)) if (sent - t).abs() <= reach => rows.push(*missed),
                _ => {
                    rows.truncate(complete);
                    break;
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Cuts, Outline, Plan, Probe, Series};
    use crate::survey::{Request, target};
    use base::record::Status;

    const S: i64 = 1_000_000_000;

    /// A probe each `every` from `begin` for a thousand seconds; those sent in `out` are lost.
    fn link(name: &str, begin: i64, every: i64, out: std::ops::Range<i64>) -> (String, Series) {
        let times: Vec<i64> = (0..1000 * S / every).map(|i| begin + i * every).collect();
        let mut outline = Outline::default();
        times.iter().for_each(|t| outline.add(*t));
        let cuts = Cuts {
            days: vec![0],
            ..Cuts::default()
        };
        let mut s = Series::new(Plan::new(&outline, cuts).unwrap());
        for t in times {
            let lost = out.contains(&(t / S));
            s.add(Probe {
                sent_ns: t,
                rtt_ns: (!lost).then_some(20_000_000),
                status: if lost { Status::Lost } else { Status::Ok },
            });
        }
        s.finish(1);
        (name.into(), s)
    }

    fn of(
        links: &[(String, Series)],
        out: &[std::ops::Range<i64>],
    ) -> Result<Together, TogetherError> {
        let all: Vec<TargetStatistics> = links
            .iter()
            .map(|(name, s)| target(name, s, &Request::default()))
            .collect();
        let links = links
            .iter()
            .zip(&all)
            .zip(out)
            .map(|(((name, s), t), out)| Link {
                name: name.clone(),
                statistics: t,
                probes: (s.plan.from_ns..s.plan.to_ns)
                    .step_by(s.plan.interval_ns as usize)
                    .map(|at| (at, u8::from(out.contains(&(at / S)))))
                    .collect(),
            });
        together(links.collect(), &[100_000_000])
    }

    #[test]
    fn only_what_both_lack_is_missing() {
        // Sent at other times, and not equally often.
        let out = [100..200, 150..250];
        let links = [
            link("adsl", 0, S / 10, out[0].clone()),
            link("lte", S / 20, S / 5, out[1].clone()),
        ];
        let t = of(&links, &out).unwrap();
        let near = |f: &Figure, v: f64| (f.value().unwrap() - v).abs() < 0.001;
        assert!(near(&t.availability.each[0], 0.9) && near(&t.availability.each[1], 0.9));
        assert!(near(&t.availability.together, 0.95), "{t:?}");
        assert!(near(&t.availability.if_independent, 0.99));
        assert_eq!(t.outages.len(), 1);
        assert_eq!(
            (t.outages[0].0 / S, (t.outages[0].1 + S / 2) / S),
            (150, 200)
        );
        assert_eq!(t.compared, 5000);
        assert!(near(&t.reliability[0].shares.together, 0.95), "{t:?}");
        assert!(near(&t.reliability[0].shares.each[1], 0.9), "{t:?}");
    }

    #[test]
    fn links_that_were_never_probed_at_once_say_nothing_together() {
        let out = [100..200, 1150..1250];
        let links = [
            link("a", 0, S, out[0].clone()),
            link("b", 1000 * S, S, out[1].clone()),
        ];
        assert_eq!(of(&links, &out), Err(TogetherError::Apart));
        assert_eq!(of(&links[..1], &out), Err(TogetherError::TooFew(1)));
    }
}
