//! Links drawn at random, and what a test over each protocol says of them. VIA_SEED repeats the draws, VIA_COUNT is their
//! number for each protocol: `make via-draws` writes the table of docs/book/via.md.

use crate::servers::{self, Serving, Speaks};
use base::rng::Streams;
use live::emulate::{Emulation, FAR_V4};
use rand::RngExt as _;
use serde_json::Value;
use testkit::{Program, TempDir};

/// Link whose truth is known.
struct Truth {
    delay_ms: u32,
    /// Rate in bit/s and queue in bytes: up, down.
    up: (u64, u64),
    down: (u64, u64),
}

impl Truth {
    fn drawn(rng: &mut impl rand::Rng) -> Truth {
        let mut direction = || {
            // 3 to 30 Mbit/s and 40 to 250 ms, evenly by their logarithms.
            let bps = 3e6 * 10f64.powf(rng.random::<f64>());
            let seconds = 0.04 * 6.25f64.powf(rng.random::<f64>());
            (bps.round() as u64, (bps / 8.0 * seconds).round() as u64)
        };
        let (up, down) = (direction(), direction());
        Truth {
            delay_ms: rng.random_range(5..25),
            up,
            down,
        }
    }

    fn line(&self) -> Option<Emulation> {
        let [up, down] = [self.up, self.down]
            .map(|(bps, bytes)| (format!("{bps} bit/s"), format!("fifo:bytes={bytes}")));
        testkit::networks::line_with(self.delay_ms, (&up.0, &up.1), (&down.0, &down.1))
    }
}

/// Number that a figure states.
fn value(figure: &Value) -> Option<f64> {
    figure["value"].as_f64()
}

/// Compares an answer with the truth of one direction; gives a row of the table.
fn judge(answer: &Value, direction: &str, (bps, bytes): (u64, u64), about: &str) -> String {
    let told = &answer[direction];
    let truth_ms = bytes as f64 * 8e3 / bps as f64;
    let rate = value(&told["link_rate_bps"]);
    if let Some(rate) = rate {
        let off = rate / bps as f64 - 1.0;
        assert!(
            off.abs() < 0.05,
            "{about} {direction}: {rate} of {bps} bit/s: {told}"
        );
    }
    let queue = value(&told["queue_ms"]);
    let is = told["queue_is"].as_str().unwrap_or_default();
    if let Some(ms) = queue {
        let most = (0.1 * truth_ms).max(15.0);
        let right = match is {
            "size" => (ms - truth_ms).abs() <= most,
            // A bound from below is right if it is below.
            _ => ms <= truth_ms + most,
        };
        assert!(
            right,
            "{about} {direction}: {is} {ms} of {truth_ms} ms: {told}"
        );
    }
    let shown = |v: Option<f64>| v.map_or("cannot tell".to_owned(), |v| format!("{v:.1}"));
    format!(
        "| {about} | {direction} | {:.2} | {} | {truth_ms:.0} | {}{} |",
        bps as f64 / 1e6,
        shown(rate.map(|r| r / 1e6)),
        if is == "at_least" && queue.is_some() {
            "≥ "
        } else {
            ""
        },
        shown(queue),
    )
}

/// Tests a drawn link over one protocol, and prints the rows of the table.
fn draw(
    protocol: &str,
    serve: impl Fn(&Emulation, &TempDir) -> (Vec<String>, Option<Serving>, Option<servers::Iperf3>),
) {
    let given = std::env::var("VIA_SEED").ok();
    let seed = given.map_or_else(rand::random, |s| s.parse().expect("VIA_SEED is a number"));
    let count: u32 = std::env::var("VIA_COUNT").map_or(1, |n| n.parse().expect("a number"));
    println!("VIA_SEED={seed}, {protocol}");
    let mut rng = Streams::new(seed).stream(protocol);
    for number in 0..count {
        let truth = Truth::drawn(&mut rng);
        let Some(line) = truth.line() else { return };
        let dir = TempDir::new("via");
        let (via, _web, _iperf3) = serve(&line, &dir);
        let recording = dir.at("via.rec");
        let mut args: Vec<&str> = vec!["test", "--json", "--plain", "-o", &recording];
        args.extend(via.iter().map(String::as_str));
        let mut command = Program::new(env!("CARGO_BIN_EXE_tailback")).command(&args);
        let out = line.near().command(&mut command).output().expect("it runs");
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            out.status.success(),
            "VIA_SEED={seed}, {protocol} {number}: {told}"
        );
        assert!(
            told.contains("This test uses "),
            "the operator is named: {told}"
        );
        let answer: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        let about = format!("{protocol} {number}");
        for (direction, of) in [("up", truth.up), ("down", truth.down)] {
            let loaded = answer["phases"]
                .as_array()
                .is_some_and(|all| all.iter().any(|p| p["name"] == direction));
            if loaded {
                println!("{}", judge(&answer, direction, of, &about));
            }
        }
        let clock = answer["clock"]["trust"].as_str().unwrap_or_default();
        assert!(clock.contains("one-way delays are unknown"), "{clock}");
        let probes = if protocol == "file" { "tcp:" } else { "icmp:" };
        assert!(clock.contains(probes), "{protocol}: {clock}");
        if protocol == "nq" {
            let rpm = value(&answer["responsiveness"]["rpm"])
                .expect("a responsiveness server shows the score");
            let queues = [truth.up, truth.down].map(|(bps, bytes)| bytes as f64 * 8e3 / bps as f64);
            let most = 2.0 * f64::from(truth.delay_ms) + queues.iter().sum::<f64>();
            let shown = 60_000.0 / rpm;
            println!(
                "{about}: a round trip of {shown:.0} ms under load in both directions, {most:.0} ms with full queues"
            );
            assert!(
                (0.4 * most..1.25 * most).contains(&shown),
                "{about}: {shown} of {most} ms: {answer}"
            );
        }
        let base = value(&answer["base_rtt_ms"]).expect("the round trip at rest");
        let least = 2.0 * f64::from(truth.delay_ms);
        assert!(
            (least - 0.1..least + 5.0).contains(&base),
            "{about}: {base} of {least} ms"
        );
    }
}

#[test]
fn an_iperf3_server_shows_rates_and_queues() {
    testkit::real_time_beside(|| {
        draw("iperf3", |line, _| {
            let server = servers::iperf3(line.far());
            (
                vec!["--via".into(), format!("iperf3:{FAR_V4}")],
                None,
                Some(server),
            )
        });
    });
}

/// Web server with a certificate of its own authority, as `--via` names it with this path.
fn web(
    line: &Emulation,
    dir: &TempDir,
    path: &str,
) -> (Vec<String>, Option<Serving>, Option<servers::Iperf3>) {
    let trust = servers::trust(&[&FAR_V4.to_string()], &[b"h2", b"http/1.1"]);
    let serving = servers::serve(line.far(), Speaks::Web, Some(trust.server));
    let ca = dir.file("ca.pem", trust.authority);
    let url = format!("https://{}{path}", serving.address);
    (
        vec!["--via".into(), url, "--via-ca".into(), ca],
        Some(serving),
        None,
    )
}

#[test]
fn a_large_file_shows_the_downlink_to_handshakes_where_echo_is_not_answered() {
    testkit::real_time_beside(|| {
        draw("file", |line, dir| {
            let silent = || std::fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1");
            line.far().run(silent).expect("enters").expect("no echo");
            web(line, dir, "/large")
        });
    });
}

#[test]
fn a_responsiveness_server_shows_both_directions() {
    testkit::real_time_beside(|| draw("nq", |line, dir| web(line, dir, "/.well-known/nq")));
}

#[test]
fn an_ndt7_server_shows_both_directions() {
    testkit::real_time_beside(|| {
        draw("ndt7", |line, dir| {
            let trust = servers::trust(&[&FAR_V4.to_string()], &[b"http/1.1"]);
            let serving = servers::serve(line.far(), Speaks::Ndt7, Some(trust.server));
            let ca = dir.file("ca.pem", trust.authority);
            let target = format!("ndt7:wss://{}", serving.address);
            (
                vec!["--via".into(), target, "--via-ca".into(), ca],
                Some(serving),
                None,
            )
        });
    });
}
