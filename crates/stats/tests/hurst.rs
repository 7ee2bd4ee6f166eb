//! The Hurst parameter of noise whose own is known.

mod fgn;

use base::rng::{Streams, uniform};
use stats::Figure;
use stats::hurst::{Estimate, Hurst};

const NAMES: [&str; 3] = ["variance-time", "R/S", "wavelet"];

fn all(h: &Hurst) -> [&Estimate; 3] {
    [&h.variance_time, &h.rescaled_range, &h.wavelet]
}

#[test]
fn all_three_hold_the_h_of_fractional_noise_in_at_least_9_of_10_series() {
    for n in [1024, 8192] {
        let mut held = [0; 3];
        let mut sums = [0.0; 3];
        let runs = 40;
        let truths = [0.5, 0.6, 0.7, 0.8, 0.9];
        for truth in truths {
            let mut rng = Streams::new(5).stream(&format!("fgn/{n}/{truth}"));
            for _ in 0..runs {
                let found = Hurst::of(&fgn::noise(truth, n, &mut rng)).unwrap();
                for (i, e) in all(&found).into_iter().enumerate() {
                    let Figure::Is { value, low, high } = e.h else {
                        panic!("no interval")
                    };
                    held[i] += i32::from((low..=high).contains(&truth));
                    sums[i] += value - truth;
                }
            }
        }
        let total = f64::from(runs) * truths.len() as f64;
        for i in 0..3 {
            let (share, bias) = (f64::from(held[i]) / total, sums[i] / total);
            assert!(share >= 0.90, "{} {n}: {share}", NAMES[i]);
            assert!(bias.abs() < 0.02, "{} {n}: bias {bias}", NAMES[i]);
        }
    }
}

#[test]
fn a_step_in_the_rate_is_not_taken_for_self_similarity() {
    // Independent counts around 10, then around 20.
    let mut rng = Streams::new(5).stream("step");
    let series: Vec<f64> = (0..8192)
        .map(|i| uniform(&mut rng) * 4.0 + if i < 4096 { 10.0 } else { 20.0 })
        .collect();
    assert!(Hurst::of(&series).unwrap().unsteady());
    for h in [0.5, 0.9] {
        let noise = fgn::noise(h, 8192, &mut rng);
        assert!(!Hurst::of(&noise).unwrap().unsteady(), "{h}");
    }
}

#[test]
fn a_drift_leaves_the_wavelet_as_it_was() {
    let mut rng = Streams::new(5).stream("drift");
    let noise = fgn::noise(0.5, 4096, &mut rng);
    let drifting: Vec<f64> = noise
        .iter()
        .enumerate()
        .map(|(i, v)| v + 6.0 * (i as f64 / 4096.0).powi(2))
        .collect();
    let (plain, bent) = (Hurst::of(&noise).unwrap(), Hurst::of(&drifting).unwrap());
    let h = |e: &Estimate| e.h.value().unwrap();
    assert!((h(&plain.wavelet) - h(&bent.wavelet)).abs() < 1e-6);
    assert!(h(&bent.variance_time) > h(&plain.variance_time) + 0.2);
    assert!(bent.unsteady());
}

#[test]
fn too_little_is_told_and_not_guessed() {
    assert!(Hurst::of(&[1.0; 100]).unwrap_err().contains("too few"));
    assert!(Hurst::of(&[1.0; 1000]).unwrap_err().contains("the same"));
}
