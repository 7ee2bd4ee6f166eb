//! `tailback control` on a gateway: lan – gateway – modem – server, with the kernel's TCP forwarded through an emulated
//! modem whose queue is the truth. CONTROL_SEED repeats the draws.

use base::record::Row;
use base::rng::{Streams, uniform};
use base::{BitsPerSec, Duration};
use live::clock::Clock;
use live::control::{PROGRAM, inspect};
use live::emulate::{Emulation, FAR_V4, NetNs, Options};
use live::serve::{Keys, ServeConfig, Server};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use testkit::{TempDir, line, real_time};

/// Interface of the gateway towards the modem.
const WAN: &str = "link1";
const SECOND: std::time::Duration = std::time::Duration::from_secs(1);
/// Queue of the modem in the rows of the emulation.
const MODEM: &str = "hop2/up";

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

/// House with a gateway, a modem with one second of buffer, and a server.
struct House {
    line: Emulation,
    rate: f64,
    rows: Receiver<Row>,
    clock: Clock,
    dir: TempDir,
}

/// Queue of the modem during an upload.
struct Seen {
    /// Share of the modem's rate in use after three seconds.
    used: f64,
    p50_ms: f64,
    p95_ms: f64,
    /// Longest wait, the start included.
    peak_ms: f64,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen {
            used,
            p50_ms,
            p95_ms,
            peak_ms,
        } = self;
        let used = 100.0 * used;
        write!(
            f,
            "use {used:.1} %, p50 {p50_ms:.1} ms, p95 {p95_ms:.1} ms, peak {peak_ms:.0} ms"
        )
    }
}

impl House {
    fn build(rate: f64, delay_ms: f64) -> Option<House> {
        let bytes = rate / 8.0;
        let lan = "rate = \"1 Gbit/s\"\nqueue = \"fifo:bytes=10MB\"\ndelay = \"0 ms\"";
        let modem = |rate: f64, bytes: f64| {
            format!(
                "rate = \"{rate:.0} bit/s\"\nqueue = \"fifo:bytes={bytes:.0}\"\ndelay = \"{delay_ms:.1} ms\""
            )
        };
        let hops = [
            line::spec(lan, lan),
            line::spec(&modem(rate, bytes), &modem(200e6, 5e6)),
        ];
        let clock = Clock::start();
        let (tell, rows) = channel();
        let options = Options {
            rows: Some(tell),
            sample_every: Duration::from_millis(5),
            routed: true,
            ..Options::new(clock)
        };
        let line = line::start_with(&hops, options)?;
        Some(House {
            line,
            rate,
            rows,
            clock,
            dir: TempDir::new("control"),
        })
    }

    fn gateway(&self) -> &NetNs {
        self.line.routers().next().expect("one router")
    }

    fn serve(&self) -> Server {
        line::serve(&self.line)
    }

    /// `tailback control` with these arguments, at the gateway.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
        command
            .arg("control")
            .args(args)
            .env_remove("TAILBACK_KEY")
            .current_dir(&*self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.gateway().command(&mut command);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// Starts a run, and waits until it holds the interface and answers.
    fn start(&self, more: &[&str]) -> Child {
        let far = FAR_V4.to_string();
        let mut args = vec!["run", "--wan", WAN, "--server", &far, "-o", "c.rec"];
        args.extend(more);
        let child = self.command(&args).spawn().expect("it starts");
        let began = Instant::now();
        while !self.output(&["status", "--wan", WAN]).status.success() {
            assert!(began.elapsed() < 10 * SECOND, "no run within 10 s");
            std::thread::sleep(SECOND / 20);
        }
        child
    }

    /// Programs at the gateway's egress.
    fn programs(&self) -> Vec<String> {
        let place = self.gateway().run(|| inspect(WAN));
        place.expect("it enters").expect("it may look").programs
    }

    /// Uploads over kernel TCP and returns what the modem saw.
    fn upload(&self, flows: usize, seconds: u32) -> Seen {
        let listener = self.line.far().run(|| TcpListener::bind((FAR_V4, 5001)));
        let listener = listener.expect("it enters").expect("a port");
        let drain = |mut stream: TcpStream| {
            let mut buffer = vec![0; 1 << 16];
            while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
        };
        std::thread::scope(|s| {
            s.spawn(|| {
                for stream in listener.incoming().take(flows) {
                    let stream = stream.expect("a connection");
                    s.spawn(move || drain(stream));
                }
            });
            let began = self.clock.unix_ns();
            let send = move || {
                let mut stream = TcpStream::connect((FAR_V4, 5001)).expect("it answers");
                stream.set_write_timeout(Some(SECOND)).expect("it can");
                // Its queue grows until a packet is lost.
                setsockopt(&stream, sockopt::TcpCongestion, &"cubic".into())
                    .expect("the kernel has it");
                let end = Instant::now() + seconds * SECOND;
                let data = vec![0; 1 << 16];
                while Instant::now() < end {
                    // A full queue takes nothing for a while.
                    let _ = stream.write(&data);
                }
                let _ = setsockopt(
                    &stream,
                    sockopt::Linger,
                    &nix::libc::linger {
                        l_onoff: 1,
                        l_linger: 0,
                    },
                );
            };
            let near = self.line.near();
            let senders: Vec<_> = (0..flows)
                .map(|_| s.spawn(move || near.run(send).expect("it enters")))
                .collect();
            senders
                .into_iter()
                .for_each(|t| t.join().expect("it sends"));
            self.seen(began, began + i64::from(seconds) * 1_000_000_000)
        })
    }

    fn seen(&self, from_ns: i64, to_ns: i64) -> Seen {
        let steady = from_ns + 3_000_000_000;
        let rows: Vec<_> = self
            .rows
            .try_iter()
            .filter_map(|row| match row {
                Row::Queue(q) if &*q.queue == MODEM => Some(q),
                _ => None,
            })
            .filter(|q| (from_ns..to_ns).contains(&q.t_ns))
            .collect();
        let ms = |backlog: i64| backlog as f64 * 8e3 / self.rate;
        let after: Vec<_> = rows.iter().filter(|q| q.t_ns >= steady).collect();
        let (first, last) = (after[0], after[after.len() - 1]);
        let mut waits: Vec<f64> = after.iter().map(|q| ms(q.backlog_bytes)).collect();
        waits.sort_by(f64::total_cmp);
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
        let sent = (last.delivered_bytes - first.delivered_bytes) as f64 * 8e9;
        Seen {
            used: sent / (last.t_ns - first.t_ns) as f64 / self.rate,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            peak_ms: rows.iter().map(|q| ms(q.backlog_bytes)).fold(0.0, f64::max),
        }
    }
}

fn end(mut child: Child, signal: Signal) -> Output {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    child.wait().expect("it ends");
    child.wait_with_output().expect("it has ended")
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
            let Some(house) = House::build(rate, delay_ms) else {
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
            let rows = store::read(&house.dir.join("c.rec")).expect("a recording");
            assert!(rows.decision.iter().all(|d| d.applied));
            let last = rows.decision.last().expect("decisions");
            assert!(last.drops + last.marks > 0, "{last:?}");
            let capacity = last.capacity_bps.expect("it is known") as f64;
            assert!((capacity / rate - 1.0).abs() < 0.1, "{capacity} of {rate}");
        });
    }
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    real_time(|| {
        let Some(house) = House::build(10e6, 5.0) else {
            return;
        };
        let server = house.serve();
        for _ in 0..5 {
            let run = house.start(&["--apply"]);
            assert_eq!(house.programs(), [PROGRAM]);
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
    real_time(|| {
        let Some(house) = House::build(8e6, 8.0) else {
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
        let rows = store::read(&house.dir.join("c.rec")).expect("a recording");
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
    let Some(house) = House::build(20e6, 2.0) else {
        return;
    };
    let server = house.serve();
    let run = house.start(&["--apply"]);
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
    assert!(house.output(&["stop", "--wan", WAN]).status.success());
    assert!(house.programs().is_empty());
    let ended = run.wait_with_output().expect("it ends");
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(
        store::read_meta(&house.dir.join("c.rec"))
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
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let Some(house) = House::build(20e6, 2.0) else {
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
    let Some(house) = House::build(20e6, 2.0) else {
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

/// Figures of the book. Run alone: `cargo test --release -p tailback-cli --test control -- --ignored --nocapture`.
#[test]
#[ignore = "takes four minutes and prints figures"]
fn figures_of_the_book() {
    for (rate, flows) in [(10e6, 1), (10e6, 4), (100e6, 1), (100e6, 4)] {
        let Some(house) = House::build(rate, 10.0) else {
            return;
        };
        let server = house.serve();
        let off = house.upload(flows, 10);
        std::thread::sleep(3 * SECOND);
        println!("{} Mbit/s, {flows} flows: off {off}", rate / 1e6);
        for law in ["sawtooth", "pie"] {
            let run = house.start(&["--apply", "--law", law]);
            std::thread::sleep(SECOND);
            let on = house.upload(flows, 20);
            let proc = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", run.id()));
            let stat = proc("stat").unwrap_or_default();
            let ticks: f64 = stat
                .split_whitespace()
                .skip(13)
                .take(2)
                .filter_map(|t| t.parse::<f64>().ok())
                .sum();
            let rss = proc("status").unwrap_or_default();
            let rss = rss
                .lines()
                .find(|l| l.starts_with("VmRSS"))
                .unwrap_or_default();
            let status = house.output(&["status", "--wan", WAN]);
            println!(
                "  {law}: {on}, {:.2} s of processor in 22 s, {rss}",
                ticks / 100.0
            );
            println!("  {}", String::from_utf8_lossy(&status.stdout).trim());
            end(run, Signal::SIGTERM);
            std::thread::sleep(SECOND);
        }
        server.stop();
    }
}
