//! Stability of a phase: it may stop once going on would not change its figures.
//!
//! **Method.** Idle: the base has not fallen and the 95 % point not moved between the first and the second
//! half. Loaded: the last four moving averages of goodput differ by less than 5 %, the 95 % point of the
//! wait agrees between the first and second half of the steady part, and the queue has shown its nature:
//! congestion met often enough. All in units of the round trip seen, so that a line with seconds of buffer
//! gets the time it needs.
//!
//! **Source.** draft-ietf-ippm-responsiveness-09 (moving averages, 5 % tolerance), here with the queue's
//! own condition added, because goodput settles long before a deep queue has been seen full twice.
//!
//! **Limits.** A link whose rate changes all the time never settles; the caller's time limit ends the
//! phase and the answer says that it was not stable and why.

use crate::baseline::Baseline;
use crate::bottleneck::{self, Bottleneck, Scene};
use crate::clock;
use crate::phases::{self, Phase};
use crate::rate;
use base::record::{Delay, Direction, Recording};
use stats::Figure;

/// Verdict on the stability of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stability {
    /// True if the phase may stop.
    pub stable: bool,
    /// The figure that still moves, or the time until all had settled.
    pub why: String,
}

fn not_yet(why: String) -> Stability {
    Stability { stable: false, why }
}

/// Tells if the latest phase of this name could stop at `now_ns`. Meant to be asked about once a second.
pub fn stable(rec: &Recording, phase: &str, now_ns: i64) -> Stability {
    match phases::phases(rec, Some(now_ns))
        .into_iter()
        .rfind(|p| p.name == phase)
    {
        Some(p) if p.is_loaded() => loaded(rec, &p),
        Some(p) => idle(rec, &p),
        None => not_yet(format!("the phase \"{phase}\" has not begun")),
    }
}

fn idle(rec: &Recording, p: &Phase) -> Stability {
    let rtts: Vec<f64> = phases::own_probes(rec, p.steady())
        .into_iter()
        .filter_map(Delay::rtt_ms)
        .collect();
    let seconds = p.to_ns.saturating_sub(p.from_ns) as f64 / 1e9;
    let base = rtts.iter().copied().fold(f64::INFINITY, f64::min);
    if rtts.len() < 20 {
        return not_yet(format!("{} of 20 probes answered", rtts.len()));
    }
    if seconds < 2.0 + base / 100.0 {
        return not_yet(format!(
            "{seconds:.0} s are too short for a base of {base:.1} ms"
        ));
    }
    let (first, second) = rtts.split_at(rtts.len() / 2);
    let quantile =
        |v: &[f64], p: f64| stats::quantile_of_sorted(&stats::sorted(v), p).unwrap_or(f64::NAN);
    let (fell, p95s) = (
        quantile(first, 0.0) - quantile(second, 0.0),
        (quantile(first, 0.95), quantile(second, 0.95)),
    );
    if fell > 0.05 * base + 0.1 {
        return not_yet(format!(
            "the smallest round trip still fell by {fell:.2} ms"
        ));
    }
    let spread = (quantile(&rtts, 0.95) - base).max(0.0);
    if (p95s.0 - p95s.1).abs() > 0.1 * base + 0.5 * spread + 0.2 {
        return not_yet(format!(
            "the 95 % point moved from {:.2} to {:.2} ms",
            p95s.0, p95s.1
        ));
    }
    Stability {
        stable: true,
        why: format!("base and 95 % point settled after {seconds:.0} s"),
    }
}

fn loaded(rec: &Recording, p: &Phase) -> Stability {
    let base = phases::own_probes(rec, i64::MIN..p.to_ns)
        .into_iter()
        .filter_map(Delay::rtt_ms)
        .reduce(f64::min);
    let fit = clock::fit(rec).ok();
    let scene = Scene {
        rec,
        clock: fit.as_ref(),
        base_rtt_ms: base,
        baseline: &Baseline::default(),
        probe_ip_bytes: 0.0,
    };
    let waiting = [Direction::Down, Direction::Up]
        .into_iter()
        .filter(|d| p.loads(*d))
        .find_map(|d| unsettled(&scene, p, d).err());
    waiting.map_or_else(
        || Stability {
            stable: true,
            why: format!("goodput and waits settled after {:.0} s", seconds(p)),
        },
        not_yet,
    )
}

fn seconds(p: &Phase) -> f64 {
    p.to_ns.saturating_sub(p.from_ns) as f64 / 1e9
}

/// Reason, as an error, why the load of one direction is not yet stable.
fn unsettled(scene: &Scene, p: &Phase, direction: Direction) -> Result<(), String> {
    let b = bottleneck::bottleneck(scene, p, direction);
    let rtt_s = b.loaded_rtt_ms.max(1.0) / 1e3;
    let least = (6.0 + 12.0 * rtt_s).min(60.0);
    let steady = p.to_ns.saturating_sub(p.warm_ns) as f64 / 1e9;
    if steady < least {
        return Err(format!(
            "{steady:.0} of at least {least:.0} s after the warm-up (round trip under load {:.0} ms)",
            b.loaded_rtt_ms
        ));
    }
    steady_goodput(scene.rec, p, direction)?;
    // Without one-way delays nothing tells the two waits of a link that is loaded in both directions.
    if scene.clock.is_some() || p.name != "both" {
        // After twice the time, a difference that chance explains does not hold the test up.
        steady_waits(&b, steady >= 2.0 * least)?;
    }
    // A queue is known once it was met full three times; a load that meets no congestion in four
    // times the least time never will.
    let met = b.epochs.as_ref().map(Vec::len);
    if p.name != "both" && met.is_some_and(|n| n < 3) && seconds(p) < 4.0 * least {
        return Err(format!(
            "the load {direction} met congestion {} of 3 times",
            met.unwrap_or(0)
        ));
    }
    // Whose sender has yet to tell gets half as much time again, in which it should have met it.
    if met.is_none() && steady < 1.5 * least {
        return Err(format!(
            "{steady:.0} of {:.0} s for a load whose sender tells only at its end",
            1.5 * least
        ));
    }
    Ok(())
}

fn steady_goodput(rec: &Recording, p: &Phase, direction: Direction) -> Result<(), String> {
    let carried = rate::carried(rec, direction, p.steady())
        .ok_or_else(|| format!("the load in direction {direction} is not running"))?;
    // Four moving averages, each over half the steady part, so that a sawtooth does not look like a trend.
    let rates: Vec<f64> = carried.batches(8).iter().map(|b| b.2).collect();
    let averages: Vec<f64> = rates
        .windows(5)
        .map(|w| w.iter().sum::<f64>() / 5.0)
        .collect();
    let m = stats::moments(&averages)
        .filter(|m| m.mean > 0.0)
        .ok_or_else(|| format!("the load in direction {direction} carries nothing"))?;
    if m.sd > 0.05 * m.mean {
        return Err(format!(
            "goodput {direction} still varies by {:.0} %",
            100.0 * m.sd / m.mean
        ));
    }
    Ok(())
}

/// The 95 % points of the waits of both halves agree, or, where `chance` is allowed, their intervals overlap.
fn steady_waits(b: &Bottleneck, chance: bool) -> Result<(), String> {
    let waits = b.steady(&b.waits);
    if waits.len() < 20 {
        return Err(format!("{} of 20 probes answered under load", waits.len()));
    }
    let (first, second) = waits.split_at(waits.len() / 2);
    let p95 = |v: &[f64]| stats::quantile_figure(v, 0.95);
    if let (
        Figure::Is {
            value: a,
            low: al,
            high: ah,
        },
        Figure::Is {
            value: z,
            low: zl,
            high: zh,
        },
    ) = (p95(first), p95(second))
    {
        let near = (a - z).abs() <= 0.1 * a.max(z) + 1.0 + b.packet_ms;
        let explained = chance && al <= zh && zl <= ah;
        if !near && !explained {
            return Err(format!(
                "the 95 % point of the wait {} moved from {a:.0} to {z:.0} ms",
                b.direction
            ));
        }
    }
    Ok(())
}
