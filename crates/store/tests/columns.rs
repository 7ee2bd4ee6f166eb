//! Columns and record batches hold the values of the rows, whatever the file keeps of them.

#[path = "common/dir.rs"]
mod dir;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use base::record::{Delay, Status, TableId, Text};
use base::rng::{Rng, Streams, uniform};
use dir::{NOON, Scratch, meta};
use std::path::Path;
use store::Writer;

/// Sent time, RTT, target and status of a row.
type Seen = (i64, Option<i64>, String, String);

/// Rows of random targets, with stretches of thousands of rows without a single RTT.
fn draw(rng: &mut Rng) -> Vec<Delay> {
    let mut below = |n: usize| (uniform(rng) * n as f64) as usize;
    let targets = 1 + below(400) * below(2) + below(4);
    let stretch = 1 + below(30_000);
    let rows = below(60_000) as i64;
    (0..rows)
        .map(|i| Delay {
            sent_ns: NOON + i * 1000,
            seq: i,
            target: format!("näme {}", below(targets)).as_str().into(),
            rtt_ns: ((i as usize / stretch).is_multiple_of(2) && below(9) > 0)
                .then(|| 1 + below(1 << 40) as i64),
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: None,
            remote_tx_ns: None,
            host_ns: (below(3) > 0).then(|| below(90) as i64),
            late_send_ns: None,
            status: Status::ALL[below(Status::ALL.len())],
            ecn: None,
            dscp: None,
        })
        .collect()
}

fn scanned(path: &Path) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut words: Vec<Text> = Vec::new();
    let columns = ["status", "sent_ns", "rtt_ns", "target", "owd_up_ns"];
    let notes = store::scan(path, TableId::Delay, &columns, &mut |rows| {
        let (sent, rtt, null) = (
            rows.ints("sent_ns"),
            rows.ints("rtt_ns"),
            rows.ints("owd_up_ns"),
        );
        let targets = rows.words("target", &mut words).unwrap();
        let states = rows.words("status", &mut words).unwrap();
        for i in 0..rows.len() {
            assert_eq!(null.get(i), None);
            let text = |at: u32| words[at as usize].to_string();
            all.push((
                sent.get(i).unwrap(),
                rtt.get(i),
                text(targets[i]),
                text(states[i]),
            ));
        }
    });
    assert_eq!(notes.unwrap(), []);
    all
}

fn streamed(path: &Path) -> Vec<Seen> {
    let names = ["sent_ns", "rtt_ns", "target", "status", "dscp"].map(str::to_owned);
    let schema = store::table_schema(TableId::Delay, &names).unwrap();
    let mut all = Vec::new();
    for batch in store::batches(path, TableId::Delay, schema.clone()).unwrap() {
        let batch = batch.unwrap();
        assert_eq!(batch.schema(), schema);
        let int = |c: usize, i: usize| {
            let array = batch.column(c).as_primitive::<Int64Type>();
            array.is_valid(i).then(|| array.value(i))
        };
        let text = |array: &ArrayRef, i: usize| {
            let array = array.as_dictionary::<Int32Type>();
            let key = array.keys().value(i) as usize;
            array.values().as_string::<i32>().value(key).to_owned()
        };
        for i in 0..batch.num_rows() {
            assert_eq!(int(4, i), None);
            let texts = [2, 3].map(|c| text(batch.column(c), i));
            let [target, status] = texts;
            all.push((int(0, i).unwrap(), int(1, i), target, status));
        }
    }
    all
}

#[test]
fn columns_and_batches_have_the_values_of_the_rows_while_open_and_when_closed() {
    for seed in 0..12 {
        println!("seed {seed}");
        let rows = draw(&mut Streams::new(seed).stream("columns"));
        let seen = |d: &Delay| {
            let target = d.target.to_string();
            (d.sent_ns, d.rtt_ns, target, d.status.word().to_owned())
        };
        let expected: Vec<Seen> = rows.iter().map(seen).collect();
        let dir = Scratch::new("columns");
        let path = dir.join("r.rec");
        let mut w = Writer::create(&path, meta()).unwrap();
        rows.into_iter()
            .for_each(|row| w.write(row.into()).unwrap());
        w.flush().unwrap();
        assert!(scanned(&path) == expected, "seed {seed}, open, scanned");
        assert!(streamed(&path) == expected, "seed {seed}, open, streamed");
        w.close(meta()).unwrap();
        assert!(scanned(&path) == expected, "seed {seed}, closed, scanned");
        assert!(streamed(&path) == expected, "seed {seed}, closed, streamed");
    }
}
