//! Cost of one packet through each discipline of the registry at a standing backlog, and through a link.
//! `cargo bench -p tailback-link`.

use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use link::qdisc::registry::{QDISCS, QdiscSpec, Spec};
use link::qdisc::{Fates, Qdisc};
use link::rate::Rate;
use link::words::Unit;
use link::{Link, LinkParams};
use std::hint::black_box;

/// Flows that take turns.
const FLOWS: u64 = 64;

fn packet(id: u64) -> Packet {
    Packet {
        id: PacketId(id),
        flow: FlowId(id % FLOWS),
        len: Bytes::new(1500),
        ecn: Ecn::NotEct,
        dscp: 0,
        enqueued: Time::ZERO,
    }
}

/// The discipline with room for any backlog: what counts packets or memory, and any rate, at its largest.
fn roomy(spec: &Spec) -> QdiscSpec {
    let room = spec
        .entry
        .parameters
        .iter()
        .filter(|p| matches!(p.unit, Unit::Packets | Unit::Rate) || p.name == "memory");
    let room: Vec<String> = room.map(|p| format!("{}={}", p.name, p.max)).collect();
    format!("{}:{}", spec.entry.name, room.join(","))
        .parse()
        .expect("the table reads itself")
}

fn disciplines(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue and dequeue");
    for spec in QDISCS {
        for backlog in [10u64, 1_000, 100_000] {
            let mut qdisc = roomy(spec).build(&Streams::new(1), "bench");
            let mut fates = Fates::default();
            for id in 0..backlog {
                qdisc.enqueue(Time::from_nanos(id), packet(id), &mut fates);
            }
            // A nanosecond a packet keeps every sojourn below any target: the path of a forwarded packet.
            let mut id = backlog;
            group.bench_function(BenchmarkId::new(spec.entry.name, backlog), |b| {
                b.iter(|| {
                    let now = Time::from_nanos(id);
                    qdisc.enqueue(now, packet(id), &mut fates);
                    id += 1;
                    black_box(qdisc.dequeue(now, &mut fates))
                });
            });
            assert_eq!((qdisc.backlog().packets, fates.list.len()), (backlog, 0));
        }
    }
    group.finish();
}

/// Queue, rate and delay together, 1000 packets waiting and 1000 on the line.
fn whole_link(c: &mut Criterion) {
    let mut group = c.benchmark_group("link");
    for spec in QDISCS {
        let params = LinkParams::plain(
            Rate::Fixed(BitsPerSec::from_mbps(12_000)),
            Duration::from_millis(1),
            roomy(spec),
        );
        let mut link = Link::new(&params, &Streams::new(1), "bench");
        let mut fates = Fates::default();
        let mut id = 0;
        while id < 1_000 {
            link.enqueue(Time::ZERO, packet(id), &mut fates);
            id += 1;
        }
        // One packet of 1500 bytes a microsecond is exactly 12 Gbit/s.
        group.bench_function(spec.entry.name, |b| {
            b.iter(|| {
                let now = Time::from_micros(id - 1_000);
                link.enqueue(now, packet(id), &mut fates);
                id += 1;
                black_box(link.poll(now, &mut fates))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).warm_up_time(std::time::Duration::from_millis(200)).measurement_time(std::time::Duration::from_millis(600));
    targets = disciplines, whole_link
}
criterion_main!(benches);
