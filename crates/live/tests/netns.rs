//! The emulator on real packets: namespaces, veth pairs and the kernel's own UDP and TCP. Needs root or
//! user namespaces; a skip says why, and TAILBACK_REQUIRE_NETNS=1 turns a skip into a failure.
//!
//! Times are compared with margins that a busy host does not break; how exact an idle one is, the
//! benchmark in `bench/emulate.sh` measures.

use base::record::Row;
use link::LinkSpec;
use live::clock::{Clock, mono_ns, wall_minus_mono_ns};
use live::emulate::{self, Emulation, FAR_V4, FAR_V6, NEAR_V4, NEAR_V6, Options, Summary};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, recvmsg,
    setsockopt, sockopt,
};
use socket2::SockRef;
use std::io::{IoSliceMut, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Instant;
use testkit::line::spec as link;
use testkit::skip;

/// The emulation, or nothing where this system does not allow one.
fn start(hops: &[LinkSpec]) -> Option<Emulation> {
    testkit::line::start(hops)
}

const FAST: &str = "rate = \"1 Gbit/s\"\nqueue = \"fifo:bytes=10MB\"";

/// A socket of `from`'s side that has the address of the other as its peer.
fn udp(ns: &emulate::NetNs, own: IpAddr) -> UdpSocket {
    let socket = ns
        .run(|| UdpSocket::bind((own, 0)))
        .expect("enters")
        .expect("binds");
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).expect("stamps");
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(5)))
        .expect("a time-out");
    socket
}

/// When the next datagram reached the kernel, which stamps it even where this thread is not awake to see it.
fn arrival(socket: &UdpSocket) -> Option<i64> {
    let mut buffer = [0; 2000];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let none = MsgFlags::empty();
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), none).ok()?;
    let stamp = message
        .cmsgs()
        .expect("control messages")
        .find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(t) => {
                Some(t.tv_sec() * 1_000_000_000 + t.tv_nsec())
            }
            _ => None,
        });
    // The kernel begins to stamp some milliseconds after it was asked to.
    Some(stamp.map_or_else(mono_ns, |wall| wall - wall_minus_mono_ns()))
}

fn pair(emulation: &Emulation, near: IpAddr, far: IpAddr) -> (UdpSocket, UdpSocket) {
    let (a, b) = (udp(emulation.near(), near), udp(emulation.far(), far));
    a.connect(b.local_addr().expect("bound")).expect("connects");
    b.connect(a.local_addr().expect("bound")).expect("connects");
    (a, b)
}

fn checked(summary: &Summary) {
    for d in [&summary.up, &summary.down] {
        assert_eq!(
            d.arrived_packets + d.duplicated_packets,
            d.delivered_packets + d.dropped_total() + d.waiting_packets,
            "packets vanish: {d:?}"
        );
        assert_eq!(d.host_lost_packets, 0, "{d:?}");
    }
}

#[test]
fn udp_takes_the_links_delay_each_way_over_both_versions_of_ip() {
    testkit::real_time_beside(|| {
        let up = format!("{FAST}\ndelay = \"30 ms\"");
        let down = format!("{FAST}\ndelay = \"10 ms\"");
        let Some(emulation) = start(&[link(&up, &down)]) else {
            return;
        };
        for (near, far) in [
            (IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4)),
            (IpAddr::V6(NEAR_V6), IpAddr::V6(FAR_V6)),
        ] {
            let (a, b) = pair(&emulation, near, far);
            let mut smallest = [i64::MAX; 2];
            for i in 0..20u8 {
                for (way, (from, to)) in [(&a, &b), (&b, &a)].into_iter().enumerate() {
                    let sent = mono_ns();
                    from.send(&[i; 100]).expect("sends");
                    let mut buffer = [0; 2000];
                    let n = to.recv(&mut buffer).expect("arrives");
                    smallest[way] = smallest[way].min(mono_ns() - sent);
                    assert_eq!(&buffer[..n], &[i; 100]);
                }
            }
            // 128 bytes at 1 Gbit/s are a microsecond; the rest is the host.
            assert!(
                (30_000_000..32_000_000).contains(&smallest[0]),
                "up {smallest:?}"
            );
            assert!(
                (10_000_000..12_000_000).contains(&smallest[1]),
                "down {smallest:?}"
            );
        }
        let summary = emulation.stop().expect("stops");
        eprintln!("{summary}");
        checked(&summary);
        assert_eq!(
            (summary.up.arrived_packets, summary.down.arrived_packets),
            (40, 40)
        );
    });
}

#[test]
fn a_flood_comes_out_at_the_links_rate() {
    testkit::real_time_beside(|| {
        let slow = "rate = \"2 Mbit/s\"\nqueue = \"fifo:packets=20\"";
        let Some(emulation) = start(&[link(slow, FAST)]) else {
            return;
        };
        let (a, b) = pair(&emulation, IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4));
        b.set_read_timeout(Some(std::time::Duration::from_millis(500)))
            .expect("a time-out");
        let sender = std::thread::spawn(move || {
            // 1000 bytes with their headers: 4 ms each at 2 Mbit/s. Offered twice as fast, for 1.2 s.
            for _ in 0..600 {
                a.send(&[0; 972]).expect("sends");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let arrivals: Vec<i64> = std::iter::from_fn(|| arrival(&b)).collect();
        sender.join().expect("sends all");
        let summary = emulation.stop().expect("stops");
        checked(&summary);
        assert_eq!(summary.up.arrived_packets, 600);
        assert!(
            summary.up.dropped_packets.contains_key("overlimit"),
            "{summary}"
        );
        let lasted = (arrivals[arrivals.len() - 1] - arrivals[0]) as f64;
        let bps = (arrivals.len() - 1) as f64 * 8000.0 / (lasted / 1e9);
        // A host that was held up just then may have delivered the first or the last late; it says how late at most.
        let held_up = summary.lateness_max_ns.expect("packets left") as f64 / lasted;
        assert!(
            (bps / 2e6 - 1.0).abs() < 0.01 + held_up,
            "{bps} bit/s; {summary}"
        );
    });
}

#[test]
fn a_queue_of_51_packets_holds_51_and_drops_the_rest() {
    testkit::real_time_beside(|| {
        let slow = "rate = \"500 kbit/s\"\nqueue = \"fifo:packets=51\"";
        for _ in 0..5 {
            let Some(emulation) = start(&[link(slow, FAST)]) else {
                return;
            };
            let (a, b) = pair(&emulation, IpAddr::V6(NEAR_V6), IpAddr::V6(FAR_V6));
            b.set_read_timeout(Some(std::time::Duration::from_millis(500)))
                .expect("a time-out");
            // One is in transmission for 24 ms, 51 wait, the other 48 find no room: if all come within that time.
            let sent = mono_ns();
            for i in 0..100u8 {
                a.send(&[i; 1452]).expect("sends");
            }
            if mono_ns() - sent > 20_000_000 {
                // This host held up the sender for so long that the line has taken more. Once more.
                continue;
            }
            let mut got = Vec::new();
            let mut buffer = [0; 2000];
            while b.recv(&mut buffer).is_ok() {
                got.push(buffer[0]);
            }
            assert_eq!(got, (0..52).collect::<Vec<u8>>());
            let summary = emulation.stop().expect("stops");
            checked(&summary);
            assert_eq!(summary.up.dropped_packets.get("overlimit"), Some(&48));
            return;
        }
        panic!("this host took more than 20 ms to send 100 packets, five times over");
    });
}

#[test]
fn a_chain_adds_its_delays_and_its_slowest_hop_is_the_bottleneck() {
    testkit::real_time_beside(|| {
        let hop = |rate: &str, ms: u32| {
            link(
                &format!("rate = \"{rate}\"\ndelay = \"{ms} ms\""),
                &format!("rate = \"{rate}\"\ndelay = \"{ms} ms\""),
            )
        };
        let Some(emulation) = start(&[
            hop("100 Mbit/s", 5),
            hop("4 Mbit/s", 10),
            hop("50 Mbit/s", 7),
        ]) else {
            return;
        };
        let (a, b) = pair(&emulation, IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4));
        for (from, to) in [(&a, &b), (&b, &a)] {
            let mut first = i64::MAX;
            let mut gaps = Vec::new();
            for _ in 0..5 {
                let sent = mono_ns();
                for _ in 0..20 {
                    from.send(&[0; 972]).expect("sends");
                }
                let arrivals: Vec<i64> = (0..20).map(|_| arrival(to).expect("arrives")).collect();
                first = first.min(arrivals[0] - sent);
                gaps.push((arrivals[19] - arrivals[0]) as f64 / 19.0);
            }
            // Propagation 22 ms; 1000 bytes: 2 ms at 4 Mbit/s, 0.08 and 0.16 at the others.
            assert!((24_200_000..26_500_000).contains(&first), "{first} ns");
            gaps.sort_by(f64::total_cmp);
            assert!((gaps[2] / 2e6 - 1.0).abs() < 0.05, "gaps of {gaps:?} ns");
        }
        checked(&emulation.stop().expect("stops"));
    });
}

#[test]
fn a_mark_reaches_the_receiver_in_the_real_header() {
    testkit::real_time_beside(|| {
        let slow = "rate = \"2 Mbit/s\"\nqueue = \"codel:target=1ms,interval=20ms,ecn=true\"";
        let Some(emulation) = start(&[link(slow, slow)]) else {
            return;
        };
        for (near, far) in [
            (IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4)),
            (IpAddr::V6(NEAR_V6), IpAddr::V6(FAR_V6)),
        ] {
            let (a, b) = pair(&emulation, near, far);
            const ECT0: u32 = 2;
            let (sends, receives) = (SockRef::from(&a), SockRef::from(&b));
            let set = if near.is_ipv4() {
                sends
                    .set_tos_v4(ECT0)
                    .and_then(|()| receives.set_recv_tos_v4(true))
            } else {
                sends
                    .set_tclass_v6(ECT0)
                    .and_then(|()| receives.set_recv_tclass_v6(true))
            };
            set.expect("marks are sent and told");
            for _ in 0..60 {
                a.send(&[0; 972]).expect("sends");
            }
            let seen: Vec<u8> = (0..60).map(|_| receive_tos(&b) & 3).collect();
            let marks = seen.iter().filter(|ecn| **ecn == 3).count();
            assert!(
                marks > 0 && seen.iter().all(|ecn| *ecn >= 2),
                "{near}: {seen:?}"
            );
        }
        let summary = emulation.stop().expect("stops");
        checked(&summary);
        // A wrong checksum would have lost the marked packets on the way to the receiver.
        assert_eq!(
            (summary.up.delivered_packets, summary.up.dropped_total()),
            (120, 0)
        );
        assert!(summary.up.marked_packets > 0);
    });
}

/// The TOS or traffic class of the next datagram.
fn receive_tos(socket: &UdpSocket) -> u8 {
    let mut buffer = [0; 2000];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let mut space = nix::cmsg_space!(i32, nix::sys::time::TimeSpec);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::empty(),
    )
    .expect("arrives");
    for control in message.cmsgs().expect("control messages") {
        match control {
            ControlMessageOwned::Ipv4Tos(tos) => return tos,
            ControlMessageOwned::Ipv6TClass(class) => return class as u8,
            _ => {}
        }
    }
    panic!("no TOS came with the datagram");
}

#[test]
fn each_fragment_and_each_piece_of_a_large_send_is_a_packet_of_its_own() {
    testkit::real_time_beside(|| {
        let Some(emulation) = start(&[link(FAST, FAST)]) else {
            return;
        };
        let mut buffer = [0; 9000];
        for (near, far) in [
            (IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4)),
            (IpAddr::V6(NEAR_V6), IpAddr::V6(FAR_V6)),
        ] {
            let (a, b) = pair(&emulation, near, far);
            let datagram: Vec<u8> = (0..4000).map(|i| i as u8).collect();
            a.send(&datagram).expect("sends");
            let n = b.recv(&mut buffer).expect("arrives");
            assert_eq!(&buffer[..n], &datagram[..]);
            // UDP segmentation offload: one call, eight datagrams.
            setsockopt(&a, sockopt::UdpGsoSegment, &1000).expect("the kernel cuts datagrams");
            a.send(&[7; 8000]).expect("sends");
            for _ in 0..8 {
                assert_eq!(b.recv(&mut buffer).expect("arrives"), 1000);
            }
        }
        let summary = emulation.stop().expect("stops");
        checked(&summary);
        // Three fragments and eight datagrams, over each version of IP.
        assert_eq!(
            (summary.up.arrived_packets, summary.up.delivered_packets),
            (22, 22)
        );
    });
}

#[test]
fn tcp_fills_the_rate_and_the_queue() {
    testkit::real_time_beside(|| {
        let slow = "rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"fifo:bytes=100kB\"";
        let (rows, written) = std::sync::mpsc::channel();
        let options = Options {
            rows: Some(rows),
            ..Options::new(Clock::start())
        };
        let emulation = match Emulation::start(&[link(slow, slow)], options) {
            Ok(emulation) => emulation,
            Err(e) => return skip(&e.to_string()),
        };
        let listener = emulation
            .far()
            .run(|| TcpListener::bind((FAR_V4, 0)))
            .expect("enters")
            .expect("binds");
        let to = listener.local_addr().expect("bound");
        let sender = emulation
            .near()
            .spawn("sender", move || {
                let socket = nix::sys::socket::socket(
                    AddressFamily::Inet,
                    SockType::Stream,
                    SockFlag::empty(),
                    None,
                )
                .expect("a socket");
                // The host's default may keep the queue short, as BBR does. Reno is in every kernel.
                setsockopt(
                    &socket,
                    sockopt::TcpCongestion,
                    &std::ffi::OsString::from("reno"),
                )
                .expect("has reno");
                nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))
                    .expect("connects");
                let mut stream = TcpStream::from(socket);
                let until = Instant::now() + std::time::Duration::from_secs(4);
                while Instant::now() < until {
                    stream.write_all(&[0; 16384]).expect("sends");
                }
            })
            .expect("starts");
        let (mut stream, _) = listener.accept().expect("accepts");
        let began = Instant::now();
        let mut buffer = vec![0; 1 << 16];
        let (mut measured, mut from) = (0, None);
        loop {
            let n = stream.read(&mut buffer).expect("receives");
            if n == 0 {
                break;
            }
            // The first two seconds are slow start and its losses.
            if began.elapsed() > std::time::Duration::from_secs(2) {
                from.get_or_insert_with(Instant::now);
                measured += n;
            }
        }
        let bps = measured as f64 * 8.0 / from.expect("it took longer").elapsed().as_secs_f64();
        sender.join().expect("sends all");
        let summary = emulation.stop().expect("stops");
        checked(&summary);
        // 1448 bytes of each 1500 are payload.
        assert!(
            (bps / (20e6 * 1448.0 / 1500.0) - 1.0).abs() < 0.05,
            "{bps} bit/s; {summary}"
        );
        let queue: Vec<_> = written
            .iter()
            .filter_map(|row| match row {
                Row::Queue(q) if &*q.queue == "up" => Some(q),
                _ => None,
            })
            .collect();
        let fullest = queue
            .iter()
            .map(|q| q.backlog_bytes)
            .max()
            .expect("samples");
        assert!((90_000..=100_000).contains(&fullest), "{fullest} bytes");
        assert!(queue.len() > 100, "{} samples in 4 s", queue.len());
        assert!(
            queue
                .windows(2)
                .all(|w| w[0].t_ns < w[1].t_ns && w[0].delivered_bytes <= w[1].delivered_bytes)
        );
        assert_eq!(
            summary.up.dropped_total(),
            queue.last().expect("samples").drops as u64
        );
    });
}

#[test]
fn an_idle_link_is_silent() {
    testkit::real_time_beside(|| {
        let Some(emulation) = start(&[link(FAST, FAST)]) else {
            return;
        };
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let summary = emulation.stop().expect("stops");
        assert_eq!(
            (summary.up.arrived_packets, summary.down.arrived_packets),
            (0, 0)
        );
        assert_eq!(
            (summary.lateness_p99_ns, summary.up.busiest_second_bps),
            (None, None)
        );
    });
}

#[test]
fn a_program_of_a_measurement_runs_inside() {
    testkit::real_time_beside(|| {
        let Some(emulation) = start(&[link(FAST, FAST)]) else {
            return;
        };
        let mut command = Command::new("cat");
        let output = emulation
            .far()
            .command(command.arg("/proc/net/fib_trie"))
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains(&FAR_V4.to_string()) && !text.contains(&NEAR_V4.to_string()),
            "{text}"
        );
    });
}

#[test]
fn the_links_mtu_is_that_of_the_path() {
    testkit::real_time_beside(|| {
        for (mtu, packets) in [(600, 3), (1500, 1), (9000, 1)] {
            let direction = format!("{FAST}\nmtu = \"{mtu} B\"");
            let Some(emulation) = start(&[link(&direction, &direction)]) else {
                return;
            };
            let (a, b) = pair(&emulation, IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4));
            let mut buffer = [0; 9000];
            a.send(&[0; 1400]).expect("sends");
            assert_eq!(b.recv(&mut buffer).expect("arrives"), 1400);
            let summary = emulation.stop().expect("stops");
            checked(&summary);
            // RFC 8200 section 5: IPv6 needs 1280 bytes, so the smallest has IPv4 alone.
            assert_eq!(summary.up.arrived_packets, packets, "MTU {mtu}");
        }
    });
}

#[test]
fn a_recorder_that_hangs_up_does_not_stop_the_link() {
    testkit::real_time_beside(|| {
        let (rows, written) = std::sync::mpsc::channel();
        let options = Options {
            rows: Some(rows),
            sample_every: base::Duration::from_millis(1),
            ..Options::new(Clock::start())
        };
        let emulation = match Emulation::start(&[link(FAST, FAST), link(FAST, FAST)], options) {
            Ok(emulation) => emulation,
            Err(e) => return skip(&e.to_string()),
        };
        let names: std::collections::BTreeSet<_> = (0..8)
            .map(|_| match written.recv().expect("a row") {
                Row::Queue(q) => q.queue.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            names.into_iter().collect::<Vec<_>>(),
            ["hop1/down", "hop1/up", "hop2/down", "hop2/up"]
        );
        drop(written);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (a, b) = pair(&emulation, IpAddr::V4(NEAR_V4), IpAddr::V4(FAR_V4));
        a.send(&[1; 10]).expect("sends");
        assert_eq!(b.recv(&mut [0; 100]).expect("arrives"), 10);
        checked(&emulation.stop().expect("stops"));
    });
}
