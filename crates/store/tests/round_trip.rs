//! What is written is what is read, closed or not.

mod common;

use base::record::{Delay, Event, HostLoad, Meta, Origin, Queue, Row, Status, TableId};
use common::{NOON, Scratch, meta, of, row, rows};
use proptest::prelude::*;
use std::io;
use std::path::Path;
use store::disk::{Disk, Output, RealDisk};
use store::{Name, Options, StoreError, Writer, read, read_noting};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

#[test]
fn a_recording_has_its_shape_while_open_and_when_closed() {
    let dir = Scratch::new("shape");
    let path = dir.join("home.rec");
    let mut w = Options {
        utc_offset_s: 3600,
        ..Options::default()
    }
    .create(&path, meta())
    .unwrap();
    w.write(row(TableId::Delay, NOON, 0)).unwrap();
    w.write(row(TableId::Event, NOON, 1)).unwrap();
    w.write(row(TableId::Delay, NOON + DAY / 2 - 3600 * SECOND, 2))
        .unwrap();
    w.flush().unwrap();
    assert_eq!(
        files(&path),
        [
            "delay/2026-11-21.arrows",
            "delay/2026-11-22.arrows",
            "event/2026-11-21.arrows",
            // Who writes, for as long as it does.
            "lock",
            "meta.json"
        ]
    );
    let open = read(&path).unwrap();
    assert_eq!(
        (open.meta.complete, open.meta.ended_ns, open.meta.format),
        (false, None, 1)
    );

    let end = Meta {
        complete: true,
        ended_ns: Some(NOON + DAY),
        ..meta()
    };
    assert_eq!(w.close(end.clone()).unwrap().rows, 3);
    assert_eq!(
        files(&path),
        [
            "delay/2026-11-21.parquet",
            "delay/2026-11-22.parquet",
            "event/2026-11-21.parquet",
            "meta.json"
        ]
    );
    let closed = read(&path).unwrap();
    assert_eq!(closed.meta, Meta { format: 1, ..end });
    assert_eq!(rows(&closed), rows(&open));
}

#[test]
fn an_existing_recording_is_never_written_over() {
    let dir = Scratch::new("exists");
    let path = dir.join("home.rec");
    Writer::create(&path, meta())
        .unwrap()
        .close(meta())
        .unwrap();
    let refused = Writer::create(&path, meta()).err();
    assert!(
        matches!(&refused, Some(StoreError::Exists { path: named }) if *named == path),
        "{refused:?}"
    );
    let free = Options {
        name: Name::NextFree,
        ..Options::default()
    };
    assert_eq!(
        free.create(&path, meta()).unwrap().path(),
        dir.join("home-2.rec")
    );
    assert_eq!(
        free.create(&path, meta()).unwrap().path(),
        dir.join("home-3.rec")
    );
}

#[test]
fn rows_reach_the_file_within_half_a_second_of_ticks() {
    let dir = Scratch::new("tick");
    let path = dir.join("r.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    w.write(row(TableId::Delay, NOON + 1, 0)).unwrap();
    w.tick(NOON + 499_999_999).unwrap();
    assert_eq!(read(&path).unwrap().delay.len(), 0);
    w.tick(NOON + 500_000_000).unwrap();
    assert_eq!(read(&path).unwrap().delay.len(), 1);
    // A probe that was lost ten seconds ago neither hurries nor delays the next flush.
    w.write(row(TableId::Delay, NOON - 10 * SECOND, 1)).unwrap();
    assert_eq!(w.rows_saved(), 1);
    w.tick(NOON + SECOND).unwrap();
    assert_eq!(w.rows_saved(), 2);
}

#[test]
fn a_row_with_an_absurd_time_does_not_stop_the_flushing() {
    let dir = Scratch::new("absurd");
    let mut w = Writer::create(dir.join("r.rec"), meta()).unwrap();
    w.write(row(TableId::Delay, i64::MAX, 0)).unwrap();
    w.write(row(TableId::Delay, i64::MIN, 1)).unwrap();
    w.write(row(TableId::Delay, NOON, 2)).unwrap();
    w.tick(NOON + SECOND).unwrap();
    assert_eq!(w.rows_saved(), 3);
}

#[test]
fn a_dropped_writer_leaves_its_rows() {
    let dir = Scratch::new("drop");
    let path = dir.join("r.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    w.write(row(TableId::Flow, NOON, 0)).unwrap();
    drop(w);
    let r = read(&path).unwrap();
    assert_eq!((r.flow.len(), r.meta.complete), (1, false));
}

#[test]
fn simulated_rows_wait_for_a_full_batch_however_fast_their_time_goes() {
    let dir = Scratch::new("simulated");
    let mut w = Writer::create(
        dir.join("r.rec"),
        Meta {
            origin: Origin::Simulated,
            ..meta()
        },
    )
    .unwrap();
    for i in 0..1000 {
        w.write(row(TableId::Delay, NOON + i * SECOND, i)).unwrap();
    }
    assert_eq!(w.rows_saved(), 0);
    assert_eq!(w.close(meta()).unwrap().rows, 1000);
}

#[test]
fn tables_written_in_turn_past_a_batch_outlive_a_writer_that_was_never_closed() {
    let dir = Scratch::new("dropped");
    let path = dir.join("r.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    for i in 0..70_000 {
        for table in [TableId::Delay, TableId::Flow] {
            w.write(row(table, NOON + i, i)).unwrap();
        }
    }
    drop(w);
    let r = read(&path).unwrap();
    assert_eq!((r.delay.len(), r.flow.len()), (70_000, 70_000));
    assert!(r.delay.iter().enumerate().all(|(i, d)| d.seq == i as i64));
}

#[test]
fn what_is_not_a_recording_is_told_so() {
    let dir = Scratch::new("bad");
    let path = dir.join("r.rec");
    Writer::create(&path, meta()).unwrap();
    let said = |p: &Path| read(p).unwrap_err().to_string();
    for none in [dir.join("nowhere"), path.join("meta.json"), dir.join("")] {
        assert!(
            matches!(read(&none), Err(StoreError::NotARecording { path, .. }) if path == none),
            "{}",
            said(&none)
        );
    }

    std::fs::write(path.join("meta.json"), r#"{"format": 7, "colour": "blue"}"#).unwrap();
    assert!(
        matches!(
            read(&path),
            Err(StoreError::NewerFormat {
                found: 7,
                supported: 1,
                ..
            })
        ),
        "{}",
        said(&path)
    );
    std::fs::write(path.join("meta.json"), r#"{"format": 1, "colour": "blue"}"#).unwrap();
    assert!(
        matches!(read(&path), Err(StoreError::Damaged { .. })),
        "{}",
        said(&path)
    );
    std::fs::write(path.join("meta.json"), "{").unwrap();
    assert!(
        matches!(read(&path), Err(StoreError::Damaged { .. })),
        "{}",
        said(&path)
    );
    let refused = Writer::create(dir.join("none/r.rec"), meta()).err();
    assert!(
        matches!(&refused, Some(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound),
        "{refused:?}"
    );
}

#[test]
fn a_damaged_parquet_file_is_named() {
    let dir = Scratch::new("damaged");
    let path = dir.join("r.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    w.write(row(TableId::Delay, NOON, 0)).unwrap();
    w.close(meta()).unwrap();
    let file = path.join("delay/2026-11-21.parquet");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..50]).unwrap();
    let (recording, notes) = read_noting(&path).unwrap();
    assert!(recording.delay.is_empty());
    assert_eq!((&notes[0].file, notes[0].rows_kept), (&file, 0));
}

/// Names of the files of a recording, sorted.
fn files(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(
                files(&entry.path())
                    .into_iter()
                    .map(|f| format!("{name}/{f}")),
            );
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// An instant that a recording can hold.
fn instant() -> impl Strategy<Value = i64> {
    prop_oneof![
        0..=4_000_000_000_000_000_000i64,
        Just(0),
        Just(4_000_000_000_000_000_000)
    ]
}

/// A number that every column of integers can hold.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![0..=1i64 << 53, Just(0), Just(1 << 53)]
}

fn delay() -> impl Strategy<Value = Row> {
    let opt = || proptest::option::of(number());
    let first = (instant(), number(), "[ -~äß東]{0,12}", opt(), opt(), opt());
    let second = (
        opt(),
        opt(),
        opt(),
        opt(),
        0..Status::ALL.len(),
        opt(),
        opt(),
    );
    (first, second).prop_map(
        |((sent_ns, seq, target, rtt_ns, owd_up_ns, owd_down_ns), s)| {
            let (remote_rx_ns, remote_tx_ns, host_ns, late_send_ns, status, ecn, dscp) = s;
            Row::from(Delay {
                sent_ns,
                seq,
                target: target.as_str().into(),
                rtt_ns,
                owd_up_ns,
                owd_down_ns,
                remote_rx_ns,
                remote_tx_ns,
                host_ns,
                late_send_ns,
                status: Status::ALL[status],
                ecn,
                dscp,
            })
        },
    )
}

fn any_row() -> impl Strategy<Value = Row> {
    let real = || {
        proptest::option::of(any::<f64>().prop_filter("NaN differs from itself", |v| !v.is_nan()))
    };
    let queue = (
        instant(),
        "[ -~äß東]{0,9}",
        real(),
        proptest::option::of(number()),
        [number(), number(), number(), number(), number()],
    );
    prop_oneof![
        3 => delay(),
        // Every table, at times around a midnight and at the ends of what can be written.
        5 => (0..TableId::ALL.len(), -2..2i64, 0..2000i64)
            .prop_map(|(t, day, n)| row(TableId::ALL[t], NOON + day * DAY / 2, n)),
        1 => (instant(), real(), real(), real()).prop_map(|(t_ns, cpu, user, wait)| {
            HostLoad::of(t_ns, [cpu, user, None, user, wait]).into()
        }),
        1 => (instant(), "[ -~\n東]*", "[ -~äß東]*", "[ -~\n\t東]*").prop_map(|(t_ns, kind, subject, detail)| Event {
            t_ns, kind: kind.as_str().into(), subject: subject.as_str().into(), detail: detail.as_str().into(),
        }.into()),
        1 => queue.prop_map(|(t_ns, queue, probability, sojourn_ns, n)| Queue {
            t_ns, queue: queue.as_str().into(), backlog_bytes: n[0], backlog_packets: n[1], sojourn_ns,
            drops: n[2], marks: n[3], probability, delivered_bytes: n[4],
        }.into()),
    ]
}

/// Waits for nothing: rows with any time at all make a file each, and it is not durability that is tried here.
struct Hasty;

impl Disk for Hasty {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_dir(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        RealDisk
            .create(path)
            .map(|file| Box::new(HastyOutput(file)) as Box<dyn Output>)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        RealDisk
            .open(path)
            .map(|file| Box::new(HastyOutput(file)) as Box<dyn Output>)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct HastyOutput(Box<dyn Output>);

impl Output for HastyOutput {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn rows_of_every_table_survive_in_order(
        written in proptest::collection::vec((any_row(), prop::bool::weighted(0.1)), 0..120),
        utc_offset_s in -50_000..50_000i32,
    ) {
        let dir = Scratch::new("any");
        let path = dir.join("r.rec");
        let simulated = Meta { origin: Origin::Simulated, ..meta() };
        let mut w = Options { utc_offset_s, ..Options::default() }.create_on(Box::new(Hasty), &path, simulated).unwrap();
        for (row, flush) in &written {
            w.write(row.clone()).unwrap();
            if *flush {
                w.flush().unwrap();
            }
        }
        w.flush().unwrap();
        let (open, notes) = read_noting(&path).unwrap();
        prop_assert_eq!(notes, vec![]);
        prop_assert_eq!(w.close(meta()).unwrap().rows, written.len() as u64);
        let closed = read(&path).unwrap();
        let day = |r: &Row| {
            let local = i128::from(r.time_ns()) + i128::from(utc_offset_s) * i128::from(SECOND);
            local.div_euclid(i128::from(DAY))
        };
        for &table in TableId::ALL {
            let mut want: Vec<Row> = written.iter().map(|(r, _)| r.clone()).filter(|r| r.table() == table).collect();
            want.sort_by_key(day);
            prop_assert_eq!(&of(&open, table), &want);
            prop_assert_eq!(&of(&closed, table), &want);
        }
    }
}

#[test]
fn columns_say_what_the_rows_say() {
    let dir = Scratch::new("columns");
    let path = dir.join("home.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    for n in 0..3000 {
        w.write(row(TableId::Delay, NOON + n * DAY / 2000, n))
            .unwrap();
    }
    w.flush().unwrap();
    let wanted = ["sent_ns", "rtt_ns", "target", "status"];
    for closed in [false, true] {
        if closed {
            w.close(meta()).unwrap();
            w = Writer::create(dir.join("another.rec"), meta()).unwrap();
        }
        let mut texts = Vec::new();
        let mut seen = Vec::new();
        let notes = store::scan(&path, TableId::Delay, &wanted, &mut |c| {
            let (sent, rtt) = (c.ints("sent_ns"), c.ints("rtt_ns"));
            let target = c.words("target", &mut texts).unwrap();
            let status = c.words("status", &mut texts).unwrap();
            // Not asked for: only an open file has it all the same.
            assert!(!closed || c.ints("ecn").get(0).is_none());
            for i in 0..c.len() {
                let word = |n: u32| texts[n as usize].clone();
                seen.push((
                    sent.get(i).unwrap(),
                    rtt.get(i),
                    word(target[i]),
                    word(status[i]),
                ));
            }
        });
        assert_eq!(notes.unwrap(), []);
        let rows = read(&path).unwrap().delay.into_iter();
        let rows: Vec<_> = rows
            .map(|d| (d.sent_ns, d.rtt_ns, d.target, d.status.word().into()))
            .collect();
        assert_eq!(seen, rows);
    }
}
