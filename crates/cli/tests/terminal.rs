//! Output in a terminal fits it, whatever its width: tables, answers and live views of all verbs.

use base::record::{Delay, Meta, Row, Status};
use std::path::Path;
use testkit::{Program, TempDir, in_terminal, in_terminal_as};

const WIDTHS: [u16; 4] = [60, 80, 120, 200];
const NOON: i64 = 1_763_726_400_000_000_000;

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

const SCENARIO: &str = r#"
duration = "5 s"
[link]
rate = "2 Mbit/s"
delay = "10 ms"
queue = "fifo:packets=30"
[[flow]]
kind = "bulk"
count = 2
[[flow]]
kind = "probe"
"#;

/// Recording of a monitor with five targets.
fn recording(path: &Path) {
    let meta = Meta {
        title: "Home".into(),
        verb: "monitor".into(),
        started_ns: NOON,
        ended_ns: Some(NOON + 60_000_000_000),
        ..Meta::default()
    };
    let mut writer = store::Writer::create(path, meta.clone()).expect("a recording");
    for n in 0..600 {
        for target in 0..5 {
            let name = format!("icmp:192.0.2.{target}");
            let delay = Delay {
                rtt_ns: Some(20_000_000 + target * 1_000_000 + n % 7 * 100_000),
                status: Status::Ok,
                ..Delay::unanswered(NOON + n * 100_000_000, n, name.as_str().into())
            };
            writer.write(Row::Delay(delay)).expect("a row");
        }
    }
    writer.close(meta).expect("closed");
}

/// Text without the commands with which a bar of progress is drawn and erased.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        out.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    out.replace('\r', "\n")
}

/// Lines that are wider than the terminal.
fn torn(text: &str, width: u16) -> Vec<&str> {
    let wide = |line: &&str| line.trim_end().chars().count() > usize::from(width);
    text.lines().filter(wide).collect()
}

#[test]
fn tables_and_answers_fit_the_terminal_that_was_asked() {
    let dir = TempDir::new("terminal");
    let home = dir.join("home.rec");
    recording(&home);
    let home = home.to_str().expect("text");
    let scenario = dir.join("s.toml");
    std::fs::write(&scenario, SCENARIO).expect("a scenario");
    let scenario = scenario.to_str().expect("text");
    let sweep = "link.queue=fifo;codel;fq_codel;pie";
    let verbs: [&[&str]; 9] = [
        &["list", "disciplines"],
        &["list", "controllers"],
        &["list", "sources"],
        &["list", "probes"],
        &["list", "links"],
        &["model"],
        &["model", "mm1", "rate=10Mbit/s", "offered=8Mbit/s"],
        &["analyse", home],
        &["sim", scenario, "--sweep", sweep, "--seeds", "2"],
    ];
    for args in verbs {
        let mut widest = Vec::new();
        for width in WIDTHS {
            let (status, text) = in_terminal(program().command(args), width, 24);
            assert!(status.success(), "{args:?}: {text}");
            let text = plain(&text);
            assert_eq!(
                torn(&text, width),
                Vec::<&str>::new(),
                "{args:?} at {width}"
            );
            widest.push(text.lines().map(|l| l.chars().count()).max());
        }
        eprintln!("{args:?}: widest lines {widest:?}");
        // The width comes from the terminal: a wide one has longer lines than a narrow one.
        assert!(
            widest[0] <= Some(60) && widest[3] > Some(60),
            "{args:?}: {widest:?}"
        );
    }
}

/// Five targets on a terminal of 60 columns: the last view has all of them, and none of its lines is wrapped.
#[test]
fn a_live_view_shows_all_targets_in_sixty_columns() {
    let dir = TempDir::new("live-view");
    let silent: Vec<std::net::TcpListener> = (0..5)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect();
    let targets: Vec<String> = silent
        .iter()
        .map(|l| format!("tcp:{}", l.local_addr().expect("its port")))
        .collect();
    let mut args = vec!["monitor", "--duration", "3s", "--output", "m.rec"];
    args.extend(targets.iter().map(String::as_str));
    let command = program().within(&dir).command(&args);
    let (status, text) = in_terminal(command, 60, 24);
    assert!(status.success(), "{text}");
    let last = text.rsplit("\u{1b}[J").next().unwrap_or_default();
    for target in &targets {
        let line = last.lines().find(|l| l.starts_with(target.as_str()));
        assert!(
            line.is_some_and(|l| l.contains("lost 0 of")),
            "{target}: {last}"
        );
    }
    assert_eq!(torn(last, 60), Vec::<&str>::new());
}

/// A terminal that knows no commands, such as the shell of an editor, gets plain lines: users saw `^[[2A^[[J` in it.
#[test]
fn a_dumb_terminal_gets_no_commands() {
    let dir = TempDir::new("dumb");
    let lines = [
        "monitor tcp:127.0.0.1:1,100ms --duration 2s -o m.rec",
        "test --virtual --link adsl -o t.rec",
        "analyse t.rec",
        "analyse gone.rec",
        "model --no-such-option",
    ];
    for line in lines {
        let args: Vec<&str> = line.split(' ').collect();
        let mut command = program().within(&dir).command(&args);
        command.env("TERM", "dumb");
        command.env_remove("NO_COLOR");
        let (_, text) = in_terminal_as(command, 80, 24);
        assert!(!text.contains('\u{1b}'), "{line}: {text:?}");
        assert!(!text.is_empty(), "{line}");
    }
}

/// An input that does not exist is a fault of usage in every verb: exit code 2, and its name in the message.
#[test]
fn a_missing_file_ends_every_verb_alike() {
    let dir = TempDir::new("missing");
    let lines = [
        "analyse gone.x",
        "analyse gone.x gone.y",
        "report gone.x",
        "trace gone.x",
        "import gone.x",
        "import gone.x --format ping",
        "sim gone.x",
        "run gone.x",
        "test --link ./gone.x",
        "probe rtt --link ./gone.x",
        "emulate ./gone.x -- true",
        "model tagged rate=1Mbit/s --traffic gone.x",
        "monitor icmp:192.0.2.1 --key-file gone.x",
        "test 192.0.2.1 --key-file gone.x",
    ];
    for line in lines {
        let args: Vec<&str> = line.split(' ').collect();
        let out = program().within(&dir).run(&args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{line}: {told}");
        assert!(told.contains("gone.x"), "{line}: {told}");
    }
    assert_eq!(std::fs::read_dir(&dir).expect("ours").count(), 0);
}

/// An option is honoured or refused: a target, an interface or a zone that does not exist is refused by every verb and plot.
#[test]
fn no_option_is_ignored() {
    let dir = TempDir::new("ignored");
    recording(&dir.join("m.rec"));
    let link = [
        "probe",
        "rtt:count=50",
        "--link",
        "fiber",
        "--virtual",
        "-o",
        "p.rec",
    ];
    let out = program().within(&dir).run(&link);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let refused = |args: &[&str], word: &str| {
        let out = program().within(&dir).run(args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(word), "{args:?}: {told}");
    };
    // The picture of a test's queue has no probes: a target was ignored.
    let test = [
        "test",
        "--virtual",
        "--phases",
        "idle,up",
        "-q",
        "-o",
        "t.rec",
    ];
    assert!(program().within(&dir).run(&test).status.success());
    for option in ["--target", "--interface", "--zone"] {
        let line = [
            "report", "t.rec", "--plot", "queue", option, "No/Such", "-o", "x.svg",
        ];
        refused(&line, "No/Such");
    }
    for rec in ["m.rec", "p.rec"] {
        for option in ["--target", "--interface", "--zone"] {
            for plot in ["rtt", "cdf", "smoke", "heat"] {
                refused(
                    &[
                        "report", rec, "--plot", plot, option, "No/Such", "-o", "x.svg",
                    ],
                    "No/Such",
                );
            }
            refused(&["report", rec, option, "No/Such"], "No/Such");
        }
        refused(&["report", rec, "--plot", "cdf", "-o", "x.html"], "--plot");
        refused(&["analyse", rec, "--zone", "No/Such"], "No/Such");
        refused(&["analyse", rec, "--queue", "--window", "1s"], "--queue");
    }
    refused(
        &["analyse", "m.rec", "--target", "No/Such"],
        "icmp:192.0.2.3",
    );
    refused(&["model", "bdp:rtt=19ms"], "tailback model bdp rate=");
    assert!(!dir.join("x.svg").exists() && !dir.join("x.html").exists());
    // Without --output a plot has a file of its own.
    let out = program()
        .within(&dir)
        .run(&["report", "m.rec", "--plot", "cdf"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(dir.join("m.rec/cdf.svg").exists());
}

fn is_time(text: &str) -> bool {
    let shape: String = text
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end_matches('Z')
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "0000-00-00T00:00:00" && text.ends_with('Z')
}

fn is_number(text: &str) -> bool {
    text.is_empty() || text.parse::<f64>().is_ok()
}

/// Tables of a capture: times are ISO 8601, and no number is a time in disguise.
#[test]
fn csv_of_a_capture_has_plain_numbers_and_iso_times() {
    let dir = TempDir::new("csv-trace");
    let scenario = "duration = \"5 s\"\n[link]\nrate = \"5mbit\"\ndelay = \"10 ms\"\n\
        queue = \"fifo:packets=20\"\n[[flow]]\nname = \"bulk\"\nkind = \"bulk\"\n[tcp]\ncontroller = \"cubic\"\n";
    let file = dir.file("s.toml", scenario);
    let pcap = format!("link={}", dir.at("link.pcapng"));
    for args in [
        &["sim", &file, "-q", "--pcap", &pcap][..],
        &["trace", &dir.at("link.pcapng"), "--csv", &dir.at("tables")],
    ] {
        let out = program().run(args);
        assert!(
            out.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let mut times = 0;
    for entry in std::fs::read_dir(dir.at("tables")).expect("tables") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a table");
        let mut lines = text.lines();
        let heads: Vec<&str> = lines.next().expect("heads").split(',').collect();
        for (line, cells) in lines.map(|l| (l, l.split(',').collect::<Vec<_>>())) {
            // JSON in a cell has commas, too.
            let plain = heads
                .iter()
                .zip(&cells)
                .take_while(|(head, _)| **head != "detail");
            for (head, cell) in plain {
                let is_when = ["t", "sent", "first", "last", "course", "before"].contains(head);
                times += usize::from(is_when && !cell.is_empty());
                // No other cell is a time in nanoseconds since 1970.
                let is_right = match is_when {
                    true => cell.is_empty() || is_time(cell),
                    false => {
                        cell.parse::<f64>().is_ok_and(|v| v.abs() < 1e17)
                            || !is_number(cell)
                            || cell.is_empty()
                    }
                };
                assert!(is_right, "{}: {head} is {cell} in {line}", path.display());
            }
        }
    }
    assert!(times > 100, "{times} times");
}

/// Every figure of `--csv` is a plain number, and every time one of ISO 8601.
#[test]
fn csv_has_plain_numbers_and_iso_times() {
    let dir = TempDir::new("csv");
    recording(&dir.join("m.rec"));
    for (args, numbers, times) in [
        (
            &["analyse", "m.rec", "--csv"][..],
            &["value", "low", "high"][..],
            &["from", "to"][..],
        ),
        (
            &["status", "m.rec", "--csv"],
            &[
                "rows",
                "answered",
                "lost",
                "rtt_ms",
                "median_ms",
                "p95_ms",
                "ipdv_ms",
                "silent_s",
            ],
            &[],
        ),
    ] {
        let out = program().within(&dir).run(args);
        let text = String::from_utf8(out.stdout).expect("text");
        let mut lines = text.lines();
        let heads: Vec<&str> = lines.next().expect("heads").split(',').collect();
        let place = |name: &&str| heads.iter().position(|h| h == name).expect("a column");
        let mut seen = 0;
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            for column in numbers.iter().map(place) {
                assert!(is_number(cells[column]), "{args:?}: {line}");
                seen += usize::from(!cells[column].is_empty());
            }
            for column in times.iter().map(place) {
                assert!(is_time(cells[column]), "{args:?}: {line}");
            }
        }
        assert!(seen > 20, "{args:?}: {seen} numbers");
    }
}
