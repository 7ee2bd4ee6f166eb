//! Files that end anywhere, and files with wrong bytes in them.

mod common;

use base::record::{Row, TableId};
use common::{NOON, Scratch, meta, of, row};
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
        let clean = len == 0 || ends.contains(&len);
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
                assert!(note.to_string().contains("cut short"), "{note}");
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
        let stride = if good.len() < 8_000 { 1 } else { 13 };
        for at in (0..good.len()).step_by(stride) {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= flip;
                std::fs::write(&file, bytes).unwrap();
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
