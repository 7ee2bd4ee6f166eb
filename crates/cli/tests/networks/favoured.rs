//! `tailback probe path` where a real queue lets ICMP pass by.

use crate::doubles::network::{can_translate, rules};
use crate::doubles::{figure, line_with, planted, probe, serve};

#[test]
fn icmp_that_a_classifier_sends_past_the_queue_is_called_favoured_and_otherwise_not() {
    testkit::real_time_beside(|| {
        // 40 packets of 1500 bytes at 2 Mbit/s are 240 ms; what is marked for it goes first.
        let (up, down) = (
            ("2 Mbit/s", "prio:rest=fifo,limit=40"),
            ("20 Mbit/s", "fifo:bytes=200kB"),
        );
        let Some(line) = line_with(5, up, down) else {
            return;
        };
        let near = line.near();
        if !can_translate(near) {
            return;
        }
        let server = serve(&line);
        let kind = "path:load=up,idle=6s,hold=9s";
        let plain = probe(&line, kind).0;
        assert_eq!(figure(&plain, "icmp_favoured_up"), 0.0, "{plain}");
        rules(near, planted::ICMP_FIRST);
        let favoured = probe(&line, kind).0;
        assert_eq!(figure(&favoured, "icmp_favoured_up"), 1.0, "{favoured}");
        // And the load does wait.
        assert!(figure(&favoured, "added_up_ms") > 60.0, "{favoured}");
        server.stop();
    });
}
