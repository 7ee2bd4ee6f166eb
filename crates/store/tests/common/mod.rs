//! What several tests of this room need: a directory that goes away, rows of every table, disks that fail.

use base::record::{Cell, Kind, Recording, Row, TableId, Text};

mod dir;

pub use dir::{NOON, Scratch, meta};

/// A row of any table at `t_ns`, told apart by `number`: every column that may be null is null in some rows.
pub fn row(table: TableId, t_ns: i64, number: i64) -> Row {
    row_with(table, t_ns, number, None)
}

/// The same with one of its integers replaced.
pub fn row_with(table: TableId, t_ns: i64, number: i64, one: Option<(&str, i64)>) -> Row {
    let spec = table.spec();
    let time = spec
        .columns
        .iter()
        .position(|c| c.name == spec.time)
        .unwrap();
    let number_at = spec
        .columns
        .iter()
        .position(|c| c.kind == Kind::Int && c.name != spec.time);
    let mut cells = |i: usize| {
        let c = spec.columns[i];
        if let Some((name, value)) = one
            && name == c.name
        {
            return Cell::Int(value);
        }
        if i == time {
            return Cell::Int(t_ns);
        }
        if Some(i) == number_at {
            return Cell::Int(number);
        }
        if c.nullable && (number + i as i64) % 3 == 0 {
            return Cell::Null;
        }
        match c.kind {
            Kind::Int => Cell::Int(number.wrapping_mul(7919) ^ i as i64),
            Kind::Real => Cell::Real(number as f64 / 7.0),
            Kind::Flag => Cell::Flag(number % 2 == 0),
            Kind::Text if !c.words.is_empty() => Cell::Text(c.words[1].into()),
            Kind::Text => Cell::Text(Text::from(format!("name {}", number % 5))),
        }
    };
    table.row(&mut cells).expect("the cells fit the table")
}

/// All rows of a recording, table by table.
pub fn rows(recording: &Recording) -> Vec<Row> {
    let r = recording.clone();
    let mut all: Vec<Row> = r.delay.into_iter().map(Row::from).collect();
    all.extend(r.traffic.into_iter().map(Row::from));
    all.extend(r.flow.into_iter().map(Row::from));
    all.extend(r.queue.into_iter().map(Row::from));
    all.extend(r.datagram.into_iter().map(Row::from));
    all.extend(r.host.into_iter().map(Row::from));
    all.extend(r.modem.into_iter().map(Row::from));
    all.extend(r.radio.into_iter().map(Row::from));
    all.extend(r.availability.into_iter().map(Row::from));
    all.extend(r.distribution.into_iter().map(Row::from));
    all.extend(r.connection.into_iter().map(Row::from));
    all.extend(r.segment.into_iter().map(Row::from));
    all.extend(r.retransmission.into_iter().map(Row::from));
    all.extend(r.course.into_iter().map(Row::from));
    all.extend(r.counter.into_iter().map(Row::from));
    all.extend(r.decision.into_iter().map(Row::from));
    all.extend(r.conversation.into_iter().map(Row::from));
    all.extend(r.event.into_iter().map(Row::from));
    all
}

pub fn of(recording: &Recording, table: TableId) -> Vec<Row> {
    rows(recording)
        .into_iter()
        .filter(|r| r.table() == table)
        .collect()
}
