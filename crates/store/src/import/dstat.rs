//! `dstat -c -n -t --output FILE`: CPU load and an interface's bytes per second.
//!
//! **Source.** dstat 0.7, and its successors pcp-dstat 6 and dool 1.3: five header lines, a line of groups, a line of
//! columns, then one line per sample. The time has no year; the header's date gives it. The first sample is the mean
//! since boot. Groups of processors are `total cpu usage` or `total usage`, and `cpu0 usage` for a single one. dool
//! repeats the group in a column's name (`total cpu usage:usr`) if there are several.
//!
//! **Limits.** The successors have no columns for interrupts, and count them as user time.

use super::file::{Fault, Imported, Settings};
use super::lines::{Lines, Local, billionths, shown};
use super::out::Out;
use base::record::{HostLoad, Text, Traffic};
use jiff::civil::DateTime;

const SINCE_BOOT: &str = "first sample, the mean since the host started: left out";
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[derive(Clone, Copy)]
enum Column {
    User,
    System,
    Idle,
    Wait,
    HardInterrupt,
    SoftInterrupt,
    Received,
    Sent,
    Time,
    Epoch,
}

/// Calendar of times that have no year of their own.
struct Clock<'a> {
    local: Local<'a>,
    year: Option<i16>,
    month: i8,
}

/// One sample and its time, if the line has all columns.
fn sample(
    fields: &[&str],
    columns: &[Option<Column>],
    clock: &mut Clock<'_>,
) -> Option<(i64, Sample)> {
    let mut sample = Sample::default();
    let mut sound = fields.len() >= columns.len();
    for (field, column) in fields.iter().zip(columns) {
        let value = billionths(field.as_bytes());
        // The columns are percentages.
        let share = value.map(|v| v as f64 / 1e11).filter(|s| *s >= 0.0);
        match column {
            Some(Column::Idle) => sample.idle = share,
            Some(Column::User) => sample.user = share,
            Some(Column::System) => sample.system = share,
            Some(Column::Wait) => sample.wait = share,
            Some(Column::HardInterrupt) => sample.interrupts[0] = share,
            Some(Column::SoftInterrupt) => sample.interrupts[1] = share,
            Some(Column::Received) => sample.received = value,
            Some(Column::Sent) => sample.sent = value,
            Some(Column::Epoch) => sample.t_ns = value,
            Some(Column::Time) => {
                let time = day_time(field);
                if let (Some((m, ..)), Some(y)) = (time, &mut clock.year) {
                    *y = y.saturating_add(i16::from(m < clock.month));
                    clock.month = m;
                }
                sample.t_ns = time.zip(clock.year).and_then(|((m, d, [h, min, s]), y)| {
                    clock
                        .local
                        .civil_ns(DateTime::new(y, m, d, h, min, s, 0).ok()?)
                });
                sound &= clock.year.is_some();
            }
            None => {}
        }
    }
    let t_ns = sample.t_ns.filter(|_| sound)?;
    Some((t_ns, sample))
}

/// Hands on the rows of an interval that ends with `sample`.
fn push(out: &mut Out, sample: &Sample, t_ns: i64, interval_ns: i64, interface: &Text) {
    let shares = sample.shares();
    if shares.iter().any(Option::is_some) {
        out.push(&HostLoad::of(t_ns, shares));
    }
    let bytes = |rate: i64| (rate as f64 / 1e9 * interval_ns as f64 / 1e9).round() as i64;
    if sample.received.is_some() || sample.sent.is_some() {
        out.push(&Traffic {
            t_ns,
            interval_ns,
            interface: interface.clone(),
            rx_bytes: sample.received.map(bytes),
            tx_bytes: sample.sent.map(bytes),
        });
    }
}

pub fn read(
    mut lines: Lines,
    settings: &Settings,
    out: &mut Out,
    told: &mut Imported,
) -> Result<(), Fault> {
    let mut clock = Clock {
        local: Local::new(&settings.zone),
        year: None,
        month: 0,
    };
    let mut groups: Vec<String> = Vec::new();
    let mut columns: Vec<Option<Column>> = Vec::new();
    let mut interface: Text = "net".into();
    let mut before: Option<i64> = None;
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        let text = String::from_utf8_lossy(line).into_owned();
        let fields: Vec<&str> = text
            .split(',')
            .map(|f| f.trim().trim_matches('"'))
            .collect();
        if let Some(date) = fields.iter().position(|f| *f == "Date:") {
            clock.year = fields.get(date + 1).and_then(|d| year_of(d));
            // Another run in the same file starts with another mean since boot.
            before = None;
            continue;
        }
        let names = |n: &str| fields.iter().any(|f| f.rsplit(':').next() == Some(n));
        if text.starts_with('"') && ["usr", "recv", "time"].into_iter().any(names) {
            columns = columns_of(&fields, &groups);
            if let Some(net) = groups.iter().find_map(|g| g.strip_prefix("net/")) {
                interface = net.into();
            }
            continue;
        }
        if text.starts_with('"') || text.is_empty() {
            groups = fields.iter().map(|f| (*f).to_owned()).collect();
            continue;
        }
        let Some((t_ns, sample)) = sample(&fields, &columns, &mut clock) else {
            told.wrong(
                number,
                format_args!("{} is no sample of dstat's", shown(line)),
            );
            continue;
        };
        match before.replace(t_ns) {
            None => told.repaired(SINCE_BOOT),
            Some(earlier) if t_ns <= earlier => {
                told.wrong(
                    number,
                    format_args!("{}: not later than the sample before it", shown(line)),
                );
                before = Some(earlier);
            }
            Some(earlier) => {
                push(out, &sample, t_ns, t_ns.saturating_sub(earlier), &interface);
            }
        }
    }
    if clock.year.is_none() && before.is_none() {
        return Err(Fault::Unreadable(
            "its head has no date, and its times no year".into(),
        ));
    }
    Ok(())
}

#[derive(Default)]
struct Sample {
    t_ns: Option<i64>,
    /// Shares of the processors' time.
    idle: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    wait: Option<f64>,
    /// Hard and soft interrupts.
    interrupts: [Option<f64>; 2],
    received: Option<i64>,
    sent: Option<i64>,
}

impl Sample {
    /// Shares in the order of [`HostLoad::shares`]. Percentages are rounded, so their sum may exceed 100 a little.
    fn shares(&self) -> [Option<f64>; 5] {
        let busy = self.idle.map(|idle| 1.0 - idle - self.wait.unwrap_or(0.0));
        let [hard, soft] = self.interrupts;
        let interrupt = hard.zip(soft).map(|(hard, soft)| hard + soft);
        [busy, self.user, self.system, interrupt, self.wait]
            .map(|share| share.map(|s| s.clamp(0.0, 1.0)))
    }
}

/// True if a group is of all processors together.
fn is_of_all(group: &str) -> bool {
    group.starts_with("total") && group.ends_with("usage")
}

/// Finds the columns: those of all processors together, and of the first interface.
fn columns_of(names: &[&str], groups: &[String]) -> Vec<Option<Column>> {
    let mut group = "";
    let mut seen: Vec<&str> = Vec::new();
    let columns = names.iter().enumerate().map(|(i, name)| {
        if let Some(g) = groups.get(i).filter(|g| !g.is_empty()) {
            group = g;
        }
        let name = &name.rsplit(':').next().unwrap_or(name);
        let column = match *name {
            "usr" if is_of_all(group) => Column::User,
            "sys" if is_of_all(group) => Column::System,
            "idl" if is_of_all(group) => Column::Idle,
            "wai" if is_of_all(group) => Column::Wait,
            "hiq" if is_of_all(group) => Column::HardInterrupt,
            "siq" if is_of_all(group) => Column::SoftInterrupt,
            "recv" if group.starts_with("net/") => Column::Received,
            "send" if group.starts_with("net/") => Column::Sent,
            "time" | "date/time" => Column::Time,
            "epoch" => Column::Epoch,
            _ => return None,
        };
        (!seen.contains(name)).then(|| {
            seen.push(name);
            column
        })
    });
    columns.collect()
}

/// Parses the year of `04 May 2014 15:55:10 CEST`.
fn year_of(date: &str) -> Option<i16> {
    let words: Vec<&str> = date.split_whitespace().collect();
    let month = words.iter().position(|w| MONTHS.contains(w))?;
    words.get(month + 1)?.parse().ok()
}

/// Parses `04-05 15:55:11` and dool's `May-04 15:55:11` as month, day and time of day.
fn day_time(text: &str) -> Option<(i8, i8, [i8; 3])> {
    let (date, time) = text.split_once(' ')?;
    let (first, second) = date.split_once('-')?;
    let named = MONTHS.iter().zip(1..).find(|(name, _)| **name == first);
    let (month, day) = match named {
        Some((_, month)) => (month, second),
        None => (second.parse().ok()?, first),
    };
    let mut clock = time.splitn(3, ':').map(str::parse);
    let mut next = || clock.next()?.ok();
    let clock = [next()?, next()?, next()?];
    Some((month, day.parse().ok()?, clock))
}
