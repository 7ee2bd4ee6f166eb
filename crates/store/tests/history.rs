//! Every version ever written still reads: one directory a version in `data/records`.

use base::record::{Direction, Status};
use std::path::{Path, PathBuf};
use store::{read, read_noting};

fn sample(version: u32, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/records/v{version}/{name}.rec"))
}

#[test]
fn version_1_closed_reads_row_for_row() {
    let r = read(sample(1, "closed")).unwrap();
    assert_eq!(
        (r.meta.format, r.meta.complete, r.meta.title.as_str()),
        (1, true, "sample")
    );
    let begin = 1_795_305_599_000_000_000;
    assert_eq!(
        (r.meta.started_ns, r.meta.ended_ns),
        (begin, Some(begin + 2_000_000_000))
    );
    let lengths = [
        r.delay.len(),
        r.traffic.len(),
        r.flow.len(),
        r.queue.len(),
        r.datagram.len(),
        r.host.len(),
        r.event.len(),
    ];
    assert_eq!(lengths, [8; 7]);
    // Four rows before midnight, four after, in order.
    for (i, d) in r.delay.iter().enumerate() {
        assert_eq!(d.sent_ns, begin + i as i64 * 250_000_000);
        assert_eq!((d.seq, d.status), (i as i64 * 10 + 1, Status::ALL[i]));
        assert_eq!(d.rtt_ns, (i % 2 == 0).then_some(i as i64 * 10 + 3));
    }
    assert_eq!(&*r.delay[3].target, "target 1");
    assert_eq!(
        (r.flow[0].direction, r.flow[1].direction),
        (Direction::Up, Direction::Down)
    );
    assert_eq!((r.host[4].cpu, r.host[5].cpu), (Some(0.5), None));
    assert_eq!(&*r.event[7].detail, "detail 1");
}

#[test]
fn version_1_cut_short_by_a_crash_reads_up_to_its_last_whole_batch() {
    let (r, notes) = read_noting(sample(1, "crashed")).unwrap();
    assert!(!r.meta.complete);
    assert_eq!(r.event.len(), 1);
    assert_eq!(&*r.event[0].subject, "idle");
    assert_eq!((notes.len(), notes[0].rows_kept), (1, 1));
}
