//! ns per ACK of every controller in the table: a steady flow that loses one segment in a thousand.

use base::rng::Streams;
use base::{Bytes, Duration, Time};
use congestion::registry::CONTROLLERS;
use congestion::{Ack, Congestion, Controller, ControllerSpec, RateSample, Setup};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn on_ack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("on_ack");
    for spec in CONTROLLERS {
        let spec: ControllerSpec = spec.entry.name.parse().unwrap();
        let setup = Setup::new(Bytes::new(1448));
        let mut c = spec.build(&setup, Time::ZERO, &Streams::new(1), "bench");
        let (mut now, mut delivered, mut count) = (Time::ZERO, Bytes::ZERO, 0u64);
        group.bench_function(spec.name(), |b| {
            b.iter(|| {
                count += 1;
                now += Duration::from_micros(100);
                delivered += setup.mss;
                let flight = c.cwnd().min(Bytes::new(1_000_000));
                let rtt = Duration::from_micros(50_000 + count % 64 * 100);
                let ack = Ack {
                    newly_acked: setup.mss,
                    inflight_before: flight,
                    inflight: flight.saturating_sub(setup.mss),
                    rtt: Some(rtt),
                    one_way_delay: Some(rtt / 2),
                    min_rtt: Some(Duration::from_millis(50)),
                    srtt: Some(Duration::from_millis(53)),
                    delivered,
                    prior_delivered: delivered.saturating_sub(flight),
                    rate: Some(RateSample {
                        delivered: flight,
                        interval: rtt,
                        app_limited: false,
                        tx_in_flight: flight,
                        lost: Bytes::ZERO,
                    }),
                    cwnd_limited: true,
                    ..Ack::default()
                };
                if count.is_multiple_of(1000) {
                    c.on_congestion(now, &Congestion::Loss { flight });
                }
                c.on_ack(now, black_box(&ack));
                c.cwnd()
            })
        });
    }
    group.finish();
}

criterion_group!(benches, on_ack);
criterion_main!(benches);
