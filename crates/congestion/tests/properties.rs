//! What must hold for every controller of the registry, whatever it is told. A controller is tested here
//! from the moment it is listed.

use base::rng::Streams;
use base::{Bytes, Duration, Time};
use congestion::registry::CONTROLLERS;
use congestion::{
    Ack, AnyController, Congestion, Controller, ControllerSpec, ControllerState, Idle, Lost,
    RateSample, Recovery, Sent, Setup,
};
use proptest::prelude::*;

const MSS: u64 = 1448;
/// More than any window, delay or transfer of the simulator: a petabyte, and 30 years in ns.
const MOST: u64 = 1_000_000_000_000_000;

#[derive(Clone, Debug)]
enum Event {
    Sent(Sent),
    Ack(Box<Ack>),
    Lost(Lost),
    Congestion(Congestion),
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        3 => Just(MSS),
        2 => 0..100 * MSS,
        1 => Just(0),
        1 => 0..MOST,
    ]
    .prop_map(Bytes::new)
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => 1_000_000..200_000_000u64,
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
    .prop_map(Duration::from_nanos)
}

fn rate() -> impl Strategy<Value = RateSample> {
    (bytes(), duration(), any::<bool>(), bytes(), bytes()).prop_map(
        |(delivered, interval, app_limited, tx_in_flight, lost)| RateSample {
            delivered,
            interval,
            app_limited,
            tx_in_flight,
            lost,
        },
    )
}

fn ack() -> impl Strategy<Value = Event> {
    let data = (
        bytes(),
        bytes(),
        bytes(),
        bytes(),
        bytes(),
        bytes(),
        bytes(),
    );
    let delays = (
        prop::option::weighted(0.8, duration()),
        prop::option::weighted(0.5, duration()),
        prop::option::weighted(0.9, duration()),
        prop::option::weighted(0.9, duration()),
        duration(),
    );
    let rest = (
        prop::option::weighted(0.8, rate()),
        any::<bool>(),
        any::<bool>(),
    );
    (data, delays, rest).prop_map(|(d, t, r)| {
        Event::Ack(Box::new(Ack {
            newly_acked: d.0,
            inflight_before: d.1,
            inflight: d.2,
            ce_bytes: d.3,
            newly_lost: d.4,
            delivered: d.5,
            prior_delivered: d.6,
            rtt: t.0,
            one_way_delay: t.1,
            min_rtt: t.2,
            srtt: t.3,
            paced_for: t.4,
            rate: r.0,
            cwnd_limited: r.1,
            in_recovery: r.2,
        }))
    })
}

fn sent() -> impl Strategy<Value = Event> {
    let idle = prop::option::weighted(0.1, (duration(), any::<bool>()));
    (bytes(), bytes(), idle).prop_map(|(bytes, inflight_before, idle)| {
        Event::Sent(Sent {
            bytes,
            inflight_before,
            idle: idle.map(|(lasted, restart)| Idle { lasted, restart }),
        })
    })
}

fn lost() -> impl Strategy<Value = Event> {
    (bytes(), bytes(), bytes(), bytes(), any::<bool>()).prop_map(
        |(bytes, tx_in_flight, lost_since_sent, delivered, app_limited)| {
            Event::Lost(Lost {
                bytes,
                tx_in_flight,
                lost_since_sent,
                delivered,
                app_limited,
            })
        },
    )
}

fn congestion() -> impl Strategy<Value = Event> {
    prop_oneof![
        bytes().prop_map(|flight| Congestion::Loss { flight }),
        bytes().prop_map(|flight| Congestion::Ecn { flight }),
        (bytes(), any::<bool>())
            .prop_map(|(flight, repeated)| Congestion::Rto { flight, repeated }),
        Just(Congestion::Spurious),
    ]
    .prop_map(Event::Congestion)
}

/// Events in any order, each with the ns since the one before.
fn hostile() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let gap = prop_oneof![6 => 0..20_000_000u64, 1 => 0..20_000_000_000u64, 1 => 0..MOST];
    let event = prop_oneof![6 => ack(), 2 => sent(), 1 => lost(), 1 => congestion()];
    prop::collection::vec((gap, event), 1..150)
}

/// Each controller with its defaults, and with each parameter at either bound.
fn variants() -> Vec<ControllerSpec> {
    let mut found = Vec::new();
    for spec in CONTROLLERS {
        found.push(spec.entry.name.to_string());
        for p in spec.entry.parameters {
            for bound in [p.min, p.max] {
                found.push(format!("{}:{}={bound}", spec.entry.name, p.name));
            }
        }
    }
    found
        .iter()
        .map(|text| text.parse().unwrap_or_else(|e| panic!("{text}: {e}")))
        .collect()
}

fn build(spec: &ControllerSpec) -> AnyController {
    let setup = Setup::new(Bytes::new(MSS));
    spec.build(&setup, Time::ZERO, &Streams::new(1), "flow")
}

fn tell(c: &mut AnyController, now: Time, event: &Event) {
    match event {
        Event::Sent(s) => c.on_sent(now, s),
        Event::Ack(a) => c.on_ack(now, a),
        Event::Lost(l) => c.on_lost(now, l),
        Event::Congestion(g) => c.on_congestion(now, g),
    }
}

/// Tells all events and checks after each; returns the states.
fn check(spec: &ControllerSpec, events: &[(u64, Event)]) -> Result<Vec<ControllerState>, String> {
    let mut c = build(spec);
    let mut now = Time::ZERO;
    let mut states = Vec::new();
    for (i, (gap, event)) in events.iter().enumerate() {
        now += Duration::from_nanos(*gap);
        let before = c.cwnd();
        tell(&mut c, now, event);
        let (after, state) = (c.cwnd(), c.state());
        let wrong = |what: &str| {
            Err(format!(
                "{spec}, event {i} {event:?}: {what}: {before} to {after}, {state:?}"
            ))
        };
        if after < Bytes::new(MSS) {
            return wrong("the window is below a segment");
        }
        if after.get() > MOST {
            return wrong("the window is beyond all measure");
        }
        if (state.cwnd, state.ssthresh, state.pacing_rate) != (after, c.ssthresh(), c.pacing_rate())
        {
            return wrong("the state is not what the queries say");
        }
        if c.pacing_rate().is_some_and(|r| r.get() == 0) {
            return wrong("it would never send again");
        }
        if c.ssthresh().is_some_and(|s| s < Bytes::new(MSS)) {
            return wrong("ssthresh is below a segment");
        }
        if state.variables.iter().flatten().any(|(_, v)| v.is_nan()) {
            return wrong("a variable is no number");
        }
        match event {
            Event::Congestion(Congestion::Loss { .. } | Congestion::Rto { .. })
                if after > before.max(Bytes::new(2 * MSS)) =>
            {
                return wrong("congestion raised the window");
            }
            Event::Ack(a)
                if a.in_recovery && c.recovery() != Recovery::Controller && after > before =>
            {
                return wrong("the window grew in recovery");
            }
            _ => {}
        }
        states.push(state);
    }
    Ok(states)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_it_is_told_the_window_stays_sound(events in hostile()) {
        for spec in variants() {
            if let Err(e) = check(&spec, &events) {
                prop_assert!(false, "{e}");
            }
        }
    }

    #[test]
    fn the_same_events_lead_to_the_same_states(events in hostile()) {
        for spec in variants() {
            prop_assert_eq!(check(&spec, &events), check(&spec, &events));
        }
    }

    /// A flow as an endpoint would drive it: window-limited, one or two segments an ACK.
    #[test]
    fn slow_start_ends_at_the_threshold(
        events in prop::collection::vec((0..100u32, 1..3u64), 50..400)
    ) {
        for spec in CONTROLLERS {
            let mut c = build(&spec.entry.name.parse().unwrap());
            let mut now = Time::ZERO;
            let mut delivered = Bytes::ZERO;
            for (draw, segments) in &events {
                now += Duration::from_millis(5);
                let flight = c.cwnd();
                match draw {
                    0 => c.on_congestion(now, &Congestion::Loss { flight }),
                    1 => c.on_congestion(now, &Congestion::Rto { flight, repeated: false }),
                    _ => {
                        let newly_acked = Bytes::new(segments * MSS).min(flight);
                        delivered += newly_acked;
                        let below = c.ssthresh().filter(|s| flight < *s);
                        c.on_ack(now, &Ack {
                            newly_acked,
                            inflight_before: flight,
                            inflight: flight - newly_acked,
                            rtt: Some(Duration::from_millis(50)),
                            min_rtt: Some(Duration::from_millis(50)),
                            srtt: Some(Duration::from_millis(50)),
                            delivered,
                            prior_delivered: delivered.saturating_sub(flight),
                            cwnd_limited: true,
                            ..Ack::default()
                        });
                        if let Some(ssthresh) = below {
                            let most = ssthresh + Bytes::new(3 * MSS);
                            prop_assert!(c.cwnd() <= most, "{}: {flight} to {} past {ssthresh}", spec.entry.name, c.cwnd());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_window_that_grows_in_recovery_is_noticed() {
    // The canary of `check`: a controller that breaks the contract.
    let in_recovery = |in_recovery| {
        let ack = Ack {
            newly_acked: Bytes::new(MSS),
            inflight_before: Bytes::new(10 * MSS),
            cwnd_limited: true,
            in_recovery,
            ..Ack::default()
        };
        check(&"reno".parse().unwrap(), &[(0, Event::Ack(Box::new(ack)))]).unwrap()[0].cwnd
    };
    assert!(in_recovery(false) > in_recovery(true));
}
