//! Ages of packets: how long they were on their way to the capture, by the timestamps of their sender.
//!
//! **Source.** RFC 7323 section 5.4: a timestamp is a clock of its sender, with a tick of 1 ms to 1 s (Linux, Windows,
//! macOS and FreeBSD: 1 ms; Linux with `tcp_usec_ts` 1 µs). Paxson 1998, "On Calibrating Measurements of Packet Transit
//! Times", and Moon, Skelly and Towsley 1999, "Estimation and Removal of Clock Skew": the line below all delays is the
//! skew of the clocks.
//!
//! **Method.** The age of a packet is the time at which it passed less its timestamp, both from the first packet of its
//! sender on. It lacks a constant, the delay of that packet. So only differences of ages tell anything: the least one is
//! that of an empty path, as far as the path was ever empty.
//!
//! **Limits.** A timestamp is rounded down to its tick. Clocks of ten ticks a second or fewer tell too little and are left
//! out, as are those with an unusual tick, whose rate cannot be told from a queue that grows.

/// Ticks of usual clocks, ns.
const TICKS_NS: [f64; 4] = [1e3, 1e6, 4e6, 10e6];
/// Factor by which a growing queue may seem to change the rate of a clock.
const RATE: f64 = 1.4;
/// Ticks, and time, from which the rate of a clock shows.
const LEAST_TICKS: f64 = 20.0;
const LEAST_NS: f64 = 200e6;
/// Greatest skew of two clocks of computers.
const SKEW: f64 = 100e-6;
/// Time from which a skew shows, ns.
const SKEWED_NS: f64 = 30e9;

/// Ages of the packets in the bins of a course.
#[derive(Clone, Debug, PartialEq)]
pub struct Ages {
    /// Error of an age: a tick of the sender's clock, and what may be its skew or a queue that grew, ns.
    pub error_ns: i64,
    /// Mean age in each bin with packets, less that of the sender's first packet, ns.
    pub bins: Vec<Option<i64>>,
}

impl Ages {
    /// Ages from the mean time, ns, and the mean timestamp, ticks, of each bin, both since the sender's first packet.
    pub(super) fn of(means: &[Option<(f64, f64)>]) -> Option<Ages> {
        let (at, ticks) = *means.iter().flatten().last()?;
        let tick = tick_ns(at, ticks)?;
        let ages: Vec<Option<(f64, f64)>> = means
            .iter()
            .map(|mean| mean.map(|(at, ticks)| (at, at - ticks * tick)))
            .collect();
        let skew = skew(&ages);
        let bins = ages
            .iter()
            .map(|age| age.map(|(at, age)| (age - skew * at).round() as i64));
        Some(Ages {
            error_ns: (tick + skew.abs() * at).round() as i64,
            bins: bins.collect(),
        })
    }
}

/// Tick of a usual clock that made so many ticks in this time, ns; `None` if it cannot be told.
pub(super) fn tick_ns(time_ns: f64, ticks: f64) -> Option<f64> {
    if ticks < LEAST_TICKS || time_ns < LEAST_NS {
        return None;
    }
    let seems = time_ns / ticks;
    let near = |tick: &f64| (seems / tick).max(tick / seems) < RATE;
    TICKS_NS.into_iter().find(near)
}

/// Slope of the line below all ages, where it can be that of two clocks; else 0: a queue grew.
fn skew(ages: &[Option<(f64, f64)>]) -> f64 {
    // The sender's first packet is the zero of all.
    let mut all = vec![(0.0, 0.0)];
    all.extend(ages.iter().flatten());
    let last = all[all.len() - 1].0;
    if last < SKEWED_NS {
        return 0.0;
    }
    let middle = last / 2.0;
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in &all {
        while let [.., a, b] = hull[..]
            && (b.1 - a.1) * (point.0 - a.0) >= (point.1 - a.1) * (b.0 - a.0)
        {
            hull.pop();
        }
        hull.push(*point);
    }
    let below = hull.windows(2).find(|edge| edge[1].0 >= middle);
    let slope = below.map_or(0.0, |edge| {
        (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0)
    });
    if slope.abs() <= SKEW { slope } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bins of 100 ms with the mean times and timestamps of packets that waited so many ns, under this skew.
    fn bins(tick: f64, skew: f64, waits: impl Iterator<Item = f64>) -> Vec<Option<(f64, f64)>> {
        let sent = waits.enumerate().map(|(k, wait)| {
            let left = 1e8 * k as f64;
            Some((left * (1.0 + skew) + wait, (left / tick).floor()))
        });
        sent.collect()
    }

    #[test]
    fn every_usual_clock_gives_the_waits_to_one_tick() {
        for tick in [1e3, 1e6, 4e6, 10e6] {
            let waits = || (0..200).map(|k| f64::from(k % 40) * 1e6);
            let ages = Ages::of(&bins(tick, 0.0, waits())).unwrap();
            assert_eq!(ages.error_ns, tick as i64);
            for (age, wait) in ages.bins.iter().zip(waits()) {
                let over = age.unwrap() as f64 - wait;
                assert!(
                    (0.0..tick).contains(&over),
                    "{over} with ticks of {tick} ns"
                );
            }
        }
    }

    #[test]
    fn the_skew_of_two_clocks_is_no_queue() {
        for skew in [-90e-6, -20e-6, 50e-6, 80e-6] {
            let waits = || (0..3000).map(|k| f64::from(k % 40) * 1e6);
            let ages = Ages::of(&bins(1e6, skew, waits())).unwrap();
            for (age, wait) in ages.bins.iter().zip(waits()) {
                let off = age.unwrap() as f64 - wait;
                assert!(off.abs() < 2.5e6, "{off} ns with a skew of {skew}");
            }
        }
    }

    #[test]
    fn a_queue_that_fills_and_stays_is_no_skew() {
        let waits = || (0..600).map(|k| f64::from(k.min(100)) * 4e6);
        let ages = Ages::of(&bins(1e6, 0.0, waits())).unwrap();
        let last = ages.bins.last().copied().flatten().unwrap();
        assert!((last as f64 - 400e6).abs() < 2e6, "{last}");
    }

    #[test]
    fn clocks_that_are_no_clocks_tell_nothing() {
        // A constant, half a tick a second, and far too few packets.
        assert_eq!(Ages::of(&bins(1e12, 0.0, (0..100).map(|_| 0.0))), None);
        assert_eq!(Ages::of(&bins(2e9, 0.0, (0..600).map(|_| 0.0))), None);
        assert_eq!(Ages::of(&bins(1e6, 0.0, (0..2).map(|_| 0.0))), None);
        assert_eq!(Ages::of(&[]), None);
    }
}
