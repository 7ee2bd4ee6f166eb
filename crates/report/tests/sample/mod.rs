//! Recordings and answers for tests and examples: curves as TCP draws them, figures computed from those curves.

use analysis::answer::*;
use base::record::{Delay, Direction, Event, Flow, Host, Meta, Origin, Recording, Status};
use base::rng::{Rng, Streams, uniform};
use stats::{Delays, Figure};

/// Round trip, added up and added down, ms.
type Delays3 = (f64, f64, f64);
/// When a probe was sent, s, and what it found, where it was answered.
type Probe = (f64, Option<Delays3>);

const START_NS: i64 = 1_795_222_800_000_000_000;

/// One direction of a link and how its queue behaves under load.
struct Way {
    rate_bps: f64,
    queue_ms: f64,
    /// Period of the saw-tooth, s; the queue falls to half when its sender backs off.
    period_s: f64,
    kind: Discipline,
}

struct Line {
    title: &'static str,
    base_ms: f64,
    up: Way,
    down: Way,
    /// Phases as (name, from, to) in seconds.
    phases: Vec<(&'static str, f64, f64)>,
    probes_per_s: f64,
    noise_ms: f64,
    /// From here on no probe is answered.
    silent_from_s: f64,
    seed: u64,
}

/// ADSL 8/0.7 Mbit/s with 301 kbit of drop-tail buffer upstream.
pub fn bloated_adsl() -> (Answer, Recording) {
    bloated_adsl_at(100.0, 60.0)
}

/// The same line with another rate of probes and another length, for timing.
pub fn bloated_adsl_at(probes_per_s: f64, seconds: f64) -> (Answer, Recording) {
    let phases = vec![
        ("idle", 0.0, seconds * 0.15),
        ("down", seconds * 0.17, seconds * 0.42),
        ("up", seconds * 0.45, seconds * 0.72),
        ("both", seconds * 0.75, seconds),
    ];
    let line = Line {
        title: "Home ADSL",
        base_ms: 19.2,
        up: Way {
            rate_bps: 0.7e6,
            queue_ms: 430.0,
            period_s: 3.7,
            kind: Discipline::DropTail,
        },
        down: Way {
            rate_bps: 8e6,
            queue_ms: 62.0,
            period_s: 2.1,
            kind: Discipline::DropTail,
        },
        phases,
        probes_per_s,
        noise_ms: 0.35,
        silent_from_s: f64::INFINITY,
        seed: 1,
    };
    let (mut answer, recording) = line.run();
    answer.worst_direction = Some(Direction::Up);
    answer.grade = grade("F", 407.0);
    answer.findings = vec![
        Finding {
            severity: Severity::Bad,
            says: "The upload queue is far too large: whoever uploads makes everybody on this link wait about 0.4 s.".into(),
            evidence: vec!["The delay added by an upload reaches 430 ms and falls to half when a packet is lost, 4 times in 16 s.".into()],
        },
        Finding { severity: Severity::Note, says: "The download queue is larger than the link needs, yet calls still work.".into(), evidence: vec!["p95 added by a download: 61 ms.".into()] },
        Finding { severity: Severity::Good, says: "No loss without load.".into(), evidence: vec![] },
    ];
    answer.advice = vec![
        Advice {
            what: "Shape uploads to just below the link's rate and let a fair queue keep the delay short.".into(),
            on: "Linux".into(),
            commands: vec![
                "tc qdisc replace dev eth0 root handle 1: htb default 10".into(),
                "tc class add dev eth0 parent 1: classid 1:10 htb rate 630kbit ceil 630kbit burst 1600".into(),
                "tc qdisc add dev eth0 parent 1:10 fq_codel limit 1000 target 15ms interval 100ms".into(),
            ],
            script: None,
        },
        Advice { what: "Or set the buffer of the modem to what the link needs: 1.7 kB, two packets.".into(), on: "any router".into(), commands: vec![], script: None },
    ];
    (answer, recording)
}

/// A symmetric fiber line whose queue is kept short.
pub fn healthy_fiber() -> (Answer, Recording) {
    let line = Line {
        title: "Office fiber",
        base_ms: 4.1,
        up: Way {
            rate_bps: 60e6,
            queue_ms: 3.6,
            period_s: 0.5,
            kind: Discipline::FairQueueingAqm,
        },
        down: Way {
            rate_bps: 60e6,
            queue_ms: 2.8,
            period_s: 0.4,
            kind: Discipline::FairQueueingAqm,
        },
        phases: vec![
            ("idle", 0.0, 8.0),
            ("down", 9.0, 22.0),
            ("up", 23.0, 36.0),
            ("both", 37.0, 50.0),
        ],
        probes_per_s: 100.0,
        noise_ms: 0.12,
        silent_from_s: f64::INFINITY,
        seed: 2,
    };
    let (mut answer, recording) = line.run();
    answer.grade = grade("A+", 2.9);
    answer.findings = vec![Finding {
        severity: Severity::Good,
        says: "The line stays quick while it is full.".into(),
        evidence: vec!["Added by load at p95: 3.2 ms up, 2.6 ms down.".into()],
    }];
    (answer, recording)
}

/// The server vanished 6 s into the download: no upload was measured.
pub fn partial() -> (Answer, Recording) {
    let line = Line {
        title: "Cable <script>alert(1)</script> & \"friends\"",
        base_ms: 14.0,
        up: Way {
            rate_bps: 10e6,
            queue_ms: 200.0,
            period_s: 3.0,
            kind: Discipline::DropTail,
        },
        down: Way {
            rate_bps: 120e6,
            queue_ms: 90.0,
            period_s: 2.0,
            kind: Discipline::DropTail,
        },
        phases: vec![("idle", 0.0, 8.0), ("down", 9.0, 15.0)],
        probes_per_s: 50.0,
        noise_ms: 1.1,
        silent_from_s: 14.0,
        seed: 3,
    };
    let (mut answer, mut recording) = line.run();
    recording.meta.complete = false;
    let gone = "the server stopped answering 6 s into the download, before anything was uploaded";
    let why = || Figure::cannot_tell(gone);
    let up = &mut answer.up;
    for f in [
        &mut up.goodput_bps,
        &mut up.link_rate_bps,
        &mut up.queue_ms,
        &mut up.queue_bytes,
        &mut up.bdp_bytes,
        &mut up.factor_too_large,
        &mut up.in_flow_minus_probe_ms,
    ] {
        *f = why();
    }
    up.added = no_delays(gone);
    up.discipline = DisciplineGuess {
        is: Discipline::CannotTell,
        evidence: vec![],
        would_settle: Some("an upload of 10 s".into()),
    };
    let r = &mut answer.responsiveness;
    for f in [
        &mut r.rpm,
        &mut r.foreign_rpm,
        &mut r.loaded_rpm,
        &mut r.harmonic_rpm,
        &mut r.foreign_ms,
        &mut r.loaded_ms,
    ] {
        *f = why();
    }
    answer.complete = false;
    answer.worst_direction = Some(Direction::Down);
    answer.grade = Grade {
        letter: "?".into(),
        added_ms: why(),
        ..answer.grade
    };
    answer.clock.drift_ppm =
        Figure::cannot_tell("15 s are too short to see the clocks drift apart");
    answer.instrument.cpu_max = None;
    answer.instrument.doubts = vec![
        "The processors of this host were busy up to 97 %: delays of the last 2 s may be its own."
            .into(),
    ];
    (answer, recording)
}

impl Line {
    fn run(&self) -> (Answer, Recording) {
        let mut rng = Streams::new(self.seed).stream("report/sample");
        let mut rec = Recording {
            meta: self.meta(),
            ..Recording::default()
        };
        let end_s = self.phases.last().expect("a run has phases").2;
        let mut added = Vec::new();
        for seq in 0..(end_s * self.probes_per_s) as i64 {
            let t_s = seq as f64 / self.probes_per_s;
            let (up_ms, up_full) = self.queue(&self.up, "up", t_s);
            let (down_ms, down_full) = self.queue(&self.down, "down", t_s);
            let noise = exponential(&mut rng, self.noise_ms);
            let lost =
                (up_full || down_full) && uniform(&mut rng) < 0.3 || t_s >= self.silent_from_s;
            let rtt_ms = self.base_ms + noise + up_ms + down_ms;
            added.push((
                t_s,
                (!lost).then_some((rtt_ms, up_ms + noise / 2.0, down_ms + noise / 2.0)),
            ));
            rec.delay.push(Delay {
                rtt_ns: (!lost).then_some((rtt_ms * 1e6) as i64),
                host_ns: Some(30_000 + (uniform(&mut rng) * 40_000.0) as i64),
                late_send_ns: Some((exponential(&mut rng, 0.02) * 1e6) as i64),
                status: if lost { Status::LostUp } else { Status::Ok },
                ecn: Some(0),
                dscp: Some(0),
                ..Delay::unanswered(START_NS + (t_s * 1e9) as i64, seq, "udp".into())
            });
        }
        for (direction, way, name) in [
            (Direction::Down, &self.down, "down"),
            (Direction::Up, &self.up, "up"),
        ] {
            self.transfers(&mut rec, &mut rng, direction, way, name);
        }
        for (name, from, to) in &self.phases {
            for (kind, t_s) in [("phase", from), ("warmup_end", from), ("phase_end", to)] {
                let t_ns = START_NS + (t_s * 1e9) as i64;
                rec.event.push(Event {
                    t_ns,
                    kind: kind.into(),
                    subject: (*name).into(),
                    detail: "".into(),
                });
            }
        }
        (self.answer(&added, end_s), rec)
    }

    fn meta(&self) -> Meta {
        Meta {
            format: 1,
            writer: "tailback 0.1.0 (sample)".into(),
            origin: Origin::Emulated,
            verb: "test".into(),
            title: self.title.into(),
            started_ns: START_NS,
            plan: serde_json::json!({ "probe_interval": format!("{} ms", 1e3 / self.probes_per_s), "flows": 4 }),
            host: Host {
                kernel: "Linux 6.12".into(),
                cpus: 2,
                clock_source: "tsc".into(),
                ..Host::default()
            },
            complete: true,
            ..Meta::default()
        }
    }

    /// Sojourn time at `t_s`, and whether the queue is at its top.
    fn queue(&self, way: &Way, name: &str, t_s: f64) -> (f64, bool) {
        let Some((_, from, _)) = self
            .phases
            .iter()
            .find(|(n, from, to)| (*n == name || *n == "both") && t_s >= *from && t_s < *to)
        else {
            return (0.0, false);
        };
        let since = t_s - from;
        // Slow start fills the queue within half a period, then it swings between half and full.
        let fill = 0.5 * way.period_s;
        if since < fill {
            return (way.queue_ms * (since / fill).powi(2), false);
        }
        let x = ((since - fill) / way.period_s).fract();
        (
            way.queue_ms * (0.5 + 0.5 * x.powf(0.6)),
            x > 0.985 && way.kind == Discipline::DropTail,
        )
    }

    fn transfers(
        &self,
        rec: &mut Recording,
        rng: &mut Rng,
        direction: Direction,
        way: &Way,
        name: &str,
    ) {
        for (phase, from, to) in self
            .phases
            .iter()
            .filter(|(n, ..)| *n == name || *n == "both")
        {
            for k in 0..4 {
                let (mut t_s, mut bytes) = (*from + 0.013 * k as f64, 0.0);
                while t_s < *to {
                    let ramp = ((t_s - from) / 0.6).min(1.0);
                    let step = 0.1;
                    bytes +=
                        way.rate_bps * 0.95 / 8.0 / 4.0 * step * ramp * (0.9 + 0.2 * uniform(rng));
                    let waits =
                        self.queue(&self.up, "up", t_s).0 + self.queue(&self.down, "down", t_s).0;
                    let fq = matches!(
                        way.kind,
                        Discipline::FairQueueing | Discipline::FairQueueingAqm
                    );
                    let srtt = self.base_ms + waits + if fq { 9.0 * ramp } else { 1.5 };
                    let sends = direction == Direction::Up;
                    rec.flow.push(Flow {
                        bytes_acked: sends.then_some(bytes as i64),
                        bytes_received: (!sends).then_some(bytes as i64),
                        srtt_ns: Some((srtt * 1e6) as i64),
                        mss_bytes: Some(1448),
                        ..Flow::about(
                            START_NS + (t_s * 1e9) as i64,
                            k + 10 * i64::from(sends) + 100 * i64::from(*phase == "both"),
                            direction,
                        )
                    });
                    t_s += step;
                }
            }
        }
    }

    fn answer(&self, added: &[Probe], end_s: f64) -> Answer {
        let phases: Vec<PhaseAnswer> = self
            .phases
            .iter()
            .map(|(name, from, to)| {
                let rows: Vec<_> = added.iter().filter(|(t, _)| t >= from && t < to).collect();
                let column = |of: &dyn Fn(&Delays3) -> f64| {
                    delays(
                        rows.iter()
                            .filter_map(|(_, r)| r.as_ref().map(of))
                            .collect(),
                    )
                };
                let lost = rows.iter().filter(|(_, r)| r.is_none()).count() as u64;
                let (sent, percent) = (rows.len() as u64, 100.0 * lost as f64 / rows.len() as f64);
                let rate = |way: &Way, of: &str| {
                    (*name == of || *name == "both").then(|| near(way.rate_bps * 0.95, 0.01))
                };
                PhaseAnswer {
                    ipdv: stats::Ipdv::default(),
                    name: (*name).into(),
                    from_ns: START_NS + (from * 1e9) as i64,
                    to_ns: START_NS + (to * 1e9) as i64,
                    stable: *name != "both",
                    stability: if *name == "both" {
                        "the median moved by 14 % over the last 5 s"
                    } else {
                        "the median moved less than 5 % over the last 5 s"
                    }
                    .into(),
                    rtt: column(&|r| r.0),
                    added_up: column(&|r| r.1),
                    added_down: column(&|r| r.2),
                    in_flow_rtt: (*name != "idle").then(|| column(&|r| r.0 + 1.5)),
                    loss: Loss {
                        sent,
                        lost,
                        lost_up: lost,
                        lost_down: 0,
                        late: 0,
                        duplicates: 0,
                        invalid: 0,
                        not_sent: 0,
                        percent: Figure::Is {
                            value: percent,
                            low: percent * 0.6,
                            high: percent * 1.5 + 0.1,
                        },
                        bursts: vec![(1, lost)],
                        pattern: if lost == 0 {
                            "none"
                        } else {
                            "at the top of the queue"
                        }
                        .into(),
                    },
                    goodput_down_bps: rate(&self.down, "down"),
                    goodput_up_bps: rate(&self.up, "up"),
                    cross_traffic_bps: Some(2_100.0),
                    reliability: [20.0, 50.0, 100.0, 150.0, 200.0, 400.0]
                        .map(|limit_ms| {
                            let within = rows
                                .iter()
                                .filter(|(_, r)| r.is_some_and(|r| r.0 <= limit_ms))
                                .count();
                            Reliability {
                                limit_ms,
                                share: Figure::exactly(within as f64 / rows.len() as f64),
                            }
                        })
                        .to_vec(),
                }
            })
            .collect();
        let alone = |name: &str, of: &dyn Fn(&PhaseAnswer) -> &Delays| {
            phases
                .iter()
                .find(|p| p.name == name)
                .map_or(no_delays("the phase did not run"), |p| of(p).clone())
        };
        let way = |w: &Way, added: Delays| {
            let (queue, bdp) = (
                w.rate_bps * w.queue_ms / 8e3,
                w.rate_bps * self.base_ms / 8e3,
            );
            let evidence = match w.kind {
                Discipline::DropTail => {
                    "The delay climbs to 430 ms, then 1 of 300 packets is lost and it halves: 4 such teeth in 16 s, the tops within 2 %."
                }
                _ => {
                    "The load's own packets wait 9 ms longer than the probes beside them: they are in different queues."
                }
            };
            DirectionAnswer {
                goodput_bps: near(w.rate_bps * 0.95, 0.01),
                link_rate_bps: near(w.rate_bps, 0.005),
                rate_varies: None,
                queue_ms: near(w.queue_ms, 0.025),
                queue_bytes: near(queue, 0.03),
                queue_is: if w.kind == Discipline::DropTail {
                    QueueIs::Size
                } else {
                    QueueIs::Controlled
                },
                bdp_bytes: near(bdp, 0.01),
                factor_too_large: near(queue / bdp, 0.035),
                added,
                discipline: DisciplineGuess {
                    is: w.kind,
                    evidence: vec![evidence.into()],
                    would_settle: None,
                },
                in_flow_minus_probe_ms: near(1.5, 0.2),
            }
        };
        Answer {
            version: ANSWER_VERSION,
            title: self.title.into(),
            started_ns: START_NS,
            duration_s: end_s,
            complete: true,
            base_rtt_ms: near(self.base_ms, 0.002),
            down: way(&self.down, alone("down", &|p| &p.added_down)),
            up: way(&self.up, alone("up", &|p| &p.added_up)),
            phases,
            worst_direction: None,
            responsiveness: Responsiveness {
                formula: "draft-ietf-ippm-responsiveness-08, TCP only, trimmed means at 95 %".into(),
                rpm: near(6e4 / (self.base_ms + self.up.queue_ms * 0.75), 0.06),
                foreign_rpm: near(6e4 / (self.base_ms + self.up.queue_ms * 0.8), 0.06),
                loaded_rpm: near(6e4 / (self.base_ms + self.up.queue_ms * 0.7), 0.06),
                harmonic_rpm: near(6e4 / (self.base_ms + self.up.queue_ms * 0.76), 0.06),
                foreign_ms: near(self.base_ms + self.up.queue_ms * 0.8, 0.06),
                loaded_ms: near(self.base_ms + self.up.queue_ms * 0.7, 0.06),
            },
            grade: grade("?", 0.0),
            clock: ClockAnswer {
                offset_ms: Figure::Is { value: -0.8, low: -0.9, high: -0.7 },
                drift_ppm: Figure::Is { value: 1.9, low: 0.4, high: 3.4 },
                trust: "Both ends were fitted by their fastest packets; one-way delays are right within half of what differs between the idle ways, at most 0.1 ms.".into(),
            },
            instrument: Instrument {
                probes_planned: added.len() as u64,
                probes_sent: added.len() as u64,
                missed_slots: 0,
                host_share: delays((0..100).map(|i| 0.03 + 0.0004 * f64::from(i)).collect()),
                late_send: delays((0..100).map(|i| 0.001 * f64::from(i)).collect()),
                cpu_max: Some(0.31),
                host: None,
                doubts: vec![],
            },
            findings: vec![],
            advice: vec![],
            uses: vec![],
        }
    }
}

fn grade(letter: &str, added_ms: f64) -> Grade {
    let scale = "DSLReports bufferbloat scale: A+ below 5 ms, A 30, B 60, C 200, D 400, F from there on; applied to the worse direction's p95";
    Grade {
        letter: letter.into(),
        scale: scale.into(),
        added_ms: Figure::exactly(added_ms),
    }
}

fn near(value: f64, share: f64) -> Figure {
    Figure::Is {
        value,
        low: value * (1.0 - share),
        high: value * (1.0 + share),
    }
}

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - uniform(rng)).ln()
}

fn delays(mut ms: Vec<f64>) -> Delays {
    ms.sort_by(f64::total_cmp);
    let n = ms.len();
    let at = |q: f64| Figure::exactly(ms[((n as f64 * q).ceil() as usize).clamp(1, n) - 1]);
    let mean = ms.iter().sum::<f64>() / n as f64;
    let mdev = ms.iter().map(|v| (v - mean).abs()).sum::<f64>() / n as f64;
    Delays {
        count: n as u64,
        min_ms: at(0.0),
        mean_ms: Figure::exactly(mean),
        mdev_ms: Figure::exactly(mdev),
        p50_ms: at(0.5),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        max_ms: at(1.0),
        histogram: String::new(),
    }
}

fn no_delays(why: &str) -> Delays {
    let f = || Figure::cannot_tell(why);
    Delays {
        count: 0,
        min_ms: f(),
        mean_ms: f(),
        mdev_ms: f(),
        p50_ms: f(),
        p95_ms: f(),
        p99_ms: f(),
        max_ms: f(),
        histogram: String::new(),
    }
}
