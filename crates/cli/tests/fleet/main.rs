//! A hub and an agent as processes: from the one-time code to recordings that `analyse` reads. Both are killed meanwhile.

mod joining;
mod operators;

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{Program, Service, TempDir};

/// A test of an emulated link in virtual time, each four seconds.
fn plan(dir: &TempDir) -> String {
    let plan = r#"
        report_every_s = 5
        [[measurement]]
        name = "cable"
        every_s = 4
        at_most_s = 60
        run = "test --link cable --virtual --seed 3"
    "#;
    dir.file("plan.toml", plan)
}

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Starts a hub, on a port that is free unless one is given; returns it with its address.
fn hub(data: &str, listen: &str) -> (Service, String) {
    let mut command = program().command(&["hub", "--data", data, "--listen", listen]);
    Service::told(
        command.stderr(Stdio::piped()).spawn().unwrap(),
        "hub at https://",
    )
}

fn agent(data: &str, join: &[&str]) -> Service {
    let args = [&["agent", "--data", data][..], join].concat();
    let mut command = program().command(&args);
    Service(command.stderr(Stdio::null()).spawn().unwrap())
}

fn status(data: &str) -> Value {
    program().json(&["fleet", "status", "--data", data, "--json"])
}

/// Waits until the one point of the fleet has something.
#[track_caller]
fn wait(data: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let status = status(data);
        let point = status["points"][0].clone();
        if is_so(&point) {
            return point;
        }
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "not {what} after 90 s: {point}"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Joins the point `village-17` to a hub, with this plan; returns it with the code that it used.
fn join(data: &str, home: &str, address: &str, plan: &str) -> (Service, String) {
    join_as("village-17", data, home, address, plan)
}

fn join_as(name: &str, data: &str, home: &str, address: &str, plan: &str) -> (Service, String) {
    let invited = program().run(&["hub", "invite", "--data", data, "--name", name]);
    let code = String::from_utf8(invited.stdout).unwrap().trim().to_owned();
    let published = program().run(&["fleet", "plan", plan, "--data", data]);
    assert!(published.status.success(), "{published:?}");
    let url = format!("https://{address}");
    (agent(home, &["--join", &url, &code, "--agree"]), code)
}

/// Recordings of the one point, oldest first.
fn stored(data: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(format!("{data}/points/village-17"));
    let mut all: Vec<_> = entries
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().path())
        .collect();
    all.sort();
    all
}

/// First document on a process's standard output.
fn first_document(child: &mut Child) -> Value {
    let stream = serde_json::Deserializer::from_reader(child.stdout.take().unwrap());
    let document = stream.into_iter::<Value>().next();
    document.expect("it prints").expect("JSON")
}

#[track_caller]
fn keeps(name: &str, value: &Value) {
    let path = format!("../../schema/{name}.v1.json");
    let schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(testkit::schema::breach(&schema, value), None, "{value}");
}

#[test]
fn a_hub_and_an_agent_tell_programs_what_they_tell_people() {
    let dir = TempDir::new("fleet-json");
    let (data, home, plan) = (dir.at("hub"), dir.at("agent"), plan(&dir));
    let spawn = |args: &[&str]| {
        let mut command = program().command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let listen = ["--listen", "127.0.0.1:0", "--web", "127.0.0.1:0", "--json"];
    let mut hub = Service(spawn(&[&["hub", "--data", &data], &listen[..]].concat()));
    let started = first_document(&mut hub.0);
    keeps("hub", &started);
    let web = started["dashboard"].as_str().expect("a dashboard");
    assert!(web.starts_with("http://127.0.0.1:"), "{web}");
    let invited = program().json(&[
        "hub",
        "invite",
        "--data",
        &data,
        "--name",
        "village-17",
        "--json",
    ]);
    assert_eq!(invited["point"], "village-17");
    let published = program().run(&["fleet", "plan", &plan, "--data", &data]);
    assert!(published.status.success(), "{published:?}");
    let url = format!("https://{}", started["listen"].as_str().unwrap());
    let code = invited["code"].as_str().unwrap();
    let join = ["--join", &url, code, "--agree", "--json"];
    let mut agent = Service(spawn(&[&["agent", "--data", &home], &join[..]].concat()));
    let news = first_document(&mut agent.0);
    keeps("agent-news", &news);
    assert_eq!(news["failed"], false, "{news}");
}

/// A monitor whose recordings change over each five seconds: every slot of its 20 ms is in one of them.
#[test]
fn a_monitor_goes_on_from_one_recording_to_the_next_without_a_gap() {
    testkit::real_time_beside(|| {
        const INTERVAL_NS: i64 = 20_000_000;
        let dir = TempDir::new("fleet-gap");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let (server, at) = server(&dir);
        let plan = format!(
            "report_every_s = 5\n[[measurement]]\nname = \"watch\"\nevery_s = 5\nat_most_s = 5\n\
         run = \"monitor {at} --interval 20ms\"\n"
        );
        let plan = dir.file("plan.toml", plan);
        let (hub, address) = hub(&data, "127.0.0.1:0");
        let (point, _) = join(&data, &home, &address, &plan);
        wait(&data, "five recordings", |p| {
            p["recordings"].as_u64() >= Some(5)
        });
        drop((point, hub, server));
        let mut sent: Vec<i64> = Vec::new();
        let mut seams = Vec::new();
        let mut last_end = None;
        for path in stored(&data) {
            let rows = store::read(&path).unwrap().delay;
            let (first, last) = (rows.first().unwrap().sent_ns, rows.last().unwrap().sent_ns);
            seams.extend(last_end.map(|end: i64| (first - end) / 1_000_000));
            last_end = Some(last);
            sent.extend(rows.iter().map(|r| r.sent_ns));
        }
        sent.sort_unstable();
        let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.max().unwrap();
        println!("longest gap {longest} ns; next start after last end, ms: {seams:?}");
        assert!(seams.len() >= 4);
        assert!(seams.iter().all(|ms| *ms <= 0), "{seams:?}");
        assert!(longest <= 5 * INTERVAL_NS, "{longest}");
    });
}

/// A monitor of an agent that was killed ends, too; its rows are kept, and the next agent uploads them.
#[test]
fn a_run_ends_with_its_agent() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-orphan");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let plan = "report_every_s = 5\n[[measurement]]\nname = \"watch\"\nevery_s = 3600\nat_most_s = 3600\n\
                wait_s = 3600\nrun = \"monitor tcp:127.0.0.1:1,100ms\"\n";
        let plan = dir.file("plan.toml", plan);
        let (hub, address) = hub(&data, "127.0.0.1:0");
        let (point, _) = join(&data, &home, &address, &plan);
        let began = Instant::now();
        let runs = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let line =
                |e: std::fs::DirEntry| std::fs::read(e.path().join("cmdline")).unwrap_or_default();
            let lines = all.map(|e| String::from_utf8_lossy(&line(e)).into_owned());
            lines
                .filter(|l| l.contains("watch.plan.json") && l.contains(&home))
                .count()
        };
        while runs() == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "no run starts");
            std::thread::sleep(Duration::from_millis(100));
        }
        std::thread::sleep(Duration::from_secs(3));
        drop(point);
        let killed = Instant::now();
        while runs() > 0 {
            assert!(
                killed.elapsed() < Duration::from_secs(20),
                "the run goes on"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let point = agent(&home, &[]);
        // The monitor goes on at once, although its next turn is within the hour.
        let again = Instant::now();
        while runs() == 0 {
            assert!(
                again.elapsed() < Duration::from_secs(10),
                "the monitor does not go on"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let all = wait(&data, "the run's recording", |p| p["recordings"] == 1);
        assert!(all["rows"].as_u64() >= Some(10), "{all}");
        assert!(point.end());
        drop(hub);
    });
}

#[test]
fn a_point_joins_measures_and_uploads_and_kills_of_both_lose_nothing() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let (first, address) = hub(&data, "127.0.0.1:0");
        let (point, code) = join(&data, &home, &address, &plan(&dir));
        let url = format!("https://{address}");
        wait(&data, "two recordings", |p| {
            p["recordings"].as_u64() >= Some(2)
        });

        // The hub dies, the agent goes on; then the agent dies in the middle of something.
        drop(first);
        std::thread::sleep(Duration::from_secs(6));
        drop(point);
        let (_second, _) = hub(&data, &address);
        let before = status(&data)["points"][0]["recordings"].as_u64().unwrap();
        let point = agent(&home, &[]);
        wait(&data, "more recordings", |p| {
            p["recordings"].as_u64() > Some(before + 1)
        });

        // A stranger with the used code does not get in.
        let stranger = program().run(&[
            "agent",
            "--data",
            &dir.at("stranger"),
            "--join",
            &url,
            &code,
            "--agree",
        ]);
        let said = String::from_utf8_lossy(&stranger.stderr).into_owned();
        assert!(
            !stranger.status.success() && said.contains("used"),
            "{said}"
        );

        // An orderly end: what was measured is uploaded, and the sums agree.
        assert!(point.end());
        let all = wait(&data, "all uploaded", |p| {
            p["rows_outstanding"] == 0 && p["spool_recordings"] == 0
        });
        assert_eq!(all["quarantined"], 0, "{all}");
        let sums: Value =
            serde_json::from_slice(&std::fs::read(Path::new(&home).join("sums.json")).unwrap())
                .unwrap();
        assert_eq!(
            (&sums["recordings"], &sums["rows"]),
            (&all["recordings"], &all["rows"])
        );
        let stored: Vec<_> = std::fs::read_dir(format!("{data}/points/village-17"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert_eq!(stored.len() as u64, all["recordings"].as_u64().unwrap());
        let answer = program().json(&["analyse", stored[0].to_str().unwrap(), "--json"]);
        assert!(answer.is_object());

        // All tests are in a report, with what the point's provider promises.
        let label = ["fleet", "label", "--data", &data, "--name", "village-17"];
        let labelled = program().run(&[&label[..], &["provider=acme", "up=10 Mbit/s"]].concat());
        assert!(labelled.status.success(), "{labelled:?}");
        let report = ["fleet", "report", "--data", &data, "--by", "provider"];
        let file = dir.at("fleet.html");
        let found = program().json(&[&report[..], &["--json", "--output", &file]].concat());
        let tests = &found["tests"][0];
        assert_eq!(tests["tests"], all["recordings"], "{tests}");
        assert_eq!(found["group_tests"][0]["name"], "acme");
        // The same point by itself.
        let own = ["fleet", "report", "--data", &data, "--point", "village-17"];
        let own = program().json(&[&own[..], &["--json"]].concat());
        let dated = own["tests"].as_array().expect("a list").len() as u64;
        assert_eq!(Some(dated), all["recordings"].as_u64(), "{own}");
        assert_eq!(own["labels"]["provider"], "acme");
        let unknown = ["fleet", "report", "--data", &data, "--point", "village-18"];
        let unknown = program().run(&unknown);
        assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
        let reached = tests["reached_up_percent"]["value"].as_f64();
        assert!(reached.is_some_and(|r| r > 1.0), "{tests}");
        assert!(
            std::fs::read_to_string(&file)
                .unwrap()
                .contains("village-17")
        );
    });
}

/// Body of a page, once it has these words.
#[track_caller]
fn page(address: &str, path: &str, words: &str) -> String {
    use std::io::{Read, Write};
    let began = Instant::now();
    loop {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if answer.contains(words) {
            return answer;
        }
        let head: String = answer.chars().take(400).collect();
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{path}: no {words:?}: {head}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn the_dashboard_has_all_points_and_draws_their_latest_recordings() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-web");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let web = free.local_addr().unwrap().to_string();
        drop(free);
        let args = [
            "hub",
            "--data",
            &data,
            "--listen",
            "127.0.0.1:0",
            "--web",
            &web,
        ];
        let mut serving = program().command(&args);
        let (hub, address) = Service::told(
            serving.stderr(Stdio::piped()).spawn().unwrap(),
            "hub at https://",
        );
        page(&web, "/", "0 points");
        let (point, _) = join(&data, &home, &address, &plan(&dir));
        wait(&data, "a recording", |p| {
            p["recordings"].as_u64() >= Some(1)
        });
        page(&web, "/", "/p/village-17/cable");
        let drawn = page(&web, "/p/village-17/cable", "<svg");
        assert!(drawn.contains("200 OK"));
        page(&web, "/p/village-17/nothing", "no recording of nothing");
        page(&web, "/p/..%2f..%2fledger.sqlite/x", "no recording");
        page(&web, "/ledger.sqlite", "404");
        let on_hub = ["--data", data.as_str()];
        let label = ["fleet", "label", "--name", "village-17", "provider=acme"];
        assert!(
            program()
                .run(&[&label[..], &on_hub].concat())
                .status
                .success()
        );
        let report = ["fleet", "report", "--json"];
        program().json(&[&report[..], &on_hub].concat());
        page(&web, "/", "/report/provider");
        page(&web, "/report/provider", "acme");
        page(&web, "/report/nothing", "no point has this label");
        page(&web, "/", "/p/village-17\"");
        let drawn = page(&web, "/p/village-17", "provider acme");
        assert!(drawn.contains("Health "), "{drawn}");
        page(&web, "/p/village-18", "there is no such point");
        // Tests have no round trips of a day, and those in virtual time are of no day within a month.
        let absent = [
            "tailback_point_rtt",
            "tailback_point_lost",
            "tailback_point_test",
        ];
        let grafana = Path::new("../../packaging/grafana/fleet.json");
        testkit::prometheus::dashboard_shows(grafana, &web, &absent);
        drop((point, hub));
    });
}

/// Live values of the point since a number: the answer, and its probes as number and round trip in ns by run.
fn live(web: &str, since: u64) -> (Value, Vec<(String, i64, i64)>) {
    let answer = page(web, &format!("/live/village-17/{since}"), "\"next\":");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let said: Value = serde_json::from_str(body).unwrap();
    let probes = said["probes"].as_array().unwrap().iter().map(|p| {
        let rtt_ns = (p["rtt_ms"].as_f64().unwrap() * 1e6).round() as i64;
        let run = p["run"].as_str().unwrap().to_owned();
        (run, p["seq"].as_i64().unwrap(), rtt_ns)
    });
    let probes = probes.collect();
    (said, probes)
}

/// The point reports once a day. Plans, runs out of turn and looks reach it at once nevertheless. What a look shows are the probes
/// of the recordings, each once. A plan without `push` ends the connection.
#[test]
fn news_reach_a_point_between_its_reports_and_its_probes_are_seen_live() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-live");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let (server, at) = server(&dir);
        let plan = |push: bool, every_s: u64| {
            let plan = format!(
                "report_every_s = 86400\npush = {push}\n[[measurement]]\nname = \"watch\"\nevery_s = {every_s}\n\
                 at_most_s = {every_s}\nrun = \"monitor {at} --interval 20ms\"\n[[measurement]]\nname = \"cable\"\n\
                 every_s = 30000000\nat_most_s = 60\nrun = \"test --link cable --virtual --seed 3\"\n"
            );
            dir.file("plan.toml", &plan)
        };
        let mut serving = program().command(&["hub", "--data", &data, "--listen", "127.0.0.1:0"]);
        serving.args(["--web", "127.0.0.1:0", "--json"]);
        let serving = serving.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut hub = Service(serving.spawn().unwrap());
        let started = first_document(&mut hub.0);
        let web = started["dashboard"].as_str().unwrap();
        let web = web.trim_start_matches("http://").trim_end_matches('/');
        let address = started["listen"].as_str().unwrap();
        let (point, _) = join(&data, &home, address, &plan(true, 5));
        wait(&data, "a plan", |p| p["plan"] == 1);
        page(web, "/", "/live/village-17");
        page(web, "/live/village-17", "id=\"tail\"");
        page(web, "/live/village-18", "404");

        // A look shows what the monitors record, over the change from one to the next.
        let began = Instant::now();
        let (mut next, mut seen) = (0, Vec::new());
        while began.elapsed() < Duration::from_secs(12) {
            let (said, probes) = live(web, next);
            next = said["next"].as_u64().unwrap();
            seen.extend(probes);
            std::thread::sleep(Duration::from_millis(100));
        }
        let count = seen.len();
        println!("{count} probes in {:?}", began.elapsed());
        assert!(count > 400, "{count}");

        let within = |what: &str, is_so: &dyn Fn(&Value) -> bool| {
            let began = Instant::now();
            wait(&data, what, is_so);
            println!("{what} after {:?}", began.elapsed());
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        };
        let publish = |plan: &str| program().run(&["fleet", "plan", plan, "--data", &data]);
        assert!(publish(&plan(true, 6)).status.success());
        within("the second plan", &|p| p["plan"] == 2);
        let done = status(&data)["points"][0]["runs"]["done"].as_u64();
        let asked = ["fleet", "run-now", "cable", "--name", "village-17"];
        let asked = program().run(&[&asked[..], &["--data", &data]].concat());
        assert!(asked.status.success(), "{asked:?}");
        within("the run", &|p| p["runs"]["done"].as_u64() > done);
        assert!(publish(&plan(false, 6)).status.success());
        within("the third plan", &|p| p["plan"] == 3);
        let began = Instant::now();
        while live(web, next).0["connected"] == true {
            assert!(began.elapsed() < Duration::from_secs(30), "still connected");
            std::thread::sleep(Duration::from_millis(500));
        }
        assert!(point.end());
        drop((hub, server));

        let mut recorded = std::collections::BTreeMap::new();
        for path in stored(&data) {
            let run = path.file_name().unwrap().to_string_lossy().into_owned();
            for row in store::read(&path).unwrap().delay {
                recorded.insert((run.clone(), row.seq), row.rtt_ns);
            }
        }
        let all: std::collections::BTreeSet<_> = seen.iter().map(|(r, n, _)| (r, n)).collect();
        assert_eq!(all.len(), count, "a probe came twice");
        for (run, seq, rtt_ns) in seen {
            assert_eq!(recorded[&(run, seq)], Some(rtt_ns));
        }
    });
}

/// A run out of turn comes once, also if the agent starts anew, and what no point could run is refused.
#[test]
fn a_point_runs_what_it_is_asked_for_once() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-run-now");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let plan = r#"
            report_every_s = 5
            [[measurement]]
            name = "cable"
            every_s = 30000000
            at_most_s = 60
            run = "test --link cable --virtual --seed 3"
            [[measurement]]
            name = "other"
            every_s = 30000000
            at_most_s = 60
            points = ["village-18"]
            run = "test --link cable --virtual --seed 3"
            [[measurement]]
            name = "watch"
            every_s = 30000000
            at_most_s = 60
            run = "monitor 192.0.2.1"
        "#;
        let (hub, address) = hub(&data, "127.0.0.1:0");
        let (point, _) = join(&data, &home, &address, &dir.file("plan.toml", plan));
        wait(&data, "a plan", |p| p["plan"] == 1);
        let ask = |what: &str, name: &str| {
            let args = ["fleet", "run-now", what, "--name", name, "--data", &data];
            program().run(&[&args[..], &["--json"]].concat())
        };
        for (what, name, why) in [
            ("nothing", "village-17", "the plan has no measurement"),
            ("other", "village-17", "does not run other"),
            ("watch", "village-17", "is a monitor"),
            ("cable", "village-19", "there is no point village-19"),
        ] {
            let refused = ask(what, name);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(why), "{said}");
        }
        let asked = ask("cable", "village-17");
        assert!(asked.status.success(), "{asked:?}");
        keeps(
            "fleet-run-now",
            &serde_json::from_slice(&asked.stdout).expect("JSON"),
        );
        wait(&data, "the run", |p| p["recordings"] == 1);
        assert!(point.end());
        let point = agent(&home, &[]);
        std::thread::sleep(Duration::from_secs(8));
        wait(&data, "one run", |p| {
            p["recordings"] == 1 && p["runs"]["done"] == 1
        });
        drop((point, hub));
    });
}

/// Each reader has a token of their own, which opens the dashboard until it is ended or replaced.
#[test]
fn readers_of_a_dashboard_come_and_go() {
    let dir = TempDir::new("fleet-readers");
    let data = dir.at("hub");
    let web = ["--web", "127.0.0.1:0", "--web-token", "0123"];
    let args = [
        &["hub", "--data", &data, "--listen", "127.0.0.1:0"],
        &web[..],
    ]
    .concat();
    let mut serving = program().command(&args);
    let (hub, address) = Service::told(
        serving.stderr(Stdio::piped()).spawn().unwrap(),
        "dashboard: http://",
    );
    let web = address.split('/').next().expect("an address");
    let code = |token: &str| {
        let answer = page(web, &format!("/?token={token}"), "HTTP/1.1");
        answer.split(' ').nth(1).expect("a code").to_owned()
    };
    let reader = |more: &[&str]| {
        let args = ["hub", "reader", "--data", &data, "--name", "anna"];
        program().run(&[&args[..], more].concat())
    };
    let token = || -> String {
        let made: Value = serde_json::from_slice(&reader(&["--json"]).stdout).expect("JSON");
        keeps("hub-reader", &made);
        made["token"].as_str().expect("a token").to_owned()
    };
    let first = token();
    assert_eq!(
        [code("0123"), code(&first), code("x")],
        ["200", "200", "401"]
    );
    let second = token();
    assert_eq!([code(&first), code(&second)], ["401", "200"]);
    assert!(reader(&["--end"]).status.success());
    assert_eq!([code(&second), code("0123")], ["401", "200"]);
    assert_eq!(reader(&["--end"]).status.code(), Some(2));
    let log = program().json(&["fleet", "log", "--data", &data, "--json"]);
    assert_eq!(log["changes"].as_array().map(Vec::len), Some(3), "{log}");
    drop(hub);
}

/// Server on a free port of this machine, with its address.
fn server(dir: &TempDir) -> (Service, String) {
    let state = dir.at("serve");
    let mut serve = program().command(&["serve", "--listen", "127.0.0.1:0", "--state", &state]);
    Service::told(
        serve.stderr(Stdio::piped()).spawn().unwrap(),
        "listening on ",
    )
}

/// Four points share one server, and their runs take longer together than a period: no two overlap, and each point gets
/// turns.
#[test]
fn points_take_turns_at_a_server() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-turns");
        let data = dir.at("hub");
        let (server, at) = server(&dir);
        let (hub, address) = hub(&data, "127.0.0.1:0");
        let plan = format!(
            "report_every_s = 5\n[[measurement]]\nname = \"load\"\nevery_s = 14\nat_most_s = 60\nwait_s = 12\n\
         run = \"test {at} --phases idle\"\n"
        );
        let plan = dir.file("plan.toml", plan);
        let names = ["a", "b", "c", "d"];
        let points: Vec<_> = names
            .iter()
            .map(|name| join_as(name, &data, &dir.at(name), &address, &plan))
            .collect();
        let began = Instant::now();
        let has_two = |p: &Value| p["recordings"].as_u64() >= Some(2);
        loop {
            let told = status(&data);
            if told["points"].as_array().unwrap().iter().all(has_two) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(150), "{told}");
            std::thread::sleep(Duration::from_secs(1));
        }
        drop((points, hub, server));
        let mut runs = Vec::new();
        for name in names {
            for entry in std::fs::read_dir(format!("{data}/points/{name}")).unwrap() {
                let meta = store::read_meta(entry.unwrap().path()).unwrap();
                runs.push((meta.started_ns, meta.ended_ns.unwrap(), name));
            }
        }
        runs.sort_unstable();
        println!("{runs:?}");
        for pair in runs.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pair:?}");
        }
    });
}

/// A start waits while something else uses the link, says so, and follows when the link is idle. A budget that is used
/// up starts nothing. All of it is in a namespace of its own: other tests use the host's loopback interface meanwhile.
#[test]
fn starts_wait_for_an_idle_link_and_for_their_budget() {
    testkit::real_time_beside(|| {
        if let Some(line) = testkit::networks::line(1) {
            let entered = line.near().run(runs_that_wait);
            entered.expect("this thread may enter");
        }
    });
}

fn runs_that_wait() {
    let dir = TempDir::new("fleet-idle");
    let (data, home) = (dir.at("hub"), dir.at("agent"));
    let (server, at) = server(&dir);
    let (hub, address) = hub(&data, "127.0.0.1:0");
    let plan = |budget: &str| {
        let text = format!(
            "report_every_s = 5\nday_budget = \"{budget}\"\n[[measurement]]\nname = \"load\"\nevery_s = 20\n\
             at_most_s = 60\nwait_s = 15\nidle_link = true\nrun = \"test {at} --phases idle --hold-off 20s\"\n"
        );
        dir.file("plan.toml", text)
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let traffic = std::thread::spawn(move || {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        while !stopped.load(Ordering::Relaxed) {
            socket.send_to(&[0; 1000], "127.0.0.1:9").ok();
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let (point, _) = join(&data, &home, &address, &plan("2 MB"));
    let busy = |p: &Value| {
        p["remarks"]
            .to_string()
            .contains("lo carries cross traffic")
    };
    wait(&data, "a remark about the traffic", busy);
    let waited = wait(&data, "a deferred run", |p| {
        p["runs"]["deferred"].as_u64() >= Some(1)
    });
    assert_eq!(waited["recordings"], 0, "{waited}");
    stop.store(true, Ordering::Relaxed);
    traffic.join().unwrap();
    wait(&data, "a recording", |p| {
        p["recordings"].as_u64() >= Some(1)
    });
    let meta = store::read_meta(&stored(&data)[0]).unwrap();
    let budget = meta.plan["budget"].to_string();
    println!("budget of the run: {budget}");
    let published = program().run(&["fleet", "plan", &plan("500 KB"), "--data", &data]);
    assert!(published.status.success());
    let skipped = wait(&data, "a skipped run", |p| {
        p["runs"]["skipped"].as_u64() >= Some(1)
    });
    println!("{skipped}");
    drop((point, hub, server));
}

/// Directory of its own small file system.
struct Small(String);

impl Small {
    /// Mounts it; none where this is not allowed.
    fn mount(path: String, size: &str) -> Option<Small> {
        std::fs::create_dir_all(&path).unwrap();
        let options = format!("size={size}");
        let mount = ["-t", "tmpfs", "-o", &options, "tmpfs", &path];
        let mounted = Command::new("mount").args(mount).status();
        if !mounted.is_ok_and(|s| s.success()) {
            testkit::skip("this host does not let a test mount a small file system");
            return None;
        }
        Some(Small(path))
    }

    /// Fills it to the last byte, or frees it again.
    fn fill(&self, full: bool) {
        let filler = Path::new(&self.0).join("filler");
        if full {
            // It fails when there is no room, which is the purpose.
            let _ = std::fs::write(filler, vec![1; 200_000_000]);
        } else {
            std::fs::remove_file(filler).unwrap();
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", &self.0]).status();
    }
}

/// The disk of the hub and that of the point are full for some seconds each, in turn. Both say so and go on, and all that
/// was closed arrives.
#[test]
fn full_disks_of_hub_and_point_lose_nothing() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-full");
        let disks = (
            Small::mount(dir.at("hub"), "60m"),
            Small::mount(dir.at("agent"), "60m"),
        );
        let (Some(hub_disk), Some(agent_disk)) = disks else {
            return;
        };
        let (hub, address) = hub(&hub_disk.0, "127.0.0.1:0");
        let (point, _) = join(&hub_disk.0, &agent_disk.0, &address, &plan(&dir));
        wait(&hub_disk.0, "a recording", |p| {
            p["recordings"].as_u64() >= Some(1)
        });
        for round in 0..2 {
            agent_disk.fill(true);
            std::thread::sleep(Duration::from_secs(6));
            agent_disk.fill(false);
            hub_disk.fill(true);
            std::thread::sleep(Duration::from_secs(6));
            hub_disk.fill(false);
            let before = status(&hub_disk.0)["points"][0]["recordings"]
                .as_u64()
                .unwrap();
            let more = wait(&hub_disk.0, "recordings after the full disks", |p| {
                p["recordings"].as_u64() >= Some(before + 2)
            });
            println!("round {round}: {more}");
        }
        assert!(point.end(), "the agent outlives a full disk");
        let point = wait(&hub_disk.0, "all uploaded", |p| p["rows_outstanding"] == 0);
        assert_eq!(
            (&point["quarantined"], &point["spool_recordings"]),
            (&0.into(), &0.into())
        );
        assert!(point["runs"]["skipped"].as_u64() >= Some(1), "{point}");
        drop(hub);
    });
}

/// The hub's command hears of a point that is killed within two of its reports, and of its return; a restart of the hub tells nothing
/// anew.
#[test]
fn a_point_that_falls_silent_and_its_return_are_told_once() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("fleet-alerts");
        let (data, home) = (dir.at("hub"), dir.at("agent"));
        let heard = dir.at("heard");
        let line = format!("echo $TAILBACK_POINT $TAILBACK_STATE >> {heard}");
        let serve = |listen: &str| {
            let args = [
                "hub",
                "--data",
                &data,
                "--listen",
                listen,
                "--on-change",
                &line,
            ];
            let mut command = program().command(&args);
            Service::told(
                command.stderr(Stdio::piped()).spawn().unwrap(),
                "hub at https://",
            )
        };
        let (first, address) = serve("127.0.0.1:0");
        // Recordings of virtual time are years old: a plan without one is never late.
        let plan = dir.file("plan.toml", "report_every_s = 5\n");
        let (point, _) = join(&data, &home, &address, &plan);
        let told = || std::fs::read_to_string(&heard).unwrap_or_default();
        let wait_for = |what: &str| {
            let began = Instant::now();
            while told() != what {
                let after = began.elapsed();
                assert!(after < Duration::from_secs(60), "{:?}", told());
                std::thread::sleep(Duration::from_millis(200));
            }
            began.elapsed()
        };
        wait(&data, "ok", |p| p["health"] == "ok");
        drop(point);
        let after = wait_for("village-17 silent\n");
        println!("told after {after:?}");
        drop(first);
        let (second, _) = serve(&address);
        let point = agent(&home, &[]);
        wait_for("village-17 silent\nvillage-17 ok\n");
        std::thread::sleep(Duration::from_secs(12));
        assert_eq!(told(), "village-17 silent\nvillage-17 ok\n");
        assert!(point.end());
        drop(second);
    });
}

/// Clocks of hub and point that are two years off, ahead and behind: nothing is lost, and the hub names the difference.
#[test]
fn clocks_that_are_years_off_lose_nothing_and_are_named() {
    testkit::real_time_beside(|| {
        const YEARS: i64 = 2 * 365 * 86_400;
        let dir = TempDir::new("fleet-clock");
        let library = testkit::machine_library(&dir);
        for (hub_off, point_off) in [(0, YEARS), (0, -YEARS), (YEARS, 0), (-YEARS, 0)] {
            let shifted = |args: &[&str], off: i64| {
                let mut command = program().command(args);
                command.env("LD_PRELOAD", &library);
                command.env("TAILBACK_CLOCK_S", off.to_string());
                command.stderr(Stdio::piped());
                command
            };
            let (data, home) = (
                dir.at(&format!("hub{hub_off}{point_off}")),
                dir.at(&format!("agent{hub_off}{point_off}")),
            );
            let mut serving = shifted(
                &["hub", "--data", &data, "--listen", "127.0.0.1:0"],
                hub_off,
            );
            let (hub, address) = Service::told(serving.spawn().unwrap(), "hub at https://");
            let on_hub = |args: &[&str]| {
                let out = shifted(args, hub_off).output().unwrap();
                assert!(out.status.success(), "{out:?}");
                String::from_utf8(out.stdout).unwrap()
            };
            let code = on_hub(&["hub", "invite", "--data", &data, "--name", "p"]);
            on_hub(&["fleet", "plan", &plan(&dir), "--data", &data]);
            let url = format!("https://{address}");
            let args = [
                "agent",
                "--data",
                &home,
                "--join",
                &url,
                code.trim(),
                "--agree",
            ];
            let state = || -> Value {
                serde_json::from_str(&on_hub(&["fleet", "status", "--data", &data, "--json"]))
                    .unwrap()
            };
            let recordings = || state()["points"][0]["recordings"].as_u64().unwrap();
            // First with the wrong clock, then the point's clock is set right while its agent is off.
            for point_off in [point_off, 0] {
                let (agent, _) =
                    Service::told(shifted(&args, point_off).spawn().unwrap(), "measuring as ");
                let (began, before) = (Instant::now(), recordings());
                while recordings() < before + 2 {
                    assert!(began.elapsed() < Duration::from_secs(90), "{}", state());
                    std::thread::sleep(Duration::from_millis(500));
                }
                let point = state()["points"][0].clone();
                let is_off = hub_off != point_off;
                assert_eq!(point["health"] == "clock", is_off, "{point}");
                if is_off {
                    let why = point["why"].as_str().unwrap();
                    assert!(why.contains("6307") || why.contains("6306"), "{why}");
                }
                assert!(agent.end());
                let point = state()["points"][0].clone();
                assert_eq!(
                    (&point["rows_outstanding"], &point["quarantined"]),
                    (&0.into(), &0.into()),
                    "{point}"
                );
            }
            drop(hub);
        }
    });
}
