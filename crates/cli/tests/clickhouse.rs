//! A hub whose recordings go to a real ClickHouse, too, over a way that breaks.

use base::record::{Row, TableId};
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::clickhouse::{BrokenWay, ClickHouse};
use testkit::{Program, Service, TempDir};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

fn hub(data: &str, listen: &str, port: u16) -> (Service, String) {
    let url = format!("http://127.0.0.1:{port}/fleet");
    let args = [
        "hub",
        "--data",
        data,
        "--listen",
        listen,
        "--clickhouse",
        &url,
    ];
    let mut command = program().command(&args);
    let command = command.stderr(Stdio::piped());
    Service::told(command.spawn().unwrap(), "hub at https://")
}

fn status(data: &str) -> Value {
    program().json(&["fleet", "status", "--data", data, "--json"])
}

/// Waits until the second store has something.
fn wait(data: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
    let began = Instant::now();
    loop {
        let told = status(data);
        if is_so(&told) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "not {what}: {told}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Rows, sum of the times in us modulo 2^64, and of the round trips, by table and recording: they tell rows apart well enough.
type Sums = BTreeMap<(String, String), (u64, i64, i64)>;

/// Sums over the recordings of the hub's own store.
fn own(data: &str, point: &str) -> Sums {
    let mut sums = Sums::new();
    for entry in std::fs::read_dir(format!("{data}/points/{point}")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for &table in TableId::ALL {
            let mut sum = (0, 0, 0);
            store::each_row(&path, table, &mut |row| {
                sum.0 += 1;
                sum.1 = row.time_ns().wrapping_div(1000).wrapping_add(sum.1);
                if let Row::Delay(delay) = &row {
                    sum.2 += delay.rtt_ns.unwrap_or(0);
                }
            })
            .unwrap();
            if sum.0 > 0 {
                sums.insert((table.spec().name.to_owned(), name.clone()), sum);
            }
        }
    }
    sums
}

/// The same of a server's tables.
fn theirs(server: &ClickHouse) -> Sums {
    let mut sums = Sums::new();
    for table in TableId::ALL {
        let (name, time) = (table.spec().name, table.spec().time);
        let rtt = match table {
            TableId::Delay => "sum(rtt_ns)",
            _ => "0",
        };
        let sql = format!(
            "select recording, count(), sum(intDiv({time}, 1000)), {rtt} from fleet.{name} group by recording format TabSeparated"
        );
        for line in server.ask(&sql).unwrap_or_default().lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            let sum = (
                cells[1].parse().unwrap(),
                cells[2].parse().unwrap(),
                cells[3].parse().unwrap_or(0),
            );
            sums.insert((name.to_owned(), cells[0].to_owned()), sum);
        }
    }
    sums
}

/// The way to the server is cut after drawn numbers of bytes, hub and server are killed at drawn moments: in the end each row is there
/// once. What a point withdraws goes there, too.
#[test]
fn each_row_is_in_a_second_store_once() {
    testkit::real_time_beside(|| {
        let Some(mut server) = ClickHouse::start() else {
            return;
        };
        let seed = std::env::var("CLICKHOUSE_SEED").map_or(1, |s| s.parse().unwrap());
        println!("seed {seed}");
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let mut lives = rand::rngs::StdRng::seed_from_u64(seed + 1);
        let holds = Arc::new(AtomicBool::new(false));
        let mended = holds.clone();
        let way = BrokenWay::to(server.port(), move || {
            if holds.load(Ordering::Relaxed) {
                return (u64::MAX, u64::MAX);
            }
            let mut draw = |most: f64| (lives.random_range(5.0..most)).exp() as u64;
            // From a few requests to a few recordings. Answers are short.
            (draw(17.0), draw(12.0))
        });
        let dir = TempDir::new("clickhouse-hub");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let (mut hub_process, address) = hub(&data, "127.0.0.1:0", way.port());
        let invited = program().run(&["hub", "invite", "--data", &data, "--name", "quarry"]);
        let code = String::from_utf8(invited.stdout).unwrap().trim().to_owned();
        let plan = "report_every_s = 5\n[[measurement]]\nname = \"cable\"\nevery_s = 2\nat_most_s = 60\n\
                    run = \"test --link cable --virtual --seed 3\"\n";
        let plan = dir.file("plan.toml", plan);
        let published = program().run(&["fleet", "plan", &plan, "--data", &data]);
        assert!(published.status.success(), "{published:?}");
        let url = format!("https://{address}");
        let join = ["agent", "--data", &home, "--join", &url, &code, "--agree"];
        let mut agent = program().command(&join);
        let agent = Service(agent.stderr(Stdio::null()).spawn().unwrap());
        let mut kills = (0, 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(25) {
            std::thread::sleep(Duration::from_millis(rng.random_range(500..4000)));
            if rng.random_bool(0.5) {
                drop(hub_process);
                hub_process = hub(&data, &address, way.port()).0;
                kills.0 += 1;
            } else {
                server.again();
                kills.1 += 1;
            }
        }
        assert!(agent.end());
        drop(hub_process);
        // The rest goes over a way that holds.
        let cuts = way.cuts();
        mended.store(true, Ordering::Relaxed);
        let (hub_process, _) = hub(&data, "127.0.0.1:0", way.port());
        let is_done = |told: &Value| {
            let second = &told["clickhouse"][0];
            second["waiting"] == 0 && second["recordings"] == told["points"][0]["recordings"]
        };
        wait(&data, "complete", is_done);
        println!(
            "{cuts} cuts, {kills:?} kills of hub and server: {}",
            status(&data)["clickhouse"]
        );
        let expected = own(&data, "quarry");
        assert!(expected.len() > 40, "{}", expected.len());
        assert_eq!(theirs(&server), expected);

        // A server that lost rows gets them again.
        drop(hub_process);
        let lost = expected.keys().next_back().unwrap();
        let sql = format!(
            "alter table fleet.{} delete where recording = '{}'",
            lost.0, lost.1
        );
        assert!(server.ask(&sql).is_some());
        let began = Instant::now();
        while theirs(&server).contains_key(lost) {
            assert!(began.elapsed() < Duration::from_secs(30), "not deleted");
            std::thread::sleep(Duration::from_millis(200));
        }
        let (hub_process, _) = hub(&data, "127.0.0.1:0", way.port());
        let began = Instant::now();
        while theirs(&server) != expected {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{:?}",
                theirs(&server)
            );
            std::thread::sleep(Duration::from_millis(200));
        }

        assert!(
            program()
                .run(&["hub", "forget", "--data", &data, "--name", "quarry"])
                .status
                .success()
        );
        assert!(
            !Path::new(&format!("{data}/points/quarry"))
                .join(&lost.1)
                .exists()
        );
        let began = Instant::now();
        while !theirs(&server).is_empty() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{:?}",
                theirs(&server)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        drop(hub_process);
    });
}
