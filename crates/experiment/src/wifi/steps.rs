//! Samples of the radio beside round trips to the gateway and the server, without load and with loads.

use super::Params;
use super::note::{Phase, Sample, WifiNote};
use crate::ask::{Answer, Ask, Trace, Tracing, Wifi};
use crate::course::{Course, OfCourse};
use crate::host::{Load, Probing, Stopped};
use crate::spec::Setting;
use crate::steps::Action;
use base::record::Direction;
use base::{Bytes, Duration};

/// Least budget: probes, and a load of a second at 2 Mbit/s.
const LEAST: Bytes = Bytes::new(1_000_000);
/// Interval of the samples.
const EACH: Duration = Duration::from_millis(100);
/// Interval of the probes to the server.
const PROBES: Duration = Duration::from_millis(20);
/// Longest run of flows of a load, beside its phase.
const MORE: Duration = Duration::from_secs(10);

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("wifi", LEAST)?;
    let budget = setting.budget;
    let phases = 1 + params.load.directions().len() as u64;
    let whole = params.time * phases + Duration::from_secs(1);
    Ok(OfCourse::new(whole, move |course| async move {
        if let Err(why) = all(&course, &params, budget).await {
            course.note(&WifiNote::Untried { why }, "host").await;
        }
        Ok(())
    })
    .ended_by(|course| async move {
        course.act(Action::StopLoad(None)).await;
        course.act(Action::Collect).await;
        course.act(Action::StopProbes).await;
        Ok(())
    }))
}

async fn all(course: &Course, params: &Params, budget: Bytes) -> Result<(), String> {
    let first = wifi(course).await?;
    let name = first.interface;
    course.note(&WifiNote::Interface { name }, "host").await;
    let interval = PROBES;
    course
        .act(Action::Probe(Probing {
            interval,
            shortest: interval,
        }))
        .await;
    // One hop: the gateway, or the server if there is none between.
    let tracing = Tracing {
        hops: 1,
        landmarks: Vec::new(),
        echoes_within: EACH,
    };
    course.ask(Ask::Trace(Trace::Open(tracing))).await;
    course.ask(Ask::Trace(Trace::On(EACH))).await;
    let loads = params.load.directions();
    phase(course, (params, Phase::Idle), budget).await?;
    for (i, direction) in loads.iter().enumerate() {
        let number = i as u32;
        let load = Load {
            number,
            direction: *direction,
            flows: params.flows,
            congestion: None,
            duration: params.time + MORE,
            sample: EACH,
            datagrams: None,
        };
        let left = (budget - course.tally().min(budget)) / (loads.len() - i) as u64;
        course.act(Action::Load(load)).await;
        let its = match direction {
            Direction::Up => Phase::Up,
            Direction::Down => Phase::Down,
        };
        let done = phase(course, (params, its), left).await;
        course.act(Action::StopLoad(Some(number))).await;
        course.act(Action::Collect).await;
        done?;
    }
    course.ask(Ask::Trace(Trace::End)).await;
    course.act(Action::StopProbes).await;
    Ok(())
}

async fn wifi(course: &Course) -> Result<Wifi, String> {
    match course.ask(Ask::Wifi).await {
        Some(Answer::Wifi(wifi)) => wifi,
        _ => Err("this host does not tell the state of its Wi-Fi".into()),
    }
}

async fn phase(
    course: &Course,
    (params, phase): (&Params, Phase),
    most: Bytes,
) -> Result<(), String> {
    let stage = match phase {
        Phase::Idle => "at rest",
        Phase::Down => "download",
        Phase::Up => "upload",
    };
    let (began, before) = (course.now(), course.tally());
    let mut samples = Vec::new();
    let mut taken = 0;
    while course.now().saturating_since(began) < params.time && course.tally() - before < most {
        course.stage(stage).await;
        let next = began + EACH * taken;
        course.wait(next.saturating_since(course.now())).await;
        // Where the host was late, samples are left out rather than bunched.
        taken = course.now().saturating_since(began).as_nanos() / EACH.as_nanos() + 1;
        let wifi = wifi(course).await?;
        let latest = match course.ask(Ask::Trace(Trace::Latest)).await {
            Some(Answer::RoundTrip(Some((at, rtt)))) => {
                let fresh = course.now().saturating_since(at) < EACH * 3;
                fresh.then(|| rtt.as_secs_f64() * 1e3)
            }
            _ => None,
        };
        let sample = sample(course.unix_ns(), latest, wifi);
        samples.push(sample);
    }
    let note = WifiNote::Phase { phase, samples };
    course.note(&note, "host").await;
    Ok(())
}

fn sample(t_ns: i64, gateway_ms: Option<f64>, wifi: Wifi) -> Sample {
    let Wifi {
        station,
        survey,
        power_save,
        mhz,
        ..
    } = wifi;
    let bssid = station.bssid.map(|b| format!("{b:02x}")).join(":");
    Sample {
        t_ns,
        gateway_ms,
        bssid,
        mhz,
        signal_dbm: station.signal_dbm,
        tx_bps: station.tx_bps,
        rx_bps: station.rx_bps,
        tx_packets: station.tx_packets,
        tx_retries: station.tx_retries,
        tx_bytes: station.tx_bytes,
        backlog_bytes: station.backlog_bytes,
        active_ms: survey.and_then(|s| s.active_ms),
        busy_ms: survey.and_then(|s| s.busy_ms),
        own_ms: survey.and_then(|s| s.tx_ms),
        power_save,
    }
}
