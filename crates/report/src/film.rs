//! Film of a simulation for teaching: a page that shows the packets in a queue, the windows of the transfers, drops and
//! marks over time. It fetches nothing; without a script it has the plots.

use crate::html::head;
use crate::inside::{busiest, heading, name, signals, waits};
use analysis::inside::{FlowSample, Inside, QueueSample, Samples};
use jiff::tz::TimeZone;
use maud::{DOCTYPE, PreEscaped, html};
use serde::Serialize;

const SCRIPT: &str = include_str!("../web/dist/film.js");
/// Most frames.
const FRAMES: usize = 2_000;
/// Transfers whose windows are shown: the largest.
const FLOWS: usize = 6;

#[derive(Serialize)]
struct Film {
    seconds: f64,
    frames: usize,
    queues: Vec<Queue>,
    flows: Vec<Flow>,
}

#[derive(Serialize)]
struct Queue {
    name: String,
    packets: Vec<i64>,
    kb: Vec<f64>,
    wait_ms: Vec<Option<f64>>,
    drops: Vec<i64>,
    marks: Vec<i64>,
}

#[derive(Serialize)]
struct Flow {
    name: String,
    window_kb: Vec<Option<f64>>,
}

/// Index of the latest sample at each time, `None` before the first.
fn latest<T>(all: &[T], times: &[i64], at: impl Fn(&T) -> i64) -> Vec<Option<usize>> {
    let mut next = 0;
    let find = |t: &i64| {
        while all.get(next).is_some_and(|s| at(s) <= *t) {
            next += 1;
        }
        next.checked_sub(1)
    };
    times.iter().map(find).collect()
}

/// Rounds to three decimals, so that the page stays small.
fn short(v: f64) -> f64 {
    (v * 1e3).round() / 1e3
}

fn film(i: &Inside, samples: &Samples) -> Film {
    let most = samples.queues.iter().map(|q| q.all.len()).max();
    let frames = most.unwrap_or(0).clamp(2, FRAMES);
    let span = (i.to_ns - i.from_ns).max(1);
    let time = |k: usize| {
        let part = i128::from(span) * k as i128 / (frames - 1) as i128;
        i.from_ns + i64::try_from(part).unwrap_or(span)
    };
    let times: Vec<i64> = (0..frames).map(time).collect();
    let queues = samples.queues.iter().map(|q| {
        let places = latest(&q.all, &times, |s: &QueueSample| s.t_ns);
        let waits: Vec<(i64, Option<f64>)> = q.waits_ms().collect();
        let of = |value: &dyn Fn(&QueueSample) -> i64| -> Vec<i64> {
            let each = places.iter().map(|p| p.map_or(0, |p| value(&q.all[p])));
            each.collect()
        };
        Queue {
            name: q.name.clone(),
            packets: of(&|s| s.backlog_packets),
            kb: of(&|s| s.backlog_bytes)
                .into_iter()
                .map(|bytes| short(bytes as f64 / 1e3))
                .collect(),
            wait_ms: places.iter().map(|p| waits[(*p)?].1.map(short)).collect(),
            drops: of(&|s| s.drops),
            marks: of(&|s| s.marks),
        }
    });
    let flows = busiest(i, FLOWS).into_iter().map(|at| {
        let all = &samples.flows[at].all;
        let places = latest(all, &times, |s: &FlowSample| s.t_ns);
        let kb = |p: &Option<usize>| Some(short(all[(*p)?].cwnd_bytes? as f64 / 1e3));
        Flow {
            name: name(i, at),
            window_kb: places.iter().map(kb).collect(),
        }
    });
    Film {
        seconds: span as f64 / 1e9,
        frames,
        queues: queues.collect(),
        flows: flows.collect(),
    }
}

/// Renders the page.
///
/// # Errors
/// A recording without queues.
pub fn page(i: &Inside, samples: &Samples, zone: &TimeZone) -> Result<String, String> {
    if samples.queues.is_empty() {
        return Err("no queue was sampled".into());
    }
    let title = match i.title.trim() {
        "" => "Film of a queue",
        title => title,
    };
    let json = serde_json::to_string(&film(i, samples)).map_err(|e| e.to_string())?;
    let pictures = [waits(i, samples).ok(), signals(i, samples).ok()];
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                main {
                    header {
                        p.meta { (heading(i, zone)) }
                        h1 { (title) }
                    }
                    section {
                        div #film { p { "The film needs a script; the plots below do not." } }
                    }
                    @for picture in pictures.iter().flatten() {
                        section { figure.still tabindex="0" { (picture.picture()) } }
                    }
                }
                footer { p { "This page fetches nothing." } }
                script type="application/json" #film-data { (crate::data::inline(&json)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string())
}
