//! Releases and plans that a hub hands out, good and bad: what works replaces what was there, what does not gives way by itself.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Program, Service, TempDir};

const PLAN: &str = r#"
    report_every_s = 5
    upgrade_within_s = 20
    [[measurement]]
    name = "cable"
    every_s = 4
    at_most_s = 60
    run = "test --link cable --virtual --seed 3"
"#;
const PATIENCE: Duration = Duration::from_secs(120);

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Runs the program, which must succeed; returns what it printed.
#[track_caller]
fn run(args: &[&str]) -> String {
    let out = program().run(args);
    assert!(out.status.success(), "{args:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// Runs the program, which must refuse; returns what it said.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let out = program().run(args);
    assert!(!out.status.success(), "{args:?}: {out:?}");
    String::from_utf8(out.stderr).unwrap()
}

/// Processor and system of this machine.
fn target() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Hub with its operator, who has a key of minisign.
struct Fleet {
    dir: TempDir,
    data: String,
    address: String,
    hub: Option<Service>,
}

impl Fleet {
    fn new(name: &str) -> Fleet {
        let dir = TempDir::new(name);
        let data = dir.at("hub");
        let (hub, address) = Fleet::serve(&data, "127.0.0.1:0");
        Fleet {
            dir,
            data,
            address,
            hub: Some(hub),
        }
    }

    fn serve(data: &str, listen: &str) -> (Service, String) {
        let mut command = program().command(&["hub", "--data", data, "--listen", listen]);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        Service::told(child, "hub at https://")
    }

    fn key(&self, name: &str) -> (String, String) {
        let (public, secret) = (
            self.dir.at(&format!("{name}.pub")),
            self.dir.at(&format!("{name}.sec")),
        );
        let made = Command::new("minisign")
            .args(["-G", "-W", "-p", &public, "-s", &secret])
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("minisign: make deps").success());
        (public, secret)
    }

    /// A program that is a script, signed as this version.
    fn release(&self, secret: &str, version: &str, script: &str) -> String {
        let file = self.dir.file(&format!("tailback-{version}"), script);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let comment = format!("tailback {version} {}", target());
        let signed = Command::new("minisign")
            .args(["-S", "-s", secret, "-t", &comment, "-m", &file])
            .stdout(Stdio::null())
            .status();
        assert!(signed.unwrap().success());
        file
    }

    fn publish(&self, file: &str) {
        let stages = ["--stages", "50,100", "--stage-time", "1s"];
        run(&[
            &["fleet", "upgrade", file, "--data", &self.data],
            &stages[..],
        ]
        .concat());
    }

    fn plan(&self, text: &str) {
        let file = self.dir.file("plan.toml", text);
        run(&["fleet", "plan", &file, "--data", &self.data]);
    }

    fn join(&self, name: &str) -> Service {
        let code = run(&["hub", "invite", "--data", &self.data, "--name", name]);
        let url = format!("https://{}", self.address);
        self.agent(name, &["--join", &url, &code, "--agree"])
    }

    fn agent(&self, name: &str, more: &[&str]) -> Service {
        let home = self.dir.at(name);
        let mut command = program().command(&[&["agent", "--data", &home], more].concat());
        Service(command.stderr(Stdio::null()).spawn().unwrap())
    }

    fn status(&self) -> Value {
        program().json(&["fleet", "status", "--data", &self.data, "--json"])
    }

    /// Waits until the fleet has something.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                println!("{what} after {:.1} s", began.elapsed().as_secs_f64());
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "not {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Waits until each point has stored two more recordings.
    #[track_caller]
    fn goes_on(&self) {
        let counts = |s: &Value| -> Vec<u64> {
            let points = s["points"].as_array().unwrap().iter();
            points.map(|p| p["recordings"].as_u64().unwrap()).collect()
        };
        let before = counts(&self.status());
        self.wait("more of all points", |s| {
            counts(s)
                .iter()
                .zip(&before)
                .all(|(now, then)| *now >= then + 2)
        });
    }
}

fn all(status: &Value, key: &str, value: &str) -> bool {
    status["points"]
        .as_array()
        .unwrap()
        .iter()
        .all(|p| p[key] == value)
}

#[test]
fn a_release_replaces_the_program_only_if_its_measurement_comes_back() {
    testkit::real_time_beside(|| {
        let mut fleet = Fleet::new("upgrade");
        let (public, secret) = fleet.key("operator");
        let upgrade = ["fleet", "upgrade", "--data", &fleet.data];
        let early = fleet.release(&secret, "0.2.0", "no program");
        let no_key = refused(&[&upgrade[..], &[&early]].concat());
        assert!(no_key.contains("--key"), "{no_key}");
        run(&[&upgrade[..], &["--key", &public]].concat());
        fleet.plan(PLAN);
        let own = env!("CARGO_PKG_VERSION");
        let points = [fleet.join("east"), fleet.join("west")];
        fleet.wait("both measure", |s| {
            s["points"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|p| p["recordings"].as_u64() > Some(0))
                .count()
                == 2
        });

        // No program at all: one point tries it, returns, and the release halts.
        fleet.publish(&early);
        let status = fleet.wait("halted", |s| !s["release"]["halted"].is_null());
        assert_eq!(status["release"]["points"]["failed"], 1, "{status:#}");
        assert!(all(&status, "agent", own), "{status:#}");
        fleet.goes_on();

        // The halt holds for that release only. A good one goes to both, one after the other.
        let real = env!("CARGO_BIN_EXE_tailback");
        let good = fleet.release(
            &secret,
            "0.3.0",
            &format!("#!/bin/sh\nexec {real} \"$@\"\n"),
        );
        fleet.publish(&good);
        let status = fleet.wait("proven", |s| s["release"]["points"]["proven"] == 2);
        assert!(all(&status, "agent", "0.3.0"), "{status:#}");
        assert_eq!(status["release"]["share"], 100);
        fleet.goes_on();

        // It starts, and measures nothing.
        let silent = fleet.release(&secret, "0.4.0", "#!/bin/sh\nexec sleep 600\n");
        fleet.publish(&silent);
        fleet.wait("on trial", |s| {
            s["points"]
                .as_array()
                .unwrap()
                .iter()
                .any(|p| p["health"] == "upgrade")
        });
        let status = fleet.wait("halted", |s| !s["release"]["halted"].is_null());
        assert!(all(&status, "agent", "0.3.0"), "{status:#}");
        let halted = status["release"]["halted"].as_str().unwrap();
        assert!(
            halted.contains("1 of 1 point") && halted.contains("within 20 s"),
            "{halted}"
        );
        fleet.goes_on();

        // It ends at once.
        let broken = fleet.release(&secret, "0.4.1", "#!/bin/sh\nexit 3\n");
        fleet.publish(&broken);
        let status = fleet.wait("halted", |s| !s["release"]["halted"].is_null());
        let halted = status["release"]["halted"].as_str().unwrap();
        assert!(halted.contains("ended 3 times"), "{halted}");

        // After kills, the program that was started by hand starts the release that is in use.
        drop(points);
        let points = [fleet.agent("east", &[]), fleet.agent("west", &[])];
        fleet.goes_on();
        let status = fleet.status();
        assert!(all(&status, "agent", "0.3.0"), "{status:#}");

        // The hub hands out another program than the one that was signed.
        fleet.hub = None;
        let signed = fleet.release(
            &secret,
            "0.5.0",
            &format!("#!/bin/sh\nexec {real} \"$@\"\n"),
        );
        fleet.publish(&signed);
        let handed_out = format!("{}/releases/0.5.0/{}", fleet.data, target());
        let text = std::fs::read_to_string(&handed_out).unwrap();
        std::fs::write(&handed_out, text.replace("exec", "echo")).unwrap();
        let (hub, _) = Fleet::serve(&fleet.data, &fleet.address);
        fleet.hub = Some(hub);
        let status = fleet.wait("halted", |s| !s["release"]["halted"].is_null());
        let halted = status["release"]["halted"].as_str().unwrap();
        assert!(halted.contains("signature"), "{halted}");
        assert!(all(&status, "agent", "0.3.0"), "{status:#}");

        // Another's key, an old version, and a version that is taken.
        let (_, stranger) = fleet.key("stranger");
        let foreign = fleet.release(&stranger, "0.6.0", "#!/bin/sh\n");
        assert!(refused(&[&upgrade[..], &[&foreign]].concat()).contains("release key"));
        assert!(refused(&[&upgrade[..], &[&good]].concat()).contains("not newer"));
        fleet.goes_on();

        // An owner withdraws: the hub keeps nothing of the point, and the point stops.
        let [east, west] = points;
        run(&["agent", "--data", &fleet.dir.at("east"), "--withdraw"]);
        assert!(!Path::new(&fleet.data).join("points/east").exists());
        let status = fleet.status();
        assert_eq!(status["points"][0]["health"], "revoked", "{status:#}");
        assert!(west.end());
        drop((east, fleet.hub.take()));
    });
}

#[test]
fn a_plan_under_which_the_agent_dies_gives_way_to_the_one_before() {
    testkit::real_time_beside(|| {
        let fleet = Fleet::new("poison");
        fleet.plan(PLAN);
        let mut agent = fleet.join("east");
        fleet.wait("plan 1", |s| s["points"][0]["plan"] == 1);
        assert!(agent.end());
        agent = fleet.agent("east", &[]);
        fleet.plan(&PLAN.replace("every_s = 4", "every_s = 5"));
        fleet.wait("plan 2", |s| s["points"][0]["plan"] == 2);
        for _ in 0..3 {
            drop(agent);
            agent = fleet.agent("east", &[]);
            std::thread::sleep(Duration::from_secs(1));
        }
        let status = fleet.wait("plan 1 again", |s| s["points"][0]["plan"] == 1);
        let remarks = status["points"][0]["remarks"].to_string();
        assert!(remarks.contains("plan 2 is set aside"), "{remarks}");
        fleet.goes_on();
        fleet.plan(&PLAN.replace("every_s = 4", "every_s = 6"));
        fleet.wait("plan 3", |s| s["points"][0]["plan"] == 3);
        // Two agents in one directory would count twice.
        let second = refused(&["agent", "--data", &fleet.dir.at("east")]);
        assert!(second.contains("another agent runs"), "{second}");
        assert!(agent.end());
    });
}
