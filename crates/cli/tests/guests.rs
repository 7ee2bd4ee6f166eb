//! Other tools' clients at our server, behind an emulated link.

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
        "{} --quiet serve --user root --irtt --stamp 0.0.0.0:8620",
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
