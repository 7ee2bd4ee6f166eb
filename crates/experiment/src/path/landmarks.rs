//! Landmarks: the gateway, the server and other named hosts by ICMP echo at rest, with the gateway's share of each
//! round trip.
//!
//! **Source.** Chandele 2012, section 6.4, tables 6.4.1 and 6.4.2 (the last hop is the larger part of round trips to
//! landmarks everywhere).

use super::super::answer::{Figured, Table};
use super::seen::{Phase, Seen};
use base::print::significant;
use stats::Figure;

/// Host with its round trips.
struct Host {
    name: String,
    address: String,
    target: String,
}

/// Hosts with a known mean, the gateway first.
fn hosts(seen: &Seen) -> Vec<Host> {
    let host = |name: String, address: &Option<String>, target: String| Host {
        name,
        address: address.clone().unwrap_or("–".into()),
        target,
    };
    let mut all = Vec::new();
    if seen.gateway.is_some() {
        // A gateway that lets itself be pinged is asked like the others.
        let echo = seen.counts("echo1").1 > 0;
        let target = if echo { "echo1" } else { "hop1" };
        all.push(host("the gateway".into(), &seen.gateway, target.into()));
    }
    all.push(host("the server".into(), &seen.server, "icmp".into()));
    for (i, landmark) in seen.landmarks.iter().enumerate() {
        let target = format!("landmark{}", i + 1);
        all.push(host(
            landmark.name.clone(),
            &Some(landmark.address.clone()),
            target,
        ));
    }
    all
}

/// Mean of the gateway's round trips as a share of another host's mean, with the interval.
fn share(gateway: &Figure, other: &Figure) -> Option<(f64, f64, f64)> {
    match (gateway, other) {
        (
            Figure::Is { value, low, high },
            Figure::Is {
                value: whole,
                low: least,
                high: most,
            },
        ) if *least > 0.0 => Some((value / whole, low / most, high / least)),
        _ => None,
    }
}

fn mean(seen: &Seen, target: &str, idle: &Phase) -> Figure {
    let ms = seen.answered(target, idle);
    match ms.is_empty() {
        true => Figure::cannot_tell("no answer"),
        false => stats::mean_figure(&ms),
    }
}

/// Figure for each named host.
pub fn figures(seen: &Seen, idle: &Phase) -> Vec<Figured> {
    let names = seen.landmarks.iter().enumerate();
    names
        .map(|(i, landmark)| {
            let target = format!("landmark{}", i + 1);
            Figured::time(
                &format!("{target}_ms"),
                &format!("round trip to {}, at rest", landmark.name),
                mean(seen, &target, idle),
            )
        })
        .collect()
}

/// Table of the hosts; none if no host answered.
pub fn table(seen: &Seen, idle: &Phase) -> Option<Table> {
    let hosts = hosts(seen);
    let gateway = seen.gateway.as_ref().and(hosts.first());
    let of_gateway = gateway.map(|g| mean(seen, &g.target, idle));
    let rows: Vec<Vec<String>> = hosts
        .iter()
        .enumerate()
        .map(|(i, host)| {
            let ms = seen.answered(&host.target, idle);
            let moments = stats::moments(&ms);
            let cell = |of: fn(&stats::Moments) -> f64| {
                moments
                    .as_ref()
                    .map_or("–".into(), |m| significant(of(m), 3))
            };
            let its = mean(seen, &host.target, idle);
            let part = match (&of_gateway, i) {
                (None, _) | (Some(_), 0) => None,
                (Some(gateway), _) => share(gateway, &its),
            };
            let percent = |v: f64| significant(v * 100.0, 3);
            vec![
                host.name.clone(),
                host.address.clone(),
                format!(
                    "{} of {}",
                    ms.len(),
                    seen.in_phase(&host.target, idle).len()
                ),
                cell(|m| m.mean),
                cell(|m| m.sd),
                part.map_or("–".into(), |(value, low, high)| {
                    let [value, low, high] = [value, low, high].map(percent);
                    match low == high {
                        true => format!("{value} %"),
                        false => format!("{value} % ({low} to {high})"),
                    }
                }),
            ]
        })
        .collect();
    let heard = rows.iter().any(|r| r[3] != "–");
    heard.then(|| {
        Table::new(
            "The gateway and landmarks, at rest",
            [
                "host",
                "address",
                "answered",
                "mean, ms",
                "SD, ms",
                "the gateway's share",
            ],
            rows,
        )
    })
}
