use super::{bench, figure, near, probe};
use sim::craft::Hosts;

/// 50 packets of 1028 bytes at 2 Mbit/s are 205.6 ms.
const LINE: &str = "rate = \"2 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"fifo:packets=50\"";

#[test]
fn below_the_lines_rate_all_arrive_as_they_left() {
    let outcome = probe(
        "train:count=2000,size=1000,rate=1.5 Mbit/s",
        &mut bench(LINE, Hosts::default()),
    );
    for way in ["up", "down"] {
        assert_eq!(figure(&outcome, &format!("{way}_lost")).0, 0.0);
        near(&outcome, &format!("{way}_received_bps"), 1.5e6, 1e3);
        near(&outcome, &format!("{way}_wait_p95_ms"), 0.0, 0.3);
        assert_eq!(figure(&outcome, &format!("{way}_reordered")).0, 0.0);
        assert_eq!(figure(&outcome, &format!("{way}_longest_loss")).0, 0.0);
    }
}

#[test]
fn above_it_what_the_queue_and_the_line_do_not_take_is_lost() {
    let outcome = probe(
        "train:direction=up,count=3000,size=1000,rate=3 Mbit/s",
        &mut bench(LINE, Hosts::default()),
    );
    // 3000 × 8 kbit at 3 Mbit/s are 8 s; the line takes 8 s of 2 Mbit/s in packets of 1028 bytes, and then its queue.
    let taken = 8.0 * 2e6 / (1028.0 * 8.0) + 51.0;
    near(&outcome, "up_lost", 1.0 - taken / 3000.0, 0.005);
    near(&outcome, "up_received_bps", 2e6 * 1000.0 / 1028.0, 5e3);
    near(&outcome, "up_wait_ms", 50.0 * 1028.0 * 8.0 / 2e6 * 1e3, 9.0);
    assert!(
        outcome.says.starts_with("Of 3000 datagrams up "),
        "{}",
        outcome.says
    );
}

#[test]
fn any_program_is_sent_with_its_marks_and_each_of_its_sizes_is_told() {
    let line = "rate = \"2 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"codel:ecn=true\"";
    let outcome = probe(
        "train:direction=up,send=1500 x 1452+200@5 ms ecn=2,repeats=2",
        &mut bench(line, Hosts::default()),
    );
    assert_eq!(outcome.tables[0].rows.len(), 2, "{:?}", outcome.tables);
    let sent: Vec<&str> = outcome.tables[0]
        .rows
        .iter()
        .map(|r| r[2].as_str())
        .collect();
    assert_eq!(sent, ["3000", "3000"]);
    // CoDel marks what can be marked, and drops none of it before its queue is full.
    assert!(figure(&outcome, "up_marked").0 > 0.02, "{}", outcome.says);
    assert_eq!(figure(&outcome, "up_lost").0, 0.0, "{}", outcome.says);
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is() {
    for (text, part) in [
        ("train:send=5 y 50", "not a whole number"),
        ("train:send=5 x 19", "19 bytes"),
        ("train:rate=0 bit/s", "out of range"),
    ] {
        let e = text
            .parse::<experiment::ProbeSpec>()
            .expect_err("it is wrong")
            .to_string();
        assert!(e.contains(part), "{text}: {e}");
    }
}
