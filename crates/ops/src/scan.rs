//! Input for plots and statistics of a recording, read by column: there are millions of rows.

use crate::progress::Observer;
use crate::unsettled::Unsettled;
use analysis::moments::{self, MOMENT, Moment};
use base::record::{Direction, Distribution, Meta, Recording, Status, TableId, Text};
use report::plots::{Interval, Material};
use std::collections::BTreeMap;
use std::path::Path;
use store::{Columns, StoreError};

/// Recording to read, and the observer who is told of its damage.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a Path,
    pub(crate) observer: &'a dyn Observer,
}

impl Source<'_> {
    /// Path of the recording for a message.
    pub(crate) fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

/// Scans columns as `store::scan` does; reports the losses of each file once.
pub(crate) fn scan(
    from: Source<'_>,
    table: TableId,
    columns: &[&str],
    each: &mut dyn FnMut(&Columns<'_>),
) -> Result<(), StoreError> {
    store::scan(from.path, table, columns, each).map(|notes| from.observer.recovered(notes))
}

/// Scans the files of some days, such as `2026-11-21`; reports the losses of each file once.
fn scan_days(
    from: Source<'_>,
    table: TableId,
    columns: &[&str],
    wanted: &dyn Fn(&str) -> bool,
    each: &mut dyn FnMut(&Columns<'_>),
) -> Result<(), StoreError> {
    let scanned = store::scan_days(from.path, table, columns, wanted, each);
    scanned.map(|notes| from.observer.recovered(notes))
}

/// Scans the files that may hold rows since a time.
pub(crate) fn scan_since(
    from: Source<'_>,
    table: TableId,
    columns: &[&str],
    since_ns: i64,
    each: &mut dyn FnMut(&Columns<'_>),
) -> anyhow::Result<()> {
    scan_between(from, table, columns, (since_ns, i64::MAX), each)
}

/// Scans the files that may hold rows from a time to another; `i64::MIN` and `i64::MAX` are no bounds.
fn scan_between(
    from: Source<'_>,
    table: TableId,
    columns: &[&str],
    span: (i64, i64),
    each: &mut dyn FnMut(&Columns<'_>),
) -> anyhow::Result<()> {
    // Files are named by days of the recording's own zone.
    const DAY_NS: i64 = 86_400_000_000_000;
    let day = |t_ns: i64| -> anyhow::Result<String> {
        let t = jiff::Timestamp::from_nanosecond(i128::from(t_ns))?;
        Ok(t.to_zoned(jiff::tz::TimeZone::UTC).date().to_string())
    };
    let bound = |t_ns: i64, open: i64, by_ns: i64| match t_ns == open {
        true => Ok(None),
        false => day(t_ns.saturating_add(by_ns)).map(Some),
    };
    let first = bound(span.0, i64::MIN, -DAY_NS)?;
    let last = bound(span.1, i64::MAX, DAY_NS)?;
    let wanted = |name: &str| {
        first.as_deref().is_none_or(|first| first <= name)
            && last.as_deref().is_none_or(|last| name <= last)
    };
    Ok(scan_days(from, table, columns, &wanted, each)?)
}

/// Scans the files of the recording's last day.
pub(crate) fn scan_last_day(
    from: Source<'_>,
    table: TableId,
    columns: &[&str],
    each: &mut dyn FnMut(&Columns<'_>),
) -> anyhow::Result<()> {
    let files = store::files(from.path)?;
    let last_day = files.iter().map(|f| f.day().to_owned()).max();
    let is_last = |name: &str| Some(name) == last_day.as_deref();
    Ok(scan_days(from, table, columns, &is_last, each)?)
}

/// Reads the moments that the user marked, in the order of time.
pub(crate) fn moments(from: Source<'_>) -> Result<Vec<Moment>, StoreError> {
    let mut events = Vec::new();
    each_row(from, TableId::Event, &mut |row| {
        if let base::record::Row::Event(e) = row
            && *e.kind == *MOMENT
        {
            events.push(e);
        }
    })?;
    Ok(moments::moments(&events))
}

/// Reads rows as `store::each_row` does; reports the losses of each file once.
pub(crate) fn each_row(
    from: Source<'_>,
    table: TableId,
    each: &mut dyn FnMut(base::record::Row),
) -> Result<(), StoreError> {
    store::each_row(from.path, table, each).map(|notes| from.observer.recovered(notes))
}

/// Reads the facts as `store::read_meta` does; damaged facts are reported and replaced by empty ones.
pub(crate) fn meta(from: Source<'_>) -> Result<Meta, StoreError> {
    let mut notes = Vec::new();
    let meta = store::read_meta_noting(from.path, &mut notes)?;
    from.observer.recovered(notes);
    Ok(meta)
}

/// Reads the recording as `store::read_noting` does.
pub(crate) fn whole(from: Source<'_>) -> Result<Recording, StoreError> {
    let (recording, notes) = store::read_noting(from.path)?;
    from.observer.recovered(notes);
    Ok(recording)
}

/// Contents of a recording.
#[derive(Default)]
pub(crate) struct Contents {
    /// Time range of probes and traffic.
    pub span: Option<(i64, i64)>,
    /// Probes by target.
    pub targets: BTreeMap<Text, f64>,
    /// Bytes by interface.
    pub interfaces: BTreeMap<Text, f64>,
}

impl Contents {
    pub(crate) fn of(from: Source<'_>) -> anyhow::Result<Contents> {
        let mut seen = Contents::default();
        let mut words: Vec<Text> = Vec::new();
        scan(from, TableId::Delay, &["sent_ns", "target"], &mut |rows| {
            let Some(targets) = rows.words("target", &mut words) else {
                return;
            };
            let sent = rows.ints("sent_ns");
            let mut counts = vec![0u64; words.len()];
            for (i, t) in targets.iter().enumerate() {
                counts[*t as usize] += 1;
                seen.widen(sent.get(i));
            }
            for (word, n) in words.iter().zip(counts).filter(|(_, n)| *n > 0) {
                *seen.targets.entry(word.clone()).or_default() += n as f64;
            }
        })?;
        let columns = ["t_ns", "interval_ns", "target", "sent_packets"];
        scan(from, TableId::Distribution, &columns, &mut |rows| {
            let Some(targets) = rows.words("target", &mut words) else {
                return;
            };
            let (t, length, sent) = (
                rows.ints("t_ns"),
                rows.ints("interval_ns"),
                rows.ints("sent_packets"),
            );
            for (i, target) in targets.iter().enumerate() {
                let word = words[*target as usize].clone();
                *seen.targets.entry(word).or_default() += sent.get(i).unwrap_or_default() as f64;
                seen.widen(t.get(i));
                seen.widen(
                    t.get(i)
                        .zip(length.get(i))
                        .map(|(t, l)| t.saturating_add(l - 1)),
                );
            }
        })?;
        let columns = ["t_ns", "interval_ns", "interface", "rx_bytes", "tx_bytes"];
        scan(from, TableId::Traffic, &columns, &mut |rows| {
            let Some(names) = rows.words("interface", &mut words) else {
                return;
            };
            let (t, length) = (rows.ints("t_ns"), rows.ints("interval_ns"));
            let (rx, tx) = (rows.ints("rx_bytes"), rows.ints("tx_bytes"));
            for (i, name) in names.iter().enumerate() {
                let bytes = rx.get(i).unwrap_or_default() + tx.get(i).unwrap_or_default();
                *seen
                    .interfaces
                    .entry(words[*name as usize].clone())
                    .or_default() += bytes as f64;
                seen.widen(t.get(i));
                seen.widen(
                    t.get(i)
                        .zip(length.get(i))
                        .map(|(t, l)| t.saturating_sub(l)),
                );
            }
        })?;
        scan(from, TableId::Flow, &["t_ns"], &mut |rows| {
            let t = rows.ints("t_ns");
            (0..rows.len()).for_each(|i| seen.widen(t.get(i)));
        })?;
        Ok(seen)
    }

    fn widen(&mut self, t_ns: Option<i64>) {
        if let Some(t) = t_ns {
            let (first, last) = self.span.unwrap_or((t, t));
            self.span = Some((first.min(t), last.max(t)));
        }
    }
}

/// Hands every row that the plots need to the material of its target. Traffic belongs to the first.
pub(crate) fn fill(
    from: Source<'_>,
    all: &mut [Material],
    interface: Option<&str>,
) -> anyhow::Result<()> {
    let mut last = 0;
    probes(from, |name, sent_ns, rtt_ns, status| {
        let is_mine = |m: &Material| *m.target == **name;
        if !all.get(last).is_some_and(is_mine) {
            match all.iter().position(is_mine) {
                Some(at) => last = at,
                None => return,
            }
        }
        all[last].probe(sent_ns, rtt_ns, status);
    })?;
    let mut unread = None;
    thinned(from, &mut |row| {
        let mine = all.iter_mut().find(|m| *m.target == *row.target);
        if let Some(m) = mine
            && let Err(e) = m.distribution(&row)
        {
            unread = Some(unreadable(from, &row, &e.to_string()));
        }
    })?;
    if let Some(why) = unread {
        anyhow::bail!(why);
    }
    let marked = moments(from)?;
    all.iter_mut().for_each(|m| m.mark(&marked));
    let Some(m) = all.first_mut() else {
        return Ok(());
    };
    traffic(from, interface, &mut |t, length, rx, tx| {
        m.traffic(t, length, rx, tx)
    })?;
    each_row(from, TableId::HostLoad, &mut |row| {
        if let base::record::Row::HostLoad(row) = row {
            m.host_load(&row);
        }
    })?;
    each_row(from, TableId::Modem, &mut |row| {
        if let base::record::Row::Modem(row) = row {
            m.modem(row);
        }
    })?;
    each_row(from, TableId::Radio, &mut |row| {
        if let base::record::Row::Radio(row) = row {
            m.radio(&row);
        }
    })?;
    availability(from, m, interface)
}

/// Availability rows of the drawn interface; without one, of the interface that the monitor noted first.
fn availability(from: Source<'_>, m: &mut Material, interface: Option<&str>) -> anyhow::Result<()> {
    let mut words: Vec<Text> = Vec::new();
    let mut chosen = interface.map(Text::from);
    let columns = [
        "t_ns",
        "interval_ns",
        "interface",
        "up",
        "address",
        "reachable",
    ];
    scan(from, TableId::Availability, &columns, &mut |rows| {
        let Some(names) = rows.words("interface", &mut words) else {
            return;
        };
        let (t, length) = (rows.ints("t_ns"), rows.ints("interval_ns"));
        let flags = ["up", "address", "reachable"].map(|name| rows.flags(name));
        for (i, name) in names.iter().enumerate() {
            let name = &words[*name as usize];
            let (Some(t), Some(length)) = (t.get(i), length.get(i)) else {
                continue;
            };
            if *chosen.get_or_insert_with(|| name.clone()) == *name {
                // Where nothing was asked, nothing is known to have failed.
                let seen = Interval {
                    successful: flags.iter().all(|f| f[i] != Some(false)),
                    asked: flags[2][i].is_some(),
                };
                m.interval(name, t, length, seen);
            }
        }
    })?;
    Ok(())
}

/// Hands every probe with a known fate to `take`: target, send time, delay and fate.
pub(crate) fn probes(
    from: Source<'_>,
    take: impl FnMut(&Text, i64, Option<i64>, Status),
) -> anyhow::Result<()> {
    probes_about(from, (i64::MIN, i64::MAX), take)
}

/// Does the same for the days of a time range and those beside them.
pub(crate) fn probes_about(
    from: Source<'_>,
    span: (i64, i64),
    mut take: impl FnMut(&Text, i64, Option<i64>, Status),
) -> anyhow::Result<()> {
    let unsettled = Unsettled::of(from)?;
    let mut words: Vec<Text> = Vec::new();
    let columns = ["sent_ns", "rtt_ns", "target", "status"];
    scan_between(from, TableId::Delay, &columns, span, &mut |rows| {
        let (sent, rtt) = (rows.ints("sent_ns"), rows.ints("rtt_ns"));
        let (Some(targets), Some(states)) = (
            rows.words("target", &mut words),
            rows.words("status", &mut words),
        ) else {
            return;
        };
        let status: Vec<Option<Status>> = words
            .iter()
            .map(|w| Status::ALL.iter().copied().find(|s| s.word() == &**w))
            .collect();
        for i in 0..rows.len() {
            if let (Some(sent), Some(status)) = (sent.get(i), status[states[i] as usize])
                && unsettled.counts(sent)
            {
                take(&words[targets[i] as usize], sent, rtt.get(i), status);
            }
        }
    })?;
    for m in &unsettled.lost {
        take(&m.target, m.sent_ns, None, Status::Lost);
    }
    Ok(())
}

pub(crate) fn unreadable(from: Source<'_>, row: &Distribution, why: &str) -> String {
    format!(
        "{}: the row of distribution at {} ns: {why}",
        from.display(),
        row.t_ns
    )
}

/// Hands the intervals whose probes were thinned to `take`.
pub(crate) fn thinned(from: Source<'_>, take: &mut dyn FnMut(Distribution)) -> anyhow::Result<()> {
    let mut words: Vec<Text> = Vec::new();
    let spec = TableId::Distribution.spec();
    let columns: Vec<&str> = spec.columns.iter().map(|c| c.name).collect();
    scan(from, TableId::Distribution, &columns, &mut |rows| {
        // Histograms hardly repeat: they get a list of their own, which goes with the batch.
        let mut histograms = Vec::new();
        let (Some(targets), Some(texts)) = (
            rows.words("target", &mut words),
            rows.words("histogram", &mut histograms),
        ) else {
            return;
        };
        let int = |name: &str, i: usize| rows.ints(name).get(i).unwrap_or_default();
        for i in 0..rows.len() {
            take(Distribution {
                t_ns: int("t_ns", i),
                interval_ns: int("interval_ns", i),
                target: words[targets[i] as usize].clone(),
                sent_packets: int("sent_packets", i),
                ok_packets: int("ok_packets", i),
                late_packets: int("late_packets", i),
                lost_packets: int("lost_packets", i),
                invalid_packets: int("invalid_packets", i),
                not_sent_packets: int("not_sent_packets", i),
                histogram: histograms[texts[i] as usize].clone(),
            });
        }
    })?;
    Ok(())
}

/// Traffic of every interface, with its name; without any interface, that of the transfers, without a name.
pub(crate) fn all_traffic(from: Source<'_>, take: TakeNamed<'_>) -> anyhow::Result<()> {
    let mut any = false;
    interfaces(from, &mut |name, t, length, rx, tx| {
        any = true;
        take(name, t, length, rx, tx);
    })?;
    if !any {
        let none = Text::default();
        transfers(from, &mut |t, length, rx, tx| {
            take(&none, t, length, rx, tx)
        })?;
    }
    Ok(())
}

/// Traffic of each interface, by its counters.
pub(crate) fn interfaces(from: Source<'_>, take: TakeNamed<'_>) -> anyhow::Result<()> {
    interfaces_about(from, (i64::MIN, i64::MAX), take)
}

/// Does the same for the days of a time range and those beside them.
pub(crate) fn interfaces_about(
    from: Source<'_>,
    span: (i64, i64),
    take: TakeNamed<'_>,
) -> anyhow::Result<()> {
    let mut words: Vec<Text> = Vec::new();
    let columns = ["t_ns", "interval_ns", "interface", "rx_bytes", "tx_bytes"];
    scan_between(from, TableId::Traffic, &columns, span, &mut |rows| {
        let Some(names) = rows.words("interface", &mut words) else {
            return;
        };
        let (t, length) = (rows.ints("t_ns"), rows.ints("interval_ns"));
        let (rx, tx) = (rows.ints("rx_bytes"), rows.ints("tx_bytes"));
        for (i, name) in names.iter().enumerate() {
            if let (Some(t), Some(length)) = (t.get(i), length.get(i)) {
                take(&words[*name as usize], t, length, rx.get(i), tx.get(i));
            }
        }
    })?;
    Ok(())
}

/// Receiver of traffic, like [`TakeTraffic`], with the interface's name first.
pub(crate) type TakeNamed<'t> = &'t mut dyn FnMut(&Text, i64, i64, Option<i64>, Option<i64>);

/// Receiver of the end and the length of an interval, and of the bytes received and sent in it.
pub(crate) type TakeTraffic<'t> = &'t mut dyn FnMut(i64, i64, Option<i64>, Option<i64>);

/// Traffic of the interface; without one, that of the transfers.
pub(crate) fn traffic(
    from: Source<'_>,
    interface: Option<&str>,
    take: TakeTraffic<'_>,
) -> anyhow::Result<()> {
    interfaces(from, &mut |name, t, length, rx, tx| {
        if Some(&**name) == interface {
            take(t, length, rx, tx);
        }
    })?;
    if interface.is_none() {
        transfers(from, take)?;
    }
    Ok(())
}

/// Increase of one flow's byte count between two samples, at one of its ends.
struct Step {
    /// Number of the flow, and its direction as an index into the list of words.
    flow: (i64, u32),
    /// True if the count was taken where the data arrived.
    arrived: bool,
    t_ns: i64,
    length_ns: i64,
    bytes: i64,
}

/// Traffic of the transfers, if no interface was counted: each flow's byte count is a line through its samples. A flow
/// that was watched at both ends is counted where its data arrived.
fn transfers(from: Source<'_>, take: TakeTraffic<'_>) -> anyhow::Result<()> {
    let mut words: Vec<Text> = Vec::new();
    let mut before: BTreeMap<(i64, u32, bool), (i64, i64)> = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    let columns = ["t_ns", "flow", "direction", "bytes_acked", "bytes_received"];
    scan(from, TableId::Flow, &columns, &mut |rows| {
        let (t, flow) = (rows.ints("t_ns"), rows.ints("flow"));
        let (acked, received) = (rows.ints("bytes_acked"), rows.ints("bytes_received"));
        let Some(ways) = rows.words("direction", &mut words) else {
            return;
        };
        for (i, way) in ways.iter().enumerate() {
            let (Some(t), Some(flow)) = (t.get(i), flow.get(i)) else {
                continue;
            };
            for (arrived, bytes) in [(true, received.get(i)), (false, acked.get(i))] {
                let Some(bytes) = bytes else { continue };
                if let Some((earlier, count)) = before.insert((flow, *way, arrived), (t, bytes))
                    && t > earlier
                    && bytes >= count
                {
                    steps.push(Step {
                        flow: (flow, *way),
                        arrived,
                        t_ns: t,
                        length_ns: t - earlier,
                        bytes: bytes - count,
                    });
                }
            }
        }
    })?;
    let arrived: std::collections::BTreeSet<(i64, u32)> =
        steps.iter().filter(|s| s.arrived).map(|s| s.flow).collect();
    let down = Direction::Down.word();
    for s in steps {
        if s.arrived == arrived.contains(&s.flow) {
            let down = *words[s.flow.1 as usize] == *down;
            take(
                s.t_ns,
                s.length_ns,
                down.then_some(s.bytes),
                (!down).then_some(s.bytes),
            );
        }
    }
    Ok(())
}
