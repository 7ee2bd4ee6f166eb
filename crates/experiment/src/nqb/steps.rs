//! Datagrams with and without DSCP 45, then CUBIC beside both, then a CUBIC flow that cheats.

use super::note::{NqbNote, Phase};
use super::{NQB, PLAIN, Params};
use crate::course::{Course, OfCourse};
use crate::flows::{Echoes, Flow, Limits, Ran, seen};
use crate::host::Stopped;
use crate::spec::Setting;
use base::record::Direction;
use base::{Bytes, Duration};

/// Least budget: a phase of two seconds at 2 Mbit/s.
const LEAST: Bytes = Bytes::new(2_000_000);
/// Pause between phases.
const REST: Duration = Duration::from_millis(700);
/// Ports: one for each flow of the larger phase.
const PORTS: usize = 4;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let directions = params.direction.each();
    setting.afford("nqb", LEAST * directions.len() as u64)?;
    let (time, budget) = (params.time, setting.budget);
    let whole = (time * 2 + Duration::from_secs(4)) * directions.len() as u64;
    Ok(OfCourse::new(whole, move |course| async move {
        for (i, direction) in directions.iter().enumerate() {
            let left = budget - course.tally().min(budget);
            let most = left / (directions.len() - i) as u64;
            if let Err(why) = all(&course, *direction, time, most).await {
                let direction = *direction;
                let note = NqbNote::Untried { direction, why };
                course.note(&note, "server").await;
            }
        }
        Ok(())
    }))
}

async fn all(
    course: &Course,
    direction: Direction,
    time: Duration,
    budget: Bytes,
) -> Result<(), String> {
    let mut echoes = Echoes::open(course, (direction, PORTS), time * 2).await?;
    let all = echoes.markings([PLAIN, NQB]).await?;
    course
        .note(&NqbNote::Markings { direction, all }, "server")
        .await;
    let limits = Limits {
        lasts: time,
        most: budget * 9 / 20,
    };
    let beside = |filling| {
        vec![
            filling,
            Flow::sparse("nqb", NQB),
            // Two, because a queue may take one of them and CUBIC's for one flow: it knows flows by a hash.
            Flow::sparse("sparse", PLAIN),
            Flow::sparse("sparse2", PLAIN),
        ]
    };
    let classic = beside(Flow::controlled("classic", PLAIN, "cubic"));
    // Alone: beside a CUBIC flow that is honest, it would yield before it fills the queue.
    let cheat = beside(Flow::controlled("cheat", NQB, "cubic"));
    let mut phases: Vec<(Phase, Ran)> = Vec::new();
    for (phase, stage, flows) in [
        (Phase::Beside, "NQB beside CUBIC", classic),
        (Phase::Cheat, "NQB beside a flow that cheats", cheat),
    ] {
        course.wait(REST).await;
        let stage = format!("{stage}, {direction}");
        phases.push((phase, echoes.run(&stage, &flows, limits).await?));
    }
    // The smallest round trip is known at the end.
    let base = echoes.base.unwrap_or_default();
    for (phase, ran) in &phases {
        let note = NqbNote::Phase {
            direction,
            phase: *phase,
            lasted_ns: ran.lasted.as_nanos(),
            base_ns: base.as_nanos(),
            flows: seen::flows(direction, ran, base),
        };
        course.note(&note, "server").await;
    }
    Ok(())
}
