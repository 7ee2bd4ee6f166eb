//! Several modems at one point: each result belongs to the link through its interface, whichever one the kernel prefers.

use crate::doubles::network::sh;
use crate::doubles::{TAILBACK, line, serve};
use live::emulate::Emulation;
use serde_json::Value;
use std::process::{Child, Command, Output};
use testkit::{Program, TempDir};

/// Address of the server, behind all modems.
const FAR: &str = "192.0.2.9";
/// Rate of each modem up and down, Mbit/s.
const RATES: [(u32, u32); 2] = [(8, 30), (3, 12)];

/// Process that keeps the far end's namespace open to `ip link set … netns`.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plugs modem `i` in, between the near end and the far one.
fn plug(line: &Emulation, holder: &Holder, i: usize) {
    let (up, down) = RATES[i];
    let pid = holder.0.id();
    let shape = |dev, rate| {
        format!("tc qdisc add dev {dev}{i} root tbf rate {rate}mbit burst 4000 limit 60000")
    };
    sh(
        line.near(),
        &format!(
            "ip link add wan{i} type veth peer name isp{i} && ip link set isp{i} netns {pid} &&
             ip addr add 10.79.{i}.2/24 dev wan{i} && ip link set wan{i} up &&
             ip route add {FAR} via 10.79.{i}.1 dev wan{i} metric 10{i} && {}",
            shape("wan", up)
        ),
    );
    sh(
        line.far(),
        &format!(
            "ip addr add 10.79.{i}.1/24 dev isp{i} && ip link set isp{i} up && {}",
            shape("isp", down)
        ),
    );
}

fn unplug(line: &Emulation, i: usize) {
    sh(line.near(), &format!("ip link del wan{i}"));
}

fn set_up() -> Option<(Emulation, Holder)> {
    let line = line(2)?;
    let sleep = line.far().command(Command::new("sleep").arg("600")).spawn();
    let holder = Holder(sleep.expect("sleep(1)"));
    sh(line.far(), &format!("ip addr add {FAR}/32 dev lo"));
    for i in 0..RATES.len() {
        plug(&line, &holder, i);
    }
    Some((line, holder))
}

fn command(line: &Emulation, dir: &TempDir, args: &[&str]) -> Command {
    let program = Program::new(TAILBACK).within(dir);
    let mut command = program.command(args);
    line.near().command(&mut command);
    command
}

fn run(line: &Emulation, dir: &TempDir, args: &[&str]) -> (Output, String) {
    let out = command(line, dir, args).output().expect("tailback runs");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    (out, told)
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).expect("it prints JSON")
}

#[test]
fn tests_and_probes_measure_the_link_of_their_interface() {
    testkit::real_time_beside(|| {
        let Some((line, _holder)) = set_up() else {
            return;
        };
        let (dir, server) = (TempDir::new("modems"), serve(&line));
        let test = ["test", FAR, "--longest", "6s", "--phases", "idle,down,up"];
        let both = ["--interface", "wan0,wan1", "-o", "t.rec", "--json"];
        let (out, told) = run(&line, &dir, &[&test[..], &both].concat());
        assert!(out.status.success(), "{told}");
        let compared = json(&out);
        let rows = compared["rows"].as_array().expect("rows");
        for (key, of) in [
            ("goodput_up_bps", RATES.map(|r| r.0)),
            ("goodput_down_bps", RATES.map(|r| r.1)),
        ] {
            let row = rows.iter().find(|r| r["key"] == key).expect("a figure");
            for (i, rate) in of.into_iter().enumerate() {
                let mbit = row["figures"][i]["value"].as_f64().expect("a rate") / 1e6;
                let truth = f64::from(rate);
                assert!((0.85 * truth..truth).contains(&mbit), "{key} {i}: {mbit}");
            }
        }
        assert_eq!(compared["tests"][1]["name"], "wan1");
        assert!(dir.join("t-wan0.rec").exists() && dir.join("t-wan1.rec").exists());

        // Both at once: each answer is of its own link, and they come in the order of the interfaces.
        let args = [
            "probe",
            "nat:sockets=2,during=0 ms",
            FAR,
            "--interface",
            "wan0,wan1",
        ];
        let (out, told) = run(
            &line,
            &dir,
            &[&args[..], &["--at-once", "-o", "n", "--json"]].concat(),
        );
        assert!(out.status.success(), "{told}");
        let answers = json(&out);
        let titles = [0, 1].map(|i| answers[i]["title"].as_str().expect("a title").to_owned());
        assert!(
            titles[0].ends_with("wan0") && titles[1].ends_with("wan1"),
            "{titles:?}"
        );
        assert!(dir.join("n-wan0.rec").exists() && dir.join("n-wan1.rec").exists());

        // Sockets of our own, hops, trains and loads take the same interface. The far address is not that of the interface
        // by which the server's datagrams leave.
        for kind in [
            "nat:sockets=2,during=0 ms",
            "path:interval=100 ms",
            "train:count=50,rate=1mbit",
            "buffer:direction=down",
        ] {
            let args = [
                "probe",
                kind,
                FAR,
                "--also",
                FAR,
                "--json",
                "--interface",
                "wan1",
            ];
            let (out, told) = run(&line, &dir, &args);
            assert!(out.status.success(), "{kind}: {told}");
            let answer = json(&out);
            let all = answer.to_string();
            assert!(!all.contains("10.79.0."), "{kind}: {all}");
        }
        drop(server);
    });
}

#[test]
fn an_interface_that_cannot_carry_the_run_is_refused_with_the_reason() {
    let Some((line, _holder)) = set_up() else {
        return;
    };
    let (dir, server) = (TempDir::new("modems"), serve(&line));
    let refused = |interface: &str| {
        let args = ["probe", "rtt", FAR, "--interface", interface, "-o", "r.rec"];
        let (out, told) = run(&line, &dir, &args);
        assert!(!out.status.success(), "{interface}: {told}");
        assert!(!dir.join("r.rec").exists(), "{interface}");
        told
    };
    let told = refused("wan7");
    assert!(told.contains("wan7") && told.contains("wan1"), "{told}");
    sh(line.near(), &format!("ip route del {FAR} dev wan1"));
    let told = refused("wan1");
    assert!(
        told.contains("no route to 192.0.2.9 leaves by wan1"),
        "{told}"
    );
    // A route that the kernel prefers, and a filter that takes answers by another interface for forged.
    sh(
        line.near(),
        &format!(
            "ip route add {FAR} via 10.79.1.1 dev wan1 metric 900 &&
             echo 1 > /proc/sys/net/ipv4/conf/wan1/rp_filter"
        ),
    );
    assert!(refused("wan1").contains("rp_filter is strict"));
    drop(server);
}

/// One line of answers each 100 ms for each interface; one modem is pulled, and plugged in again.
#[test]
fn a_monitor_probes_through_all_modems_and_goes_on_after_one_is_plugged_in_again() {
    testkit::real_time_beside(|| {
        let Some((line, holder)) = set_up() else {
            return;
        };
        let (dir, server) = (TempDir::new("modems"), serve(&line));
        let icmp = format!("icmp:{FAR},100ms");
        let tcp = format!("tcp:{FAR}:7117,200ms");
        let targets = ["monitor", FAR, &icmp, &tcp, "--interface", "wan0,wan1"];
        let rest = ["-o", "m.rec", "-q", "--duration", "14s"];
        let args = [&targets[..], &rest].concat();
        let mut child = command(&line, &dir, &args).spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_secs(4));
        unplug(&line, 1);
        std::thread::sleep(std::time::Duration::from_secs(3));
        plug(&line, &holder, 1);
        assert!(child.wait().expect("it ends").success());
        let recording = store::read(dir.join("m.rec")).expect("a recording");
        let begin = recording.meta.started_ns;
        let answered = |target: &str, from: i64, to: i64| {
            let its = recording.delay.iter().filter(|d| {
                *d.target == *target && (from..to).contains(&((d.sent_ns - begin) / 1_000_000))
            });
            let (all, ok): (Vec<_>, Vec<_>) =
                its.map(|d| (1, i32::from(d.rtt_ns.is_some()))).unzip();
            (ok.iter().sum::<i32>(), all.len() as i32)
        };
        for target in ["udp", &format!("icmp:{FAR}"), &format!("tcp:{FAR}:7117")] {
            let wan = [0, 1].map(|i| format!("{target}%wan{i}"));
            let (ok, all) = answered(&wan[0], 1000, 12_000);
            assert!(
                all > 40 && ok * 20 > all * 19,
                "{target} wan0: {ok} of {all}"
            );
            assert_eq!(answered(&wan[1], 4500, 6500).0, 0, "{target}");
            let (ok, all) = answered(&wan[1], 1000, 3500);
            assert!(
                ok > 0 && ok * 10 > all * 9,
                "{target} wan1 before: {ok} of {all}"
            );
            let (ok, _) = answered(&wan[1], 10_500, 13_500);
            assert!(ok > 5, "{target} wan1 after: {ok}");
        }
        let lost = recording
            .availability
            .iter()
            .filter(|a| a.reachable == Some(false) || !a.up);
        assert!(lost.clone().all(|a| &*a.interface == "wan1") && lost.count() > 0);

        // While the interface was gone, probes were due and none left: one figure everywhere.
        let (out, told) = run(&line, &dir, &["analyse", "m.rec", "--json"]);
        assert!(out.status.success(), "{told}");
        let analysed = json(&out);
        for target in analysed["targets"].as_array().expect("targets") {
            let name = target["target"].as_str().expect("a name");
            let uptime = target["availability"]["value"]
                .as_f64()
                .expect("it can be told");
            if name.ends_with("%wan1") {
                assert!((0.5..0.9).contains(&uptime), "{name}: {uptime}");
            }
            let plot = [
                "report",
                "m.rec",
                "--plot",
                "availability",
                "--target",
                name,
            ];
            let (out, told) = run(&line, &dir, &[&plot[..], &["-o", "a.svg"]].concat());
            assert!(out.status.success(), "{told}");
            let svg = std::fs::read_to_string(dir.join("a.svg")).expect("a picture");
            let (_, shown) = svg.split_once("Available for ").expect("the figure");
            let (shown, _) = shown.split_once(" %").expect("a share");
            let off = shown.parse::<f64>().expect("a number") - 100.0 * uptime;
            assert!(off.abs() < 0.06, "{name}: {shown} of {uptime}");
        }
        drop(server);
    });
}

/// Sends 6 Mbit/s of datagrams through an interface for some seconds, at random instants: in step with the probes it would find
/// the queue full for all of them or for none.
const FLOOD: &str = r#"
import random, socket, sys, time
random.seed(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[2].encode())
end = time.monotonic() + float(sys.argv[3])
due = time.monotonic()
while due < end:
    s.sendto(bytes(972), (sys.argv[1], 9))
    due += random.expovariate(6e6 / 8000)
    time.sleep(max(0, due - time.monotonic()))
"#;

/// The bottleneck may be the queue of the measuring host. The kernel tells a socket that asks for errors what that queue drops,
/// as a failed call: those probes are lost, and nothing else is wrong.
#[test]
fn probes_that_the_own_queue_drops_are_lost() {
    testkit::real_time_beside(|| {
        let Some((line, _holder)) = set_up() else {
            return;
        };
        sh(
            line.near(),
            "tc qdisc replace dev wan1 root handle 1: tbf rate 3mbit burst 4000 limit 60000 &&
             tc qdisc add dev wan1 parent 1:1 pfifo limit 30",
        );
        let (dir, server) = (TempDir::new("modems"), serve(&line));
        // Not together with the others: of two that leave at once, the first may take the last place.
        let icmp = format!("icmp:{FAR},27ms");
        let monitor = ["monitor", FAR, &icmp, "--interval", "20ms"];
        let rest = [
            "--interface",
            "wan1",
            "-o",
            "m.rec",
            "-q",
            "--duration",
            "8s",
        ];
        let args = [&monitor[..], &rest].concat();
        let mut child = command(&line, &dir, &args).spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_secs(2));
        let mut flood = Command::new("python3");
        flood.args(["-c", FLOOD, FAR, "wan1", "4"]);
        line.near().command(&mut flood);
        assert!(flood.status().expect("python3 runs").success());
        assert!(child.wait().expect("it ends").success());
        let recording = store::read(dir.join("m.rec")).expect("a recording");
        // From the middle of the flood's four seconds.
        let begin = recording.meta.started_ns + 3_000_000_000;
        for target in ["udp", &format!("icmp:{FAR}")] {
            let its = recording.delay.iter().filter(|d| {
                *d.target == *target && (0..2_000_000_000).contains(&(d.sent_ns - begin))
            });
            let lost: Vec<bool> = its.map(|d| d.rtt_ns.is_none()).collect();
            let share = lost.iter().filter(|l| **l).count() as f64 / lost.len() as f64;
            // Half of all packets find no place.
            assert!(lost.len() > 60, "{target}: {} probes", lost.len());
            assert!((0.3..0.7).contains(&share), "{target}: {share}");
        }
        let mut events = recording.event.iter();
        let fault = events.find(|e| format!("{e:?}").contains("buffer space"));
        assert!(fault.is_none(), "{fault:?}");
        drop(server);
    });
}
