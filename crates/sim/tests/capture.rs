//! Captures of simulated links: they show what happened and change nothing of it.

use base::Time;
use measure::capture::frame::{self, Transport};
use measure::capture::{Reader, Record};
use sim::capture::{self, Capture};
use sim::network::Blind;
use sim::{Draft, Scenario, plan};

/// Everything that a link can do to packets, in a row of links where some are plain.
const MIXED: &str = r#"
duration = "10 s"
topology = "parking_lot:hops=2"
[link]
rate = "2 Mbit/s"
delay = "10 ms"
queue = "codel:ecn=true"
loss = "random:probability=0.004"
duplicate = 0.01
reorder = "late:probability=0.01,delay=5ms"
[tcp]
ecn = true
[[flow]]
kind = "bulk"
count = 3
[[flow]]
kind = "bulk"
name = "scalable"
tcp = { controller = "prague" }
[[flow]]
kind = "poisson"
rate = "500 kbit/s"
size = "300 B"
[[flow]]
kind = "probe"
"#;

fn scenario(text: &str) -> Scenario {
    Draft::new(text).unwrap().finish().unwrap()
}

fn captured(scenario: &Scenario, names: &[&str], snaplen: u32) -> Vec<Vec<u8>> {
    let points = names
        .iter()
        .map(|name| (capture::find(scenario, name).unwrap(), Vec::new()));
    capture::run(scenario, 1, snaplen, points.collect(), &mut |_| true).unwrap()
}

fn each_record(file: &[u8], mut take: impl FnMut(&Record)) {
    let mut reader = Reader::new(file).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        take(&record);
    }
    assert!(reader.damage().is_empty());
}

#[test]
fn a_capture_changes_nothing_of_what_happens() {
    let plain = MIXED.replace("loss =", "#").replace("duplicate =", "#");
    let plain = plain
        .replace("reorder =", "#")
        .replace("codel:ecn=true", "fifo:packets=20");
    for text in [MIXED, &plain] {
        let scenario = scenario(text);
        let end = Time::ZERO + scenario.duration;
        let mut alone = plan::build(&scenario, 1).unwrap();
        alone.network.run_until(end, &mut Blind);
        let mut watched = plan::build(&scenario, 1).unwrap();
        let names = capture::links(&scenario).unwrap();
        let points = names
            .iter()
            .map(|name| (capture::find(&scenario, name).unwrap(), Vec::new()))
            .collect();
        let mut all = Capture::new(&scenario, &mut watched, 1, 128, points).unwrap();
        watched.network.run_until(end, &mut all);
        for (link, name) in names.iter().enumerate() {
            let stats = |plan: &plan::Plan| plan.network.link_stats(link);
            assert_eq!(stats(&alone), stats(&watched), "{name}");
        }
        for (a, b) in alone
            .network
            .connections
            .iter()
            .zip(&watched.network.connections)
        {
            assert_eq!(a.sender.stats(), b.sender.stats());
            assert_eq!(a.receiver.received(), b.receiver.received());
            assert_eq!(a.delay, b.delay);
        }
        assert!(all.finish().unwrap().iter().all(|file| file.len() > 10_000));
    }
}

#[test]
fn a_capture_holds_each_packet_of_its_link_once_and_of_the_way_back() {
    let scenario = scenario(MIXED);
    let names = ["link/0", "reverse/0", "s1"];
    let files = captured(&scenario, &names, 128);
    let mut plan = plan::build(&scenario, 1).unwrap();
    plan.network
        .run_until(Time::ZERO + scenario.duration, &mut Blind);
    for (name, file) in names.iter().zip(&files) {
        let point = capture::find(&scenario, name).unwrap();
        let offered = plan.network.link_stats(point.link).offered;
        let delivered = plan.network.link_stats(point.back.unwrap()).delivered;
        let (mut packets, mut bytes, mut last) = (0, 0, 0);
        each_record(file, |r| {
            packets += 1;
            let frame = frame::parse(r).unwrap();
            bytes += u64::from(r.original_len) - 14;
            if let Transport::Tcp(tcp) = &frame.transport
                && tcp.has(frame::flag::SYN)
            {
                // Its options have no room in a header of 52 bytes.
                bytes -= 8;
            }
            assert!(r.t_ns.unwrap() >= last);
            last = r.t_ns.unwrap();
        });
        assert_eq!(packets, offered.packets + delivered.packets, "{name}");
        assert_eq!(bytes, (offered.bytes + delivered.bytes).get(), "{name}");
    }
}

#[test]
fn a_packet_says_the_same_wherever_it_is_seen_but_for_its_hops_and_marks() {
    let scenario = scenario(MIXED);
    let files = captured(&scenario, &["s0", "d0"], 128);
    let [sent, arrived] = [0, 1].map(|i: usize| {
        let mut seen = std::collections::BTreeMap::new();
        each_record(&files[i], |r| {
            let f = frame::parse(r).unwrap();
            let Transport::Tcp(tcp) = f.transport else {
                return;
            };
            let said = (
                tcp.ack,
                tcp.flags,
                tcp.window,
                tcp.checksum,
                tcp.options.to_vec(),
            );
            seen.insert(
                (f.src, f.dst, f.id, tcp.seq),
                (said, f.ttl, r.t_ns.unwrap()),
            );
        });
        seen
    });
    let mut both = 0;
    for (key, (said, ttl, t)) in &arrived {
        let Some((first, first_ttl, first_t)) = sent.get(key) else {
            continue;
        };
        assert_eq!(said, first);
        // Four links lie between the hosts, of which each capture sees one end.
        let (fewer, later) = match t > first_t {
            true => (i32::from(*first_ttl) - i32::from(*ttl), t - first_t),
            false => (i32::from(*ttl) - i32::from(*first_ttl), first_t - t),
        };
        assert_eq!(fewer, 3);
        assert!(later > 20_000_000);
        both += 1;
    }
    assert!(both > 300, "{both}");
}

#[test]
fn a_packet_that_was_dropped_or_marked_says_so() {
    let scenario = scenario(MIXED);
    let file = &captured(&scenario, &["link/0"], 128)[0];
    let times = |text: &str| {
        let windows = file.windows(text.len());
        windows.filter(|w| *w == text.as_bytes()).count() as u64
    };
    let mut plan = plan::build(&scenario, 1).unwrap();
    plan.network
        .run_until(Time::ZERO + scenario.duration, &mut Blind);
    let stats = plan.network.link_stats(0);
    use link::qdisc::Reason;
    let (lost, late) = (
        stats.dropped_for(Reason::LineLoss).packets,
        stats.dropped_for(Reason::TargetExceeded).packets,
    );
    assert!(lost > 5 && stats.marked.packets > 10, "{stats:?}");
    assert_eq!(times("lost on the link"), lost);
    assert_eq!(times("dropped by the queue: the delay target"), late);
    // A packet that was marked may have been lost after it, or not have come out yet.
    let marked = times("marked CE by the queue");
    assert!((stats.marked.packets - 5..=stats.marked.packets).contains(&marked));
}

#[test]
fn a_point_is_a_link_or_a_host_with_one() {
    let scenario = scenario(MIXED);
    let names = capture::links(&scenario).unwrap();
    for (i, name) in names.iter().enumerate() {
        let point = capture::find(&scenario, name).unwrap();
        assert_eq!((point.link, point.back), (i, Some(i ^ 1)));
    }
    let of = |name| capture::find(&scenario, name).map_err(|e| e.to_string());
    assert_eq!(of("s0"), of("s0>r0"));
    assert!(of("r1").unwrap_err().contains("name one of them"));
    assert!(
        of("lnik/0")
            .unwrap_err()
            .contains("Did you mean \"link/0\"?")
    );
}

#[test]
fn a_transfer_that_ends_closes_in_both_directions() {
    let scenario = scenario(
        r#"
        duration = "5 s"
        link = { rate = "2 Mbit/s", delay = "10 ms", queue = "fifo:packets=10" }
        tcp = { ecn = true }
        flow = [{ kind = "bulk", size = "500001 B" }]
        "#,
    );
    let file = &captured(&scenario, &["s0"], 128)[0];
    let (mut first, mut fins, mut last) = (None, Vec::new(), None);
    each_record(file, |r| {
        let frame = frame::parse(r).unwrap();
        let Transport::Tcp(tcp) = frame.transport else {
            return;
        };
        let own = tcp.dst_port < tcp.src_port;
        first.get_or_insert(tcp.seq);
        let said = (own, tcp.seq, tcp.ack, tcp.payload, tcp.flags);
        if tcp.has(frame::flag::FIN) {
            fins.push(said);
        }
        last = Some(said);
    });
    // Payload begins behind the SYN and is 500 001 bytes; a FIN takes a number, like a SYN.
    let end = first.unwrap().wrapping_add(1 + 500_001);
    let [(true, seq, _, payload, _), (false, answer, ack, 0, _)] = fins[..] else {
        panic!("{fins:?}");
    };
    assert_eq!(seq.wrapping_add(payload), end);
    assert_eq!(ack, end.wrapping_add(1));
    let closing = (
        true,
        end.wrapping_add(1),
        answer.wrapping_add(1),
        0,
        frame::flag::ACK,
    );
    assert_eq!(last, Some(closing));
}
