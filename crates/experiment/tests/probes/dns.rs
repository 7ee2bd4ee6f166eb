//! Whom a recording of lookups blames, for every pair that could be confused.

use base::noted::Noted;
use base::noted::dns::{Answer, Asked, DnsNote, Origin, way_target};
use base::record::{Delay, Recording, Status};
use experiment::{Outcome, ProbeSpec};

const RESOLVER: &str = "192.0.2.53";

/// Round trips in ms: to our server, to the resolver, of lookups of known and of new names.
fn recorded(base: f64, way: Option<f64>, known: f64, new: f64, stub: bool) -> Recording {
    let mut r = Recording::default();
    let origin = if stub { Origin::Stub } else { Origin::InUse };
    let name = if stub {
        "systemd-resolved, a stub on this host"
    } else {
        ""
    };
    let note = DnsNote::Resolver {
        origin,
        name: name.into(),
    };
    r.event.push(note.event(0, RESOLVER));
    for seq in 0..10 {
        // A little of what every line adds at random.
        let more = f64::from((seq * 7) % 5) * 0.3;
        let mut delay = |target: &str, ms: Option<f64>| {
            r.delay.push(Delay {
                sent_ns: i64::from(seq) * 100_000_000,
                seq: i64::from(seq),
                target: target.into(),
                rtt_ns: ms.map(|ms| ((ms + more) * 1e6) as i64),
                owd_up_ns: None,
                owd_down_ns: None,
                remote_rx_ns: None,
                remote_tx_ns: None,
                host_ns: None,
                late_send_ns: None,
                status: if ms.is_some() {
                    Status::Ok
                } else {
                    Status::Lost
                },
                ecn: None,
                dscp: None,
            });
        };
        delay("udp", Some(base));
        delay(&way_target(RESOLVER), way);
        delay(&Asked::Cold.target(RESOLVER), Some(new));
        delay(&Asked::Warm.target(RESOLVER), Some(known));
        for asked in [Asked::Cold, Asked::Warm] {
            let answer = Answer {
                code: "NXDOMAIN".into(),
                ..Answer::default()
            };
            let note = DnsNote::Lookup {
                asked,
                seq: i64::from(seq),
                name: "a.test".into(),
                answer: Some(answer),
                problem: None,
            };
            r.event.push(note.event(0, RESOLVER));
        }
    }
    r
}

fn answered(r: &Recording) -> Outcome {
    let spec: ProbeSpec = "dns".parse().expect("a kind");
    (spec.kind().answer)(spec.words(), r)
}

#[test]
fn each_cause_of_slow_names_is_told_from_the_others() {
    for (base, way, known, new, says) in [
        (20.0, Some(19.0), 20.0, 80.0, "resolve soon"),
        (20.0, Some(19.0), 120.0, 200.0, "the resolver is to blame"),
        // 220 ms were acceptable in Catalán 2014, 1300 ms were not.
        (20.0, Some(19.0), 20.0, 220.0, "resolve soon"),
        (20.0, Some(19.0), 20.0, 1300.0, "the link is not to blame"),
        (20.0, Some(210.0), 211.0, 300.0, "is far"),
        (200.0, Some(201.0), 202.0, 280.0, "because the link is"),
        // On a slow line a resolver may be slow as well.
        (200.0, Some(201.0), 450.0, 500.0, "the resolver is to blame"),
        (20.0, None, 20.0, 80.0, "resolve soon"),
        (20.0, None, 400.0, 420.0, "cannot tell how much of that"),
    ] {
        let outcome = answered(&recorded(base, way, known, new, false));
        assert!(
            outcome.says.contains(says),
            "{base} {way:?} {known} {new}: {}",
            outcome.says
        );
        let fine = outcome.says.contains("resolve soon") || outcome.says.contains("cannot tell");
        assert_eq!(outcome.alerts.is_empty(), fine, "{:?}", outcome.alerts);
    }
}

/// The same with lookups and probes of the link lost at these numbers.
fn with_losses(lookups: &[i64], probes: &[i64]) -> Outcome {
    let mut r = recorded(20.0, Some(19.0), 20.0, 80.0, false);
    let lookup = |target: &str| {
        [Asked::Cold, Asked::Warm]
            .map(|a| a.target(RESOLVER))
            .contains(&target.to_owned())
    };
    for d in &mut r.delay {
        let lost = match &*d.target {
            "udp" => probes.contains(&d.seq),
            target => lookup(target) && lookups.contains(&d.seq),
        };
        if lost {
            (d.status, d.rtt_ns) = (Status::Lost, None);
        }
    }
    let notes: Vec<DnsNote> = DnsNote::all_of(&r).map(|(_, note)| note).collect();
    for (event, note) in r.event.iter_mut().zip(notes) {
        if let DnsNote::Lookup {
            asked, seq, name, ..
        } = note
            && lookups.contains(&seq)
        {
            let lost = DnsNote::Lookup {
                asked,
                seq,
                name,
                answer: None,
                problem: None,
            };
            *event = lost.event(event.t_ns, RESOLVER);
        }
    }
    answered(&r)
}

#[test]
fn lookups_that_the_link_loses_are_not_the_resolvers() {
    for (lookups, probes, says) in [
        (
            &[0, 1, 2, 4, 6, 7, 9][..],
            &[][..],
            "without a usable answer",
        ),
        (&[1, 4, 7], &[2, 5, 8], "because the link loses packets"),
        (&[1], &[], "Cannot tell who loses lookups"),
    ] {
        let outcome = with_losses(lookups, probes);
        assert!(
            outcome.says.contains(says),
            "{lookups:?} {probes:?}: {}",
            outcome.says
        );
    }
}

#[test]
fn a_stub_is_called_a_stub() {
    let outcome = answered(&recorded(20.0, Some(0.1), 0.2, 60.0, true));
    assert!(
        outcome.says.contains("a stub on this host"),
        "{}",
        outcome.says
    );
}

#[test]
fn figures_have_intervals_and_the_own_share_is_what_the_way_leaves() {
    let outcome = answered(&recorded(20.0, Some(19.0), 20.0, 220.0, false));
    let own = outcome.figure("own_ms").value().expect("it is known");
    assert!((own - 201.6).abs() < 0.01, "{own}");
    let none = answered(&recorded(20.0, None, 400.0, 420.0, false));
    assert!(none.figure("own_ms").value().is_none());
}
