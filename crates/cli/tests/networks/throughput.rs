//! `tailback probe throughput` over emulated lines whose rates and queues are known.

use crate::doubles::network::{can_translate, rules};
use crate::doubles::{figure, line_with, probe, says, serve};

#[test]
fn each_method_finds_the_lines_rate_and_round_trips_grow_by_what_the_queue_holds() {
    testkit::real_time_beside(|| {
        // 60 kB at 6 Mbit/s are 80 ms, 100 kB at 20 Mbit/s are 40 ms.
        let (up, down) = (
            ("6 Mbit/s", "fifo:bytes=60kB"),
            ("20 Mbit/s", "fifo:bytes=100kB"),
        );
        let Some(line) = line_with(10, up, down) else {
            return;
        };
        let server = serve(&line);
        let (answer, _) = probe(&line, "throughput:warm_up=2 s,hold=4 s,idle=1 s");
        for (way, bps, queue_ms) in [("up", 6e6, 80.0), ("down", 20e6, 40.0)] {
            for (method, by) in [("several", 0.05), ("one", 0.1), ("datagrams", 0.03)] {
                let said = figure(&answer, &format!("{way}_{method}_bps"));
                assert!(
                    (said / bps - 1.0).abs() < by,
                    "{way}, {method}: {said} of {bps}: {answer}"
                );
                let waited = figure(&answer, &format!("{way}_{method}_latency_ms"))
                    - figure(&answer, "latency_ms");
                // TCP keeps half of a drop-tail queue full at least, datagrams all of it.
                let least = if method == "datagrams" { 0.85 } else { 0.4 };
                assert!(
                    (least * queue_ms..1.1 * queue_ms).contains(&waited),
                    "{way}, {method}: {waited} of {queue_ms} ms: {answer}"
                );
            }
        }
        let rest = figure(&answer, "latency_ms");
        assert!((20.0..25.0).contains(&rest), "{rest}");
        assert!(figure(&answer, "jitter_ms") < 2.0, "{answer}");
        assert!(says(&answer).starts_with("The line carries "), "{answer}");
        // The interface counts Ethernet's headers, probes and what is sent again beside.
        for row in answer["tables"][0]["rows"].as_array().expect("rows") {
            let number = |i: usize| row[i].as_str().and_then(|t| t.parse::<f64>().ok());
            if let (Some(packets), Some(interface)) = (number(2), number(3)) {
                let overload = row[0].as_str() == Some("up, datagrams");
                let most = if overload { 1.5 } else { 1.12 };
                assert!(
                    (0.97..most).contains(&(interface / packets)),
                    "{row} of {answer}"
                );
            }
        }
        server.stop();
    });
}

#[test]
fn one_connection_fares_worse_than_several_where_packets_are_lost() {
    testkit::real_time_beside(|| {
        let way = ("20 Mbit/s", "fifo:bytes=200kB");
        let Some(line) = line_with(20, way, way) else {
            return;
        };
        if !can_translate(line.near()) {
            return;
        }
        let server = serve(&line);
        // Every hundredth packet of the way up.
        rules(
            line.far(),
            "chain in { type filter hook prerouting priority -300; tcp dport 7117 numgen inc mod 100 < 1 drop; }",
        );
        let kind = "throughput:direction=up,warm_up=2 s,hold=4 s,idle=1 s";
        let (answer, _) = probe(&line, kind);
        let [several, one, datagrams] =
            ["several", "one", "datagrams"].map(|m| figure(&answer, &format!("up_{m}_bps")));
        assert!(one < 0.6 * several, "{one} of {several}: {answer}");
        assert!(
            (datagrams / 20e6 - 1.0).abs() < 0.1,
            "{datagrams}: {answer}"
        );
        let evidence = answer["evidence"].to_string();
        assert!(
            evidence.contains("up: one connection reached"),
            "{evidence}"
        );
        server.stop();
    });
}
