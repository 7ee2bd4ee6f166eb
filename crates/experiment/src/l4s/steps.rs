//! Datagrams of every codepoint, then Prague alone, CUBIC alone and both together.

use super::note::{Codepoint, L4sNote, Phase};
use super::{CE, ECT0, ECT1, NOT_ECT, Params};
use crate::course::{Course, OfCourse};
use crate::flows::{Echoes, Flow, Limits, Pace, Ran};
use crate::host::Stopped;
use crate::spec::Setting;
use base::{Bytes, Duration};

/// Least budget: three seconds of each phase at a few Mbit/s.
const LEAST: Bytes = Bytes::new(5_000_000);
/// Share of a phase at its start in which flows find their rate.
const START: f64 = 0.3;
/// Time and interval of the datagrams of each codepoint.
const FIRST: (Duration, Duration) = (Duration::from_millis(1200), Duration::from_millis(100));
/// Interval of the unmarked datagrams beside the flows.
const SPARSE: Duration = Duration::from_millis(20);
/// Pause between phases.
const REST: Duration = Duration::from_millis(700);
/// Ports: one for each codepoint, of which three serve the flows, too.
const PORTS: usize = 4;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("l4s", LEAST)?;
    let (time, budget) = (params.time, setting.budget);
    Ok(OfCourse::new(
        time * 3 + Duration::from_secs(5),
        move |course| async move {
            if let Err(why) = all(&course, time, budget).await {
                course.note(&L4sNote::Untried { why }, "server").await;
            }
            Ok(())
        },
    ))
}

fn controlled(name: &'static str, tos: u8, controller: &str) -> Flow {
    Flow {
        name,
        tos,
        pace: Pace::Controlled(controller.parse().expect("a controller of the registry")),
    }
}

async fn all(course: &Course, time: Duration, budget: Bytes) -> Result<(), String> {
    let mut echoes = Echoes::open(course, PORTS).await?;
    codepoints(course, &mut echoes).await?;
    if echoes.base.is_none() {
        return Err("no datagram came back: UDP may be filtered".into());
    }
    let limits = Limits {
        lasts: time,
        most: (budget - course.tally().min(budget)) * 3 / 10,
    };
    let l4s = || controlled("l4s", ECT1, "prague");
    let classic = || controlled("classic", NOT_ECT, "cubic");
    let sparse = Flow {
        name: "sparse",
        tos: NOT_ECT,
        pace: Pace::Every(SPARSE),
    };
    let mut phases: Vec<(Phase, Ran)> = Vec::new();
    for (phase, stage, flows) in [
        (Phase::Alone, "Prague alone", vec![l4s()]),
        (Phase::Classic, "CUBIC alone", vec![classic()]),
        (
            Phase::Together,
            "Prague beside CUBIC",
            vec![l4s(), classic(), sparse],
        ),
    ] {
        course.wait(REST).await;
        phases.push((phase, echoes.run(stage, &flows, limits).await?));
    }
    // The smallest round trip is known at the end.
    let base = echoes.base.unwrap_or_default();
    for (phase, ran) in &phases {
        let start = Duration::from_secs_f64(ran.lasted.as_secs_f64() * START);
        let note = L4sNote::phase(*phase, ran, base, start);
        course.note(&note, "server").await;
    }
    Ok(())
}

async fn codepoints(course: &Course, echoes: &mut Echoes) -> Result<(), String> {
    let flow = |tos| Flow {
        name: "codepoint",
        tos,
        pace: Pace::Every(FIRST.1),
    };
    let flows = [NOT_ECT, ECT1, ECT0, CE].map(flow);
    let limits = Limits {
        lasts: FIRST.0,
        most: LEAST,
    };
    let ran = echoes.run("codepoints", &flows, limits).await?;
    let all = ran.flows.into_iter().map(|f| Codepoint {
        tos: f.tos,
        sent: f.sent,
        arrived: f.tos_seen.into_iter().collect(),
    });
    let note = L4sNote::Codepoints { all: all.collect() };
    course.note(&note, "server").await;
    Ok(())
}
