//! Other tools' clients at our server, behind an emulated link.

use base::record::Delay;
use serde_json::Value;
use std::process::Output;
use testkit::{Program, TempDir};

/// Command by which flent looks for a server: three tries within 0.9 s.
const LOOK: &str = "irtt client -n -Q --timeouts=200ms,300ms,400ms far";

fn tailback() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Runs a shell command behind an ADSL line, with our server and its guests at the far end.
fn behind_adsl(near: &str) -> Option<Output> {
    if !tailback().can_emulate() {
        return None;
    }
    let far = format!(
        "{} --quiet serve --user root --allow 10.0.0.0/8 --allow fd00::/8 --irtt --stamp '[::]:8620'",
        env!("CARGO_BIN_EXE_tailback")
    );
    // Until the server listens, irtt gives up at once.
    let near = format!("for n in 1 2 3 4 5 6 7 8 9; do {LOOK} && break; sleep 0.3; done; {near}");
    let args = [
        "--quiet", "emulate", "adsl", "--far", &far, "--", "sh", "-c", &near,
    ];
    Some(tailback().run(&args))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The same link, seen by irtt and by our own probes, one after the other.
#[test]
fn irtt_sees_the_link_as_our_own_probes_do() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("guests");
        let (theirs, ours) = (dir.at("irtt.json"), dir.at("ours.json"));
        let near = format!(
            "irtt client -Q --timeouts=200ms,300ms,400ms,1s -d 3s -i 20ms -o {theirs} far && \
             {} --quiet probe rtt far --set interval=20ms --json -o {} > {ours}",
            env!("CARGO_BIN_EXE_tailback"),
            dir.at("ours.rec"),
        );
        let Some(run) = behind_adsl(&near) else {
            return;
        };
        assert!(run.status.success(), "{}", text(&run.stderr));
        let read = |path: &str| -> Value {
            let text = std::fs::read(path).expect("it was written");
            serde_json::from_slice(&text).expect("JSON")
        };
        let (theirs, ours) = (read(&theirs), read(&ours));
        let stats = &theirs["stats"];
        assert_eq!(stats["packet_loss_percent"], 0, "{stats}");
        assert_eq!(stats["upstream_loss_percent"], 0, "{stats}");
        let median = stats["rtt"]["median"].as_f64().expect("a median") / 1e6;
        let own = ours["figures"].as_array().expect("figures");
        let own = own.iter().find(|f| f["key"] == "median_ms");
        let own = own.map(|f| &f["figure"]["value"]).and_then(Value::as_f64);
        let own = own.expect("a median");
        println!("irtt {median} ms, ours {own} ms");
        assert!(
            (median - own).abs() < 2.0,
            "irtt {median} ms, ours {own} ms"
        );
    });
}

#[test]
fn flents_look_for_an_irtt_server_succeeds() {
    testkit::real_time_beside(|| {
        if let Some(run) = behind_adsl(LOOK) {
            assert!(run.status.success(), "{}", text(&run.stderr));
        }
    });
}

/// Delays of each direction, of a link whose directions differ, as our own probes see them.
#[test]
fn a_monitor_asks_a_reflector_of_stamp() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("guests-stamp");
        let rec = dir.at("stamp.rec");
        let near = format!(
            "{} --quiet monitor stamp:far:8620,20ms far,20ms --duration 4s -o {rec}",
            env!("CARGO_BIN_EXE_tailback"),
        );
        let Some(run) = behind_adsl(&near) else {
            return;
        };
        assert!(run.status.success(), "{}", text(&run.stderr));
        let rows = store::read(&rec).expect("a recording").delay;
        let of = |target: &str, figure: &dyn Fn(&Delay) -> Option<i64>| {
            let its = rows.iter().filter(|r| &*r.target == target);
            let mut all: Vec<i64> = its.filter_map(figure).collect();
            assert!(all.len() > 100, "{target}: {} of {}", all.len(), rows.len());
            all.sort_unstable();
            all[all.len() / 2] as f64 / 1e6
        };
        let rtt = |r: &Delay| r.rtt_ns;
        let up = |r: &Delay| Some(r.remote_rx_ns? - r.sent_ns);
        let (theirs, ours) = (of("stamp:far:8620", &rtt), of("udp", &rtt));
        let (stamp_up, own_up) = (of("stamp:far:8620", &up), of("udp", &up));
        println!("STAMP {theirs} ms, {stamp_up} ms up; ours {ours} ms, {own_up} ms up");
        assert!((theirs - ours).abs() < 2.0, "{theirs} {ours}");
        assert!((stamp_up - own_up).abs() < 2.0, "{stamp_up} {own_up}");
    });
}
