//! `l4s` and `nqb`: disciplines that mark, and those that do not.

use crate::accuracy::cell::{Cell, near, says};
use crate::accuracy::line::Line;

/// Queues at 20 Mbit/s with 20 ms of round trip.
fn line(queue: &str) -> Line {
    Line::up(20e6, queue).down(100e6, "fifo").delay(10.0)
}

pub fn all() -> Vec<Cell> {
    let threshold = |ms| near(&["threshold_up_ms"], ms, 1.0);
    vec![
        Cell::link(
            "l4s:time=5s,direction=up",
            line("dualpi2:min_th=2 ms,range=0 ms"),
            vec![says("L4S works up"), threshold(2.0)],
        ),
        Cell::link(
            "l4s:time=5s,direction=up",
            line("fq_codel:ce_threshold=3 ms,target=12 ms"),
            vec![says("each flow has a queue of its own"), threshold(3.0)],
        ),
        Cell::link(
            "l4s:time=5s,direction=up",
            line("fifo:packets=150"),
            vec![says("No marks up")],
        ),
        Cell::link(
            "nqb:time=5s,direction=up",
            line("dualpi2:nqb=true"),
            vec![says("NQB has a queue of its own up")],
        ),
        Cell::link(
            "nqb:time=5s,direction=up",
            line("fifo:packets=150"),
            vec![says("NQB has no queue of its own up")],
        ),
    ]
}
