//! Datagrams of every codepoint, then Prague alone, CUBIC alone and both together; last the hops that change a codepoint.

use super::note::{L4sNote, Phase};
use super::{CE, ECT0, ECT1, NOT_ECT, Params};
use crate::course::{Course, OfCourse};
use crate::ecn;
use crate::flows::seen::{self, Codepoint};
use crate::flows::{Echoes, Flow, Limits, Ran};
use crate::host::Stopped;
use crate::spec::Setting;
use base::record::Direction;
use base::{Bytes, Duration};

/// Least budget: a phase of two seconds at 2 Mbit/s.
const LEAST: Bytes = Bytes::new(2_000_000);
/// Pause between phases.
const REST: Duration = Duration::from_millis(700);
/// Ports: one for each codepoint, which serve the flows, too.
const PORTS: usize = 4;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let directions = params.direction.each();
    setting.afford("l4s", LEAST * directions.len() as u64)?;
    let (time, budget) = (params.time, setting.budget);
    let whole = (time * 3 + Duration::from_secs(5)) * directions.len() as u64;
    Ok(OfCourse::new(whole, move |course| async move {
        for (i, direction) in directions.iter().enumerate() {
            let left = budget - course.tally().min(budget);
            let most = left / (directions.len() - i) as u64;
            if let Err(why) = all(&course, *direction, time, most).await {
                let direction = *direction;
                let note = L4sNote::Untried { direction, why };
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
    let mut echoes = Echoes::open(course, (direction, PORTS), time * 3).await?;
    let all = echoes.markings([NOT_ECT, ECT1, ECT0, CE]).await?;
    let kept = all.iter().all(arrives);
    course
        .note(&L4sNote::Codepoints { direction, all }, "server")
        .await;
    let limits = Limits {
        lasts: time,
        most: budget * 3 / 10,
    };
    let l4s = || Flow::controlled("l4s", ECT1, "prague");
    let classic = || Flow::controlled("classic", NOT_ECT, "cubic");
    // Two, because a queue may take one of them and CUBIC's for one flow: it knows flows by a hash.
    let sparse = |name| Flow::sparse(name, NOT_ECT);
    let mut phases: Vec<(Phase, Ran)> = Vec::new();
    for (phase, stage, flows) in [
        (Phase::Alone, "Prague alone", vec![l4s()]),
        (Phase::Classic, "CUBIC alone", vec![classic()]),
        (
            Phase::Together,
            "Prague beside CUBIC",
            vec![l4s(), classic(), sparse("sparse"), sparse("sparse2")],
        ),
    ] {
        course.wait(REST).await;
        let stage = format!("{stage}, {direction}");
        phases.push((phase, echoes.run(&stage, &flows, limits).await?));
    }
    // The smallest round trip is known at the end.
    let base = echoes.base.unwrap_or_default();
    for (phase, ran) in &phases {
        let note = L4sNote::Phase {
            direction,
            phase: *phase,
            lasted_ns: ran.lasted.as_nanos(),
            base_ns: base.as_nanos(),
            flows: seen::flows(direction, ran, base),
        };
        course.note(&note, "server").await;
    }
    if !kept {
        ecn::codepoints(course, direction, echoes.to()).await;
    }
    Ok(())
}

/// True if a datagram of this codepoint arrived as it left.
fn arrives(one: &Codepoint) -> bool {
    let as_it_left = |tos: &Option<u8>| tos.is_none_or(|tos| tos & 3 == one.tos);
    one.arrived.iter().any(|(tos, _)| as_it_left(tos))
}
