//! Files that end anywhere, and files with wrong bytes in them.

#![cfg(unix)]

mod common;

use base::record::{Row, TableId};
use common::{NOON, Scratch, meta, of, row};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::{StoreError, Writer, read, read_noting};

const BATCHES: i64 = 3;
const ROWS: i64 = 4;

/// An open recording with three batches of four delay rows; returns the file and its length after each batch.
fn open_recording(path: &Path) -> (PathBuf, Vec<u64>) {
    let file = path.join("delay/2026-11-21.arrows");
    let mut w = Writer::create(path, meta()).unwrap();
    let mut ends = vec![];
    for batch in 0..BATCHES {
        for i in 0..ROWS {
            w.write(row(TableId::Delay, NOON, batch * ROWS + i))
                .unwrap();
        }
        w.flush().unwrap();
        ends.push(std::fs::metadata(&file).unwrap().len());
    }
    (file, ends)
}

fn first_rows(n: i64) -> Vec<Row> {
    (0..n).map(|i| row(TableId::Delay, NOON, i)).collect()
}

/// As a line makes them: no time is foretold by those before it, so that columns take up space.
fn rows_of_a_line(n: i64) -> Vec<Row> {
    let mut state = 1u64;
    let mut noise = |below: i64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as i64 % below
    };
    let one = |i| {
        let Row::Delay(mut d) = row(TableId::Delay, NOON, i) else {
            unreachable!("a row of the table that was asked for");
        };
        d.sent_ns = NOON + i * 100_000_000 + noise(50_000);
        d.rtt_ns = Some(19_000_000 + noise(2_000_000));
        d.remote_rx_ns = Some(d.sent_ns + noise(20_000_000));
        d.remote_tx_ns = d.remote_rx_ns.map(|t| t + noise(30_000));
        d.host_ns = Some(noise(60_000));
        d.late_send_ns = Some(noise(60_000));
        Row::Delay(d)
    };
    (0..n).map(one).collect()
}

#[test]
fn a_file_cut_at_any_byte_keeps_the_whole_batches_before() {
    let dir = Scratch::new("cut");
    let path = dir.join("r.rec");
    let (file, ends) = open_recording(&path);
    let bytes = std::fs::read(&file).unwrap();
    for len in 0..=bytes.len() as u64 {
        std::fs::write(&file, &bytes[..len as usize]).unwrap();
        let (recording, notes) = read_noting(&path).unwrap();
        let whole = ends.iter().filter(|end| **end <= len).count();
        assert_eq!(
            of(&recording, TableId::Delay),
            first_rows(whole as i64 * ROWS),
            "cut at {len}"
        );
        let clean = ends.contains(&len);
        // The schema stands before the first batch and counts as whole by itself.
        match notes.as_slice() {
            [] => assert!(clean || whole == 0, "cut at {len}: nothing was said"),
            [note] => {
                assert!(!clean, "cut at {len}: {note}");
                assert_eq!(
                    (&note.file, note.rows_kept),
                    (&file, whole as u64 * ROWS as u64),
                    "cut at {len}"
                );
                let after_batch = len - if whole == 0 { 0 } else { ends[whole - 1] };
                assert!(
                    note.bytes_dropped == after_batch || whole == 0,
                    "cut at {len}: {note}"
                );
                let told = if len == 0 { "it is empty" } else { "cut short" };
                assert!(note.to_string().contains(told), "{note}");
            }
            more => panic!("cut at {len}: {more:?}"),
        }
    }
}

#[test]
fn zeros_or_noise_after_the_last_batch_cost_only_themselves() {
    let dir = Scratch::new("noise");
    let path = dir.join("r.rec");
    let (file, _) = open_recording(&path);
    let bytes = std::fs::read(&file).unwrap();
    for tail in [
        vec![0; 8],
        vec![0; 5000],
        vec![0xff; 4],
        vec![0xff; 5000],
        (0..=255).collect(),
    ] {
        std::fs::write(&file, [&bytes[..], &tail[..]].concat()).unwrap();
        let (recording, notes) = read_noting(&path).unwrap();
        assert_eq!(of(&recording, TableId::Delay), first_rows(BATCHES * ROWS));
        assert_eq!(
            notes.iter().map(|n| n.bytes_dropped).sum::<u64>(),
            tail.len() as u64,
            "{notes:?}"
        );
    }
}

/// A file system may have kept a file's length and lost what was written last: it then reads as zeros.
#[test]
fn a_last_batch_that_reads_as_zeros_makes_no_rows_of_nothing() {
    let dir = Scratch::new("zeros");
    let path = dir.join("r.rec");
    let (file, ends) = open_recording(&path);
    let bytes = std::fs::read(&file).unwrap();
    for from in ends[1]..ends[2] {
        let mut bytes = bytes.clone();
        bytes[from as usize..].fill(0);
        std::fs::write(&file, bytes).unwrap();
        let rows = of(&read(&path).unwrap(), TableId::Delay);
        assert_eq!(rows[..8], first_rows(8), "zeros from {from}");
        for r in &rows[8..] {
            assert_eq!(r.time_ns(), NOON, "zeros from {from} gave {r:?}");
        }
    }
}

/// A byte of a file that is wrong for as long as this lives. In place: a file that is written anew waits for the disk.
struct Flipped<'f> {
    file: &'f Path,
    at: u64,
    good: u8,
}

impl Flipped<'_> {
    fn new(file: &Path, at: usize, good: u8, flip: u8) -> Flipped<'_> {
        let at = at as u64;
        put(file, at, good ^ flip);
        Flipped { file, at, good }
    }
}

impl Drop for Flipped<'_> {
    fn drop(&mut self) {
        put(self.file, self.at, self.good);
    }
}

fn put(file: &Path, at: u64, byte: u8) {
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&[byte], at).unwrap();
}

/// Every row that is kept is one that was written, in its place; where one is missing, that is said.
fn kept_or_told(recording: &Path, written: &[Row], what: &str) -> usize {
    let (read, notes) = read_noting(recording).unwrap();
    let mut left = written.iter();
    let rows = of(&read, TableId::Delay);
    for row in &rows {
        assert!(left.any(|w| w == row), "{what}: {row:?} was never written");
    }
    assert!(
        rows.len() == written.len() || !notes.is_empty(),
        "{what}: {} rows are missing without a word",
        written.len() - rows.len()
    );
    rows.len()
}

#[test]
fn no_flipped_bit_becomes_a_wrong_figure_in_an_open_file() {
    let dir = Scratch::new("flipped-open");
    let path = dir.join("r.rec");
    let (file, ends) = open_recording(&path);
    let good = std::fs::read(&file).unwrap();
    let written = first_rows(BATCHES * ROWS);
    for (at, byte) in good.iter().enumerate() {
        let _flipped = Flipped::new(&file, at, *byte, 1 << (at % 8));
        let kept = kept_or_told(&path, &written, &format!("byte {at}"));
        let before = ends.iter().filter(|end| **end <= at as u64).count() as i64 * ROWS;
        assert!(
            kept as i64 >= before,
            "byte {at}: {kept} of {before} before it"
        );
    }
}

/// Three row groups of a closed day.
fn closed_recording(path: &Path) -> (PathBuf, Vec<Row>) {
    closed(path, rows_of_a_line(40_000))
}

fn closed(path: &Path, written: Vec<Row>) -> (PathBuf, Vec<Row>) {
    let mut w = Writer::create(path, meta()).unwrap();
    written.iter().for_each(|r| w.write(r.clone()).unwrap());
    w.close(meta()).unwrap();
    (path.join("delay/2026-11-21.parquet"), written)
}

#[test]
fn no_flipped_bit_becomes_a_wrong_figure_in_a_closed_file() {
    let dir = Scratch::new("flipped-closed");
    let path = dir.join("r.rec");
    let (file, written) = closed_recording(&path);
    let good = std::fs::read(&file).unwrap();
    // All over the file, and each bit in turn; its end, which describes it, more closely.
    let (ends, stride) = (good.len() - 4000, good.len() / 60);
    let places = (0..ends)
        .step_by(stride)
        .chain((ends..good.len()).step_by(97));
    let mut lost = Vec::new();
    for (n, at) in places.enumerate() {
        let _flipped = Flipped::new(&file, at, good[at], 1 << (n % 8));
        let kept = kept_or_told(&path, &written, &format!("byte {at}"));
        // A dictionary or a column that is all in the damaged block costs its group, one of three.
        assert!(kept >= 40_000 - 16_384, "byte {at}: {kept} rows");
        lost.extend((kept < 40_000).then_some(40_000 - kept));
    }
    assert!(lost.len() > 5, "{lost:?}");
    let few = lost.iter().filter(|l| **l <= 2 * PAGE_ROWS).count();
    assert!(
        few * 4 >= lost.len() * 3,
        "most cost a page or two: {lost:?}"
    );
}

/// Rows of a page of a closed file.
const PAGE_ROWS: usize = 2048;

#[test]
fn a_wrong_byte_in_a_short_closed_recording_leaves_what_stands_before_and_after() {
    let dir = Scratch::new("short-closed");
    let path = dir.join("r.rec");
    let (file, written) = closed(&path, rows_of_a_line(6_000));
    let good = std::fs::read(&file).unwrap();
    // Times of sending fill the first 13 kB, in three pages.
    let kept = |at: usize| {
        let _flipped = Flipped::new(&file, at, good[at], 0x40);
        kept_or_told(&path, &written, &format!("byte {at}"))
    };
    assert_eq!(kept(12_000), 2 * PAGE_ROWS);
    assert_eq!(kept(6_500), written.len() - PAGE_ROWS);
}

#[test]
fn a_closed_file_cut_anywhere_keeps_the_row_groups_before() {
    let dir = Scratch::new("cut-closed");
    let path = dir.join("r.rec");
    let (file, written) = closed_recording(&path);
    let good = std::fs::read(&file).unwrap();
    let mut kept_at_all = std::collections::BTreeSet::new();
    let cuts = (0..good.len()).step_by(good.len() / 40);
    for len in cuts.chain([1, 7, good.len() - 9, good.len() - 1]) {
        std::fs::write(&file, &good[..len]).unwrap();
        let (recording, notes) = read_noting(&path).unwrap();
        let rows = of(&recording, TableId::Delay);
        assert!(rows[..] == written[..rows.len()], "cut at {len}");
        assert!([0, 16_384, 32_768, 40_000].contains(&rows.len()));
        assert_eq!(
            (&notes[0].file, notes[0].rows_kept),
            (&file, rows.len() as u64)
        );
        assert!(notes[0].why.contains("lost"), "{}", notes[0]);
        kept_at_all.insert(rows.len());
    }
    assert_eq!(kept_at_all.len(), 4);
}

/// A write that came to half of the file: the rest of it is zeros.
#[test]
fn a_closed_file_that_was_written_by_half_keeps_that_half() {
    let dir = Scratch::new("half");
    let path = dir.join("r.rec");
    let (file, written) = closed_recording(&path);
    let mut bytes = std::fs::read(&file).unwrap();
    // Between the first note and the last; the description at the end is long beside so little data.
    let notes = bytes.windows(15).enumerate();
    let mut notes = notes.filter(|(_, w)| *w == b"tailback group\n");
    let (first, last) = (notes.next().unwrap().0, notes.next_back().unwrap().0);
    bytes[(first + last) / 2..].fill(0);
    std::fs::write(&file, bytes).unwrap();
    let (recording, notes) = read_noting(&path).unwrap();
    let rows = of(&recording, TableId::Delay);
    assert!([16_384, 32_768].contains(&rows.len()));
    assert!(rows[..] == written[..rows.len()]);
    assert!(notes[0].why.contains("describes it"), "{}", notes[0]);
}

#[test]
fn a_damaged_description_costs_the_description_and_no_row() {
    let dir = Scratch::new("meta");
    let path = dir.join("r.rec");
    let (_, written) = closed_recording(&path);
    let file = path.join("meta.json");
    let good = std::fs::read(&file).unwrap();
    for bytes in [&good[..0], &good[..good.len() / 2], b"\x00\x00\x00"] {
        std::fs::write(&file, bytes).unwrap();
        let (recording, notes) = read_noting(&path).unwrap();
        assert!(of(&recording, TableId::Delay) == written);
        assert!(
            notes[0].to_string().contains("meta.json: it is damaged"),
            "{}",
            notes[0]
        );
    }
}

#[test]
fn a_changed_description_is_noted_and_one_without_a_checksum_is_not() {
    let dir = Scratch::new("checksum");
    let path = dir.join("r.rec");
    let (_, written) = closed_recording(&path);
    let file = path.join("meta.json");
    let good = std::fs::read_to_string(&file).unwrap();
    assert!(read_noting(&path).unwrap().1.is_empty());
    let changed = good.replacen("\"complete\": ", "\"complete\":  ", 1);
    assert_ne!(changed, good);
    std::fs::write(&file, &changed).unwrap();
    let (recording, notes) = read_noting(&path).unwrap();
    assert!(of(&recording, TableId::Delay) == written);
    let told = notes[0].to_string();
    assert!(told.contains("checksum does not fit"), "{told}");
    // As earlier releases wrote it.
    let mut old: serde_json::Value = serde_json::from_str(&good).unwrap();
    old.as_object_mut().unwrap().remove("checksum").unwrap();
    std::fs::write(&file, old.to_string()).unwrap();
    assert!(read_noting(&path).unwrap().1.is_empty());
}

#[test]
fn no_wrong_byte_brings_the_reader_down() {
    let dir = Scratch::new("flip");
    let path = dir.join("r.rec");
    let (open, _) = open_recording(&path);
    let closed = dir.join("closed.rec");
    let mut w = Writer::create(&closed, meta()).unwrap();
    first_rows(20).into_iter().for_each(|r| w.write(r).unwrap());
    w.close(meta()).unwrap();
    for (recording, file) in [
        (path, open),
        (closed.clone(), closed.join("delay/2026-11-21.parquet")),
    ] {
        let good = std::fs::read(&file).unwrap();
        // Every byte of the small file; a prime stride through the large one.
        let stride = if good.len() < 8_000 { 1 } else { 41 };
        for at in (0..good.len()).step_by(stride) {
            for flip in [0x01, 0x80, 0xff] {
                let _flipped = Flipped::new(&file, at, good[at], flip);
                match read(&recording) {
                    Ok(_) => {}
                    Err(StoreError::Damaged { file: named, .. }) => assert_eq!(named, file),
                    Err(e) => panic!("byte {at} of {} xor {flip:#x}: {e}", file.display()),
                }
            }
        }
    }
}

#[test]
fn a_crash_between_parquet_and_removing_the_stream_doubles_nothing() {
    let dir = Scratch::new("both");
    let path = dir.join("r.rec");
    let (open, _) = open_recording(&path);
    let stream = std::fs::read(&open).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let mut w = Writer::create(&path, meta()).unwrap();
    first_rows(12).into_iter().for_each(|r| w.write(r).unwrap());
    w.close(meta()).unwrap();
    std::fs::write(&open, &stream).unwrap();
    std::fs::write(path.join("delay/2026-11-22.parquet.tmp"), "half").unwrap();
    let (both, notes) = read_noting(&path).unwrap();
    assert_eq!((of(&both, TableId::Delay), notes), (first_rows(12), vec![]));

    // And if the Parquet file turns out to be broken, the stream still has the rows.
    let sealed = open.with_extension("parquet");
    let bytes = std::fs::read(&sealed).unwrap();
    std::fs::write(&sealed, &bytes[..bytes.len() / 2]).unwrap();
    let (fell_back, notes) = read_noting(&path).unwrap();
    assert_eq!(of(&fell_back, TableId::Delay), first_rows(12));
    assert_eq!((notes.len(), &notes[0].file), (1, &sealed), "{notes:?}");
}
