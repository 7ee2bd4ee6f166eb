//! Rows of a recording that another process writes meanwhile.

mod common;

use base::record::{Row, TableId};
use common::{NOON, Scratch, meta, of, row, rows};
use store::{Follow, Writer};

const DAY_NS: i64 = 86_400_000_000_000;

fn new_rows(follow: &mut Follow) -> Vec<Row> {
    let mut rows = Vec::new();
    follow.rows(&mut |row| rows.push(row)).unwrap();
    rows
}

#[test]
fn each_row_comes_once_and_an_incomplete_batch_waits() {
    let dir = Scratch::new("follow");
    let path = std::path::PathBuf::from(dir.at("open.rec"));
    let mut follow = Follow::new(&path, TableId::Delay);
    assert_eq!(new_rows(&mut follow), []);
    let mut writer = Writer::create(&path, meta()).unwrap();
    let mut all = Vec::new();
    for batch in 0..5 {
        let some: Vec<Row> = (0..=batch)
            .map(|i| row(TableId::Delay, NOON, batch * 10 + i))
            .collect();
        for row in &some {
            writer.write(row.clone()).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!(new_rows(&mut follow), some);
        all.extend(some);
        assert_eq!(new_rows(&mut follow), []);
    }
    // A day's end, and a batch that is cut off in the middle.
    let tomorrow = row(TableId::Delay, NOON + DAY_NS, 100);
    writer.write(tomorrow.clone()).unwrap();
    writer.flush().unwrap();
    assert_eq!(new_rows(&mut follow), std::slice::from_ref(&tomorrow));
    let file = path.join("delay/2026-11-22.arrows");
    let whole = std::fs::read(&file).unwrap();
    let last = row(TableId::Delay, NOON + DAY_NS, 101);
    writer.write(last.clone()).unwrap();
    writer.flush().unwrap();
    let longer = std::fs::read(&file).unwrap();
    for end in [whole.len(), whole.len() + 1, longer.len() - 1] {
        std::fs::write(&file, &longer[..end]).unwrap();
        assert_eq!(new_rows(&mut follow), []);
    }
    std::fs::write(&file, &longer).unwrap();
    assert_eq!(new_rows(&mut follow), std::slice::from_ref(&last));
    writer.close(meta()).unwrap();
    assert_eq!(new_rows(&mut follow), []);
    all.extend([tomorrow, last]);
    let closed = store::read(&path).unwrap();
    assert_eq!(of(&closed, TableId::Delay), all);
    assert_eq!(rows(&closed).len(), all.len());
}
