//! End of a monitor's recording that is not closed: the probes whose fate is known although they have no row yet.
//!
//! **Method.** A monitor writes the row of an answered probe at once, and that of an unanswered one minutes later, since
//! an answer may still come late. Numbers of probes have no gaps, so a number without a row belongs to a probe that is
//! unanswered, and so does one between the begin of a run and its first row. It is lost once the time for loss is over.
//! Time ends at the latest row of any table: the interface is read ten times a second, so neither a clock nor a running
//! monitor is needed.
//!
//! **Limits.** The fate of the latest probes is open. They are left out, answered or not: the answered ones alone would
//! hide every loss.

use crate::scan::{self, Source};
use base::Duration;
use base::record::{Meta, Row, TableId, Text};
use experiment::monitor::MonitorPlan;
use std::collections::BTreeMap;

/// Time for rows on their way from the monitor to the disk.
const ON_THE_WAY: Duration = Duration::from_secs(2);
/// Time by which the row of an unanswered probe may be later than planned.
const SLACK: Duration = Duration::from_secs(10);

/// Probe that is lost, and has no row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Missing {
    pub(crate) target: Text,
    pub(crate) seq: i64,
    pub(crate) sent_ns: i64,
}

/// End of a recording that is not closed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unsettled {
    /// Begin and end of the time whose probes have no known fate; none if the recording is closed.
    pub(crate) open: Option<(i64, i64)>,
    /// True if the recording is so young that nothing else would be left: then its answered probes count.
    pub(crate) is_young: bool,
    /// Lost probes before that time without a row.
    pub(crate) lost: Vec<Missing>,
}

/// Send time of each probe with a row, by target and number.
type Rows = BTreeMap<Text, BTreeMap<i64, i64>>;

impl Unsettled {
    /// Finds the unsettled end of a recording.
    pub(crate) fn of(from: Source<'_>) -> anyhow::Result<Unsettled> {
        let meta = scan::meta(from)?;
        match plan(&meta) {
            Some(plan) => Unsettled::of_monitor(from, &meta, &plan),
            None => Ok(Unsettled::default()),
        }
    }

    fn of_monitor(from: Source<'_>, meta: &Meta, plan: &MonitorPlan) -> anyhow::Result<Unsettled> {
        let mut last = None;
        for table in [TableId::Delay, TableId::Traffic, TableId::HostLoad] {
            last = last.max(latest(from, table)?);
        }
        let Some(last) = last else {
            return Ok(Unsettled::default());
        };
        let ns = |d: Duration| d.as_nanos().cast_signed();
        let settled = last - ns(plan.lost_after) - ns(ON_THE_WAY);
        let awaited = last - ns(plan.kept_for) - ns(SLACK);
        let mut rows = rows_since(from, awaited)?;
        add_begins(from, awaited, plan, &mut rows)?;
        Ok(Unsettled {
            open: Some((settled, last + 1)),
            is_young: meta.started_ns >= settled,
            lost: lost(rows, plan, settled),
        })
    }

    /// True if a probe counts: its fate is known, or it is answered and nothing else is left.
    pub(crate) fn counts(&self, sent_ns: i64) -> bool {
        self.is_young || self.open.is_none_or(|(from, _)| sent_ns < from)
    }
}

/// Plan of a monitor whose recording is not closed.
fn plan(meta: &Meta) -> Option<MonitorPlan> {
    let is_open = meta.verb == "monitor" && !meta.complete;
    // A plan of another version cannot be read: then nothing is known but the rows.
    is_open.then(|| serde_json::from_value(meta.plan.clone()).ok())?
}

/// Time of the latest row of a table.
fn latest(from: Source<'_>, table: TableId) -> anyhow::Result<Option<i64>> {
    let column = match table {
        TableId::Delay => "sent_ns",
        _ => "t_ns",
    };
    let mut last = None;
    scan::scan_last_day(from, table, &[column], &mut |rows| {
        let t = rows.ints(column);
        last = (0..rows.len()).filter_map(|i| t.get(i)).max().max(last);
    })?;
    Ok(last)
}

/// Rows of the probes sent since a time.
fn rows_since(from: Source<'_>, since_ns: i64) -> anyhow::Result<Rows> {
    let mut found = Rows::new();
    let mut words: Vec<Text> = Vec::new();
    let columns = ["seq", "sent_ns", "target"];
    scan::scan_since(from, TableId::Delay, &columns, since_ns, &mut |rows| {
        let Some(targets) = rows.words("target", &mut words) else {
            return;
        };
        let (seq, sent) = (rows.ints("seq"), rows.ints("sent_ns"));
        for (i, target) in targets.iter().enumerate() {
            if let (Some(seq), Some(sent)) = (seq.get(i), sent.get(i))
                && sent >= since_ns
            {
                let name = &words[*target as usize];
                match found.get_mut(name) {
                    Some(rows) => drop(rows.insert(seq, sent)),
                    None => drop(found.insert(name.clone(), BTreeMap::from([(seq, sent)]))),
                }
            }
        }
    })?;
    Ok(found)
}

/// Adds the begin of a run since a time as a row before its first probe: probes before the first answer are lost, too.
fn add_begins(
    from: Source<'_>,
    since_ns: i64,
    plan: &MonitorPlan,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    scan::each_row(from, TableId::Event, &mut |row| {
        let Row::Event(e) = row else { return };
        if &*e.kind != "target" || e.t_ns < since_ns {
            return;
        }
        let detail: serde_json::Value = serde_json::from_str(&e.detail).unwrap_or_default();
        if let (Some(first), Some(interval)) =
            (detail["first_seq"].as_i64(), interval(plan, &e.subject))
        {
            let rows = rows.entry(e.subject.clone()).or_default();
            rows.insert(first - 1, e.t_ns - interval);
        }
    })?;
    Ok(())
}

/// Interval of a target's probes, ns.
fn interval(plan: &MonitorPlan, target: &str) -> Option<i64> {
    let found = plan.targets.iter().find(|t| t.name() == target)?;
    Some(found.interval.as_nanos().cast_signed()).filter(|ns| *ns > 0)
}

/// Lost probes without a row: the missing numbers between rows, and those due after the last row.
fn lost(rows: Rows, plan: &MonitorPlan, settled: i64) -> Vec<Missing> {
    let mut all = Vec::new();
    for (target, rows) in rows {
        let mut add = |seq: i64, sent_ns: i64| {
            if sent_ns < settled {
                let target = target.clone();
                all.push(Missing {
                    target,
                    seq,
                    sent_ns,
                });
            }
        };
        for ((a, from), (b, to)) in rows.iter().zip(rows.iter().skip(1)) {
            let step = (to - from) / (b - a).max(1);
            (1..b - a).for_each(|n| add(a + n, from + n * step));
        }
        if let (Some((seq, sent)), Some(interval)) =
            (rows.last_key_value(), interval(plan, &target))
        {
            let due = (settled - sent - 1).max(0) / interval;
            (1..=due).for_each(|n| add(seq + n, sent + n * interval));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Shared;
    use base::record::{Event, HostLoad};
    use experiment::monitor::Target;

    const MS: i64 = 1_000_000;

    fn plan() -> MonitorPlan {
        let target = Target::parse("icmp:192.0.2.1", Duration::from_millis(100)).expect("a target");
        MonitorPlan {
            targets: vec![target],
            ..MonitorPlan::default()
        }
    }

    /// Numbers that are lost, of the numbers with a row, at ten probes a second.
    fn numbers(rows: impl Iterator<Item = i64>, settled_ms: i64) -> Vec<i64> {
        let rows = rows.map(|seq| (seq, seq * 100 * MS)).collect();
        let rows = Rows::from([("icmp:192.0.2.1".into(), rows)]);
        let found = lost(rows, &plan(), settled_ms * MS);
        assert!(found.iter().all(|m| m.sent_ns == m.seq * 100 * MS));
        found.into_iter().map(|m| m.seq).collect()
    }

    #[test]
    fn missing_numbers_are_lost_once_the_time_for_loss_is_over() {
        let hole = || (0..50).filter(|n| !(20..30).contains(n));
        assert_eq!(numbers(hole(), 5_000), (20..30).collect::<Vec<_>>());
        assert_eq!(numbers(hole(), 2_500), (20..25).collect::<Vec<_>>());
        assert_eq!(numbers(hole(), 2_000), [0i64; 0]);
    }

    #[test]
    fn probes_due_after_the_last_row_are_lost() {
        assert_eq!(numbers(0..50, 6_000), (50..60).collect::<Vec<_>>());
        assert_eq!(numbers(0..50, 4_000), [0i64; 0]);
    }

    /// Its rows come three minutes late, so a target that was out from the begin was not in the report at all.
    #[test]
    fn a_target_that_never_answered_is_lost_from_its_first_probe() {
        let dir = testkit::TempDir::new("unsettled");
        let begin = 1_700_000_000_000 * MS;
        let meta = Meta {
            verb: "monitor".into(),
            plan: serde_json::to_value(plan()).expect("a plan"),
            started_ns: begin,
            ..Meta::default()
        };
        let mut writer = store::Writer::create(dir.join("m.rec"), meta).expect("a recording");
        let event = Event {
            t_ns: begin,
            kind: "target".into(),
            subject: "icmp:192.0.2.1".into(),
            detail: "{\"first_seq\":0}".into(),
        };
        writer.write(Row::Event(event)).expect("a row");
        for second in 0..60 {
            let t_ns = begin + second * 1_000 * MS;
            let load = HostLoad::busy(t_ns, None);
            writer.write(Row::HostLoad(load)).expect("a row");
        }
        writer.flush().expect("saved");
        let mut nobody = ();
        let observer = Shared::new(&mut nobody);
        let path = &dir.join("m.rec");
        let from = Source {
            path,
            observer: &observer,
        };
        let found = Unsettled::of(from).expect("it is read");
        // The last row is of 59 s; the time for loss is 10 s, and 2 s are for rows on their way.
        assert_eq!(
            found.open,
            Some((begin + 47_000 * MS, begin + 59_000 * MS + 1))
        );
        let numbers: Vec<i64> = found.lost.iter().map(|m| m.seq).collect();
        assert_eq!(numbers, (0..470).collect::<Vec<_>>());
        assert!(!found.is_young && found.counts(begin) && !found.counts(begin + 47_000 * MS));
    }

    #[test]
    fn rows_may_come_in_any_order_and_twice() {
        assert_eq!(numbers([5, 0, 1, 1, 4, 2].into_iter(), 600), [3]);
    }
}
