//! A cell in virtual time: trains over a `link::Link`, whose receiver's clock is hours off and drifts.

use crate::accuracy::line::Line;
use crate::accuracy::rows::Said;
use base::record::{Direction, Meta, Recording};
use base::{BitsPerSec, Duration};
use experiment::ProbeSpec;
use sim::craft::{Bench, Cross, Hosts};

pub fn run(probe: &str, line: &Line) -> Result<Said, String> {
    let hosts = Hosts {
        v6: line.v6,
        stamp_late: Duration::from_micros(10),
        ..Hosts::default()
    };
    let mut bench = Bench::new(&line.spec(), hosts).map_err(|e| e.to_string())?;
    if line.others > 0.0 {
        let rate = BitsPerSec::new((line.others * line.rate) as u64);
        bench.share_with(Direction::Up, Cross { rate });
    }
    let spec: ProbeSpec = probe.parse().expect("a kind of ours");
    let trains = bench.run(|trains| spec.next(trains));
    let mut recording = Recording {
        meta: Meta {
            verb: "probe".into(),
            plan: serde_json::json!({ "probe": spec }),
            ..Meta::default()
        },
        ..Recording::default()
    };
    for train in trains {
        let (datagrams, event) = train.rows(0);
        recording.datagram.extend(datagrams);
        recording.event.push(event);
    }
    let answer = experiment::analyse(&recording).map_err(|e| e.to_string())?;
    Ok(Said {
        answer: serde_json::to_value(answer).map_err(|e| e.to_string())?,
        ..Said::default()
    })
}
