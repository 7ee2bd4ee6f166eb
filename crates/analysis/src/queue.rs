//! Size of the queue, in time and in bytes.
//!
//! **Method.** The size of a drop-tail queue is the wait just after the load has filled it: the highest wait, of probes
//! or of the load's own packets, in the round trip before each congestion epoch. The size is the upper quartile of
//! these levels. Its interval is that of the quartile and no narrower than a packet: the rest of the packet on the wire
//! lengthens a wait by half a packet on average, and the last packet that does not fit leaves as much of the limit
//! unused. Bytes are time × rate. A queue kept short by an AQM has no visible size: the level to which it was let grow
//! is given (95 % of the steady waits).
//!
//! **Source.** Borlaug 2014, section 6.1.3: 430 ms × 700 kbit/s = 301 kbit; base round trip × rate
//! is the bandwidth-delay product, and their ratio the factor by which the queue is too large.
//!
//! Not told: the size if the base moved by more than a fifth of it meanwhile (a bound remains), the level that an AQM holds
//! if the base moved by more than half of it, and the wait of the load's own packets if delayed acknowledgements leave
//! half of it open. A bound is less by the most that the jitter of the idle link adds to packets that keep their order.
//!
//! **Limits.** A queue counted in packets holds fewer bytes when small packets are among them, as probes are: the size
//! is right for the mix that was in it.

use crate::answer::{Discipline, QueueIs};
use crate::bottleneck::{Bottleneck, is_vague};
use crate::overload;
use stats::Figure;

/// Size of a queue.
pub struct Size {
    /// Size in time, ms.
    pub ms: Figure,
    /// Size in bytes.
    pub bytes: Figure,
    /// Meaning of the size.
    pub is: QueueIs,
    /// Bandwidth-delay product, bytes.
    pub bdp_bytes: Figure,
    /// Size divided by the bandwidth-delay product.
    pub factor: Figure,
}

/// Share of probes among the packets from which TCP's ceiling leaves the size open.
pub(crate) const MOST_SMALL: f64 = 0.12;

/// Packets up to which a queue is too short for TCP's ceiling to tell its size beside many small packets.
const SHORT: f64 = 10.0;

/// Size of the queue of `b`, whose discipline is `kind`.
pub fn size(b: &Bottleneck, kind: Discipline, base_rtt_ms: &Figure) -> Size {
    // Many small packets among few full ones: how the queue counts them decides its size.
    let ceiling_of_flood = b.overload.as_ref().filter(|o| o.plateau_ms.is_some());
    let short = |o: &overload::Overload| {
        let level = o.plateau_ms.as_ref().and_then(Figure::value);
        o.small_share > MOST_SMALL && level.is_some_and(|l| l <= SHORT * b.packet_ms)
    };
    let mixed = b.small_share > MOST_SMALL || ceiling_of_flood.is_some_and(short);
    let plateau = ceiling_of_flood
        .filter(|o| o.small_share <= MOST_SMALL)
        .and_then(|o| o.plateau_ms.clone());
    let (ms, is) = match kind {
        Discipline::DropTail => match plateau {
            Some(level) => (less_own_tokens(level, b.packet_ms), QueueIs::Size),
            None if mixed => (at_least(b), QueueIs::AtLeast),
            None => (ceiling(b), QueueIs::Size),
        },
        // Each flow has a queue of its own, whose limit shows only where a flood was cut off at it.
        Discipline::FairQueueing => match plateau {
            Some(level) => (level, QueueIs::Size),
            None => (at_least(b), QueueIs::AtLeast),
        },
        Discipline::Aqm | Discipline::Policer => (
            stats::quantile_figure(&b.steady(&b.waits), 0.95),
            QueueIs::Controlled,
        ),
        Discipline::FairQueueingAqm => (in_flow(b), QueueIs::Controlled),
        Discipline::CannotTell => (at_least(b), QueueIs::AtLeast),
    };
    let (ms, is) = match (is, ms) {
        // What the base may have moved by is much of the level itself.
        (QueueIs::Size, Figure::Is { value, low, .. }) if b.base_doubt_ms > DOUBT * value => (
            bound((low - b.base_doubt_ms).max(0.0), 0.0),
            QueueIs::AtLeast,
        ),
        (is, ms) => (ms, is),
    };
    let ms = match (is, ms) {
        (QueueIs::AtLeast, ms) => ms,
        (QueueIs::Controlled, Figure::Is { value, .. }) if b.base_doubt_ms > WIDE * value => {
            Figure::cannot_tell(format!(
                "the base delay itself moved by {:.1} ms, and the queue stood at {value:.1} ms",
                b.base_doubt_ms
            ))
        }
        (QueueIs::Controlled, Figure::Is { value, low, high }) if is_vague(value, high) => {
            Figure::cannot_tell(format!(
                "the queue was long too rarely: between {low:.1} and {high:.1} ms"
            ))
        }
        (_, Figure::Is { value, low, high }) => Figure::Is {
            value,
            low: (value - (value - low).hypot(b.base_doubt_ms)).max(0.0),
            high: value + (high - value).hypot(b.base_doubt_ms),
        },
        (_, other) => other,
    };
    // A bound on bytes needs a bound on the rate.
    let rate = match (is, &b.link_rate) {
        (QueueIs::AtLeast, Figure::Is { low, .. }) => Figure::exactly(*low),
        (_, rate) => rate.clone(),
    };
    let bytes = ms.bytes_at(&rate);
    let bdp_bytes = base_rtt_ms.bytes_at(&b.link_rate);
    // The rate is in both and cancels.
    let factor = ms.over(base_rtt_ms);
    Size {
        ms,
        bytes,
        is,
        bdp_bytes,
        factor,
    }
}

/// Share of a level above which what the base may have moved by leaves nothing of it.
const DOUBT: f64 = 0.2;
/// The same of a level that a law holds, and how far down the interval of the wait of the load's own packets reaches.
const WIDE: f64 = 0.5;

/// Level of a flood less half the wait of a packet for its own tokens, which a shaper adds and a plain link does not.
fn less_own_tokens(level: Figure, packet_ms: f64) -> Figure {
    match level {
        Figure::Is { value, low, high } => Figure::Is {
            value: (value - packet_ms / 2.0).max(0.0),
            low: (low - packet_ms).max(0.0),
            high,
        },
        untold => untold,
    }
}

/// Time of a packet from which a smoothed round trip tells no wait, ms.
const SLOW_MS: f64 = 15.0;
/// Relative error of a level that no repetition shows.
const EXACT: f64 = 0.003;

/// Level at which the queue was full: the upper quartile of the levels at the congestion epochs. A sample taken a
/// little before or after the moment itself is lower, and none is higher.
fn ceiling(b: &Bottleneck) -> Figure {
    let levels = b.levels(false);
    let s = stats::sorted(&levels);
    let Some(value) = stats::quantile_of_sorted(&s, 0.75) else {
        return Figure::cannot_tell("the load met no congestion");
    };
    let (low, high) = match stats::quantile_figure(&levels, 0.75) {
        Figure::Is { low, high, .. } => (low, high),
        Figure::CannotTell { .. } => (s[0], s[s.len() - 1]),
    };
    // What is left of the packet on the wire when a probe arrives, and how far the last packet that did
    // not fit is from the limit: each is up to one packet, and half of one on average.
    let half = b.packet_ms / 2.0 + (b.noise.most_ms - b.noise.usual_ms) / 2.0;
    let jitter = b.noise.usual_ms;
    let full = overload::in_full_packets((value - jitter).max(0.0), 0.0, b.small_share);
    let Figure::Is {
        value: centre,
        high: most,
        ..
    } = full
    else {
        return full;
    };
    Figure::Is {
        value: centre,
        low: (low.min(value - half) - b.packet_ms / 2.0 - EXACT * value - jitter).max(0.0),
        high: (high.max(value + half) - value) + most,
    }
}

/// Wait of the load's own packets, 95 % point. Delayed acknowledgements lengthen it by up to a packet's time a flow.
fn in_flow(b: &Bottleneck) -> Figure {
    if b.packet_ms > SLOW_MS {
        return Figure::cannot_tell(format!(
            "one packet takes {:.0} ms, and the load's round trips are no finer than that a flow",
            b.packet_ms
        ));
    }
    let delayed = b.flows as f64 * b.packet_ms;
    match stats::quantile_figure(&b.steady(&b.in_flow), 0.95) {
        Figure::Is { value, low, high } => {
            let low = (low - delayed).max(0.0);
            if value - low > WIDE * value {
                return Figure::cannot_tell(format!(
                    "the load's round trips leave it between {low:.1} and {high:.1} ms, up to {delayed:.1} ms of them for delayed acknowledgements"
                ));
            }
            Figure::Is { value, low, high }
        }
        other => other,
    }
}

/// A bound from below, of which `doubt` is in doubt.
fn bound(level: f64, doubt: f64) -> Figure {
    Figure::Is {
        value: level,
        low: (level - doubt).max(0.0),
        high: level,
    }
}

/// A bound below the queue's size: the level that the queue held for three successive probes.
fn at_least(b: &Bottleneck) -> Figure {
    if b.rate_moves.is_some_and(|m| m > crate::rate::STEADY) {
        return Figure::cannot_tell("the link's rate varies, and the wait in its queue with it");
    }
    // A flood fills a queue that TCP does not, on the same limit.
    let flood = b.overload.as_ref().map(|o| match &o.plateau_ms {
        Some(Figure::Is { low, .. }) => (low - b.packet_ms / 2.0).max(0.0),
        _ => (o.reached_ms - b.noise.dense_ms() - b.packet_ms).max(0.0),
    });
    let held = b.held().into_iter().chain(flood).reduce(f64::max);
    match held {
        Some(held) if held - b.base_doubt_ms < b.packet_ms => {
            Figure::cannot_tell("no packet was seen to wait for another")
        }
        Some(held) => bound(held - b.base_doubt_ms, b.packet_ms),
        None => Figure::cannot_tell("no delay was measured under load in this direction"),
    }
}
