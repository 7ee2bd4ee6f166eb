//! Steps: the next sending, given all trains so far.

use super::answer::ends_too_soon;
use super::{AFTER, Bounds, Params, REST, RESTING, SHORTEST_FLOOD, SMALL, look, own, sending};
use crate::trains;
use crate::trains::{SCOUT, of_stage, one, received_rate, seconds};
use base::Duration;
use base::program::{Sending, Shot, Step, Train};
use base::record::Direction;

/// Full packets on every link of 1500 bytes, IPv4 and IPv6: they show the size of a queue that counts packets.
const PAYLOAD: u32 = 1452;

const FIRST_FLOOD: Duration = Duration::from_secs(4);

const FLOODS: usize = 5;

const AFTER_S: f64 = 1.0;

/// Bytes of the first flood at twice the link's rate, if the time is limited: it may be enough.
const CHEAP: f64 = 2e6;

/// Next sending, from the rate and the length of the latest flood.
pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let way = params.direction;
    let Some(scout) = of_stage(trains, SCOUT).next() else {
        return Some(trains::scout(way, PAYLOAD));
    };
    let rough = received_rate(scout, 0.0)?;
    if params.own && of_stage(trains, "flood").next().is_none() {
        let left = params.most.map(|m| {
            let sent = trains
                .iter()
                .map(|t| t.facts.program.bytes(t.facts.headers).get());
            m.get() as f64 - sent.sum::<u64>() as f64
        });
        let payload = params.size.get() as u32;
        if let Some(burst) = own::next(way, payload, trains, left) {
            return Some(burst);
        }
    }
    let floods: Vec<&Train> = of_stage(trains, "flood").collect();
    let bounds = Bounds::of(params, trains);
    let (rate, time) = match floods.last() {
        None => {
            let rate = 2.0 * rough;
            let first = match bounds.within {
                Some(_) => FIRST_FLOOD.max(seconds(CHEAP * 8.0 / rate)),
                None => FIRST_FLOOD,
            };
            let wanted = params.hold.unwrap_or(first).as_secs_f64();
            let time = wanted.min(bounds.longest(rate));
            if time < SHORTEST_FLOOD {
                return None;
            }
            (rate, seconds(time))
        }
        Some(last) => {
            if floods.len() >= FLOODS {
                return rest_after(trains, way, &bounds);
            }
            let lasted = last.facts.program.steps().get(1)?;
            let gap = lasted.shots.first()?.gap.as_secs_f64();
            let sent = f64::from(lasted.shots.first()?.payload) * 8.0 / gap;
            let time = gap * lasted.times as f64;
            let longer = (4.0 * time).min(bounds.longest(sent)).max(0.001);
            let longer = seconds(longer);
            let more = params.hold.is_none() && longer.as_secs_f64() > 1.01 * time;
            let Some(seen) = look(last) else {
                // A line of a few datagrams a second.
                return more.then(|| sending(params, sent, longer));
            };
            if !seen.overloaded {
                // The first look was at a rate that the line takes with ease.
                let time = time.min(bounds.longest(2.0 * sent));
                if time < SHORTEST_FLOOD {
                    return None;
                }
                (2.0 * sent, seconds(time))
            } else if (!seen.full || ends_too_soon(&seen)) && more {
                (sent, longer)
            } else {
                return rest_after(trains, way, &bounds);
            }
        }
    };
    Some(sending(params, rate, time))
}

/// Small datagrams after the queue has emptied: they show the shift of the base delay during the flood.
fn rest_after(trains: &[Train], way: Direction, bounds: &Bounds) -> Option<Sending> {
    let affordable = bounds.within.is_none_or(|left| left > AFTER_S)
        && bounds.most.is_none_or(|left| left > RESTING as f64 * 100.0);
    let sent = of_stage(trains, AFTER).next().is_some();
    let small = Shot {
        payload: SMALL,
        gap: seconds(AFTER_S / RESTING as f64),
    };
    (affordable && !sent).then(|| one(AFTER, way, REST, Step::new(RESTING, vec![small])))
}
