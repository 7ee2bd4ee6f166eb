//! What `tailback trace` keeps: a recording that says the same again, and tables for other programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use testkit::TempDir;

/// A directory of its own that is gone with it.
struct Place(TempDir);

impl Place {
    fn new(name: &str) -> Place {
        let path = TempDir::new(name);
        Place(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

fn tailback(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command.args(args).output().unwrap()
}

fn said(args: &[&str]) -> String {
    let out = tailback(args);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{args:?}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

/// One packet of IPv4 and TCP; times in microseconds.
#[derive(Clone)]
struct Packet {
    t_us: u64,
    src: ([u8; 4], u16),
    dst: ([u8; 4], u16),
    seq: u32,
    ack: u32,
    flags: u8,
    payload: u16,
    sack: Option<(u32, u32)>,
    id: u16,
}

const SNAPLEN: usize = 128;

/// A pcap file without link-layer headers, of which `snaplen` bytes a packet are kept.
fn pcap(packets: &[Packet], snaplen: usize) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0xff, 0xff, 0, 0, 101, 0, 0, 0]);
    for p in packets {
        let options = if p.sack.is_some() { 12 } else { 0 };
        let total = 40 + options + p.payload;
        let mut ip = vec![0x45, 0];
        ip.extend(total.to_be_bytes());
        ip.extend(p.id.to_be_bytes());
        ip.extend([0, 0, 64, 6, 0, 0]);
        ip.extend(p.src.0);
        ip.extend(p.dst.0);
        ip.extend(p.src.1.to_be_bytes());
        ip.extend(p.dst.1.to_be_bytes());
        ip.extend(p.seq.to_be_bytes());
        ip.extend(p.ack.to_be_bytes());
        ip.extend([
            (5 + options as u8 / 4) << 4,
            p.flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        if let Some((from, to)) = p.sack {
            ip.extend([1, 1, 5, 10]);
            ip.extend(from.to_be_bytes());
            ip.extend(to.to_be_bytes());
        }
        ip.resize(usize::from(total), 0);
        let kept = ip.len().min(snaplen);
        file.extend((p.t_us as u32 / 1_000_000 + 1_700_000_000).to_le_bytes());
        file.extend((p.t_us as u32 % 1_000_000).to_le_bytes());
        file.extend((kept as u32).to_le_bytes());
        file.extend((ip.len() as u32).to_le_bytes());
        file.extend(&ip[..kept]);
    }
    file
}

/// A transfer of 400 segments, acknowledged after 20 ms that grow to 120 ms, of which every 90th is lost and sent again
/// once four ACKs have reported what came behind it; captured at its sender.
fn transfer() -> Vec<Packet> {
    let (a, b) = (([192, 0, 2, 1], 40_000), ([198, 51, 100, 7], 80));
    let mut packets = Vec::new();
    let mut id = 0;
    let mut push = |t_us, from_a: bool, seq, ack, flags, payload, sack| {
        id += 1;
        let (src, dst) = if from_a { (a, b) } else { (b, a) };
        packets.push(Packet {
            t_us,
            src,
            dst,
            seq,
            ack,
            flags,
            payload,
            sack,
            id,
        });
    };
    let (x, y) = (1000u32, 9000u32);
    push(0, true, x, 0, 2, 0, None);
    push(20_000, false, y, x + 1, 18, 0, None);
    push(20_050, true, x + 1, y + 1, 16, 0, None);
    let at = |i: u32| x + 1 + i * 1000;
    // No ACK of something new comes while a repair is on its way.
    let mut repaired = 0;
    for i in 0..400u32 {
        let sent = 30_000 + u64::from(i) * 2_000;
        let wait = 20_000 + u64::from(i) * 250;
        push(sent, true, at(i), y + 1, 24, 1000, None);
        let lost = i % 90 == 50;
        let back = sent + wait;
        if lost {
            // Four later segments are reported, then it is sent again and everything is acknowledged.
            for k in 1..=4 {
                let sack = Some((at(i + 1), at(i + 1 + k)));
                push(
                    back + u64::from(k) * 2_000,
                    false,
                    y + 1,
                    at(i),
                    16,
                    0,
                    sack,
                );
            }
            push(back + 8_100, true, at(i), y + 1, 24, 1000, None);
            repaired = back + 8_100 + wait;
        } else if (1..=4).all(|k| (i + 90 - k) % 90 != 50) {
            push(back.max(repaired), false, y + 1, at(i + 1), 16, 0, None);
        }
    }
    push(2_000_000, true, at(400), y + 1, 17, 0, None);
    push(2_120_000, false, y + 1, at(400) + 1, 17, 0, None);
    push(2_120_050, true, at(400) + 1, y + 2, 16, 0, None);
    packets.sort_by_key(|p| p.t_us);
    packets
}

/// The tables of a capture in parts, by name.
fn tables(place: &Place, name: &str, parts: &[&[u8]]) -> BTreeMap<String, String> {
    let files = parts.iter().enumerate();
    let files: Vec<String> = files
        .map(|(i, part)| place.write(&format!("{name}-{i}.pcap"), part))
        .collect();
    let directory = place.at(name);
    let mut args = vec!["trace", "--csv", &directory];
    args.extend(files.iter().map(String::as_str));
    said(&args);
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        all.insert(stem, std::fs::read_to_string(path).unwrap());
    }
    all
}

#[test]
fn a_recording_of_a_capture_says_the_same_as_the_capture() {
    let place = Place::new("same");
    let file = place.write("a.pcap", &pcap(&transfer(), SNAPLEN));
    let recording = place.at("a.rec");
    let direct = said(&["trace", &file]);
    assert_eq!(said(&["trace", &file, "-o", &recording]), direct);
    assert_eq!(said(&["analyse", &recording]), direct);
    let json = said(&["trace", "--json", &file]);
    assert_eq!(said(&["analyse", "--json", &recording]), json);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let directions = answer["connections"][0]["directions"].as_array().unwrap();
    let sent = directions
        .iter()
        .filter_map(|d| d["retransmissions"].as_array());
    let fast: u64 = sent
        .flatten()
        .filter(|r| r[0] == "fast")
        .filter_map(|r| r[1].as_u64())
        .sum();
    assert_eq!(fast, 4, "{json}");
    assert!(!answer["findings"].as_array().unwrap().is_empty(), "{json}");
    // It is never written over.
    let again = tailback(&["trace", &file, "-o", &recording]);
    assert_eq!(again.status.code(), Some(2));
    let why = String::from_utf8(again.stderr).unwrap();
    assert!(why.contains("exists already"), "{why}");
}

#[test]
fn tables_say_what_each_packet_sent_acknowledged_and_repaired() {
    let place = Place::new("tables");
    let all = tables(&place, "whole", &[&pcap(&transfer(), SNAPLEN)]);
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    let known = ["connection", "course", "event", "retransmission", "segment"];
    assert_eq!(names, known);
    assert_eq!(all["segment"].lines().count(), transfer().len() + 1);
    let sent_again: Vec<&str> = all["retransmission"].lines().skip(1).collect();
    assert_eq!(sent_again.len(), 4);
    // Segment 50 begins behind the SYN and 50 segments, and three duplicate ACKs set its repair off.
    assert!(
        sent_again[0].contains(",50001,1000,fast,false,"),
        "{sent_again:?}"
    );
    let sacked = all["segment"].lines().find(|l| l.ends_with(",51001,52001"));
    assert!(sacked.is_some(), "{}", all["segment"]);
}

#[test]
fn a_capture_in_two_parts_gives_the_tables_of_the_whole() {
    let place = Place::new("parts");
    let packets = transfer();
    let whole = tables(&place, "whole", &[&pcap(&packets, SNAPLEN)]);
    for cut in [1, packets.len() / 3, packets.len() - 1] {
        let (a, b) = packets.split_at(cut);
        let parts = [pcap(a, SNAPLEN), pcap(b, SNAPLEN)];
        let name = format!("cut-{cut}");
        assert_eq!(tables(&place, &name, &[&parts[0], &parts[1]]), whole);
    }
}

#[test]
fn headers_alone_give_the_tables_of_whole_packets() {
    let place = Place::new("snaplen");
    let full = tables(&place, "full", &[&pcap(&transfer(), 2000)]);
    assert_eq!(tables(&place, "short", &[&pcap(&transfer(), 64)]), full);
}

#[test]
fn packets_that_were_captured_twice_are_in_no_table_twice() {
    let place = Place::new("twice");
    let packets = transfer();
    let doubled: Vec<Packet> = packets
        .iter()
        .flat_map(|p| [p.clone(), p.clone()])
        .collect();
    let once = tables(&place, "once", &[&pcap(&packets, SNAPLEN)]);
    let twice = tables(&place, "twice", &[&pcap(&doubled, SNAPLEN)]);
    for table in ["segment", "course"] {
        assert_eq!(once[table], twice[table], "{table}");
    }
    // The last two columns are packet numbers in the file, of which the doubled one has twice as many.
    let without_numbers = |text: &str| -> Vec<String> {
        let line = |l: &str| l.rsplitn(3, ',').nth(2).unwrap_or_default().to_owned();
        text.lines().map(line).collect()
    };
    assert!(
        once["retransmission"]
            .lines()
            .next()
            .is_some_and(|l| l.ends_with(",frame,before_frame"))
    );
    assert_eq!(
        without_numbers(&once["retransmission"]),
        without_numbers(&twice["retransmission"])
    );
    let without_copies = |text: &str| text.replace(&format!(",{},0,", packets.len()), ",0,0,");
    assert_eq!(once["connection"], without_copies(&twice["connection"]));
}

#[test]
fn swapped_ends_mirror_the_tables() {
    let place = Place::new("swapped");
    let packets = transfer();
    let swapped: Vec<Packet> = packets
        .iter()
        .map(|p| Packet {
            src: p.dst,
            dst: p.src,
            ..p.clone()
        })
        .collect();
    let one = tables(&place, "one", &[&pcap(&packets, SNAPLEN)]);
    let other = tables(&place, "other", &[&pcap(&swapped, SNAPLEN)]);
    for table in ["segment", "course", "retransmission"] {
        assert_eq!(one[table], other[table], "{table}");
    }
    let (a, b) = ("192.0.2.1:40000", "198.51.100.7:80");
    let mirrored = other["connection"]
        .replace(a, "?")
        .replace(b, a)
        .replace('?', b);
    assert_eq!(one["connection"], mirrored);
}

#[test]
fn captures_with_nothing_in_them_are_kept_too() {
    let place = Place::new("nothing");
    let packets = transfer();
    for (name, capture, connections) in [
        ("empty", pcap(&[], SNAPLEN), 0),
        ("single", pcap(&packets[..1], SNAPLEN), 1),
    ] {
        let file = place.write(&format!("{name}.pcap"), &capture);
        let recording = place.at(&format!("{name}.rec"));
        let direct = said(&["trace", &file, "-o", &recording]);
        assert!(
            direct.contains(&format!("{connections} TCP connection")),
            "{direct}"
        );
        assert_eq!(said(&["analyse", &recording]), direct);
    }
}

#[test]
fn a_capture_that_claims_a_day_for_every_packet_does_not_make_a_file_for_each() {
    let place = Place::new("days");
    let mut packets = transfer();
    for (i, p) in packets.iter_mut().enumerate() {
        p.t_us = i as u64 * 4_000_000;
    }
    let mut file = pcap(&packets, SNAPLEN);
    // Seconds that jump by three days each; what is added to them begins at byte 24 of each record's header.
    let mut at = 24;
    for i in 0..packets.len() as u32 {
        file[at..at + 4].copy_from_slice(&(i * 259_200).to_le_bytes());
        let kept = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap());
        at += 16 + kept as usize;
    }
    let file = place.write("days.pcap", &file);
    let recording = place.at("days.rec");
    let out = said(&["trace", &file, "-o", &recording]);
    assert!(out.contains("claim more than 62 days"), "{out}");
    let days = std::fs::read_dir(Path::new(&recording).join("segment")).unwrap();
    assert!(days.count() <= 62);
}

#[test]
fn a_file_that_is_no_capture_leaves_nothing_behind() {
    let place = Place::new("refused");
    let file = place.write("a.txt", b"hello, world, this is text and not a capture");
    let recording = place.at("a.rec");
    let out = tailback(&["trace", &file, "-o", &recording]);
    assert_eq!(out.status.code(), Some(2));
    assert!(!Path::new(&recording).exists());
}

/// Whether this system lets a test make its own small disk; a skip says why, where one is allowed.
fn can_mount() -> bool {
    let mut command = Command::new("unshare");
    let out = command.args(["-Urm", "true"]).output();
    if out.is_ok_and(|out| out.status.success()) {
        return true;
    }
    testkit::skip("`unshare -Urm` fails");
    false
}

#[test]
fn a_full_disk_is_told_and_the_figures_are_shown_all_the_same() {
    if !can_mount() {
        return;
    }
    let place = Place::new("full");
    let file = place.write("a.pcap", &pcap(&transfer(), SNAPLEN));
    let disk = place.at("disk");
    std::fs::create_dir(&disk).unwrap();
    for kept in ["-o disk/a.rec", "--csv disk/tables"] {
        let kept = kept.replace("disk", &disk);
        let script = format!(
            "mount -t tmpfs -o size=8k tmpfs {disk} && {} trace {file} {kept}; echo $?; ls {disk}",
            env!("CARGO_BIN_EXE_tailback")
        );
        let mut command = Command::new("unshare");
        let out = command
            .args(["-Urm", "sh", "-c", &script])
            .output()
            .unwrap();
        let (text, errors) = (
            String::from_utf8(out.stdout).unwrap(),
            String::from_utf8(out.stderr).unwrap(),
        );
        assert!(errors.contains("the disk is full"), "{kept}: {errors}");
        assert!(text.contains("1 TCP connection,"), "{text}");
        assert!(text.contains("\n3\n"), "{text}");
        // What cannot be finished is not left lying about.
        assert!(!text.contains("a.rec"), "{text}");
    }
}
