//! `tailback control` on a gateway: lan – gateway – modem – server, with the kernel's TCP forwarded through an emulated
//! modem whose queue is the truth. CONTROL_SEED repeats the draws.

use base::BitsPerSec;
use base::record::Direction;
use base::rng::{Streams, uniform};
use live::control::PROGRAM;
use live::emulate::{FAR_V4, FAR_V6};
use live::serve::{Keys, ServeConfig, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;
use testkit::networks::house::{House, Load, Modem, WAN, end};
use testkit::networks::network::sh;
use testkit::prometheus::{dashboard_shows, serve_text};
use testkit::{real_time, real_time_beside};

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn house(rate: f64, delay_ms: f64) -> Option<House> {
    House::build(
        Path::new(env!("CARGO_BIN_EXE_tailback")),
        &Modem::fixed(rate, delay_ms),
    )
}

fn seed() -> u64 {
    let given = std::env::var("CONTROL_SEED").ok();
    given.map_or_else(
        || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |d| d.subsec_nanos().into())
        },
        |s| s.parse().expect("CONTROL_SEED is a number"),
    )
}

#[test]
fn the_queue_is_short_at_the_full_rate_of_random_links() {
    let seed = seed();
    println!("CONTROL_SEED={seed}");
    for number in 0..3 {
        let mut rng = Streams::new(seed).stream(&format!("control/{number}"));
        let rate = 3e6 * 10f64.powf(uniform(&mut rng));
        let delay_ms = 5.0 + 15.0 * uniform(&mut rng);
        let flows = [1, 2, 4][(3.0 * uniform(&mut rng)) as usize];
        real_time(|| {
            let Some(house) = house(rate, delay_ms) else {
                return;
            };
            let server = house.serve();
            let off = house.upload(flows, 8);
            std::thread::sleep(2 * SECOND);
            let run = house.start(&["--apply"]);
            std::thread::sleep(SECOND);
            let on = house.upload(flows, 10);
            end(run, Signal::SIGTERM);
            server.stop();
            let shown = BitsPerSec::new(rate as u64);
            println!("{shown:.2}, {delay_ms:.0} ms each way, {flows} flows: off {off}, on {on}");
            assert!(on.used >= 0.95, "{on}");
            assert!(
                on.p95_ms <= 60.0 && 3.0 * on.p95_ms < off.p95_ms,
                "{on}; off {off}"
            );
            let rows = store::read(house.dir.join("c.rec")).expect("a recording");
            assert!(rows.decision.iter().all(|d| d.applied));
            let last = rows.decision.last().expect("decisions");
            assert!(last.drops + last.marks > 0, "{last:?}");
            let capacity = last.capacity_bps.expect("it is known") as f64;
            assert!((capacity / rate - 1.0).abs() < 0.1, "{capacity} of {rate}");
        });
    }
}

#[test]
fn ecn_capable_packets_are_marked_and_pass() {
    real_time_beside(|| {
        let Some(house) = house(12e6, 8.0) else {
            return;
        };
        for end in [house.line.near(), house.line.far()] {
            sh(end, "echo 1 > /proc/sys/net/ipv4/tcp_ecn");
        }
        let server = house.serve();
        // The capacity is known: the cap, which drops, is for slow starts.
        let run = house.start(&["--apply", "--capacity", "12 Mbit/s", "--cap", "500 ms"]);
        std::thread::sleep(SECOND);
        let on = house.upload(1, 8);
        end(run, Signal::SIGTERM);
        server.stop();
        println!("with ECN: {on}");
        let rows = store::read(house.dir.join("c.rec")).expect("a recording");
        let last = rows.decision.last().expect("decisions");
        assert!(last.marks > 3 && last.drops == 0, "{last:?}");
        assert!(on.used >= 0.95 && on.p95_ms <= 60.0, "{on}");
    });
}

#[test]
fn downloads_keep_their_rate_with_a_short_queue_at_the_provider() {
    let seed = seed();
    println!("CONTROL_SEED={seed}");
    real_time(|| {
        let mut rng = Streams::new(seed).stream("download");
        for flows in [1, 4] {
            let modem = Modem {
                down: 8e6 * 5f64.powf(uniform(&mut rng)),
                ..Modem::fixed(5e6, 4.0 + 16.0 * uniform(&mut rng))
            };
            let program = Path::new(env!("CARGO_BIN_EXE_tailback"));
            let Some(house) = House::build(program, &modem) else {
                return;
            };
            let server = house.serve();
            let load = Load {
                down: true,
                ..Load::new(flows, 8)
            };
            let off = house.upload_as(&load);
            std::thread::sleep(SECOND);
            let run = house.start(&["--apply", "--direction", "both"]);
            assert_eq!(house.programs(), [PROGRAM, PROGRAM]);
            let on = house.upload_as(&load);
            end(run, Signal::SIGTERM);
            assert!(house.programs().is_empty());
            server.stop();
            let Modem { down, delay_ms, .. } = modem;
            println!(
                "{flows} flows, {:.1} Mbit/s, {delay_ms:.0} ms: {off}; then {on}",
                down * 1e-6
            );
            assert!(off.p95_ms > 100.0, "{off}");
            assert!(on.used >= 0.9 && on.p95_ms <= 60.0, "{on}");
            let rows = store::read(house.dir.join("c.rec")).expect("a recording");
            let of = |direction| {
                rows.decision
                    .iter()
                    .filter(move |d| d.direction == direction)
            };
            let last = of(Direction::Down).next_back().expect("decisions");
            assert!(last.drops + last.marks > 0, "{last:?}");
            let up = of(Direction::Up).next_back().expect("decisions");
            assert_eq!(up.drops + up.marks, 0, "a queue down is not one up: {up:?}");
        }
    });
}

/// Counts of the last decision in the recording.
fn last_cuts(house: &House) -> i64 {
    let rows = store::read(house.dir.join("c.rec")).expect("a recording");
    let last = rows.decision.last().expect("decisions");
    last.drops + last.marks
}

#[test]
fn ipv6_is_controlled_and_the_real_time_band_is_not() {
    real_time_beside(|| {
        let Some(house) = house(12e6, 8.0) else {
            return;
        };
        let server = house.serve();
        let load = Load {
            to: FAR_V6.into(),
            ..Load::new(1, 8)
        };
        let run = house.start(&["--apply"]);
        let six = house.upload_as(&load);
        end(run, Signal::SIGTERM);
        println!("IPv6: {six}");
        assert!(six.used >= 0.95 && six.p95_ms <= 60.0, "{six}");
        assert!(last_cuts(&house) > 0);
        std::fs::remove_dir_all(house.dir.join("c.rec")).expect("it was written");
        std::thread::sleep(SECOND);
        for (to, dscp) in [(FAR_V4.into(), 46), (FAR_V6.into(), 44)] {
            let run = house.start(&["--apply"]);
            let exempt = house.upload_as(&Load {
                to,
                dscp,
                ..Load::new(1, 5)
            });
            end(run, Signal::SIGTERM);
            println!("DSCP {dscp} to {to}: {exempt}");
            assert!(exempt.peak_ms > 150.0, "{exempt}");
            assert_eq!(last_cuts(&house), 0, "DSCP {dscp} to {to}");
            std::fs::remove_dir_all(house.dir.join("c.rec")).expect("it was written");
            std::thread::sleep(SECOND);
        }
        server.stop();
    });
}

#[test]
fn a_silent_server_ends_the_cuts() {
    real_time_beside(|| {
        let Some(house) = house(10e6, 8.0) else {
            return;
        };
        let server = house.serve();
        let run = house.start(&["--apply"]);
        let stopped = std::thread::spawn(move || {
            std::thread::sleep(4 * SECOND);
            server.stop();
        });
        let seen = house.upload(1, 10);
        stopped.join().expect("it stops");
        end(run, Signal::SIGTERM);
        let rows = store::read(house.dir.join("c.rec")).expect("a recording");
        let decisions = || rows.decision.iter();
        let loaded = decisions().position(|d| d.drops > 0).expect("it acts");
        let blind: Vec<_> = decisions()
            .skip(loaded)
            .filter(|d| d.why == "blind".into())
            .collect();
        let (first, last) = (blind.first().expect("it says so"), blind[blind.len() - 1]);
        assert_eq!(first.drops, last.drops, "nothing is cut any more");
        // The server stops four seconds after the begin of the upload, which begins before the first cut.
        let after_s = (first.t_ns - rows.decision[loaded].t_ns) as f64 * 1e-9;
        println!("blind {after_s:.1} s after the first cut; {seen}");
        assert!(after_s < 6.0, "{after_s}");
        // The cap of 40 ms binds no longer.
        assert!(seen.peak_ms > 50.0, "{seen}");
    });
}

/// Sends 1.5 MB/s for five seconds through an interface, past its hook and its queue discipline.
const PAST_THE_HOOK: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
s.setsockopt(263, 20, 1)  # SOL_PACKET, PACKET_QDISC_BYPASS
s.bind((sys.argv[1], 0x88B5))
end = time.monotonic() + 5
while time.monotonic() < end:
    for _ in range(15):
        s.send(b"\x02" * 12 + b"\x88\xb5" + bytes(986))
    time.sleep(0.01)
"#;

#[test]
fn packets_that_pass_the_hook_by_are_noticed() {
    real_time_beside(|| {
        let Some(house) = house(50e6, 2.0) else {
            return;
        };
        let server = house.serve();
        let run = house.start(&["--apply"]);
        let why = || {
            let status = house.output(&["status", "--wan", WAN, "--json"]);
            let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
            let schema = include_str!("../../../schema/control-status.v1.json");
            let schema = serde_json::from_str(schema).expect("a schema");
            assert_eq!(testkit::schema::breach(&schema, &status), None);
            status["why"].clone()
        };
        assert_ne!(why(), "unseen");
        let mut past = Command::new("python3");
        past.args(["-c", PAST_THE_HOOK, WAN]);
        let past = house.gateway().command(&mut past).spawn();
        let mut past = past.expect("python3 runs");
        std::thread::sleep(9 * SECOND / 2);
        let during = why();
        assert!(past.wait().expect("it ends").success());
        std::thread::sleep(7 * SECOND / 2);
        let after = why();
        end(run, Signal::SIGTERM);
        server.stop();
        assert_eq!(during, "unseen");
        assert_ne!(after, "unseen");
    });
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    real_time_beside(|| {
        let Some(house) = house(10e6, 5.0) else {
            return;
        };
        let mut server = house.serve();
        for number in 0..20 {
            if number == 10 {
                // The server keeps the sessions of killed runs for a minute.
                server.stop();
                server = house.serve();
            }
            let run = house.start(&["--apply"]);
            assert_eq!(house.programs(), [PROGRAM]);
            // Another moment of its work each time.
            std::thread::sleep(SECOND / 200 * (number * 7 % 20));
            kill(Pid::from_raw(run.id() as i32), Signal::SIGKILL).expect("it runs");
            let began = Instant::now();
            while !house.programs().is_empty() {
                assert!(began.elapsed() < SECOND, "the program is still attached");
            }
            let after = began.elapsed();
            println!("detached {after:?} after SIGKILL");
            assert!(after <= SECOND / 10, "{after:?}");
            end(run, Signal::SIGKILL);
        }
        server.stop();
    });
}

#[test]
fn a_dry_run_decides_and_changes_nothing() {
    real_time_beside(|| {
        let Some(house) = house(8e6, 8.0) else {
            return;
        };
        let server = house.serve();
        let run = house.start(&[]);
        std::thread::sleep(SECOND);
        let seen = house.upload(2, 6);
        assert!(house.programs().is_empty(), "{:?}", house.programs());
        end(run, Signal::SIGTERM);
        server.stop();
        assert!(seen.p95_ms > 300.0, "{seen}");
        let rows = store::read(house.dir.join("c.rec")).expect("a recording");
        let last = rows.decision.last().expect("decisions");
        assert!(rows.decision.iter().all(|d| !d.applied));
        assert_eq!((last.drops, last.marks), (0, 0));
        assert!(
            rows.decision.iter().any(|d| d.why == "capped".into()),
            "it would have cut"
        );
    });
}

#[test]
fn one_run_holds_the_interface_until_it_is_stopped() {
    let Some(house) = house(20e6, 2.0) else {
        return;
    };
    let server = house.serve();
    let run = house.start(&["--apply", "--json", "--metrics", "c.prom"]);
    let far = FAR_V4.to_string();
    let second = house.output(&["run", "--wan", WAN, "--server", &far, "--apply"]);
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(3), "{told}");
    assert!(told.contains("control stop --wan link1"), "{told}");
    let plan = house.output(&["plan", "--wan", WAN]);
    assert_eq!(plan.status.code(), Some(3));
    let status = house.output(&["status", "--wan", WAN, "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(
        (&status["wan"], &status["applied"]),
        (&WAN.into(), &true.into())
    );
    let (metrics, began) = (house.dir.join("c.prom"), Instant::now());
    let metrics = loop {
        if let Ok(text) = std::fs::read_to_string(&metrics) {
            break text;
        }
        assert!(began.elapsed() < 10 * SECOND, "no metrics");
        std::thread::sleep(SECOND / 20);
    };
    assert!(house.output(&["stop", "--wan", WAN]).status.success());
    assert!(house.programs().is_empty());
    let ended = run.wait_with_output().expect("it ends");
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let schema = include_str!("../../../schema/control-run.v1.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    assert_eq!(testkit::schema::breach(&schema, &answer), None);
    assert_eq!(answer["status"]["wan"], WAN);
    assert!(
        store::read_meta(house.dir.join("c.rec"))
            .expect("whole")
            .complete
    );
    let plan = house.output(&["plan", "--wan", WAN]);
    assert!(
        plan.status.success(),
        "{}",
        String::from_utf8_lossy(&plan.stdout)
    );
    server.stop();
    // A link without load, uploads only, and no shaper.
    let absent = ["capacity", "rate_bits", "shaper", "_down_"];
    let grafana = Path::new("../../packaging/grafana/control.json");
    dashboard_shows(grafana, &serve_text(metrics), &absent);
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let Some(house) = house(20e6, 2.0) else {
        return;
    };
    let far = FAR_V4.to_string();
    let refused = |args: &[&str], code: i32, says: &str| {
        let out = house.output(args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(says), "{args:?}: {told}");
        assert!(house.programs().is_empty(), "{args:?}");
        assert!(!house.dir.join("control.rec").exists(), "{args:?}");
    };
    let run = |wan: &'static str| ["run", "--wan", wan, "--server", FAR, "--apply"];
    const FAR: &str = "10.77.0.2";
    assert_eq!(FAR, far);
    refused(&run("nope"), 2, "There are: ");
    refused(&["plan", "--wan", "nope"], 2, "no interface \"nope\"");
    refused(
        &["status", "--wan", WAN],
        3,
        "no `tailback control run` is running",
    );
    refused(
        &["stop", "--wan", WAN],
        3,
        "no `tailback control run` is running",
    );
    // Nobody listens.
    refused(&run(WAN), 3, "Nothing was changed");
    let mut odd = run(WAN).to_vec();
    odd.extend(["--target", "80ms"]);
    refused(&odd, 2, "the cap is above it");
    let mut often = run(WAN).to_vec();
    often.extend(["--interval", "1ms"]);
    refused(&often, 2, "from 5 ms to 200 ms");

    // A server that knows other keys.
    let theirs = house
        .dir
        .secret("theirs", format!("anna {}\n", "17".repeat(32)));
    let ours = house
        .dir
        .secret("ours", format!("anna {}\n", "2a".repeat(32)));
    let config = ServeConfig {
        keys: Some(Keys::File(theirs.into())),
        ..ServeConfig::default()
    };
    let server = house.line.far().run(|| Server::start(config));
    let server = server.expect("it enters").expect("it serves");
    refused(&run(WAN), 3, "users with a key");
    let mut wrong = run(WAN).to_vec();
    wrong.extend(["--key-file", &ours]);
    refused(&wrong, 3, "key");
    server.stop();
}

#[test]
fn without_rights_the_plan_says_what_is_missing() {
    let Some(house) = house(20e6, 2.0) else {
        return;
    };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.args(["--inh-caps", "-all", "--bounding-set", "-all"]);
    command.arg(env!("CARGO_BIN_EXE_tailback"));
    command.args(["control", "plan", "--wan", WAN]);
    let Ok(out) = house.gateway().command(&mut command).output() else {
        return testkit::skip("setpriv is not there");
    };
    if out.status.code() == Some(127) {
        return testkit::skip("another user cannot read the program");
    }
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(3), "{told}");
    assert!(told.contains("CAP_BPF"), "{told}");
}

/// Output of `tc` at the gateway.
fn tc(house: &House, args: &str) -> String {
    let mut command = Command::new("tc");
    command.args(args.split(' '));
    let out = house.gateway().command(&mut command).output();
    String::from_utf8_lossy(&out.expect("tc runs").stdout).into_owned()
}

/// Queue discipline or classes of an interface, as `tc` shows them.
fn shaper(house: &House, kind: &str, device: &str) -> String {
    tc(house, &format!("{kind} show dev {device}"))
}

/// Lines of the disciplines and classes of the WAN interface, without their counters, in order.
fn rates(house: &House) -> Vec<String> {
    let text = shaper(house, "qdisc", WAN) + &shaper(house, "class", WAN);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// TBF of one short queue.
fn tbf(house: &House, verb: &str, device: &str, rate: f64) {
    let text = format!(
        "tc qdisc {verb} dev {device} root handle 1: tbf rate {rate:.0}bit burst 16kb latency 40ms"
    );
    sh(house.gateway(), &text);
}

/// HTB of that rate whose only leaf is short.
fn htb(house: &House, device: &str, rate: f64) {
    for text in [
        "qdisc add dev DEVICE root handle 1: htb default 10",
        "class add dev DEVICE parent 1: classid 1:1 htb rate RATE ceil RATE",
        "class add dev DEVICE parent 1:1 classid 1:10 htb rate RATE ceil RATE",
        "qdisc add dev DEVICE parent 1:10 pfifo limit 20",
    ] {
        let text = text.replace("DEVICE", device);
        let text = text.replace("RATE", &format!("{rate:.0}bit"));
        sh(house.gateway(), &format!("tc {text}"));
    }
}

#[test]
fn a_shaper_follows_the_uplink_and_gets_its_rate_back() {
    let seed = seed();
    println!("CONTROL_SEED={seed}");
    real_time(|| {
        let mut rng = Streams::new(seed).stream("shaped");
        // Half of the link's rate, and more than it carries.
        for (share, kind) in [(0.5, "tbf"), (1.6, "htb")] {
            let rate = 6e6 * 5f64.powf(uniform(&mut rng));
            let Some(house) = house(rate, 4.0 + 16.0 * uniform(&mut rng)) else {
                return;
            };
            let server = house.serve();
            match kind {
                "tbf" => tbf(&house, "add", WAN, share * rate),
                _ => htb(&house, WAN, share * rate),
            }
            let before = rates(&house);
            let run = house.start(&["--apply", "--shape-up", WAN]);
            assert!(house.programs().is_empty(), "a shaper needs no hook");
            let on = house.upload(2, 9);
            let during = rates(&house);
            end(run, Signal::SIGTERM);
            server.stop();
            println!("{:.1} Mbit/s, {kind} of {share}: {on}", rate * 1e-6);
            assert_ne!(during, before);
            assert_eq!(rates(&house), before);
            assert!(on.used >= 0.85 && on.p95_ms <= 40.0, "{on}");
            let rows = store::read(house.dir.join("c.rec")).expect("a recording");
            let last = rows.decision.last().expect("decisions");
            let shaped = last.shaper_bps.expect("it shapes") as f64;
            assert!((shaped / rate - 1.0).abs() < 0.3, "{shaped} of {rate}");
            assert_eq!((last.drops, last.marks, last.signals), (0, 0, 0));
        }
    });
}

#[test]
fn a_shaper_follows_downloads_behind_an_ifb_device() {
    let seed = seed();
    println!("CONTROL_SEED={seed}");
    real_time(|| {
        let mut rng = Streams::new(seed).stream("ifb");
        let modem = Modem {
            down: 8e6 * 4f64.powf(uniform(&mut rng)),
            ..Modem::fixed(5e6, 4.0 + 16.0 * uniform(&mut rng))
        };
        let program = Path::new(env!("CARGO_BIN_EXE_tailback"));
        let Some(house) = House::build(program, &modem) else {
            return;
        };
        let server = house.serve();
        for text in [
            "ip link add ifb0 type ifb",
            "ip link set ifb0 up",
            "tc qdisc add dev link1 handle ffff: ingress",
            "tc filter add dev link1 parent ffff: protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev ifb0",
        ] {
            sh(house.gateway(), text);
        }
        tbf(&house, "add", "ifb0", 1.5 * modem.down);
        let before = shaper(&house, "qdisc", "ifb0");
        let load = Load {
            down: true,
            ..Load::new(4, 9)
        };
        let run = house.start(&["--apply", "--direction", "down", "--shape-down", "ifb0"]);
        let on = house.upload_as(&load);
        let during = shaper(&house, "qdisc", "ifb0");
        end(run, Signal::SIGTERM);
        server.stop();
        println!("{:.1} Mbit/s down: {on}", modem.down * 1e-6);
        assert_ne!(during, before);
        assert_eq!(shaper(&house, "qdisc", "ifb0"), before);
        assert!(on.used >= 0.95 && on.p95_ms <= 50.0, "{on}");
    });
}

/// Sends 20 Mbit/s of UDP from the LAN to the far end, until it is killed.
const FLOOD: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
next = time.monotonic()
while True:
    for _ in range(18):
        try:
            s.sendto(bytes(1400), (sys.argv[1], 9))
        except OSError:
            pass
    next += 0.01
    time.sleep(max(0, next - time.monotonic()))
"#;

fn flood(house: &House) -> Child {
    let mut flood = Command::new("python3");
    flood.args(["-c", FLOOD, &FAR_V4.to_string()]);
    let child = house.line.near().command(&mut flood).spawn();
    child.expect("python3 runs")
}

#[test]
fn a_killed_run_gives_the_shaper_its_rates_back() {
    let seed = seed();
    println!("CONTROL_SEED={seed}");
    real_time(|| {
        // A short buffer, so that the load of one run does not hold up the next.
        let modem = Modem {
            buffer: 60e3,
            ..Modem::fixed(8e6, 5.0)
        };
        let Some(house) = House::build(Path::new(env!("CARGO_BIN_EXE_tailback")), &modem) else {
            return;
        };
        htb(&house, WAN, 16e6);
        let classes = || rates(&house);
        let before = classes();
        let mut server = house.serve();
        let mut rng = Streams::new(seed).stream("shaper/kills");
        let mut took: Vec<f64> = Vec::new();
        for number in 0..20 {
            if number == 10 {
                server.stop();
                server = house.serve();
            }
            let run = house.start(&["--apply", "--shape-up", WAN]);
            let load = flood(&house);
            let began = Instant::now();
            while classes() == before {
                assert!(began.elapsed() < 10 * SECOND, "the rate does not change");
            }
            std::thread::sleep(SECOND.mul_f64(0.3 * uniform(&mut rng)));
            let pid = Pid::from_raw(run.id() as i32);
            kill(pid, Signal::SIGKILL).expect("it runs");
            let began = Instant::now();
            while classes() != before {
                assert!(began.elapsed() < 5 * SECOND, "{:?}", classes());
            }
            took.push(began.elapsed().as_secs_f64() * 1e3);
            end(load, Signal::SIGKILL);
            end(run, Signal::SIGKILL);
        }
        println!("restored after SIGKILL, ms: {took:.0?}");
        server.stop();
    });
}

#[test]
fn a_run_that_hangs_loses_the_shaper_and_one_whose_shaper_is_changed_ends() {
    real_time(|| {
        let Some(house) = house(8e6, 5.0) else {
            return;
        };
        let server = house.serve();
        tbf(&house, "add", WAN, 16e6);
        let before = shaper(&house, "qdisc", WAN);
        let run = house.start(&["--apply", "--shape-up", WAN]);
        let pid = Pid::from_raw(run.id() as i32);
        let load = flood(&house);
        let began = Instant::now();
        while shaper(&house, "qdisc", WAN) == before {
            assert!(began.elapsed() < 10 * SECOND, "the rate does not change");
        }
        kill(pid, Signal::SIGSTOP).expect("it runs");
        let began = Instant::now();
        while shaper(&house, "qdisc", WAN) != before {
            assert!(
                began.elapsed() < 6 * SECOND,
                "it hangs and holds the shaper"
            );
        }
        println!("restored {:?} after SIGSTOP", began.elapsed());
        end(load, Signal::SIGKILL);
        kill(pid, Signal::SIGCONT).expect("it is there");
        let ended = run.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(3));

        std::fs::remove_dir_all(house.dir.join("c.rec")).expect("it was written");
        let run = house.start(&["--apply", "--shape-up", WAN]);
        tbf(&house, "change", WAN, 7e6);
        let theirs = shaper(&house, "qdisc", WAN);
        let ended = run.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(3), "{told}");
        assert!(told.contains("another program set the rate"), "{told}");
        assert_eq!(shaper(&house, "qdisc", WAN), theirs);
        server.stop();
    });
}

#[test]
fn interfaces_without_a_shaper_are_refused() {
    let Some(house) = house(20e6, 2.0) else {
        return;
    };
    let server = house.serve();
    let refused = |args: &[&str], code: i32, says: &str| {
        let mut all = vec!["run", "--wan", WAN, "--server", "10.77.0.2", "--apply"];
        all.extend(args);
        let out = house.output(&all);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(says), "{args:?}: {told}");
    };
    refused(&["--shape-up", WAN], 3, "no shaper at its root");
    refused(&["--shape-up", "nope"], 2, "no interface \"nope\"");
    refused(&["--shape-down", "ifb0"], 2, "needs --direction down");
    refused(
        &["--direction", "down", "--shape-down", WAN],
        2,
        "names an IFB interface",
    );
    sh(house.gateway(), "tc qdisc add dev link1 root handle 1: htb");
    for minor in [1, 2] {
        let class = format!("tc class add dev link1 parent 1: classid 1:{minor} htb rate 5mbit");
        sh(house.gateway(), &class);
    }
    refused(&["--shape-up", WAN], 3, "2 classes at its root");
    server.stop();
}

/// Shell functions of OpenWrt, over one section; each command line that procd would start is printed.
const OPENWRT: &str = r#"
config_get() { eval "$1=\"\${cfg_$3-$4}\""; }
config_get_bool() { eval "$1=\"\${cfg_$3-$4}\""; }
config_list_foreach() { for each in $cfg_targets; do $3 "$each"; done; }
config_load() { :; }
config_foreach() { if [ "$2" = "$kind" ]; then $1 home; fi; }
procd_open_instance() { line=; }
procd_set_param() { if [ "$1" = command ]; then shift; line="$*"; fi; }
procd_append_param() { shift; line="$line $*"; }
procd_close_instance() { echo "$line"; }
"#;

#[test]
fn the_service_of_openwrt_starts_commands_that_the_program_knows() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/openwrt");
    let commands = |settings: &str| {
        let script =
            format!("{OPENWRT}\n{settings}\n. {root}/files/tailback.init\nstart_service; true");
        let out = Command::new("sh").args(["-uc", &script]).output();
        let out = out.expect("sh runs");
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success() && told.is_empty(), "{told}");
        String::from_utf8(out.stdout).expect("text")
    };
    let settings = "kind=control cfg_wan=eth0 cfg_server=far cfg_apply=1 cfg_direction=both cfg_shape_up=eth0 cfg_shape_down=ifb0";
    let control = commands(settings);
    assert!(control.contains("--direction both --quiet"), "{control}");
    assert!(control.contains("--shape-down ifb0"), "{control}");
    let monitor = commands("kind=monitor cfg_targets='a icmp:b' cfg_interface=eth0");
    assert!(monitor.contains("monitor a icmp:b --quiet"), "{monitor}");
    assert_eq!(commands("kind=control"), "", "no server, no command");
    // The plan is printed if all options are known.
    for line in [control, monitor] {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("/usr/bin/tailback"));
        let mut program = Command::new(env!("CARGO_BIN_EXE_tailback"));
        let out = program.args(words).arg("--print-plan").output();
        let out = out.expect("it runs");
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{line}: {told}");
    }
    let package = std::fs::read_to_string(format!("{root}/Makefile")).expect("a package");
    let version = format!("PKG_VERSION:={}\n", env!("CARGO_PKG_VERSION"));
    assert!(package.contains(&version), "{version}");
}
