use super::*;
use base::record::Status;
use base::rng::{Streams, uniform};

const S: i64 = 1_000_000_000;

fn reading(t_s: i64, rsrp: f64, cell: &str) -> Radio {
    Radio {
        technology: Some("lte".into()),
        cell: Some(cell.into()),
        rsrp_dbm: Some(rsrp),
        ..Radio::at(t_s * S, "wwan0")
    }
}

#[test]
fn handovers_technologies_and_strengths_are_those_of_the_readings() {
    let mut all = RadioReadings::default();
    for i in 0..100 {
        // Another cell each twenty readings, and no network for five of them.
        let mut row = reading(10 * i, -80.0 - i as f64 / 10.0, &format!("c{}", i / 20));
        if (50..55).contains(&i) {
            row = Radio::at(10 * i * S, "wwan0");
        }
        all.add(&row);
    }
    let radios = all.finish();
    let s = &radios[0].summary;
    assert_eq!((s.readings, s.cells, s.handovers), (100, 5, Some(4)));
    assert_eq!((s.watched_s, s.technology_changes), (990.0, 0));
    let signal = s.signal.unwrap();
    assert_eq!(signal.measure, Measure::Rsrp);
    assert!((signal.least + 89.9).abs() < 1e-4 && (signal.most + 80.1).abs() < 1e-4);
    assert_eq!(s.technologies[0].name.as_deref(), Some("lte"));
    let share = s
        .technologies
        .iter()
        .find(|t| t.name.is_none())
        .unwrap()
        .share;
    assert!((share - 5.0 / 99.0).abs() < 1e-9, "{share}");
}

#[test]
fn a_gap_is_no_handover_and_watches_nothing() {
    let mut all = RadioReadings::default();
    all.add(&reading(0, -90.0, "a"));
    all.add(&reading(3600, -90.0, "b"));
    let s = &all.finish()[0].summary;
    assert_eq!((s.handovers, s.watched_s, s.cells), (None, 0.0, 2));
}

#[test]
fn values_out_of_range_and_floods_of_names_are_left_out() {
    let mut all = RadioReadings::default();
    for i in 0..2000 {
        let mut row = reading(i, f64::NAN, "a");
        row.rssi_dbm = Some(1e9);
        row.interface = format!("w{}", i % 40).into();
        all.add(&row);
    }
    let radios = all.finish();
    assert_eq!(radios.len(), RADIOS);
    assert!(radios.iter().all(|r| r.summary.signal.is_none()));
}

/// Delay that follows the signal in half of the draws, and losses at handovers in half of them: the correlation is told of
/// the former and not of the latter, and bad seconds lie beside the handovers.
#[test]
fn what_depends_on_the_radio_is_told_and_what_does_not_is_not() {
    let (mut wrong, mut missed) = (0, 0);
    for seed in 0..200u64 {
        let mut rng = Streams::new(seed).stream("radio");
        let (depends, drops) = (seed % 2 == 0, seed % 4 < 2);
        let mut all = RadioReadings::default();
        let (mut rsrp, mut cell) = (-90.0, 0);
        let mut course = Vec::new();
        for i in 0..360 {
            rsrp = (rsrp + 3.0 * (uniform(&mut rng) - 0.5)).clamp(-120.0, -60.0);
            cell += i64::from(uniform(&mut rng) < 0.02);
            course.push((rsrp, cell));
            all.add(&reading(5 * i, rsrp, &cell.to_string()));
        }
        let radios = all.finish();
        let mut counter = Counter::new(&radios[0], "udp", 150.0);
        for i in 0..18_000i64 {
            let sent = i * S / 10;
            let at = (i / 50 + 1).min(359) as usize;
            let (rsrp, cell) = course[at];
            let base = if depends { -rsrp } else { 90.0 };
            let rtt = (base + 40.0 * uniform(&mut rng)) * 1e6;
            let lost = drops && cell != course[at - 1].1 && uniform(&mut rng) < 0.2;
            match lost {
                true => counter.probe(sent, None, Status::Lost),
                false => counter.probe(sent, Some(rtt as i64), Status::Ok),
            }
        }
        let found = counter.finish();
        match found.correlation {
            stats::Figure::Is { high, low, .. } => {
                missed += u64::from(depends && high >= 0.0);
                wrong += u64::from(!depends && !(low..=high).contains(&0.0));
            }
            stats::Figure::CannotTell { .. } => missed += u64::from(depends),
        }
        if let Some(s) = found.handover.filter(|_| drops) {
            assert!(s.bad_within * 2 >= s.bad || depends, "seed {seed}: {s:?}");
            assert!(s.bad_within > 0, "seed {seed}: {s:?}");
        }
    }
    assert!(wrong <= 9, "{wrong} of 100 wrong");
    assert!(missed <= 50, "{missed} of 100 missed");
    println!("{wrong} wrong, {missed} missed");
}
