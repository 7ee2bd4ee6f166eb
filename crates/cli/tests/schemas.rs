//! JSON of every verb against its schema in `schema/`. `SCHEMA=write cargo test --workspace --test schemas` writes the
//! schemas whose types live in `ops` and `fleet`; `cargo xtask gen` writes the others.

use serde_json::Value;
use std::path::{Path, PathBuf};
use testkit::{Program, TempDir, schema};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn path(name: &str) -> PathBuf {
    root().join(format!("schema/{name}.v1.json"))
}

#[track_caller]
fn read(name: &str) -> Value {
    let text = std::fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_str(&text).expect("a schema is JSON")
}

#[test]
fn schemas_of_answers_are_those_of_their_types() {
    let news = ("agent-news", fleet::agent::schema());
    let share = ("share", fleet::share::schema());
    let fleet = fleet::hub::schemas().into_iter().chain([news, share]);
    for (name, schema) in ops::schemas::all().into_iter().chain(fleet) {
        let fresh = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
        if std::env::var_os("SCHEMA").is_some_and(|s| s == "write") {
            std::fs::write(path(name), &fresh).expect("the schema is written");
        }
        let kept = std::fs::read_to_string(path(name)).unwrap_or_default();
        assert!(
            kept == fresh,
            "schema/{name}.v1.json is not the schema of its type: SCHEMA=write writes it"
        );
    }
}

/// Verbs that print JSON, with their arguments (`@` is a file of the test's directory), the exit code, and the schema.
const ANSWERS: &[(&str, i32, &str)] = &[
    (
        "test --virtual --link adsl --output @b.rec --json",
        0,
        "answer",
    ),
    (
        "probe burst --link adsl --virtual --output @p.rec --json",
        0,
        "probe",
    ),
    ("analyse @a.rec --json", 0, "answer"),
    ("analyse @a.rec --statistics --json", 0, "statistics"),
    ("analyse @a.rec @b.rec --json", 0, "comparison"),
    ("analyse @a.rec --patterns --json", 0, "patterns"),
    (
        "probe path:load=none,idle=5s --link adsl --virtual --output @path.rec --json",
        0,
        "probe",
    ),
    ("analyse @path.rec --paths --json", 0, "paths"),
    (
        "analyse @a.rec --hidden-queue --rate-up 700kbit/s --json",
        0,
        "hidden-queue",
    ),
    ("analyse @sim.rec --json", 0, "inside"),
    ("compare @a.rec @b.rec --json", 0, "before-after"),
    ("compare @m.rec @m.rec --json", 0, "comparison"),
    ("status @m.rec --json", 0, "monitor-state"),
    (
        "monitor tcp:127.0.0.1:1,100ms --duration 2s --output @n.rec --json",
        0,
        "monitor-state",
    ),
    ("report @a.rec --output @a.svg --json", 0, "report"),
    ("analyse @t.rec --json", 0, "counted-traffic"),
    ("mark @m.rec --json", 0, "mark"),
    ("neighbours --interface lo --json", 0, "neighbours"),
    ("export @m.rec --output @m.csv --json", 0, "export"),
    ("twin @a.rec --json", 0, "twin"),
    (
        "whatif @a.rec --seeds 3 --cure up.shaper=fq_codel:95% --json",
        0,
        "what-if",
    ),
    (
        "prove adsl --cure up.shaper=fq_codel:95% --virtual --json",
        0,
        "proof",
    ),
    ("sim @two.toml --json", 0, "sim"),
    (
        "sim @two.toml --sweep link.rate=5mbit,10mbit --seeds 2 --json",
        0,
        "sim",
    ),
    ("model bdp rate=10Mbit/s rtt=20ms --json", 0, "model"),
    ("model @calculate.toml steps=100 --json", 0, "calculation"),
    ("trace @link.pcapng --json", 0, "trace"),
    (
        "trace @link.pcapng --far @link.pcapng --json",
        0,
        "trace-ends",
    ),
    ("trace @link.pcapng --traffic --json", 0, "trace-traffic"),
    ("trace @link.pcapng --flows --json", 0, "trace-flows"),
    ("trace @link.pcapng --each --json", 0, "trace-each"),
    (
        "import @ping.txt --start 2026-05-04T15:55:00Z --output @i.rec --json",
        0,
        "import",
    ),
    ("fleet status --data @hub --json", 0, "fleet-status"),
    ("fleet log --data @hub --json", 0, "fleet-log"),
    (
        "fleet report --data @hub --by provider --json",
        0,
        "fleet-report",
    ),
    (
        "fleet report --data @hub --point village-17 --json",
        0,
        "fleet-point",
    ),
    (
        "hub invite --data @hub --name village-18 --json",
        0,
        "invitation",
    ),
    (
        "hub operator --data @hub --name anna --json",
        0,
        "hub-operator",
    ),
    ("hub reader --data @hub --name anna --json", 0, "hub-reader"),
    ("share @a.rec --dry-run --json", 0, "share"),
    ("control plan --wan lo --json", 0, "control-place"),
    ("list links --json", 0, "list"),
    ("list probes --json", 0, "list"),
];

/// Verbs with JSON that is checked elsewhere, with the place.
const ELSEWHERE: [(&str, &str); 9] = [
    ("emulate", "below: it needs a network namespace"),
    ("serve", "tests/serve.rs: it runs until it is stopped"),
    ("control status", "tests/control.rs: a run must stand"),
    (
        "control stop",
        "tests/control.rs: the same as of `control status`",
    ),
    ("control run", "tests/control.rs: it needs a link"),
    ("control prove", "the same as of `prove`"),
    ("agent", "tests/fleet: it runs until it is stopped"),
    ("fleet run-now", "tests/fleet: it needs a plan"),
    ("run", "the same as of the verb in its plan"),
];

const SCENARIO: &str = "title = \"two flows\"\nduration = \"5 s\"\nwarmup = \"1 s\"\n\
    [link]\nrate = \"10mbit\"\ndelay = \"10 ms\"\nqueue = \"fifo:packets=50\"\n\
    [[flow]]\nname = \"bulk\"\nkind = \"bulk\"\n[tcp]\ncontroller = \"cubic\"\n";

const PING: &str = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n\
    64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=1.5 ms\n\
    64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 time=2.5 ms\n";

/// Hub with one point, which has measured these recordings.
fn hub(dir: &TempDir, recordings: &[&str]) {
    use fleet::hub::Hub;
    let hub = Hub::open(dir.at("hub").as_ref(), |_| anyhow::bail!("no plans")).expect("a hub");
    let code = hub.invite("village-17").expect("a code");
    let key = fleet::PublicKey([7; 32]);
    hub.enrol(&code.secret, &key, "v").expect("it joins");
    hub.label("village-17", &["provider=acme".into()])
        .expect("a label");
    for name in recordings {
        let path = PathBuf::from(dir.at(name));
        let manifest = fleet::Manifest::of(&path, name, "watch").expect("it is listed");
        for part in &manifest.files {
            let bytes = std::fs::read(path.join(&part.path)).expect("it is there");
            let put = hub.put("village-17", name, &part.path, 0, &bytes);
            put.expect("it arrives");
        }
        hub.close("village-17", &manifest).expect("it is stored");
    }
}

/// Files that the verbs read.
fn prepared(dir: &TempDir) {
    dir.file("two.toml", SCENARIO);
    dir.file("ping.txt", PING);
    dir.file(
        "calculate.toml",
        "[calculate]\nwhat = \"lblca\"\n[calculate.router.B1]\narrival = 100\n",
    );
    let at = |name: &str| dir.at(name);
    let made: [&[&str]; 4] = [
        &[
            "monitor",
            "--interface",
            "lo",
            "--duration",
            "1s",
            "-q",
            "-o",
            &at("t.rec"),
        ],
        &[
            "test",
            "--virtual",
            "--link",
            "adsl",
            "-q",
            "--output",
            &at("a.rec"),
        ],
        &[
            "monitor",
            "tcp:127.0.0.1:1,100ms",
            "--duration",
            "1s",
            "-q",
            "-o",
            &at("m.rec"),
        ],
        &[
            "sim",
            &at("two.toml"),
            "-q",
            "-o",
            &at("sim.rec"),
            "--pcap",
            &format!("link={}", at("link.pcapng")),
        ],
    ];
    for args in made {
        let out = program().run(args);
        assert!(
            out.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    hub(dir, &["a.rec", "m.rec"]);
}

#[test]
fn every_verb_that_prints_json_keeps_its_schema() {
    let dir = TempDir::new("schemas");
    prepared(&dir);
    for (line, code, name) in ANSWERS {
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some(file) => dir.at(file),
            None => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let out = program().run(&args);
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(*code), "{line}: {told}");
        let value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(schema::breach(&read(name), &value), None, "{line}");
    }
}

/// The answer has standard output for itself: what the program prints goes to standard error.
#[test]
fn an_emulation_keeps_its_schema_beside_the_output_of_its_program() {
    if !program().can_emulate() {
        return;
    }
    let run = |more: &[&str]| {
        let send = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); \
            [s.sendto(bytes(100), ('10.77.0.2', 9)) for _ in range(3)]; \
            import time; time.sleep(0.3)";
        let script = format!("echo printed; python3 -c \"{send}\"; exit 7");
        program().run(
            &[
                &["emulate", "fiber", "-q"],
                more,
                &["--", "sh", "-c", &script],
            ]
            .concat(),
        )
    };
    let out = run(&["--json"]);
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{told}");
    assert!(told.contains("printed"), "{told}");
    let value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(schema::breach(&read("emulation"), &value), None);
    assert_eq!(value["code"], 7);
    let carried = |way: &str| value[way]["delivered_packets"].as_u64();
    assert!(
        carried("up") >= Some(3) && carried("down") >= Some(1),
        "{value}"
    );
    assert_eq!(run(&[]).stdout, b"printed\n");
}

/// A plan that is run again honours `--json`, or refuses it.
#[test]
fn a_plan_of_a_report_answers_with_json() {
    let dir = TempDir::new("schemas-run");
    let at = |name: &str| dir.at(name);
    let made = program().run(&[
        "probe",
        "burst",
        "--link",
        "adsl",
        "--virtual",
        "-q",
        "-o",
        &at("p.rec"),
    ]);
    assert!(made.status.success());
    let plan = serde_json::json!({"verb": "report", "plan": {"recordings": [at("p.rec")], "output": at("p.html")}});
    let plan = dir.file("plan.json", plan.to_string());
    let value = program().json(&["run", &plan, "--json"]);
    assert_eq!(schema::breach(&read("report"), &value), None, "{value}");
    let bytes = std::fs::metadata(at("p.html")).expect("the page").len();
    assert_eq!(
        (&value["format"], value["bytes"].as_u64()),
        (&"html".into(), Some(bytes))
    );
}

#[test]
fn every_verb_with_json_has_a_schema_here() {
    for words in program().all_verbs() {
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let out = program().run(&[&args[..], &["--help"]].concat());
        let help = String::from_utf8(out.stdout).expect("text");
        let verb = words.join(" ");
        let is_checked = ANSWERS
            .iter()
            .any(|(line, ..)| line.starts_with(&format!("{verb} ")));
        let is_elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == verb);
        // A verb of verbs, such as `fleet`, prints nothing of its own.
        if !program().verbs(&args).is_empty() {
            continue;
        }
        let prints = help.contains("\n      --json\n") || help.contains("--json  ");
        assert_eq!(prints, is_checked || is_elsewhere, "{verb}: {help}");
    }
}

#[test]
fn every_schema_is_of_something_that_is_printed_and_the_book_names_it() {
    let page = std::fs::read_to_string(root().join("docs/book/json.md")).expect("the page");
    for entry in std::fs::read_dir(root().join("schema")).expect("schemas") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        let name = name.strip_suffix(".v1.json").expect("version 1").to_owned();
        // A recording as a document is the form of its tables; the others are checked where a run stands.
        let is_other = [
            "record",
            "control-run",
            "control-status",
            "emulation",
            "server",
            "hub",
            "agent-news",
            "fleet-run-now",
        ]
        .contains(&name.as_str());
        assert!(
            is_other || ANSWERS.iter().any(|(.., s)| *s == name),
            "{name}"
        );
        let link = format!("(../../schema/{name}.v1.json)");
        assert!(name == "record" || page.contains(&link), "{name}");
    }
}
