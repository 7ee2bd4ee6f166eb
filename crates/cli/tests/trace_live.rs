//! `tailback trace --live` beside the packets that really passed. Needs root or user namespaces; a skip says why, and
//! TAILBACK_REQUIRE_NETNS=1 turns a skip into a failure.

use live::emulate::{Emulation, FAR_V4};
use measure::capture::{Reader, frame};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::TempDir;

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

/// A directory of its own that is gone with it.
struct Place(TempDir);

impl Place {
    fn new(name: &str) -> Place {
        let path = TempDir::new(name);
        Place(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

/// An emulated line of 20 Mbit/s and 10 ms with a queue of 100 ms, or nothing where this system does not allow one.
fn line() -> Option<Emulation> {
    let way = "rate = \"20 Mbit/s\"\nqueue = \"fifo:bytes=250kB\"\ndelay = \"5 ms\"";
    testkit::line::start(&[testkit::line::spec(way, way)])
}

/// `tailback trace --live` at the near end, listening.
fn watch(line: &Emulation, args: &[&str]) -> Child {
    watch_interface(line, "link0", args)
}

fn watch_interface(line: &Emulation, interface: &str, args: &[&str]) -> Child {
    let mut command = Command::new(TAILBACK);
    command.args(["trace", "--live", interface]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = line.near().command(&mut command).spawn().unwrap();
    // Its ring stands once its socket is bound to all protocols.
    let begun = Instant::now();
    let packets = format!("/proc/{}/net/packet", child.id());
    while !std::fs::read_to_string(&packets).is_ok_and(|t| t.contains(" 0003 ")) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not listen"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// 300 kB from near to far.
fn transfer(line: &Emulation) {
    let listener = line
        .far()
        .run(|| TcpListener::bind((FAR_V4, 0)))
        .unwrap()
        .unwrap();
    let to = listener.local_addr().unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    let mut stream = line.near().run(|| TcpStream::connect(to)).unwrap().unwrap();
    stream.write_all(&vec![7; 300_000]).unwrap();
    drop(stream);
    assert_eq!(receiver.join().unwrap(), 300_000);
    // The last ACKs are under way for half of the round trip.
    std::thread::sleep(Duration::from_millis(200));
}

/// Two interfaces joined by a cable within the near end.
fn cable(line: &Emulation) {
    for words in [
        "link add one type veth peer name two",
        "link set two up",
        "link set one up",
    ] {
        ip(line, words);
    }
}

fn ip(line: &Emulation, words: &str) {
    let mut command = Command::new("ip");
    command.args(words.split(' '));
    let status = line.near().command(&mut command).status().unwrap();
    assert!(status.success(), "ip {words}: {status}");
}

/// Datagrams of 100 bytes in frames with the tag of VLAN 42, from `one`. The kernel takes the tag off where they arrive.
fn datagrams(line: &Emulation, n: usize) {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x81, 0, 0, 42, 8, 0]);
    frame.extend([0x45, 0, 0, 128, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([192, 0, 2, 1, 192, 0, 2, 2, 0x9c, 0x40, 0, 9, 0, 108, 0, 0]);
    frame.extend([7; 100]);
    let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
    let send = format!(
        "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('one', 0))\n\
         for _ in range({n}):\n    s.send(bytes.fromhex('{hex}'))"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &send]);
    let status = line.near().command(&mut command).status().unwrap();
    assert!(status.success(), "{status}");
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
}

fn text(out: &Output) -> String {
    let said = String::from_utf8(out.stdout.clone()).unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}\n{said}");
    said
}

fn json(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// Number of entries of a list in the answer.
fn listed(answer: &Value, key: &str) -> usize {
    answer[key].as_array().map_or(0, Vec::len)
}

fn tailback(args: &[&str]) -> String {
    text(&Command::new(TAILBACK).args(args).output().unwrap())
}

#[test]
fn what_passes_an_interface_is_told_kept_and_written_alike() {
    let Some(line) = line() else { return };
    let place = Place::new("live");
    let (copy, recording) = (place.at("copy.pcapng"), place.at("live.rec"));
    let child = watch(&line, &["--write", &copy, "-o", &recording]);
    transfer(&line);
    interrupt(&child);
    let said = text(&child.wait_with_output().unwrap());
    let json = json(&tailback(&["trace", &copy, "--json"]));
    assert_eq!(listed(&json, "connections"), 1, "{json}");
    assert_eq!(json["connections_not_listed"], 0, "{json}");
    let most = json["tcp"]["bytes"].as_u64();
    assert!(most > Some(300_000), "{json}");
    // The same packets as a file, and the same figures as a recording.
    assert_eq!(tailback(&["trace", &copy]), said);
    assert_eq!(tailback(&["analyse", &recording]), said);
    let picture = place.at("x.svg");
    tailback(&["report", &recording, "--plot", "sequence", "-o", &picture]);
    assert!(Path::new(&picture).exists());
    line.stop().unwrap();
}

#[test]
fn it_ends_by_itself_after_the_time_asked_for() {
    let Some(line) = line() else { return };
    let child = watch(&line, &["--duration", "1s", "--json"]);
    transfer(&line);
    let json = json(&text(&child.wait_with_output().unwrap()));
    assert_eq!(listed(&json, "connections"), 1, "{json}");
    line.stop().unwrap();
}

#[test]
fn the_tag_of_a_vlan_that_the_kernel_took_off_is_back_in_its_place() {
    let Some(line) = line() else { return };
    cable(&line);
    let place = Place::new("vlan");
    let copy = place.at("copy.pcapng");
    let child = watch_interface(&line, "two", &["--write", &copy, "--json"]);
    datagrams(&line, 5);
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child);
    let json = json(&text(&child.wait_with_output().unwrap()));
    assert_eq!(listed(&json, "udp_conversations"), 1, "{json}");
    let mut reader = Reader::new(std::fs::File::open(&copy).unwrap()).unwrap();
    let mut tagged = 0;
    let looked = reader.each(|r| {
        let Some(f) = frame::parse(r) else { return };
        if matches!(f.transport, frame::Transport::Udp { dst_port: 9, .. }) {
            // Ethernet, its tag, IPv4, UDP, and what was sent.
            assert_eq!((f.vlan, r.original_len), (42, 14 + 4 + 20 + 8 + 100));
            assert_eq!(r.data.len(), r.original_len as usize);
            tagged += 1;
        }
    });
    looked.unwrap();
    assert_eq!(tagged, 5);
    line.stop().unwrap();
}

#[test]
fn an_interface_that_goes_away_ends_it_with_what_came_before() {
    let Some(line) = line() else { return };
    let place = Place::new("away");
    for (name, how) in [("down", "link set two down"), ("deleted", "link del one")] {
        cable(&line);
        let recording = place.at(&format!("{name}.rec"));
        let child = watch_interface(&line, "two", &["-o", &recording]);
        datagrams(&line, 3);
        std::thread::sleep(Duration::from_millis(200));
        ip(&line, how);
        let out = child.wait_with_output().unwrap();
        let said = text(&out);
        let why = "the interface \"two\" went down: what came before is counted";
        assert!(said.contains(why), "{name}: {said}");
        assert_eq!(tailback(&["analyse", &recording]), said);
        let json = json(&tailback(&["analyse", &recording, "--json"]));
        assert_eq!(listed(&json, "udp_conversations"), 1, "{name}: {json}");
        if name == "down" {
            ip(&line, "link del one");
        }
    }
    line.stop().unwrap();
}

#[test]
fn an_interface_that_is_not_there_is_named_with_those_that_are() {
    let out = Command::new(TAILBACK)
        .args(["trace", "--live", "nothing0"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    let errors = String::from_utf8(out.stderr).unwrap();
    assert!(
        errors.contains("no interface \"nothing0\" here. There are: "),
        "{errors}"
    );
    assert!(errors.contains("lo"), "{errors}");
}

#[test]
fn without_privileges_it_says_which_and_what_else_works() {
    let mut command = if nix::unistd::geteuid().is_root() {
        // Nobody has none.
        let mut command = Command::new("setpriv");
        let as_nobody = [
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ];
        command.args(as_nobody).arg(TAILBACK);
        command
    } else {
        Command::new(TAILBACK)
    };
    let out = command.args(["trace", "--live", "lo"]).output().unwrap();
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(3), "{errors}");
    assert!(errors.contains("CAP_NET_RAW"), "{errors}");
    assert!(errors.contains("tcpdump -i lo"), "{errors}");
}
