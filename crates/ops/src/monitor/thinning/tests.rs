use super::*;
use testkit::TempDir;

fn delay(ms: i64, seq: i64, status: Status, rtt_ms: Option<i64>) -> Row {
    Row::Delay(Delay {
        status,
        rtt_ns: rtt_ms.map(|ms| ms * 1_000_000),
        ..Delay::unanswered(ms * 1_000_000, seq, "udp".into())
    })
}

fn through(thin: &mut dyn Thin, rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let mut out = Vec::new();
    rows.into_iter().for_each(|r| thin.row(r, &mut out));
    thin.end(&mut out);
    out
}

fn distributions(rows: Vec<Row>) -> Vec<Distribution> {
    let all = rows.into_iter().map(|r| match r {
        Row::Distribution(d) => d,
        other => panic!("{other:?}"),
    });
    all.collect()
}

/// Two hours of ten a second: RTT 10 to 29 ms in turn, each hundredth lost and written three minutes late.
fn two_hours() -> Vec<Row> {
    let mut rows = Vec::new();
    for i in 0..72_000 {
        if i % 100 != 7 {
            rows.push(delay(i * 100, i, Status::Ok, Some(10 + i % 20)));
        }
        let old = i - 1800;
        if old >= 0 && old % 100 == 7 {
            rows.push(delay(old * 100, old, Status::Lost, None));
        }
    }
    rows
}

#[test]
fn a_minute_of_delays_becomes_one_row_with_every_probe_in_it() {
    let minutes = distributions(through(&mut DelayBins::new(MINUTE_NS), two_hours()));
    assert_eq!(minutes.len(), 120);
    for (i, d) in minutes.iter().enumerate().take(117) {
        assert_eq!((d.t_ns, d.interval_ns), (i as i64 * MINUTE_NS, MINUTE_NS));
        assert_eq!(
            (d.sent_packets, d.ok_packets, d.lost_packets),
            (600, 594, 6)
        );
        let h = Histogram::from_base64(&d.histogram).unwrap();
        assert_eq!(h.len(), 594);
        let median = h.quantile_ms(0.5).unwrap();
        assert!((median - 19.5).abs() <= 0.6, "{median}");
    }
}

#[test]
fn ten_minutes_of_ten_minutes_are_the_sum_of_their_minutes() {
    let minutes = through(&mut DelayBins::new(MINUTE_NS), two_hours());
    let direct = distributions(through(&mut DelayBins::new(TEN_MINUTES_NS), two_hours()));
    let merged = distributions(through(&mut DelayBins::new(TEN_MINUTES_NS), minutes));
    assert_eq!(merged.len(), 12);
    assert_eq!(merged, direct);
}

#[test]
fn a_duplicate_counts_once_and_an_unsent_probe_was_not_sent() {
    let rows = [
        delay(0, 0, Status::Ok, Some(10)),
        delay(0, 0, Status::Duplicate, Some(12)),
        delay(100, 1, Status::NotSent, None),
        delay(200, 2, Status::Late, Some(11_000)),
        delay(300, 3, Status::Invalid, None),
    ];
    let all = distributions(through(&mut DelayBins::new(MINUTE_NS), rows));
    let d = &all[0];
    assert_eq!(
        [
            d.sent_packets,
            d.ok_packets,
            d.late_packets,
            d.invalid_packets,
            d.not_sent_packets
        ],
        [3, 1, 1, 1, 1]
    );
    assert_eq!(Histogram::from_base64(&d.histogram).unwrap().len(), 2);
}

#[test]
fn bytes_of_a_minute_are_summed_and_what_is_not_known_stays_unknown() {
    let row = |i: i64, rx| {
        Row::Traffic(Traffic {
            t_ns: (i + 1) * 100_000_000,
            interval_ns: 100_000_000,
            interface: "wan".into(),
            rx_bytes: rx,
            tx_bytes: Some(1),
        })
    };
    let rows = (0..1200).map(|i| row(i, (i != 700).then_some(10)));
    let out = through(&mut TrafficBins::new(MINUTE_NS), rows);
    let sums: Vec<_> = out
        .iter()
        .map(|r| match r {
            Row::Traffic(t) => (t.t_ns, t.interval_ns, t.rx_bytes, t.tx_bytes),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        sums,
        [
            (MINUTE_NS, MINUTE_NS, Some(6000), Some(600)),
            (2 * MINUTE_NS, MINUTE_NS, None, Some(600))
        ]
    );
}

#[test]
fn the_load_of_a_minute_is_its_mean() {
    let rows = (1..=120).map(|s| {
        let cpu = (s != 3).then_some(if s <= 60 { 0.5 } else { 0.25 });
        let wait = (s <= 60).then_some(if s % 2 == 0 { 0.25 } else { 0.75 });
        Row::HostLoad(HostLoad {
            cpu_wait: wait,
            ..HostLoad::busy(s * 1_000_000_000, cpu)
        })
    });
    let out = through(&mut LoadBins::new(MINUTE_NS), rows);
    let load = |t_ns, cpu, cpu_wait| {
        Row::HostLoad(HostLoad {
            cpu_wait,
            ..HostLoad::busy(t_ns, Some(cpu))
        })
    };
    let want = [
        load(MINUTE_NS, 0.5, Some(0.5)),
        load(2 * MINUTE_NS, 0.25, None),
    ];
    assert_eq!(out, want);
}

/// A day's files of all tables that give way: cadence, start and gaps are drawn.
struct Draw {
    rng: base::rng::Rng,
}

const DAY_NS: i64 = 86_400_000_000_000;
/// 2026-11-20, midnight UTC.
const FIRST_DAY_NS: i64 = 1_795_132_800_000_000_000;

impl Draw {
    fn new(seed: u64) -> Draw {
        let rng = base::rng::Streams::new(seed).stream("thinning");
        Draw { rng }
    }

    fn below(&mut self, n: i64) -> i64 {
        (base::rng::uniform(&mut self.rng) * n as f64) as i64
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as i64) as usize]
    }

    /// Up to 2000 instants of one day, each an interval after the one before, from any instant on, with gaps.
    fn instants(&mut self, day: i64) -> (i64, Vec<i64>) {
        let interval = self.of(&[100, 1_000, 7_000, 59_900, 60_000, 61_000, 300_000, 600_000]);
        let interval = interval * 1_000_000;
        let begin = FIRST_DAY_NS + day * DAY_NS;
        let mut t = begin + 1 + self.below(DAY_NS / 2);
        let mut all = Vec::new();
        while t < begin + DAY_NS && all.len() < 2_000 {
            all.push(t);
            t += interval;
            if self.below(500) == 0 {
                t += self.below(2 * 3_600_000_000_000);
            }
        }
        (interval, all)
    }

    fn rows(&mut self, day: i64) -> Vec<Row> {
        let mut rows = Vec::new();
        for name in ["wan", "lan"].iter().take(1 + self.below(2) as usize) {
            let (interval_ns, all) = self.instants(day);
            rows.extend(all.into_iter().map(|t_ns| {
                Row::Traffic(Traffic {
                    t_ns,
                    interval_ns,
                    interface: (*name).into(),
                    rx_bytes: Some(self.below(100_000)),
                    tx_bytes: Some(self.below(1_000)),
                })
            }));
        }
        let (_, all) = self.instants(day);
        rows.extend(all.into_iter().map(|t_ns| {
            let cpu = Some(self.below(100) as f64 / 100.0);
            Row::HostLoad(HostLoad::busy(t_ns, cpu))
        }));
        for target in ["udp", "icmp"].iter().take(1 + self.below(2) as usize) {
            let (_, all) = self.instants(day);
            rows.extend(all.into_iter().enumerate().map(|(i, t_ns)| {
                let rtt = (self.below(50) > 0).then(|| 1_000_000 + self.below(80_000_000));
                Row::Delay(Delay {
                    status: rtt.map_or(Status::Lost, |_| Status::Ok),
                    rtt_ns: rtt,
                    ..Delay::unanswered(t_ns, i as i64, (*target).into())
                })
            }));
        }
        rows.push(Row::Event(base::record::Event {
            t_ns: FIRST_DAY_NS + day * DAY_NS,
            kind: "run".into(),
            subject: "monitor".into(),
            detail: "{}".into(),
        }));
        rows
    }
}

/// Bytes and probes of a recording, which thinning keeps and removal takes away.
fn sums(path: &Path) -> (i64, i64) {
    let r = store::read(path).unwrap();
    let bytes = r.traffic.iter().filter_map(|t| t.rx_bytes).sum();
    let thinned: i64 = r.distribution.iter().map(|d| d.sent_packets).sum();
    (bytes, thinned + r.delay.len() as i64)
}

fn size(path: &Path) -> u64 {
    store::files(path).unwrap().iter().map(|f| f.bytes).sum()
}

/// The monitor livelocked: a day whose first row was of less than a minute had the same step for ever.
#[test]
fn making_room_frees_space_with_every_step_or_ends_on_any_days() {
    for seed in 0..10 {
        let mut draw = Draw::new(seed);
        let dir = TempDir::new(&format!("thinning-{seed}"));
        let path = dir.join("m.rec");
        let mut writer = store::Writer::create(&path, base::record::Meta::default()).unwrap();
        let days = 1 + draw.below(3);
        for day in 0..days {
            for row in draw.rows(day) {
                writer.write(row).unwrap();
            }
        }
        writer.close(base::record::Meta::default()).unwrap();
        let begun = (size(&path), sums(&path));
        // Ever less room, each time from what the last time left, as a restarted monitor finds it.
        for share in [0.5, 0.1, 0.03, 0.0] {
            let before = (size(&path), sums(&path));
            let most = (begun.0 as f64 * share) as u64;
            let guard = Guard {
                keep_free: Some(Bytes::ZERO),
                max_size: Some(Bytes::new(most)),
            };
            let seen = std::cell::RefCell::new(vec![before.0]);
            let kept = keep_room(&path, "9999-12-31", guard, &|| {
                let mut seen = seen.borrow_mut();
                seen.push(size(&path));
                assert!(seen.len() < 2_000, "seed {seed}: it does not end");
                true
            });
            let seen = seen.into_inner();
            let freed = seen.windows(2).filter(|w| w[1] < w[0]).count();
            assert!(
                seen.windows(2).all(|w| w[1] <= w[0]),
                "seed {seed}: {seen:?}"
            );
            assert!(
                freed >= kept.steps.len().saturating_sub(1),
                "seed {seed}: {kept:?}"
            );
            let enough = size(&path) <= most;
            assert_eq!(kept.troubles.is_empty(), enough, "seed {seed}: {kept:?}");
            if !kept.steps.iter().any(|s| s.ends_with("gone")) {
                assert_eq!(sums(&path), before.1, "seed {seed}, {share}");
            }
        }
        let left = store::files(&path).unwrap();
        assert!(
            left.iter().all(|f| f.table == TableId::Event),
            "seed {seed}: {left:?}"
        );
        assert_eq!(left.len() as i64, days);
    }
}

#[test]
fn making_room_ends_when_it_is_told_to_and_leaves_whole_files() {
    for (seed, calls) in [(1, 0), (2, 1), (3, 2), (4, 3), (5, 7)] {
        let mut draw = Draw::new(seed);
        let dir = TempDir::new(&format!("thinning-{seed}"));
        let path = dir.join("m.rec");
        let mut writer = store::Writer::create(&path, base::record::Meta::default()).unwrap();
        draw.rows(0)
            .into_iter()
            .for_each(|row| writer.write(row).unwrap());
        writer.close(base::record::Meta::default()).unwrap();
        let before = sums(&path);
        let guard = Guard {
            keep_free: Some(Bytes::ZERO),
            max_size: Some(Bytes::new(1)),
        };
        let asked = std::cell::Cell::new(0);
        let kept = keep_room(&path, "9999-12-31", guard, &|| {
            asked.set(asked.get() + 1);
            asked.get() <= calls
        });
        // A step that was stopped is not begun again: it asks once more before the next one.
        assert!(
            asked.get() <= calls + 2,
            "it went on: asked {} times",
            asked.get()
        );
        assert!(!kept.steps.iter().any(|s| s.ends_with("gone")), "{kept:?}");
        assert_eq!(sums(&path), before);
    }
}
