//! `tailback test --capture`: every packet of a test at both ends of an emulated link, beside what the link did.

use crate::doubles::TAILBACK;
use serde_json::Value;
use testkit::{Program, TempDir};

#[test]
fn captures_of_both_ends_tell_the_losses_and_waits_of_the_link() {
    testkit::real_time(|| {
        let program = Program::new(TAILBACK);
        if !program.can_emulate() {
            return testkit::skip("this host emulates no links");
        }
        let dir = TempDir::new("both-ends");
        // 40 kB are 80 ms at 4 Mbit/s up, 120 kB are 60 ms at 16 Mbit/s down.
        let out = program.within(&dir).run(&[
            "test",
            "--link",
            "adsl",
            "--set",
            "up.rate=4mbit",
            "--set",
            "up.queue=fifo:bytes=40kB",
            "--set",
            "down.rate=16mbit",
            "--set",
            "down.queue=fifo:bytes=120kB",
            "--capture",
            "--phases",
            "idle,down,up",
            "--longest",
            "5s",
            "-q",
            "-o",
            "t.rec",
        ]);
        let said = String::from_utf8_lossy(&out.stdout);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{told}");
        let command = "tailback trace t.rec/capture/near.pcapng --far t.rec/capture/far.pcapng";
        assert!(said.contains(command), "{said}");
        let ends = std::fs::read(dir.join("t.rec/capture/ends.json")).expect("the comparison");
        let ends: Value = serde_json::from_slice(&ends).expect("JSON");
        let count = |way: &str, key: &str| ends[way][key].as_u64().expect(key);
        assert_eq!(ends["near_only_flows"], 0);
        assert_eq!(ends["far_only_flows"], 0);
        let recording = store::read(dir.join("t.rec")).expect("a recording");
        for (way, queue_ms) in [("up", 80.0), ("down", 60.0)] {
            let of_way = recording.queue.iter().filter(|q| &*q.queue == way);
            let drops = of_way.map(|q| q.drops).max().expect("a queue");
            let (sent, lost) = (count(way, "sent"), count(way, "lost"));
            assert!(
                sent > 1000 && lost > 0 && lost as i64 <= drops,
                "{way}: {lost}, {drops}"
            );
            assert!(count(way, "not_captured") * 1000 <= sent, "{way}");
            let most = ends[way]["wait_max_ms"].as_f64().expect("a wait");
            assert!(
                (0.8 * queue_ms..1.15 * queue_ms).contains(&most),
                "{way}: {most}"
            );
        }
        let base = ends["clock"]["base_round_trip_ms"]
            .as_f64()
            .expect("a base");
        assert!((15.0..21.0).contains(&base), "{base}");
        // The same again from the files.
        let again = program.within(&dir).json(&[
            "trace",
            "t.rec/capture/near.pcapng",
            "--far",
            "t.rec/capture/far.pcapng",
            "--json",
        ]);
        assert_eq!(again["up"], ends["up"]);
    });
}
