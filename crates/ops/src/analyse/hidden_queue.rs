//! The queue that a gateway cannot see: its estimate over a recording.

use crate::scan::{self, Source};
use crate::statistics::Ask;
use crate::usage;
use analysis::hidden_queue::{
    BASE_NS, ByLaw, HIDDEN_QUEUE_VERSION, HiddenQueue, Law, Observed, follow,
};
use analysis::saturation::Carried;
use base::record::{Direction, Status, TableId, Text};
use base::{BitsPerSec, Duration};
use std::collections::BTreeMap;

/// Answer of `tailback analyse --hidden-queue`.
///
/// # Errors
/// A recording without probes or without counted bytes; a rate that cannot be found.
pub(crate) fn analysed(
    from: Source<'_>,
    ask: &Ask,
    every: Duration,
) -> anyhow::Result<HiddenQueue> {
    let meta = scan::meta(from)?;
    let seen = observed(from, ask)?;
    let lacks = |what: &str| {
        usage(format!(
            "{}: the estimate of a hidden queue needs {what}",
            from.display()
        ))
    };
    let (Some(first), Some(last)) = (seen.handed_over.first(), seen.handed_over.last()) else {
        return Err(lacks(
            "bytes that were counted as they were sent: a monitor watches interfaces, a scenario has [sample] traffic = \"100 ms\"",
        ));
    };
    if seen.probes.is_empty() {
        return Err(lacks("probes that were answered in the span"));
    }
    let (from_ns, to_ns) = (first.0, last.1);
    let (capacity, capacity_from) = match ask.up_bps {
        Some(bps) => (bps, "given".to_owned()),
        None => {
            let mut carried = Carried::default();
            for (from, to, bytes) in &seen.handed_over {
                carried.add(*to, to - from, None, Some(*bytes));
            }
            let rates = carried.rates(from_ns, to_ns, every.as_nanos() as i64);
            let full = rates.full(Direction::Up, None);
            let rate = full.as_ref().and_then(|f| f.rate_bps.value());
            let Some(rate) = rate else {
                return Err(usage(format!(
                    "{}: what the link carries upwards does not show in the traffic: give it with --rate-up, such as --rate-up 700kbit/s",
                    from.display()
                )));
            };
            (rate, full.map(|f| f.rate_from).unwrap_or_default())
        }
    };
    let rate = BitsPerSec::new(capacity.round() as u64);
    let by_law = |law: Law| ByLaw::of(law, &follow(law, rate, every.as_nanos() as i64, &seen));
    Ok(HiddenQueue {
        version: HIDDEN_QUEUE_VERSION,
        title: meta.title,
        from_ns,
        to_ns,
        capacity_bps: capacity,
        capacity_from,
        every_s: every.as_secs_f64(),
        laws: Law::ALL.map(by_law).to_vec(),
    })
}

/// Begin, end and bytes of each interval.
type Intervals = Vec<(i64, i64, i64)>;

/// Packets and probes of the target and the interface that the statistics are about.
fn observed(from: Source<'_>, ask: &Ask) -> anyhow::Result<Observed> {
    let within =
        |t: i64| ask.from_ns.is_none_or(|from| t >= from) && ask.to_ns.is_none_or(|to| t < to);
    let mut seen = Observed::default();
    let mut targets: BTreeMap<Text, Vec<(i64, i64)>> = BTreeMap::new();
    // The base of before is known when the stretch begins.
    let known = |t: i64| ask.from_ns.is_none_or(|from| t >= from - BASE_NS);
    scan::probes(from, |name, sent_ns, rtt_ns, status| {
        let wanted = ask.target.as_ref().is_none_or(|t| **t == **name);
        if let Some(rtt) = rtt_ns
            && wanted
            && known(sent_ns)
            && ask.to_ns.is_none_or(|to| sent_ns < to)
            && matches!(status, Status::Ok | Status::Late)
        {
            match targets.get_mut(name) {
                Some(list) => list.push((sent_ns, rtt)),
                None => drop(targets.insert(name.clone(), vec![(sent_ns, rtt)])),
            }
        }
    })?;
    let own = targets.remove("udp");
    let most = || targets.into_values().max_by_key(Vec::len);
    let mut probes = own.or_else(most).unwrap_or_default();
    probes.sort_unstable();
    let begin = probes.partition_point(|(sent, _)| !within(*sent));
    seen.probes = probes.split_off(begin);
    seen.probes_before = probes;
    let mut interfaces: BTreeMap<Text, Intervals> = BTreeMap::new();
    scan::interfaces(from, &mut |name, t, length, _, sent| {
        if let Some(sent) = sent
            && within(t - length)
            && within(t - 1)
        {
            let list = match interfaces.get_mut(name) {
                Some(list) => list,
                None => interfaces.entry(name.clone()).or_default(),
            };
            list.push((t - length, t, sent));
        }
    })?;
    let bytes = |list: &Intervals| list.iter().map(|i| i.2).sum::<i64>();
    let busiest = interfaces.into_iter().max_by_key(|(_, list)| bytes(list));
    let Some((interface, handed_over)) = busiest else {
        return Ok(seen);
    };
    seen.handed_over = handed_over;
    seen.handed_over.sort_unstable();
    // A simulation names what it counts after the link behind it.
    let mut words: Vec<Text> = Vec::new();
    let columns = ["t_ns", "queue", "backlog_bytes"];
    scan::scan(from, TableId::Queue, &columns, &mut |rows| {
        let Some(names) = rows.words("queue", &mut words) else {
            return;
        };
        let (t, waiting) = (rows.ints("t_ns"), rows.ints("backlog_bytes"));
        for (i, name) in names.iter().enumerate() {
            if words[*name as usize] == interface
                && let (Some(t), Some(waiting)) = (t.get(i), waiting.get(i))
                && within(t)
            {
                seen.truth.push((t, waiting));
            }
        }
    })?;
    seen.truth.sort_unstable();
    Ok(seen)
}
