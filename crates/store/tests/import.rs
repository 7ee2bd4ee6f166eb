//! What other tools' files say is what the recording says: each test writes a small file in a tool's form, with the
//! faults that form is known for, and compares figures with those that the tool itself would report.

#[path = "common/dir.rs"]
mod dir;

use base::histogram::Histogram;
use base::record::{Direction, Recording, Status};
use dir::{Scratch, meta};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use std::io::Write;
use std::path::PathBuf;
use store::import::{Format, Imported, Settings, import, recognise};
use store::{Writer, read};

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
/// 2014-05-04T15:55:00Z
const BEGIN: i64 = 1_399_218_900 * SECOND;

struct Files {
    dir: Scratch,
    files: Vec<(PathBuf, Format)>,
}

impl Files {
    fn new(name: &str) -> Files {
        let dir = Scratch::new(name);
        Files { dir, files: vec![] }
    }

    /// Adds a file whose format must be recognised.
    fn with(mut self, name: &str, bytes: impl AsRef<[u8]>, format: Format) -> Files {
        let path = self.dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(recognise(&path).unwrap(), format, "{name}");
        self.files.push((path, format));
        self
    }

    fn import(&self) -> (Recording, Vec<Imported>) {
        let settings = Settings {
            zone: TimeZone::UTC,
            start_ns: BEGIN,
            interval_ns: None,
            rate_unit: 1e3,
        };
        let path = self.dir.join("all.rec");
        let writer = Writer::create(&path, meta()).unwrap();
        let (writer, told) = import(&self.files, &settings, writer).unwrap();
        writer.close(meta()).unwrap();
        (read(&path).unwrap(), told)
    }
}

fn mean_ms(recording: &Recording, target: &str) -> f64 {
    let rtts = recording.delay.iter().filter(|d| &*d.target == target);
    let rtts: Vec<f64> = rtts
        .filter_map(|d| d.rtt_ns)
        .map(|r| r as f64 / 1e6)
        .collect();
    rtts.iter().sum::<f64>() / rtts.len() as f64
}

fn count(recording: &Recording, target: &str, status: Status) -> usize {
    let rows = recording.delay.iter().filter(|d| &*d.target == target);
    rows.filter(|d| d.status == status).count()
}

fn repair(told: &Imported, word: &str) -> u64 {
    let found = told.repairs.iter().find(|(what, _)| what.contains(word));
    found.map_or(0, |(_, n)| *n)
}

#[test]
fn unpadded_milliseconds_of_the_delay_monitor_are_repaired_and_counted() {
    let text = "number,sent,received,rtt,ms,average\n\
        0,2014-05-04 15:55:00:5,2014-05-04 15:55:00:24,0.019468,19,0\n\
        1,2014-05-04 15:55:00:105,2014-05-04 15:55:00:124,0.019210,19,19\n\
        2,2014-05-04 15:55:00:999,2014-05-04 15:55:01:18,0.019100,19,19\n";
    let (r, told) = Files::new("unpadded")
        .with("delay 2014-05-04 15-55.csv", text, Format::Delay)
        .import();
    let sent: Vec<i64> = r.delay.iter().map(|d| (d.sent_ns - BEGIN) / MS).collect();
    assert_eq!(sent, [5, 105, 999]);
    assert_eq!(r.delay[0].rtt_ns, Some(19_468_000));
    assert_eq!(repair(&told[0], "leading zeros"), 3);
    assert_eq!(told[0].repairs.len(), 1, "{:?}", told[0].repairs);
    let kept = r.event.iter().find(|e| &*e.kind == "repair").unwrap();
    assert!(kept.detail.contains("\"count\":3"), "{}", kept.detail);
}

/// The thesis's table 15: a line of 154 s of silence, after which six answers carry the send time of the last packet
/// before it.
#[test]
fn a_full_buffers_old_send_times_bend_no_delay() {
    let mut text =
        String::from("5,2014-05-04 15:55:00:500,2014-05-04 15:55:00:519,0.019210,19,19\n");
    for (i, rtt) in [154.689190, 154.799308].iter().enumerate() {
        text += &format!(
            "{},2014-05-04 15:55:00:500,2014-05-04 15:57:35:{},{rtt:.6},154689,19\n",
            1400 + i,
            189 + 110 * i
        );
    }
    text += "1402,2014-05-04 15:57:35:410,2014-05-04 15:57:35:433,0.023798,23,19\n";
    text += "1404,2014-05-04 15:57:35:630,2014-05-04 15:57:47:631,12.001000,12001,19\n";
    let dropped = "1403,2014-05-04 15:57:35:520,-1,-1,-1,\n";
    let (r, told) = Files::new("stale")
        .with("delay.csv", text, Format::Delay)
        .with("dropped.csv", dropped, Format::Dropped)
        .import();
    let rows: Vec<_> = r
        .delay
        .iter()
        .map(|d| (d.seq, (d.sent_ns - BEGIN) / (100 * MS), d.rtt_ns, d.status))
        .collect();
    assert_eq!(
        rows,
        [
            (5, 5, Some(19_210_000), Status::Ok),
            (1400, 1551, None, Status::Invalid),
            (1401, 1552, None, Status::Invalid),
            (1402, 1554, Some(23_798_000), Status::Ok),
            // The time-out thread slept too long: late, not lost.
            (1404, 1556, Some(12_001_000_000), Status::Late),
            (1403, 1555, None, Status::Lost),
        ]
    );
    assert_eq!(repair(&told[0], "buffer having been full"), 2);
    // 6 to 1399: sent, recorded nowhere.
    assert!(
        told[0].notes[0].starts_with("1394 packet numbers"),
        "{:?}",
        told[0].notes
    );
}

#[test]
fn wrong_lines_are_named_and_the_rest_is_imported() {
    let text = "0,2014-05-04 15:55:00:005,2014-05-04 15:55:00:024,0.019468,19,0\n\
        1,2014-05-04 15:55:00:1\u{0}garbage\n\
        2,2014-05-04 15:61:00:205,2014-05-04 15:55:00:224,0.019468,19,0\n\
        3,2014-05-04 15:55:00:305,2014-05-04 15:55:00:324,x,19,0\n\
        4,2014-05-04 15:55:00:405,2014-05-04 15:55:00:424,0.0190";
    let (r, told) = Files::new("wrong")
        .with("delay.csv", text, Format::Delay)
        .import();
    assert_eq!(r.delay.len(), 1);
    assert_eq!(told[0].wrong, 4);
    for (line, word) in [
        (2, "garbage"),
        (3, "15:61:00:205"),
        (4, "\"x\""),
        (5, "six fields"),
    ] {
        let example = &told[0].examples[line - 2];
        assert!(
            example.starts_with(&format!("line {line}: ")) && example.contains(word),
            "{example}"
        );
    }
}

#[test]
fn traffic_keeps_its_bytes_and_a_wrapped_counter_is_no_rate() {
    // 100 ms at 800 kbit/s are 10 kB. The third line repeats the second's upload rate, as after a wrap.
    let text = "0.100000,800.0000,0.0000, 2014-05-04 15:55:00:100\n\
        0.101000,640.0000,1600.0000, 2014-05-04 15:55:00:201\n\
        0.100500,640.0000,1600.1000, 2014-05-04 15:55:00:302\n";
    let (r, told) = Files::new("traffic")
        .with("traffic.csv", text, Format::Traffic)
        .import();
    let rows: Vec<_> = r
        .traffic
        .iter()
        .map(|t| (t.t_ns - BEGIN, t.interval_ns, t.tx_bytes, t.rx_bytes))
        .collect();
    assert_eq!(
        rows,
        [
            (100 * MS, 100 * MS, Some(10_000), Some(0)),
            (201 * MS, 101 * MS, Some(8_080), Some(20_200)),
            (302 * MS, 100_500_000, None, Some(20_101)),
        ]
    );
    assert_eq!(repair(&told[0], "wrap"), 1);
}

#[test]
fn dstat_gets_its_year_from_its_head_and_loses_its_first_line() {
    let text = "\"Dstat 0.7.2 CSV output\"\n\
        \"Author:\",\"someone\",,,,\"URL:\",\"http://localhost/\"\n\
        \"Host:\",\"router\",,,,\"User:\",\"root\"\n\
        \"Cmdline:\",\"dstat -c -n -N vlan2 -t\",,,,\"Date:\",\"31 Dec 2013 23:59:58 UTC\"\n\n\
        \"total cpu usage\",,,,,,\"net/vlan2\",,\"system\"\n\
        \"usr\",\"sys\",\"idl\",\"wai\",\"hiq\",\"siq\",\"recv\",\"send\",\"time\"\n\
        1.0,1.0,98.0,0.0,0.0,0.0,0.0,0.0,31-12 23:59:58\n\
        10.0,15.0,75.0,0.0,0.0,0.0,1000.0,200.0,31-12 23:59:59\n\
        0.0,0.0,100.0,0.0,0.0,0.0,500.0,100.0,01-01 00:00:01\n";
    let (r, told) = Files::new("dstat")
        .with("dstat.csv", text, Format::Dstat)
        .import();
    let shares: Vec<_> = r.host.iter().map(|h| h.shares()).collect();
    let first = [0.25, 0.1, 0.15, 0.0, 0.0].map(Some);
    assert_eq!(shares, [first, [Some(0.0); 5]]);
    let rows: Vec<_> = r
        .traffic
        .iter()
        .map(|t| {
            (
                t.t_ns,
                t.interval_ns / SECOND,
                t.rx_bytes,
                t.tx_bytes,
                &*t.interface,
            )
        })
        .collect();
    let midnight = 1_388_534_400 * SECOND;
    assert_eq!(
        rows,
        [
            (midnight - SECOND, 1, Some(1000), Some(200), "vlan2"),
            (midnight + SECOND, 2, Some(1000), Some(200), "vlan2"),
        ]
    );
    assert_eq!(repair(&told[0], "since the host started"), 1);
}

/// dool names single processors before all of them, repeats groups in names, and has no columns of interrupts; the
/// lines are those of dool 1.3.8. pcp-dstat calls the group of all processors "total usage".
#[test]
fn the_successors_of_dstat_are_read_and_one_processor_is_not_taken_for_all() {
    let head = |tool: &str| {
        format!(
            "\"{tool} CSV output\"\n\"Author:\",\"someone\",,,,\"URL:\",\"http://localhost/\"\n\
             \"Host:\",\"vm\",,,,\"User:\",\"root\"\n\
             \"Cmdline:\",\"x\",,,,\"Date:\",\"04 May 2014 15:55:00 UTC\"\n"
        )
    };
    let dool = head("dool 1.3.8")
        + "\"cpu0 usage\",,,,,\"total cpu usage\",,,,,\"net/total\",,\"epoch\"\n\
        \"cpu0 usage:usr\",\"cpu0 usage:sys\",\"cpu0 usage:idl\",\"cpu0 usage:wai\",\"cpu0 usage:stl\",\
        \"total cpu usage:usr\",\"total cpu usage:sys\",\"total cpu usage:idl\",\"total cpu usage:wai\",\"total cpu usage:stl\",\
        \"recv\",\"send\",\"epoch\"\n\
        59.937,6.688,33.016,0.315,0.043,61.969,8.343,29.166,0.481,0.041,0,0,1399218900.426\n\
        98,2,0,0,0,50,10,30,10,0,1000,0,1399218901.426\n\
        100,0,0,0,0,40,0,60,0,0,0,0,1399218902.426\n";
    let pcp = head("pcp-dstat 6.0.3")
        + "\"total usage\",,,,,\"net/eth0\",,\"system\"\n\
        \"usr\",\"sys\",\"idl\",\"wai\",\"stl\",\"recv\",\"send\",\"time\"\n\
        1,1,98,0,0,0,0,04-05 15:55:03\n25,5,60,0,10,8,16,04-05 15:55:04\n";
    let one = head("dool 1.3.8")
        + "\"cpu0 usage\",,,,,\"net/total\",,\"system\"\n\
        \"usr\",\"sys\",\"idl\",\"wai\",\"stl\",\"recv\",\"send\",\"time\"\n\
        1,1,98,0,0,0,0,May-04 15:55:05\n90,5,5,0,0,0,0,May-04 15:55:06\n";
    let (r, _) = Files::new("dool")
        .with("dool.csv", dool, Format::Dstat)
        .with("pcp.csv", pcp, Format::Dstat)
        .with("one.csv", one, Format::Dstat)
        .import();
    let shares: Vec<_> = r.host.iter().map(|h| h.shares()).collect();
    let near = |found: &[Option<f64>; 5], want: [Option<f64>; 5]| {
        let same = found.iter().zip(want).all(|(f, w)| match (f, w) {
            (Some(f), Some(w)) => (f - w).abs() < 1e-9,
            (f, w) => f.is_none() && w.is_none(),
        });
        assert!(same, "{found:?} {want:?}");
    };
    assert_eq!(shares.len(), 3, "{shares:?}");
    near(
        &shares[0],
        [Some(0.6), Some(0.5), Some(0.1), None, Some(0.1)],
    );
    near(
        &shares[1],
        [Some(0.4), Some(0.4), Some(0.0), None, Some(0.0)],
    );
    near(
        &shares[2],
        [Some(0.4), Some(0.25), Some(0.05), None, Some(0.0)],
    );
    assert_eq!(r.traffic.len(), 4);
}

#[test]
fn irtts_losses_keep_their_direction() {
    let trip = |seq: i64, lost: &str, delay: &str| {
        format!(
            r#"{{"seqno":{seq},"lost":"{lost}","timestamps":{{"client":{{"receive":{{}},"send":{{"wall":{},"monotonic":1}}}},
            "server":{{"receive":{{"wall":0}},"send":{{}}}}}},"delay":{{{delay}}},"ipdv":{{}}}}"#,
            BEGIN + seq * 10 * MS
        )
    };
    let trips = [
        trip(0, "false", r#""receive":20000,"rtt":50000,"send":30000"#),
        trip(1, "true_up", ""),
        trip(2, "true_down", ""),
        trip(3, "true", ""),
        trip(4, "false", r#""receive":-5000,"rtt":70000,"send":75000"#),
    ];
    let text = format!(
        r#"{{"version":{{"irtt":"0.9.0","protocol":1,"json_format":1}},"system_info":{{}},
        "config":{{"local_address":"a:1","remote_address":"192.0.2.1:2112","params":{{"interval":10000000}}}},
        "stats":{{"start_time":"2014-05-04T15:55:00Z","packets_sent":5,"packets_received":2,"duplicates":0}},
        "round_trips":[{}]}}"#,
        trips.join(",")
    );
    let (r, told) = Files::new("irtt")
        .with("x.json", text, Format::Irtt)
        .import();
    let status: Vec<_> = r.delay.iter().map(|d| d.status.word()).collect();
    assert_eq!(status, ["ok", "lost_up", "lost_down", "lost", "ok"]);
    assert!((mean_ms(&r, "irtt 192.0.2.1:2112") - 0.06).abs() < 1e-9);
    assert_eq!(
        (r.delay[4].owd_up_ns, r.delay[4].owd_down_ns),
        (Some(75_000), Some(-5_000))
    );
    assert_eq!(r.delay[1].remote_rx_ns, None);
    assert_eq!(told[0].notes, [""; 0]);
}

#[test]
fn flents_delays_become_probes_and_its_rates_bytes() {
    let t = BEGIN as f64 / 1e9;
    let text = format!(
        r#"{{"version":4,"metadata":{{"NAME":"tcp_down","TITLE":"t","TIME":"2014-05-04T15:55:00.000000Z",
          "SERIES_META":{{"Ping (ms) ICMP":{{"UNITS":"ms","RUNNER":"PingRunner"}},
            "Ping (ms) UDP BE":{{"UNITS":"ms","RUNNER":"IrttRunner"}},"TCP download":{{"UNITS":"Mbit/s"}}}}}},
        "x_values":[0.0,0.5,1.0],
        "results":{{"Ping (ms) ICMP":[10.0,null,30.0],"Ping (ms) UDP BE":[1,1,1],"TCP download":[8.0,8.0,16.0],"Ping (ms) avg":[1,2,3],
          "TCP upload":[null,8.0,8.0]}},
        "raw_values":{{"Ping (ms) ICMP":[{{"t":{},"val":10.0}},{{"t":{},"val":30.5}}],
          "Ping (ms) UDP BE":[{{"seq":0,"t":{t},"val":1.5,"owd_up":1.0,"owd_down":0.5}},{{"seq":1,"t":{},"lost":true,"lost_dir":"up"}}],
          "TCP download":[{{"t":{t},"val":8.0}},{{"t":{},"val":8.0}},{{"t":{},"val":16.0}}]}}}}"#,
        t + 0.25,
        t + 0.75,
        t + 0.2,
        t + 0.5,
        t + 1.0
    );
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let (r, _) = Files::new("flent")
        .with("x.flent.gz", gz.finish().unwrap(), Format::Flent)
        .import();
    assert_eq!(mean_ms(&r, "Ping (ms) ICMP"), 20.25);
    // ping tells when the answer came, irtt when the probe left.
    let sent = |target: &str| {
        r.delay
            .iter()
            .find(|d| &*d.target == target)
            .unwrap()
            .sent_ns
            - BEGIN
    };
    assert!((sent("Ping (ms) ICMP") - 240 * MS).abs() < 1000);
    assert!(sent("Ping (ms) UDP BE").abs() < 1000);
    assert_eq!(count(&r, "Ping (ms) UDP BE", Status::LostUp), 1);
    assert_eq!(r.delay.len(), 4);
    let last = |way| r.flow.iter().rfind(|f| f.direction == way).unwrap().clone();
    // 0.5 s at 8 Mbit/s and 0.5 s at 16 Mbit/s.
    let down = last(Direction::Down).bytes_received.unwrap();
    assert!((down - 1_500_000).abs() < 10, "{down}");
    assert_eq!(last(Direction::Up).bytes_acked, Some(1_000_000));
}

#[test]
fn ping_counts_what_its_own_summary_counts() {
    let text = "PING host.example (192.0.2.1) 56(84) bytes of data.\n\
        [1399218900.023000] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=23.0 ms\n\
        [1399218900.123000] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 time=22.5 ms\n\
        [1399218900.124000] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 time=24.0 ms (DUP!)\n\
        [1399218900.300000] no answer yet for icmp_seq=3\n\
        [1399218900.390000] From 192.0.2.9 icmp_seq=4 Destination Host Unreachable\n\
        [1399218900.520000] 64 bytes from 192.0.2.1: icmp_seq=6 ttl=64 time=20.0 ms\n\
        [1399218900.530000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=330 ms\n\n\
        --- host.example ping statistics ---\n\
        8 packets transmitted, 4 received, +1 duplicates, +1 errors, 50% packet loss, time 700ms\n\
        rtt min/avg/max/mdev = 20.000/98.875/330.000/1.0 ms\n";
    let (r, told) = Files::new("ping")
        .with("p.txt", text, Format::Ping)
        .import();
    let rows: Vec<_> = r
        .delay
        .iter()
        .map(|d| (d.seq, (d.sent_ns - BEGIN) / MS, d.status.word()))
        .collect();
    assert_eq!(
        rows,
        [
            (1, 0, "ok"),
            (2, 100, "ok"),
            (2, 100, "duplicate"),
            (3, 200, "ok"),
            (4, 300, "lost"),
            (5, 400, "lost"),
            (6, 500, "ok"),
            (7, 600, "lost"),
            (8, 700, "lost"),
        ]
    );
    let ok: Vec<_> = r.delay.iter().filter(|d| d.status == Status::Ok).collect();
    let mean = ok
        .iter()
        .map(|d| d.rtt_ns.unwrap() as f64 / 1e6)
        .sum::<f64>()
        / ok.len() as f64;
    assert_eq!(mean, 98.875);
    assert_eq!(told[0].wrong, 0, "{:?}", told[0].examples);
    assert_eq!(repair(&told[0], "unreachable"), 1);
    assert_eq!(told[0].notes, [""; 0]);
}

#[test]
fn pings_sixteen_bit_numbers_go_on_past_their_end() {
    let mut text = String::from("PING 192.0.2.1: 56 data bytes\n");
    for n in 65_530..65_545 {
        if n != 65_537 {
            text += &format!(
                "64 bytes from 192.0.2.1: seq={} ttl=64 time=1.000 ms\n",
                n % 65_536
            );
        }
    }
    let (r, told) = Files::new("wrap")
        .with("p.txt", text, Format::Ping)
        .import();
    let seqs: Vec<i64> = r.delay.iter().map(|d| d.seq).collect();
    assert_eq!(seqs, (65_530..65_545).collect::<Vec<_>>());
    assert_eq!(count(&r, "192.0.2.1", Status::Lost), 1);
    assert!(told[0].notes[0].contains("no times"), "{:?}", told[0].notes);
}

#[test]
fn fping_in_each_of_its_forms_counts_what_it_counts_itself() {
    let loops = "[1399218900.00100] near : [0], 64 bytes, 1.00 ms (1.00 avg, 0% loss)\n\
        [1399218900.03000] far  : [0], timed out (NaN avg, 100% loss)\n\
        ICMP Host Unreachable from 192.0.2.9 for ICMP Echo sent to far\n\
        [1399218900.02300] near : [1], 64 bytes, 3.00 ms (2.00 avg, 0% loss)\n\
        [1399218900.05000] far  : [1], timed out (NaN avg, 100% loss)\n\
        near : duplicate for [1], 64 bytes, 4.00 ms\n\
        [1399218900.06200] near : [3], 64 bytes, 2.00 ms (2.00 avg, 25% loss)\n\n\
        near : xmt/rcv/%loss = 5/3/40%, min/avg/max = 1.00/2.00/3.00\n\
        far  : xmt/rcv/%loss = 2/0/100%\n";
    let quiet = "192.0.2.7 : 0.198 - 0.302\n192.0.2.8 : - - -\n";
    let (r, told) = Files::new("fping")
        .with("f1.txt", loops, Format::Fping)
        .with("f2.txt", quiet, Format::Fping)
        .import();
    let near: Vec<_> = r
        .delay
        .iter()
        .filter(|d| &*d.target == "near" && d.status != Status::Duplicate)
        .map(|d| (d.seq, (d.sent_ns - BEGIN) / MS, d.status.word()))
        .collect();
    assert_eq!(
        near,
        [
            (0, 0, "ok"),
            (1, 20, "ok"),
            (2, 40, "lost"),
            (3, 60, "ok"),
            (4, 80, "lost")
        ]
    );
    assert_eq!(count(&r, "near", Status::Duplicate), 1);
    assert_eq!(count(&r, "far", Status::Lost), 2);
    assert_eq!(
        (
            count(&r, "192.0.2.7", Status::Ok),
            count(&r, "192.0.2.7", Status::Lost)
        ),
        (2, 1)
    );
    assert_eq!(mean_ms(&r, "192.0.2.7"), 0.25);
    assert_eq!(count(&r, "192.0.2.8", Status::Lost), 3);
    assert_eq!(told[0].wrong + told[1].wrong, 0, "{:?}", told[0].examples);
    assert_eq!(repair(&told[0], "unreachable"), 1);
}

/// A database of three steps of 300 s with four pings, of which the third step has seen one loss and the second none
/// at all was written.
fn rrd(cut: usize) -> Vec<u8> {
    let mut b = b"RRD\x000003\0".to_vec();
    b.resize(16, 0);
    b.extend(8.642135E130f64.to_le_bytes());
    for n in [6u64, 2, 300] {
        b.extend(n.to_le_bytes());
    }
    b.resize(b.len() + 80, 0);
    let name = |b: &mut Vec<u8>, text: &str| {
        let end = b.len() + 20;
        b.extend(text.as_bytes());
        b.resize(end, 0);
    };
    for source in ["loss", "median", "ping1", "ping2", "ping3", "ping4"] {
        name(&mut b, source);
        name(&mut b, "GAUGE");
        b.resize(b.len() + 80, 0);
    }
    // A coarser archive first, which must be passed over.
    for (function, rows, steps) in [("MAX", 2u64, 12u64), ("AVERAGE", 3, 1)] {
        name(&mut b, function);
        b.resize(b.len() + 4, 0);
        b.extend(rows.to_le_bytes());
        b.extend(steps.to_le_bytes());
        b.resize(b.len() + 80, 0);
    }
    b.extend((BEGIN as u64 / SECOND as u64 + 7).to_le_bytes());
    b.resize(b.len() + 8 + 6 * 112 + 6 * 2 * 80, 0);
    b.extend(0u64.to_le_bytes());
    b.extend(0u64.to_le_bytes());
    b.resize(b.len() + 2 * 6 * 8, 0);
    let nan = f64::NAN;
    for row in [
        // The newest is at the pointer, the oldest behind it.
        [1.0, 0.030, nan, 0.020, 0.030, 0.040],
        [0.0, 0.012, 0.010, 0.011, 0.012, 0.013],
        [nan; 6],
    ] {
        row.iter().for_each(|v: &f64| b.extend(v.to_le_bytes()));
    }
    b.truncate(b.len() - cut);
    b
}

#[test]
fn smokepings_rounds_become_distributions_at_their_times() {
    let dump = format!(
        "<?xml version=\"1.0\"?>\n<rrd>\n<version>0003</version><step>300</step> <!-- Seconds -->\n\
        <lastupdate>{}</lastupdate>\n{}\
        <rra><cf>AVERAGE</cf><pdp_per_row>12</pdp_per_row><database><row><v>NaN</v></row></database></rra>\n\
        <rra><cf>AVERAGE</cf><pdp_per_row>1</pdp_per_row><cdp_prep><ds><value>NaN</value></ds></cdp_prep><database>\n\
        <row><v>0.0000000000e+00</v><v>1.2e-02</v><v>1.0000000000e-02</v><v>1.1e-02</v><v>1.2e-02</v><v>1.3e-02</v></row>\n\
        <row><v>NaN</v><v>NaN</v><v>NaN</v><v>NaN</v><v>NaN</v><v>NaN</v></row>\n\
        <row><v>1.0</v><v>3.0e-02</v><v>NaN</v><v>2.0e-02</v><v>3.0e-02</v><v>4.0e-02</v></row>\n\
        </database></rra></rrd>",
        BEGIN / SECOND + 7,
        ["loss", "median", "ping1", "ping2", "ping3", "ping4"]
            .map(|n| format!("<ds><name> {n} </name></ds>\n"))
            .concat(),
    );
    let (a, _) = Files::new("rrd")
        .with("home.rrd", rrd(0), Format::Rrd)
        .import();
    let (b, _) = Files::new("dump")
        .with("home.xml", dump, Format::Rrd)
        .import();
    assert_eq!(a.distribution, b.distribution);
    let rows: Vec<_> = a
        .distribution
        .iter()
        .map(|d| {
            (
                (d.t_ns - BEGIN) / SECOND,
                d.sent_packets,
                d.ok_packets,
                d.lost_packets,
            )
        })
        .collect();
    assert_eq!(rows, [(-900, 4, 4, 0), (-300, 4, 3, 1)]);
    assert_eq!(
        (&*a.distribution[0].target, a.distribution[0].interval_ns),
        ("home", 300 * SECOND)
    );
    let h = Histogram::from_base64(&a.distribution[1].histogram).unwrap();
    assert_eq!(h.len(), 3);
    assert!((h.quantile_ms(0.5).unwrap() - 30.0).abs() < 0.05);
}

#[test]
fn damaged_files_say_what_is_wrong_and_a_wrong_kind_is_refused() {
    let dir = Scratch::new("damaged");
    let settings = Settings {
        zone: TimeZone::UTC,
        start_ns: 0,
        interval_ns: None,
        rate_unit: 1e3,
    };
    let said = |name: &str, bytes: &[u8], format| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        let writer = Writer::create(dir.join(format!("{name}.rec")), meta()).unwrap();
        let result = import(&[(path, format)], &settings, writer);
        result.err().expect("a damaged file").to_string()
    };
    assert!(said("cut.rrd", &rrd(100), Format::Rrd).contains("in the middle of its rows"));
    assert!(said("head.rrd", &rrd(0)[..40], Format::Rrd).contains("it ends at byte 40"));
    assert!(
        said("x.json", b"{\"round_trips\":[", Format::Irtt)
            .contains("x.json does not read as irtt")
    );
    assert!(said("x.flent", b"{}", Format::Flent).contains("metadata"));
    let path = dir.join("letter.txt");
    std::fs::write(&path, "Dear Sir or Madam,\n").unwrap();
    let unknown = recognise(&path).unwrap_err().to_string();
    assert!(
        unknown.contains("\"Dear Sir") && unknown.contains("--format"),
        "{unknown}"
    );
}

/// A small sample of each format, as its tool would write it.
fn samples() -> Vec<(Format, Vec<u8>)> {
    let delay: String = (0..40)
        .map(|i| {
            format!(
                "{i},2014-05-04 15:55:{i:02}:{i},2014-05-04 15:55:{i:02}:{},0.019000,19,19\n",
                i + 19
            )
        })
        .collect();
    let dropped = "3,2014-05-04 15:55:03:3,-1,-1,-1,\n9,2014-05-04 15:55:09:3,-1,-1,-1,\n";
    let traffic = "0.100000,800.0,0.0, 2014-05-04 15:55:00:100\n0.101000,640.0,1600.0, 2014-05-04 15:55:00:201\n";
    let dstat = "\"Dstat 0.7.2 CSV output\"\n\"Date:\",\"04 May 2014 15:55:00 UTC\"\n\"total cpu usage\",,,\"net/w\",,\"system\"\n\
        \"usr\",\"sys\",\"idl\",\"recv\",\"send\",\"time\"\n1,1,98,5,5,04-05 15:55:01\n1,1,98,5,5,04-05 15:55:02\n";
    let irtt = r#"{"config":{"remote_address":"a:1","params":{"interval":10000000}},
        "stats":{"start_time":"2014-05-04T15:55:00Z","packets_sent":2,"packets_received":1},
        "round_trips":[{"seqno":0,"lost":"false","delay":{"rtt":50000,"send":1,"receive":2}},{"seqno":1,"lost":"true_up"}]}"#;
    let flent = r#"{"version":4,"metadata":{"TIME":"2014-05-04T15:55:00Z","SERIES_META":{"p":{"UNITS":"ms"}}},
        "x_values":[0.0,0.5],"results":{"p":[1.0,2.0],"TCP upload":[1.0,2.5]},
        "raw_values":{"p":[{"t":1399218900.5,"val":10.5},{"t":1399218901.5,"val":11.5,"seq":7}]}}"#;
    let ping = "PING h (192.0.2.1) 56(84) bytes of data.\n[1399218900.023] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=23.0 ms\n\
        [1399218901.1] 64 bytes from 192.0.2.1: icmp_seq=4 ttl=64 time=22.5 ms\n\n5 packets transmitted, 2 received, 60% packet loss, time 4000ms\n";
    let fping = "[1399218900.00100] near : [0], 64 bytes, 1.00 ms (1.00 avg, 0% loss)\n[1399218900.1] near : [5], timed out (NaN avg, 100% loss)\n\
        near : xmt/rcv/%loss = 7/1/85%, min/avg/max = 1.00/1.00/1.00\n";
    vec![
        (Format::Delay, delay.into_bytes()),
        (Format::Dropped, dropped.into()),
        (Format::Traffic, traffic.into()),
        (Format::Dstat, dstat.into()),
        (Format::Irtt, irtt.into()),
        (Format::Flent, flent.into()),
        (Format::Fping, fping.into()),
        (Format::Ping, ping.into()),
        (Format::Rrd, rrd(0)),
        (Format::Atlas, ATLAS.into()),
        (Format::Qlog, QLOG.into()),
    ]
}

/// Two pings and a traceroute as the API of RIPE Atlas gives them, made by hand.
const ATLAS: &str = r#"[
{"fw":5080,"mver":"2.6.2","lts":12,"dst_name":"far.example","af":4,"dst_addr":"192.0.2.1","src_addr":"10.0.0.2","proto":"ICMP","ttl":57,
 "size":48,"result":[{"rtt":21.5},{"x":"*"},{"rtt":22.25},{"rtt":23.0,"dup":1}],"dup":1,"rcvd":2,"sent":3,"min":21.5,"max":22.25,"avg":21.875,
 "msm_id":1001,"prb_id":77,"timestamp":1399218900,"msm_name":"Ping","from":"10.0.0.2","type":"ping","group_id":1001,"step":240},
{"fw":5080,"lts":12,"dst_name":"far.example","proto":"ICMP","result":[{"error":"sendto failed"},{"late":2},{"rtt":21.0}],
 "msm_id":1001,"prb_id":77,"timestamp":1399219140,"type":"ping"},
{"fw":5080,"msm_id":5001,"prb_id":77,"timestamp":1399219141,"type":"traceroute","result":[]}]"#;

/// Head and three events of a QUIC client, as JSON text sequences, made by hand.
const QLOG: &str = "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"client\"},\"common_fields\":{\"time_format\":\"relative\",\"reference_time\":1399218900000.0}}}\n\
\u{1e}{\"time\":5.0,\"name\":\"transport:packet_sent\",\"data\":{}}\n\
\u{1e}{\"time\":20.5,\"name\":\"recovery:metrics_updated\",\"data\":{\"smoothed_rtt\":21.5,\"min_rtt\":20.0,\"congestion_window\":12000}}\n\
\u{1e}{\"time\":41.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"congestion_window\":13200}}\n";

#[test]
fn results_of_atlas_are_probes_a_second_apart() {
    let (recording, told) = Files::new("atlas")
        .with("atlas.json", ATLAS, Format::Atlas)
        .import();
    let rows: Vec<_> = recording.delay.iter().collect();
    let fates: Vec<_> = rows.iter().map(|d| (d.seq, d.rtt_ns, d.status)).collect();
    assert_eq!(
        fates,
        [
            (0, Some(21_500_000), Status::Ok),
            (1, None, Status::Lost),
            (2, Some(22_250_000), Status::Ok),
            (3, Some(23_000_000), Status::Duplicate),
            (3, Some(21_000_000), Status::Ok),
        ]
    );
    assert!(rows.iter().all(|d| &*d.target == "atlas 77 far.example"));
    assert_eq!(rows[2].sent_ns, 1_399_218_902_000_000_000);
    let notes = told[0].notes.join("; ");
    assert!(
        notes.contains("\"traceroute\"") && notes.contains("earlier result"),
        "{notes}"
    );
}

#[test]
fn qlog_in_both_forms_of_time_is_the_same() {
    let begin = 1_399_218_900_000_000_000i64;
    let whole = r#"{"qlog_version":"0.3","traces":[{"vantage_point":{"type":"server"},"common_fields":{"time_format":"absolute"},"events":[
        {"time":1399218900020.5,"name":"recovery:metrics_updated","data":{"smoothed_rtt":21.5,"min_rtt":20,"congestion_window":12000}},
        {"time":1399218900041.0,"name":"recovery:metrics_updated","data":{"congestion_window":13200,"smoothed_rtt":-1}}]}]}"#;
    let later = r#"{"qlog_version":"0.4","traces":[{"vantage_point":{"type":"server"},"common_fields":{"time_format":"relative_to_previous_event",
        "reference_time":{"clock_type":"system","epoch":"2014-05-04T15:55:00Z"}},"events":[
        {"time":5.0,"name":"quic:packet_sent","data":{}},
        {"time":15.5,"name":"quic:recovery_metrics_updated","data":{"smoothed_rtt":21.5,"min_rtt":20,"congestion_window":12000}},
        {"time":20.5,"name":"quic:recovery_metrics_updated","data":{"congestion_window":13200}}]}]}"#;
    for (name, text, direction) in [
        ("sequence", QLOG, Direction::Up),
        ("absolute", whole, Direction::Down),
        ("deltas", later, Direction::Down),
    ] {
        let (recording, _) = Files::new(name).with("a.qlog", text, Format::Qlog).import();
        let flows = &recording.flow;
        assert_eq!(flows.len(), 2, "{name}");
        assert!((flows[0].t_ns - begin - 20_500_000).abs() < 1_000, "{name}");
        assert!((flows[1].t_ns - begin - 41_000_000).abs() < 1_000, "{name}");
        let state = |i: usize| (flows[i].srtt_ns, flows[i].min_rtt_ns, flows[i].cwnd_bytes);
        assert_eq!(
            state(0),
            (Some(21_500_000), Some(20_000_000), Some(12_000)),
            "{name}"
        );
        assert_eq!(
            state(1),
            (Some(21_500_000), Some(20_000_000), Some(13_200)),
            "{name}"
        );
        assert_eq!(flows[0].direction, direction, "{name}");
    }
    let (recording, _) = Files::new("both")
        .with("a.qlog", QLOG, Format::Qlog)
        .with("b.qlog", whole, Format::Qlog)
        .import();
    let flows: Vec<i64> = recording.flow.iter().map(|f| f.flow).collect();
    assert_eq!(flows, [0, 0, 1, 1]);
    let unplaced = r#"{"qlog_version":"0.3","traces":[{"common_fields":{"time_format":"relative"},"events":[
        {"time":1,"name":"recovery:metrics_updated","data":{"smoothed_rtt":21.5}}]}]}"#;
    let (_, told) = Files::new("unplaced")
        .with("a.qlog", unplaced, Format::Qlog)
        .import();
    assert!(told[0].notes[0].contains("unknown begin"));
}

/// Truncated, overwritten and doubled files: an import either takes what makes sense or says what does not; it neither
/// breaks off nor swells.
#[test]
fn damage_is_told_and_never_brings_the_import_down() {
    let seed = std::env::var("IMPORT_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(4711);
    let rounds: usize = std::env::var("IMPORT_ROUNDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(15);
    let mut draws = base::rng::Streams::new(seed).stream("damage");
    let mut pick = |below: usize| (base::rng::uniform(&mut draws) * below as f64) as usize;
    let settings = Settings {
        zone: TimeZone::UTC,
        start_ns: BEGIN,
        interval_ns: None,
        rate_unit: 1e3,
    };
    let dir = Scratch::new("swell");
    for (format, whole) in samples() {
        for round in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..=pick(4) {
                let at = pick(bytes.len().max(1));
                match pick(4) {
                    0 => bytes.truncate(at),
                    1 if at < bytes.len() => bytes[at] = pick(256) as u8,
                    // A digit more: numbers grow by powers of ten.
                    2 => (0..pick(12)).for_each(|_| bytes.insert(at.min(bytes.len()), b'9')),
                    _ => bytes.extend_from_within(at.min(bytes.len())..),
                }
            }
            let path = dir.join("file");
            std::fs::write(&path, &bytes).unwrap();
            let recording = dir.join("damaged.rec");
            let writer = Writer::create(&recording, meta()).unwrap();
            match import(&[(path, format)], &settings, writer) {
                Ok((writer, told)) => {
                    assert!(
                        told[0].rows < 2_100_000,
                        "seed {seed}, {format:?}, round {round}"
                    );
                    // Closing waits for the disk: now and then is enough.
                    if round % 5 == 0 {
                        writer.close(meta()).unwrap();
                        read(&recording).unwrap();
                    }
                }
                Err(e) => assert!(e.to_string().contains("file"), "{e}"),
            }
            std::fs::remove_dir_all(&recording).unwrap();
        }
    }
}
