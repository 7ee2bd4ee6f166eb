//! Commands of a terminal in everything that comes from elsewhere: names and contents of files of every kind, through every
//! verb that reads them. What is shown holds the strings, written out.

use base::record::{Delay, Event, Meta, Row, Status};
use measure::capture::LinkType;
use measure::capture::pcapng::{Interface, Packet, Writer};
use std::path::Path;
use std::process::Command;
use testkit::TempDir;

/// Clears the screen, sets the title, colours, turns the text around, hides text in tags.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{e0041}mark";
const NOON: i64 = 1_763_726_400_000_000_000;

struct Scratch(TempDir);

impl Scratch {
    /// A file whose name is as bad as its text.
    fn file(&self, name: &str, text: &[u8]) -> String {
        let path = self.0.join(format!("{EVIL}{name}"));
        std::fs::write(&path, text).expect("a scratch file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("ours");
        path.to_str().expect("text").to_owned()
    }
}

fn recording(path: &Path) {
    let meta = Meta {
        title: EVIL.into(),
        verb: "monitor".into(),
        started_ns: NOON,
        ended_ns: Some(NOON + 60_000_000_000),
        ..Meta::default()
    };
    let mut writer = store::Writer::create(path, meta.clone()).expect("a recording");
    for n in 0..600 {
        let delay = Delay {
            rtt_ns: Some(20_000_000),
            status: Status::Ok,
            ..Delay::unanswered(NOON + n * 100_000_000, n, EVIL.into())
        };
        writer.write(Row::Delay(delay)).expect("a row");
    }
    let event = Event {
        t_ns: NOON + 1_000_000_000,
        kind: "trouble".into(),
        subject: EVIL.into(),
        detail: EVIL.into(),
    };
    writer.write(Row::Event(event)).expect("a row");
    writer.close(meta).expect("closed");
}

fn capture() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), EVIL, EVIL).expect("to memory");
    let interface = Interface {
        link: LinkType::RAW,
        snaplen: 65_535,
        name: EVIL,
        description: EVIL,
        speed: None,
    };
    writer.interface(&interface).expect("to memory");
    for n in 0..3 {
        // An IPv4 header and a UDP header from 192.0.2.1 to 192.0.2.2.
        let data = [
            0x45, 0, 0, 28, 0, n, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9, 0, 8,
            0, 0,
        ];
        let packet = Packet {
            interface: 0,
            t_ns: NOON + i64::from(n),
            original_len: 28,
            data: &data,
            way: None,
            comment: Some(EVIL),
        };
        writer.packet(&packet).expect("to memory");
    }
    writer.finish().expect("to memory")
}

#[test]
fn no_verb_lets_a_string_from_elsewhere_command_the_terminal() {
    let dir = Scratch(TempDir::new("escapes"));
    let text = format!("{EVIL}\n{EVIL} = \"{EVIL}\"\n");
    let plain = dir.file("text", text.as_bytes());
    let toml = dir.file("a.toml", format!("title = \"{EVIL}\"\n[link\n").as_bytes());
    let unknown: String = EVIL
        .chars()
        .map(|c| format!("\\U{:08x}", u32::from(c)))
        .collect();
    let key = dir.file("b.toml", format!("\"{unknown}\" = 1\n").as_bytes());
    let value = dir.file("c.toml", format!("duration = \"{unknown}\"\n").as_bytes());
    let keys = dir.file("keys", format!("{EVIL} {}\n", "11".repeat(32)).as_bytes());
    let capture = dir.file("c.pcapng", &capture());
    let rec = dir.0.join(format!("{EVIL}.rec"));
    recording(&rec);
    let rec = rec.to_str().expect("text").to_owned();
    let gone = dir.0.join(format!("{EVIL}gone"));
    let gone = gone.to_str().expect("text").to_owned();
    let files = [&plain, &toml, &key, &value, &capture, &keys, &rec, &gone];
    let mut lines: Vec<Vec<&str>> = Vec::new();
    for file in files {
        lines.push(vec!["sim", file]);
        lines.push(vec!["analyse", file]);
        lines.push(vec!["analyse", file, "--json"]);
        lines.push(vec!["report", file]);
        lines.push(vec!["report", file, "--plot", "rtt"]);
        lines.push(vec!["import", file, "-o", "imported.rec"]);
        lines.push(vec!["import", file, "--json", "-o", "imported.rec"]);
        lines.push(vec!["trace", file]);
        lines.push(vec!["trace", file, "--json"]);
        lines.push(vec!["model", file]);
        lines.push(vec!["list", file]);
        lines.push(vec!["emulate", "--link", file, "--", "true"]);
        lines.push(vec!["test", "--link", file]);
        lines.push(vec!["probe", "rtt", "--link", file]);
        lines.push(vec!["serve", "--keys", file, "--listen", "192.0.2.77:1"]);
        lines.push(vec![
            "serve",
            "--tls-cert",
            file,
            "--tls-key",
            file,
            "--listen",
            "192.0.2.77:1",
        ]);
        lines.push(vec!["serve", "keys", "list", "--keys", file]);
        lines.push(vec!["test", "127.0.0.1:1", "--key-file", file]);
        lines.push(vec!["monitor", file, "--duration", "1s"]);
    }
    let mut marked = 0;
    for args in &lines {
        let out = Command::new(env!("CARGO_BIN_EXE_tailback"))
            .args(args)
            .current_dir(&dir.0)
            .output()
            .expect("it runs");
        let shown = [&out.stdout[..], &out.stderr[..]].concat();
        let shown = String::from_utf8_lossy(&shown);
        let about = format!("{}: {}", args.join(" "), shown)
            .escape_debug()
            .to_string();
        assert!(!shown.contains("panicked"), "{about}");
        let bad =
            |c: char| c.is_control() && c != '\n' && c != '\t' || "\u{202e}\u{e0041}".contains(c);
        assert!(!shown.contains(bad), "{about}");
        if args.contains(&"--json") && out.status.success() {
            let json: Result<serde_json::Value, _> = serde_json::from_slice(&out.stdout);
            assert!(json.is_ok(), "{about}");
        }
        marked += usize::from(shown.contains("mark"));
    }
    // Most of them name the file or what stands in it: the strings do get through.
    assert!(marked * 2 > lines.len(), "{marked} of {}", lines.len());
}
