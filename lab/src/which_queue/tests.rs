//! Which queue a recording shows: a few lines of docs/book/which-queue.md, none of which may be wrong.

use super::cells::{Seen, TRUTHS, judged, right};
use analysis::answer::Discipline;

#[test]
fn no_queue_is_taken_for_another_and_plain_cases_are_told() {
    for (i, truth) in TRUTHS.iter().enumerate() {
        // A slow line with one flow, or a faster one with four, in turn.
        let (rate, flows) = [(2, 1), (10, 4)][i % 2];
        for seen in [Seen::Test, Seen::Unmarked] {
            let said = judged(seen, truth, rate, 20, flows, 1);
            assert!(
                right(truth, said.is),
                "{} at {rate} Mbit/s, {flows} flows, {seen:?}: {said:?}",
                truth.queue
            );
            assert_eq!(
                said.is == Discipline::CannotTell,
                said.would_settle.is_some()
            );
        }
    }
    for (queue, is) in [
        ("fifo:packets=300", Discipline::DropTail),
        ("codel", Discipline::Aqm),
        ("fq_codel", Discipline::FairQueueingAqm),
    ] {
        let truth = TRUTHS.iter().find(|t| t.queue == queue && t.set.is_empty());
        let said = judged(Seen::Test, truth.expect("in the list"), 10, 20, 4, 1);
        assert_eq!(said.is, is, "{said:?}");
    }
}

#[test]
fn probes_alone_tell_a_full_buffer_and_say_when_they_saw_too_little() {
    let of = |queue: &str| {
        let truth = TRUTHS.iter().find(|t| t.queue == queue && t.set.is_empty());
        judged(Seen::Monitor, truth.expect("in the list"), 2, 20, 4, 1)
    };
    assert_eq!(of("fifo:packets=300").is, Discipline::DropTail);
    let said = of("fq_codel");
    assert_eq!(said.is, Discipline::CannotTell);
    assert!(said.would_settle.is_some());
}
