//! What recording costs: rows a second into the stream, into Parquet and back, bytes a row in both, and how long one
//! flush waits for the disk. `cargo run --release -p tailback-store --example throughput -- DIR`

use base::record::{Delay, Meta, Origin, Row, Status};
use base::rng::{Streams, uniform};
use std::path::{Path, PathBuf};
use std::time::Instant;
use store::Writer;

const ROWS: i64 = 1_000_000;
const FLUSHES: i64 = 40;
/// 2026-11-21T12:00:00Z.
const NOON: i64 = 1_795_262_400_000_000_000;

fn main() {
    let dir = PathBuf::from(
        std::env::args()
            .nth(1)
            .expect("usage: throughput DIR, a directory that may be written to"),
    );
    let path = dir.join("throughput.rec");
    let meta = Meta {
        origin: Origin::Simulated,
        started_ns: NOON,
        ..Meta::default()
    };

    let mut writer = Writer::create(&path, meta.clone()).expect("a new recording");
    let rows: Vec<Row> = (0..ROWS).map(row).collect();
    let begin = Instant::now();
    for row in rows {
        writer.write(row).expect("a row");
    }
    writer.flush().expect("a flush");
    let streamed = begin.elapsed().as_secs_f64();
    let stream_bytes = bytes_in(&path.join("delay"));
    let begin = Instant::now();
    writer.close(meta).expect("a closed recording");
    let closed = begin.elapsed().as_secs_f64();
    let parquet_bytes = bytes_in(&path.join("delay"));
    let begin = Instant::now();
    assert_eq!(
        store::read(&path).expect("the recording reads").delay.len() as i64,
        ROWS
    );
    let read = begin.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&path).expect("the recording can be removed");

    let rate = |seconds: f64| ROWS as f64 / seconds / 1e6;
    let each = |bytes: u64| bytes as f64 / ROWS as f64;
    println!(
        "stream   {:6.2} M rows/s  {:6.1} B/row",
        rate(streamed),
        each(stream_bytes)
    );
    println!(
        "parquet  {:6.2} M rows/s  {:6.1} B/row",
        rate(closed),
        each(parquet_bytes)
    );
    println!("read     {:6.2} M rows/s", rate(read));

    // A live recording at 1 kHz: half a second of rows, written and synced.
    let meta = Meta {
        started_ns: NOON,
        ..Meta::default()
    };
    let mut writer = Writer::create(&path, meta).expect("a new recording");
    let mut waits_ms: Vec<f64> = (0..FLUSHES)
        .map(|flush| {
            for seq in flush * 500..(flush + 1) * 500 {
                // All at one instant, so that only the flush below is due.
                writer
                    .write(Row::from(Delay {
                        sent_ns: NOON,
                        ..delay(seq)
                    }))
                    .expect("a row");
            }
            let begin = Instant::now();
            writer.flush().expect("a flush");
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    drop(writer);
    std::fs::remove_dir_all(&path).expect("the recording can be removed");
    waits_ms.sort_by(f64::total_cmp);
    println!(
        "flush    {:6.2} ms median, {:.2} ms most (500 rows, synced)",
        waits_ms[waits_ms.len() / 2],
        waits_ms[waits_ms.len() - 1]
    );
}

fn row(seq: i64) -> Row {
    delay(seq).into()
}

/// A probe a millisecond whose times wander as those of a loaded line do: microseconds of noise on a queue that fills.
fn delay(seq: i64) -> Delay {
    // A stream a row, so that a row is the same whenever it is made.
    let noise = (uniform(&mut Streams::new(seq as u64).stream("noise")) * 20_000.0) as i64;
    let sent_ns = NOON + seq * 1_000_000 + noise;
    let rtt_ns = 19_000_000 + (seq % 4_000) * 100_000 + noise * 7;
    Delay {
        sent_ns,
        seq,
        target: "udp".into(),
        rtt_ns: (seq % 97 != 0).then_some(rtt_ns),
        owd_up_ns: None,
        owd_down_ns: None,
        remote_rx_ns: (seq % 97 != 0).then_some(sent_ns + rtt_ns / 2),
        remote_tx_ns: (seq % 97 != 0).then_some(sent_ns + rtt_ns / 2 + 30_000 + noise / 2),
        host_ns: Some(40_000 + noise / 3),
        late_send_ns: Some(noise / 2),
        status: if seq % 97 == 0 {
            Status::Lost
        } else {
            Status::Ok
        },
        ecn: Some(0),
        dscp: Some(0),
    }
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("the table's directory is there");
    entries
        .map(|e| {
            e.and_then(|e| e.metadata())
                .expect("the file is there")
                .len()
        })
        .sum()
}
