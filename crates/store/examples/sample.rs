//! Writes `data/records/vN`, the sample by which later versions prove that they still read this one: a closed
//! recording, and one that a crash cut short. Run it with `cargo xtask sample`.

use base::record::{Cell, Event, FORMAT_VERSION, Kind, Meta, Row, TableId};
use std::path::Path;
use store::{Options, Writer};

/// 2026-11-21T23:59:59Z: the rows cross a midnight.
const BEGIN_NS: i64 = 1_795_305_599_000_000_000;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/records");
    let dir = root.join(format!("v{FORMAT_VERSION}"));
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("the old sample can be removed");
    }
    std::fs::create_dir_all(&dir).expect("the sample's directory can be made");
    let meta = Meta {
        writer: "sample".into(),
        verb: "test".into(),
        title: "sample".into(),
        started_ns: BEGIN_NS,
        ..Meta::default()
    };

    let mut closed = Options::default()
        .create(dir.join("closed.rec"), meta.clone())
        .expect("a new recording");
    rows(&mut closed);
    let end = Meta {
        complete: true,
        ended_ns: Some(BEGIN_NS + 2_000_000_000),
        ..meta.clone()
    };
    closed.close(end).expect("the sample can be closed");

    let mut crashed = Writer::create(dir.join("crashed.rec"), meta).expect("a new recording");
    crashed
        .write(
            Event {
                t_ns: BEGIN_NS,
                kind: "phase".into(),
                subject: "idle".into(),
                detail: "".into(),
            }
            .into(),
        )
        .expect("a row");
    crashed.flush().expect("the sample can be flushed");
    crashed
        .write(
            Event {
                t_ns: BEGIN_NS + 1,
                kind: "phase_end".into(),
                subject: "idle".into(),
                detail: "".into(),
            }
            .into(),
        )
        .expect("a row");
    drop(crashed);
    // Cut in the middle of the second batch.
    let torn = dir.join("crashed.rec/event/2026-11-21.arrows");
    let bytes = std::fs::read(&torn).expect("the stream is there");
    std::fs::write(&torn, &bytes[..bytes.len() - 40]).expect("the stream can be cut");
}

/// Eight rows of every table, a quarter of a second apart, with every word and with nulls.
fn rows(w: &mut Writer) {
    for number in 0..8 {
        for &table in TableId::ALL {
            w.write(row(table, BEGIN_NS + number * 250_000_000, number))
                .expect("a row");
        }
    }
}

fn row(table: TableId, t_ns: i64, number: i64) -> Row {
    let spec = table.spec();
    let mut cells = |i: usize| {
        let c = spec.columns[i];
        match c.kind {
            _ if c.nullable && number % 2 == 1 => Cell::Null,
            Kind::Int if c.name == spec.time => Cell::Int(t_ns),
            Kind::Int => Cell::Int(number * 10 + i as i64),
            Kind::Real => Cell::Real(number as f64 / 8.0),
            Kind::Flag => Cell::Flag(number % 4 == 0),
            Kind::Text if c.words.is_empty() => {
                Cell::Text(format!("{} {}", c.name, number % 2).into())
            }
            Kind::Text => Cell::Text(c.words[number as usize % c.words.len()].into()),
        }
    };
    table.row(&mut cells).expect("the cells fit the table")
}
