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

/// Rate at the receiver, Mbit/s, as iperf3 told it.
fn received(path: &str) -> f64 {
    let text = std::fs::read(path).expect("it was written");
    let told: Value = serde_json::from_slice(&text).expect("JSON");
    let rate = &told["end"]["sum_received"]["bits_per_second"];
    rate.as_f64().unwrap_or_else(|| panic!("{told}")) / 1e6
}

/// iperf3's client against our server and against its own, over the same link, one after the other.
#[test]
fn iperf3_finds_the_same_rates_at_our_server_as_at_its_own() {
    testkit::real_time_beside(|| {
        if !tailback().can_emulate() {
            return;
        }
        let dir = TempDir::new("guests-iperf3");
        let far = format!(
            "sh -c 'iperf3 -s -p 5202 >/dev/null & exec {} --quiet serve --user root --allow 10.0.0.0/8 --allow fd00::/8 --iperf3'",
            env!("CARGO_BIN_EXE_tailback")
        );
        let run = |name: &str, options: &str| {
            format!("iperf3 -c far -t 5 -J {options} > {}", dir.at(name))
        };
        let near = [
            "for n in 1 2 3 4 5 6 7 8 9; do iperf3 -c far -t 1 >/dev/null 2>&1 && break; sleep 0.3; done".into(),
            run("ours.up", ""),
            run("ours.down", "-R"),
            run("theirs.up", "-p 5202"),
            run("theirs.down", "-p 5202 -R"),
        ];
        let args = [
            "--quiet",
            "emulate",
            "adsl",
            "--far",
            &far,
            "--",
            "sh",
            "-ec",
            &near.join("; "),
        ];
        let out = tailback().run(&args);
        assert!(
            out.status.success(),
            "{}{}",
            text(&out.stdout),
            text(&out.stderr)
        );
        for direction in ["up", "down"] {
            let rate = |whose: &str| received(&dir.at(&format!("{whose}.{direction}")));
            let (ours, theirs) = (rate("ours"), rate("theirs"));
            println!("{direction}: our server {ours:.3} Mbit/s, iperf3's {theirs:.3}");
            assert!(
                (ours / theirs - 1.0).abs() < 0.1,
                "{direction}: {ours} {theirs}"
            );
        }
    });
}

/// Server on loopback, ended when this is dropped, and what it said of a port.
struct Serving(std::process::Child, String);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server; `told` picks the address from a line of what it says.
fn serving(options: &[&str], told: impl Fn(&str) -> Option<String>) -> Serving {
    use std::io::BufRead;
    let args = ["serve", "--listen", "127.0.0.1:0", "--user", "root"];
    let mut command = tailback().command(&[&args[..], options].concat());
    let mut child = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = std::io::BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    let address = lines.find_map(|line| told(&line)).expect("the address");
    std::thread::spawn(move || lines.for_each(drop));
    Serving(child, address)
}

/// Our own client at our own server of other protocols.
#[test]
fn clients_of_responsiveness_and_of_ndt7_are_served_where_the_operator_lets_them() {
    testkit::real_time_beside(|| {
        let url = |line: &str| {
            let url = line.strip_prefix("browsers run the test at ")?;
            Some(url.trim_end_matches('/').to_owned())
        };
        let web = ["--web", "127.0.0.1:0"];
        let server = serving(&[&web[..], &["--rpm", "--ndt7"]].concat(), url);
        let dir = TempDir::new("guests-site");
        let run = |target: &str| {
            let rec = dir.at("via.rec");
            let _ = std::fs::remove_dir_all(&rec);
            let options = ["--longest", "2s", "--budget", "100GB", "--json", "-o", &rec];
            tailback().run(&[&["test", "--via", target][..], &options].concat())
        };
        for target in [
            format!("{}/.well-known/nq", server.1),
            format!("ndt7:{}", server.1.replace("http", "ws")),
        ] {
            let out = run(&target);
            assert!(out.status.success(), "{target}: {}", text(&out.stderr));
            let answer: Value = serde_json::from_slice(&out.stdout).expect("JSON");
            for direction in ["up", "down"] {
                let rate = answer[direction]["goodput_bps"]["value"].as_f64();
                assert!(rate > Some(50e6), "{target} {direction}: {answer}");
            }
        }
        let closed = serving(&web, url);
        let out = run(&format!("{}/.well-known/nq", closed.1));
        assert!(!out.status.success(), "off by default");
    });
}

#[test]
fn iperf3_is_told_what_our_server_does_not_do_and_waits_for_its_turn() {
    let server = serving(&["--iperf3", "127.0.0.1:0"], |line| {
        let told = line.strip_prefix("listening on 127.0.0.1:")?;
        Some(told.strip_suffix(", TCP, for iperf3")?.to_owned())
    });
    let run = |options: &[&str]| {
        let mut command = std::process::Command::new("iperf3");
        command
            .args(["-c", "127.0.0.1", "-p", &server.1, "-i", "0"])
            .args(options);
        let out = command.output().expect("iperf3 runs");
        (out.status.success(), text(&out.stdout) + &text(&out.stderr))
    };
    for (options, told) in [
        (&["-u"][..], "not implemented"),
        (&["-C", "no_such", "-R"], "congestion"),
        (&["-P", "100"], "too large"),
    ] {
        let (done, said) = run(options);
        assert!(!done && said.contains(told), "{options:?}: {said}");
    }
    for options in [
        &["-t", "1"][..],
        &["-t", "1", "-R", "-P", "3", "-O", "1"],
        &["-t", "1", "--bidir"],
        &["-n", "3M", "-R"],
    ] {
        let (done, said) = run(options);
        assert!(done && said.contains("receiver"), "{options:?}: {said}");
    }
    // Another client waits for the end of the first one's test.
    let (first, second) = std::thread::scope(|s| {
        let first = s.spawn(|| run(&["-t", "3", "-b", "10M"]));
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let second = run(&["-B", "127.0.0.2", "-t", "1"]);
        (first.join().expect("it runs"), second)
    });
    assert!(first.0, "{}", first.1);
    assert!(!second.0 && second.1.contains("busy"), "{}", second.1);
    // Hostile beginnings: garbage, half a cookie, parameters of four gigabytes.
    use std::io::{Read, Write};
    let connect = || {
        let to = format!("127.0.0.1:{}", server.1);
        let stream = std::net::TcpStream::connect(to).expect("it listens");
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(5)))
            .unwrap();
        stream
    };
    let mut held = Vec::new();
    for tail in [
        &[][..],
        &[0xff; 4],
        &[0, 0, 0, 2, b'[', b']'],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = connect();
        stream
            .write_all(&[b'x'; 37])
            .and_then(|()| stream.write_all(tail))
            .unwrap();
        let mut first = [0];
        stream
            .read_exact(&mut first)
            .expect("it asks for parameters");
        assert_eq!(first, [9]);
        held.push(stream);
    }
    let (done, said) = run(&["-t", "1"]);
    assert!(done, "beside them: {said}");
}
