//! `tailback trace` as a user runs it.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use testkit::TempDir;

fn trace(args: &[&str], input: &[u8]) -> Output {
    trace_in("100", args, input)
}

/// Runs `tailback trace` for a terminal of so many columns.
fn trace_in(columns: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("trace")
        .args(args)
        .env("COLUMNS", columns)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A file that is refused is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// A SYN and, a second later, the same SYN.
fn capture() -> Vec<u8> {
    let mut file = vec![
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0,
    ];
    for second in [5u8, 6] {
        file.extend([second, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 0]);
        file.extend([
            0x45, 0, 0, 40, 0, second, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ]);
        file.extend([
            0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
        ]);
    }
    file
}

#[test]
fn a_capture_through_a_pipe_is_told_as_text_and_as_json() {
    let out = trace(&["-"], &capture());
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("1 TCP connection,"), "{text}");
    assert!(text.contains("1 packet: 1 after a time-out"), "{text}");
    let out = trace(&["--json", "-"], &capture());
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let direction = &json["connections"][0]["directions"][0];
    assert_eq!(direction["from"], "192.0.2.1:12345");
    assert_eq!(direction["retransmitted_packets"], 1);
    assert_eq!(direction["rtt_mean_ms"], serde_json::Value::Null);
}

#[test]
fn a_capture_cut_off_gives_what_it_holds_and_says_so() {
    let out = trace(&["-"], &capture()[..100]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.starts_with("1 packet,"), "{text}");
    assert!(text.contains("20 bytes passed over"), "{text}");
}

#[test]
fn each_event_has_the_number_of_its_packet_and_a_remark_in_the_copy() {
    let folder = TempDir::new("annotate");
    let (file, copy) = (folder.join("a.pcap"), folder.join("b.pcapng"));
    std::fs::write(&file, capture()).unwrap();
    let (file, copy) = (file.to_str().unwrap(), copy.to_str().unwrap());
    let out = trace(&[file, "--connection", "0", "--annotate", copy], &[]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    // The event's line may be wrapped: its words count, not its lines.
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains(" 2 1.000000 192.0.2.1:12345: "), "{text}");
    assert!(words.contains("sent 1 s before in packet 1"), "{text}");

    let json = |file: &str| -> serde_json::Value {
        let out = trace(&["--json", file], &[]);
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let (first, again) = (json(file), json(copy));
    let event = &first["connections"][0]["directions"][0]["events"][0];
    let figures = ["frame", "before_frame"].map(|k| event[k].as_u64().unwrap());
    assert_eq!((figures, event["kind"].as_str()), ([2, 1], Some("timeout")));
    assert_eq!(first["expert"][0]["first_frame"], 2);
    // The copy has the same packets and a remark on the second.
    assert_eq!(first["connections"], again["connections"]);
    let comments = again["comments"].as_array().unwrap();
    assert_eq!(comments.len(), 2, "{comments:?}");
    assert_eq!(comments[1]["frame"], 2);
    assert!(comments[1]["text"].as_str().unwrap().contains("time-out"));
    // What is there is not overwritten; what can be read once only is refused.
    assert_eq!(
        trace(&[file, "--annotate", copy], &[]).status.code(),
        Some(2)
    );
    assert_eq!(
        trace(&["-", "--annotate", copy], &[]).status.code(),
        Some(2)
    );
    assert_eq!(
        trace(&[file, "--connection", "7"], &[]).status.code(),
        Some(2)
    );
}

#[test]
fn what_no_connection_holds_is_said() {
    let mut file = capture();
    // Of GRE, a later fragment of UDP, and what is no IP at all; the last one before the others.
    for (second, protocol, offset, version) in [
        (7, 47, 0, 0x45),
        (8, 17, 100, 0x45),
        (9, 6, 0, 0x35),
        (2, 47, 0, 0x45),
    ] {
        file.extend([second, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 0]);
        file.extend([version, 0, 0, 40, 0, second, 0, offset, 64, protocol, 0, 0]);
        file.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        file.extend([0; 20]);
    }
    let out = trace(&["-"], &file);
    let text = String::from_utf8(out.stdout).unwrap();
    for said in [
        "! 1 packets are not IP",
        "! 1 packets are later fragments",
        "! 1 packets are stamped before the one ahead of them, by up to 7000 ms",
        "! 2 packets are of a tunnel (GRE)",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn what_is_no_capture_is_refused() {
    let out = trace(&["-"], b"hello, world, this is text and not a capture");
    assert_eq!(out.status.code(), Some(2));
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(text.contains("68 65 6c 6c"), "{text}");
}

/// Packets of TCP and UDP to 192.0.2.1 a few milliseconds apart, and one SYN that it refuses.
fn mixed() -> Vec<u8> {
    let mut file = capture()[..24].to_vec();
    let mut t_us = 0u32;
    for i in 0..600u32 {
        t_us += 500 + i * 7919 % 4000;
        let (protocol, host, ports): (u8, u8, [u8; 4]) = match i {
            300 => (6, 99, [0x30, 0x39, 0, 23]),
            _ if i % 5 == 0 => (17, 50, [0, 53, 0x40, 0]),
            _ => (6, 51, [0, 80, 0x41, 0]),
        };
        let home_speaks = i % 2 == 0 && i != 300 || i == 301;
        let flags = if i == 300 { 2 } else { 16 };
        file.extend((5 + t_us / 1_000_000).to_le_bytes());
        file.extend((t_us % 1_000_000).to_le_bytes());
        file.extend([40, 0, 0, 0, 40, 0, 0, 0]);
        let (home, far) = ([192, 0, 2, 1], [198, 51, 100, host]);
        let (src, dst) = if home_speaks {
            (home, far)
        } else {
            (far, home)
        };
        file.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        file.extend(src);
        file.extend(dst);
        let [a, b, c, d] = ports;
        file.extend(if home_speaks {
            [c, d, a, b]
        } else {
            [a, b, c, d]
        });
        file.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, flags, 255, 255, 0, 0, 0, 0]);
    }
    file
}

#[test]
fn the_traffic_as_a_whole_is_told_in_80_columns_and_drawn() {
    let directory = TempDir::new("traffic");
    let plots = directory.to_str().unwrap();
    let out = trace_in("80", &["--traffic", "-", "--plots", plots], &mixed());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    for wanted in [
        "TCP fraction: 80.2 % of the packets",
        "Parameters of the Weibull distribution",
        "a) shape (β)",
        "Inter-arrival time, ms",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let ignored = text.lines().find(|l| l.contains("SYN ignored"));
    for part in ["198.51.100.99", "port 23"] {
        assert!(ignored.is_some_and(|l| l.contains(part)), "{part}: {text}");
    }
    let widest = text.lines().map(|l| l.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}: {text}");
    let svg = std::fs::read_to_string(directory.join("tcp-gaps.svg")).unwrap();
    assert!(svg.contains("Weibull"), "{svg}");
    let out = trace(&["--traffic", "--json", "-"], &mixed());
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["classes"][0]["gaps"]["values"], 480);
    assert_eq!(
        json["classes"][0]["gaps"]["fits"][0]["parameters"][0][0],
        "shape"
    );
    assert_eq!(json["unsolicited"][0]["port"], 23);
}

#[test]
fn a_home_that_is_no_address_is_refused() {
    let out = trace(&["--traffic", "--home", "hq", "-"], &mixed());
    assert_eq!(out.status.code(), Some(2));
    let out = trace(&["--home", "192.0.2.1", "-"], &mixed());
    assert_eq!(
        out.status.code(),
        Some(2),
        "--home is nothing without --traffic"
    );
}

/// Two captures of one UDP flow: near to far, 10 ms under way, every tenth lost; and an answer to each that arrives.
fn both_ends() -> (Vec<u8>, Vec<u8>) {
    let head = capture()[..24].to_vec();
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for i in 0..200u32 {
        let datagram = |up: bool, ttl: u8| {
            let (a, b) = ([192, 0, 2, 1], [198, 51, 100, 1]);
            let (src, dst) = if up { (a, b) } else { (b, a) };
            let mut p = vec![0x45, 0, 0, 40, (i >> 8) as u8, i as u8, 0, 0, ttl, 17, 0, 0];
            p.extend(src);
            p.extend(dst);
            p.extend([0x30, 0x39, 0x30, 0x39, 0, 20, 0, 0]);
            p.extend([i as u8; 12]);
            p
        };
        let put = |file: &mut Vec<(u32, Vec<u8>)>, us: u32, p: Vec<u8>| file.push((us, p));
        let t = i * 20_000;
        put(&mut near, t, datagram(true, 64));
        if i % 10 != 5 {
            // The far clock is 3 s ahead.
            put(&mut far, t + 3_010_000, datagram(true, 60));
            put(&mut far, t + 3_011_000, datagram(false, 64));
            put(&mut near, t + 18_000, datagram(false, 60));
        }
    }
    let file = |mut packets: Vec<(u32, Vec<u8>)>| {
        packets.sort_by_key(|p| p.0);
        let mut out = head.clone();
        for (us, p) in packets {
            out.extend((5 + us / 1_000_000).to_le_bytes());
            out.extend((us % 1_000_000).to_le_bytes());
            out.extend([40, 0, 0, 0, 40, 0, 0, 0]);
            out.extend(p);
        }
        out
    };
    (file(near), file(far))
}

#[test]
fn both_ends_together_are_told_drawn_and_kept_as_a_recording() {
    let directory = TempDir::new("ends");
    let at = |name: &str| directory.join(name).to_str().unwrap().to_string();
    let (near, far) = both_ends();
    std::fs::write(at("far.pcap"), far).unwrap();
    let out = trace(
        &[
            "-",
            "--far",
            &at("far.pcap"),
            "-o",
            &at("path.rec"),
            "--plots",
            &at("plots"),
        ],
        &near,
    );
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    for wanted in [
        "the far one is 3001.5 ms ahead",
        "10 % (6.6–15)",
        "0 of 180 lost",
        "TTL 4 smaller",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let widest = text.lines().map(|l| l.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}: {text}");
    assert!(
        std::fs::read_to_string(directory.join("plots/wait-up.svg"))
            .unwrap()
            .contains("lost")
    );
    let out = trace(&["--json", "-", "--far", &at("far.pcap")], &near);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&json["up"]["lost"], &json["down"]["lost"]),
        (&20.into(), &0.into())
    );
    let base = json["clock"]["base_round_trip_ms"].as_f64().unwrap();
    assert!((base - 17.0).abs() < 1e-3, "{base}");
    // What was kept is a recording like any other.
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tailback"))
            .args(args)
            .output()
            .unwrap()
    };
    let out = run(&["analyse", &at("path.rec"), "--json"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text}");
    assert!(text.contains("\"target\": \"capture\""), "{text}");
    let out = run(&["report", &at("path.rec"), "-o", &at("path.svg")]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
