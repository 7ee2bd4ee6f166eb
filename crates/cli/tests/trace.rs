//! `tailback trace` as a user runs it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn trace(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("trace")
        .args(args)
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
    assert!(text.contains("1 TCP connections"), "{text}");
    assert!(text.contains("1 packets: 1 after a time-out"), "{text}");
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
    assert!(text.starts_with("1 packets"), "{text}");
    assert!(text.contains("20 bytes passed over"), "{text}");
}

#[test]
fn what_is_no_capture_is_refused() {
    let out = trace(&["-"], b"hello, world, this is text and not a capture");
    assert_eq!(out.status.code(), Some(2));
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(text.contains("68 65 6c 6c"), "{text}");
}
