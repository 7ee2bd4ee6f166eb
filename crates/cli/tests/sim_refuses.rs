//! What `tailback sim` cannot do it says before anything runs: exit code 2, what is wrong, with which value.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::TempDir;

const PLAIN: &str = r#"
duration = "1 s"
[link]
rate = "5 Mbit/s"
delay = "10 ms"
queue = "fifo:packets=20"
[[flow]]
kind = "bulk"
[[flow]]
kind = "cbr"
rate = "100 kbit/s"
"#;

const GRAPH: &str = r#"
duration = "1 s"
topology = "graph"
[[edge]]
between = ["a", "r"]
link = { rate = "10 Mbit/s" }
[[edge]]
between = ["r", "b"]
link = { rate = "5 Mbit/s" }
[[flow]]
kind = "bulk"
from = "a"
to = "b"
"#;

struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = TempDir::new(&format!("no-{name}"));
        Scratch(dir)
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn sim(scenario: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("sim")
        .arg(scenario)
        .args(args)
        .output()
        .expect("tailback runs")
}

/// That it is refused, and what is said of it.
#[track_caller]
fn refused(scenario: &Path, args: &[&str], said: &str) {
    let out = sim(scenario, args);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {error}");
    assert!(error.contains(said), "{args:?}: {error}");
    assert!(out.stdout.is_empty(), "{args:?}");
}

#[test]
fn values_that_cannot_be_are_named_with_what_could() {
    let dir = Scratch::new("values");
    let path = dir.path("plain.toml");
    std::fs::write(&path, PLAIN).unwrap();
    for (set, said) in [
        // Rates and times.
        ("link.rate=0 bit/s", "a rate of 0 never delivers"),
        ("link.rate=-5 Mbit/s", "\"-5 Mbit/s\" is not a rate"),
        (
            "link.rate=10000000000 Gbit/s",
            "link: rate = \"10000000000 Gbit/s\": from",
        ),
        ("link.delay=1000000 h", "link: delay"),
        ("duration=0 s", "duration"),
        ("duration=-1 s", "is not a duration"),
        ("duration=1000000 h", "duration"),
        ("sample.queue=0 s", "at least 1 us"),
        ("flow.0.start=3 s", "after the end"),
        ("flow.0.stagger=100000 h", "unless"),
        ("flow.0.spread=100000 h", "begins after more than"),
        ("tcp.ack_delay=1000000 h", "ack_delay"),
        // Names.
        ("link.queue=fifp", "Did you mean \"fifo\"?"),
        ("link.qeue=codel", "Did you mean \"queue\"?"),
        ("topology=dumbell", "Did you mean \"dumbbell\"?"),
        ("tcp.controller=cubik", "Did you mean \"cubic\"?"),
        ("flow.0.kind=bulck", "Did you mean \"bulk\"?"),
        ("flow.0.kidn=bulk", "Did you mean \"kind\"?"),
        ("flwo.0.kind=bulk", "Did you mean \"flow\"?"),
        ("flow.7.kind=bulk", "a list of 2"),
        ("flow.0.from=s0", "give both from and to"),
        // Sizes.
        ("seed=1e30", "expected a whole number"),
        ("seed=-1", "expected a whole number"),
        ("link.queue=fifo:bytes=5 PB", "unknown unit"),
        ("link.queue=fifo:packets=1000000000000", "out of range"),
        (
            "link.queue=red:min=30,max=10",
            "min = 30 is not below max = 10",
        ),
        ("link.mtu=1 B", "out of range"),
        ("flow.0.count=1000000000", "1000000001 flows: at most"),
        ("topology=dumbbell:pairs=1000000000", "out of range"),
        ("topology=linear:hops=1000000", "out of range"),
        (
            "flow.1.size=70000 B",
            "size=70 kB is out of range: from 28 B to 65535 B",
        ),
        ("flow.1.size=10 B", "size=10 B is out of range: from 28 B"),
        ("flow.1.rate=1000000 Gbit/s", "rate"),
        (
            "tcp.mss=65500 B",
            "mss = \"65.5 kB\": from 1 B to 65.483 kB",
        ),
        ("tcp.mss=0 B", "mss"),
        ("tcp.header=100 kB", "header"),
        ("tcp.header=0 B", "header = \"0 B\": from 1 B"),
        ("tcp.receive_window=1000000000 GB", "receive_window"),
        ("tcp.receive_window=1 kB", "receive_window"),
        ("tcp.initial_window=0", "initial_window"),
        ("tcp.initial_window=1000000000000000", "initial_window"),
        ("tcp.burst=1000000000000", "burst"),
        ("link.loss=random:probability=2", "from 0 to 1"),
    ] {
        if said == "unless" {
            // One flow alone is not staggered.
            assert!(sim(&path, &["--set", set]).status.success());
            refused(
                &path,
                &["--set", set, "--set", "flow.0.count=2"],
                "begins after more than",
            );
            continue;
        }
        refused(&path, &["--set", set], said);
    }
}

#[test]
fn graphs_without_a_way_or_with_two_links_of_one_name_are_refused() {
    let dir = Scratch::new("graphs");
    let path = dir.path("graph.toml");
    std::fs::write(&path, GRAPH).unwrap();
    assert!(sim(&path, &[]).status.success());
    for (sets, said) in [
        (
            &["edge.1.between=[\"r\", \"r\"]"][..],
            "both ends are \"r\"",
        ),
        (
            &["edge.1.between=[\"q\", \"b\"]"],
            "no way from \"a\" to \"b\"",
        ),
        (&["flow.0.to=c"], "no host \"c\""),
        (&["flow.0.to=a"], "begins and ends at \"a\""),
        (
            &["edge.0.name=x", "edge.1.name=x"],
            "two links are called \"x\"",
        ),
        (
            &["edge.1.between=[\"a\", \"r\"]", "flow.0.to=r"],
            "two links are called \"a>r\"",
        ),
        (
            &["edge.1.between=[\"r\", \"b\", \"c\"]"],
            "two nodes, such as",
        ),
        (&["edge.1.between=[\"r\", \"\"]"], "each node needs a name"),
        (&["edge=[]"], "needs links"),
    ] {
        let args: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        refused(&path, &args, said);
    }
    // A circle is no mistake: ways are the shortest and cannot go round.
    let circle = format!(
        "{GRAPH}[[edge]]\nbetween = [\"b\", \"a\"]\nname = \"third\"\nlink = {{ rate = \"1 Mbit/s\" }}\n"
    );
    std::fs::write(&path, circle).unwrap();
    assert!(sim(&path, &[]).status.success());
}

#[test]
fn options_that_cannot_be_are_refused() {
    let dir = Scratch::new("options");
    let path = dir.path("plain.toml");
    std::fs::write(&path, PLAIN).unwrap();
    for (args, said) in [
        (&["--seeds", "0"][..], "1..=100000"),
        (&["--seeds", "1000000000000000000000000000000"], "too large"),
        (&["--threads", "0"], "1..=4096"),
        (
            &["--sweep", "link.qeue=codel,pie"],
            "Did you mean \"queue\"?",
        ),
        (
            &["--sweep", "nothing.at.all=1,2"],
            "unknown field `nothing`",
        ),
        (&["--sweep", "link.queue"], "write KEY=VALUE"),
        (
            &["--sweep", "link.queue=codel", "--sweep", "link.queue=pie"],
            "--sweep link.queue is given twice",
        ),
        (&["--sweep", "link.queue="], "no qdisc \"\""),
        (
            &["--seeds", "100000", "--sweep", "flow.0.count=1,2,3"],
            "300000 runs: at most",
        ),
        (&["--set", "link.queue"], "write KEY=VALUE"),
        (&["--pcap", "link"], "write KEY=VALUE"),
        (&["--pcap", "lnk=x.pcapng"], "Did you mean \"link\"?"),
        (
            &["--pcap", "left=x.pcapng"],
            "name one of them to capture at",
        ),
        (
            &["--pcap", "link=x.pcapng", "--sweep", "seed=1,2"],
            "choose one with --set",
        ),
    ] {
        refused(&path, args, said);
    }
    refused(&dir.path("gone.toml"), &[], "cannot read the scenario");
    assert!(!Path::new("x.pcapng").exists());
}

#[test]
fn an_output_that_cannot_be_had_is_said_first_and_leaves_nothing() {
    let dir = Scratch::new("outputs");
    let path = dir.path("plain.toml");
    std::fs::write(&path, PLAIN).unwrap();
    let text = |p: PathBuf| p.to_str().expect("a plain path").to_string();
    let taken = text(dir.path("taken"));
    std::fs::create_dir(&taken).unwrap();
    let below = text(dir.path("nowhere/x.rec"));
    refused(&path, &["-o", &taken], "exists already");
    refused(&path, &["-o", &below], "cannot create");
    // Of a sweep, the second is taken.
    let second = dir.path("sweep/seed=2.rec");
    std::fs::create_dir_all(&second).unwrap();
    let sweep = text(dir.path("sweep"));
    refused(
        &path,
        &["--sweep", "seed=1,2", "-o", &sweep],
        "seed=2.rec exists already",
    );
    assert!(!dir.path("sweep/seed=1.rec").exists());
    // Of two captures, the second: the first is free for the next attempt.
    let (first, other) = (dir.path("first.pcapng"), dir.path("other.pcapng"));
    std::fs::write(&other, "mine").unwrap();
    let asked = [&first, &other].map(|p| format!("link={}", p.display()));
    refused(
        &path,
        &["--pcap", &asked[0], "--pcap", &asked[1]],
        "it exists already",
    );
    assert!(!first.exists());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
}

#[test]
fn a_disk_that_fills_up_is_told_as_what_it_is() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let dir = Scratch::new("full");
    let path = dir.path("plain.toml");
    std::fs::write(&path, PLAIN).unwrap();
    let out = sim(&path, &["--pcap", "link=/dev/full"]);
    assert_eq!(out.status.code(), Some(3));
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        error.contains("No space left") && error.contains("\"link\""),
        "{error}"
    );
}
