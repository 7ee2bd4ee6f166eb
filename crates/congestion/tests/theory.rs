//! Laws of the window in the steady state, over the simplest path there is: round trips of one length,
//! every n-th segment lost or marked.

use base::rng::Streams;
use base::{Bytes, Duration, Time};
use congestion::{Ack, AnyController, Congestion, Controller, ControllerSpec, Setup};

const MSS: Bytes = Bytes::new(1000);

struct Path {
    c: AnyController,
    rtt: Duration,
    now: Time,
    /// Segments sent so far.
    sent: u64,
}

/// What a round trip does to a segment of the given number.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Passes,
    Marked,
    Lost,
}

impl Path {
    fn new(spec: &str, rtt: Duration) -> Path {
        Path::from_window(spec, rtt, 10)
    }

    fn from_window(spec: &str, rtt: Duration, segments: u64) -> Path {
        let spec: ControllerSpec = spec.parse().unwrap();
        let setup = Setup::with_initial_segments(MSS, segments);
        Path {
            c: spec.build(&setup, Time::ZERO, &Streams::new(1), "flow"),
            rtt,
            now: Time::ZERO,
            sent: 0,
        }
    }

    /// A round trip: a window is sent and acknowledged segment by segment; however many of it are lost,
    /// that is one congestion event, told at its end. Returns the segments sent.
    fn round(&mut self, fate: impl Fn(u64) -> Fate) -> u64 {
        let window = self.c.cwnd();
        let segments = (window.get() / MSS.get()).max(1);
        let at_start = MSS * self.sent;
        let mut lost = false;
        for _ in 0..segments {
            self.now += self.rtt / segments;
            self.sent += 1;
            match fate(self.sent) {
                Fate::Lost => lost = true,
                f => self.c.on_ack(
                    self.now,
                    &Ack {
                        newly_acked: MSS,
                        inflight_before: window,
                        inflight: window.saturating_sub(MSS),
                        rtt: Some(self.rtt),
                        min_rtt: Some(self.rtt),
                        srtt: Some(self.rtt),
                        ce_bytes: if f == Fate::Marked { MSS } else { Bytes::ZERO },
                        delivered: MSS * self.sent,
                        prior_delivered: at_start,
                        cwnd_limited: true,
                        ..Ack::default()
                    },
                ),
            }
        }
        if lost {
            self.c
                .on_congestion(self.now, &Congestion::Loss { flight: window });
        }
        segments
    }

    /// Mean window in segments over `rounds` round trips, after as many to settle.
    fn mean_window(&mut self, rounds: u64, fate: impl Fn(u64) -> Fate + Copy) -> f64 {
        (0..rounds).for_each(|_| {
            self.round(fate);
        });
        (0..rounds).map(|_| self.round(fate)).sum::<u64>() as f64 / rounds as f64
    }
}

fn every(n: u64, what: Fate) -> impl Fn(u64) -> Fate + Copy {
    move |i| {
        if i.is_multiple_of(n) {
            what
        } else {
            Fate::Passes
        }
    }
}

#[test]
fn renos_window_is_the_root_of_three_over_two_p() {
    // M. Mathis, J. Semke, J. Mahdavi, T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
    // Algorithm", ACM CCR 27(3), 1997, equation 3 with an ACK for each segment: 1.22/√p.
    // At 1/100 whole segments matter: windows of 8 to 16.
    for (n, tolerance) in [(100, 0.2), (1_000, 0.05), (10_000, 0.03)] {
        let by_law = (1.5 * n as f64).sqrt();
        let mut path = Path::new("newreno", Duration::from_millis(100));
        let mean = path.mean_window(20_000, every(n, Fate::Lost));
        assert!(
            (mean / by_law - 1.0).abs() < tolerance,
            "1/{n}: {mean}, by the law {by_law}"
        );
    }
}

#[test]
fn cubics_window_is_that_of_rfc_9438() {
    // Section 5.1, equation 6: (C·(3+β)/(4·(1-β)))^(1/4) · RTT^(3/4) / p^(3/4); table 1: 187 segments at
    // p = 10⁻⁴ and RTT = 0.1 s, 1054 at 10⁻⁵. It assumes that every loss meets the same window, so that
    // fast convergence has nothing to do. The window is (3+β)/4 of that maximum in the mean.
    for (n, table) in [(10_000u64, 187.0), (100_000, 1054.0)] {
        let by_law = (0.4 * 3.7 / 1.2f64).powf(0.25) * 0.1f64.powf(0.75) * (n as f64).powf(0.75);
        assert!((by_law / table - 1.0f64).abs() < 0.01, "{by_law} {table}");
        // The curve is flat where losses meet it, so a wrong maximum is corrected by little a cycle: begin
        // at the law's, a tenth above and a tenth below.
        let mean = |of_law: f64| {
            let segments = (of_law * by_law / 0.925).round() as u64;
            let spec = "cubic:reno_friendly=false,fast_convergence=false";
            let mut path = Path::from_window(spec, Duration::from_millis(100), segments);
            let flight = path.c.cwnd();
            path.c.on_congestion(path.now, &Congestion::Loss { flight });
            path.mean_window(4_000, every(n, Fate::Lost))
        };
        let (above, same, below) = (mean(1.1), mean(1.0), mean(0.9));
        assert!(
            (same / by_law - 1.0).abs() < 0.03,
            "1/{n}: {same}, by the law {by_law}"
        );
        assert!(
            same < above && above < 1.1 * by_law,
            "1/{n}: {above} {same}"
        );
        assert!(
            same > below && below > 0.9 * by_law,
            "1/{n}: {below} {same}"
        );
    }
}

#[test]
fn cubic_is_no_slower_than_reno_on_short_paths() {
    // Section 4.3: at 10 ms and p = 10⁻³ the cubic curve alone gets 1.054·0.0316·178 = 5.9 segments, Reno
    // 38.7.
    let mean = |spec| {
        Path::new(spec, Duration::from_millis(10)).mean_window(20_000, every(1_000, Fate::Lost))
    };
    let (cubic, reno, alone) = (
        mean("cubic"),
        mean("newreno"),
        mean("cubic:reno_friendly=false"),
    );
    assert!((cubic / reno - 1.0).abs() < 0.08, "{cubic} {reno}");
    assert!(alone < reno / 3.0, "{alone} {reno}");
}

#[test]
fn dctcps_alpha_is_the_root_of_two_over_the_window() {
    // M. Alizadeh et al., SIGCOMM 2010, section 3.3: alpha ≈ √(2/W*), where W* fills the path and the
    // queue up to the threshold: a round trip that begins with more is marked. Equation 15 wants g below
    // 1.386/√(2·W*) for it, 0.035 at 800 segments. A cycle is the round trip that is marked, one more in
    // which we do not grow, and W*·alpha/2 to grow back: one marked of so many is alpha, whose root is
    // (√(4+2W*) - 2)/W*, nearly √(2/W*) for large windows.
    for full in [50u64, 200, 800] {
        let mut path = Path::new("dctcp:g=0.01", Duration::from_millis(1));
        let mut alphas = Vec::new();
        for i in 0..20_000 {
            let over = path.c.cwnd() > MSS * full;
            path.round(|_| if over { Fate::Marked } else { Fate::Passes });
            if i >= 10_000 {
                alphas.push(path.c.state().variables[0].unwrap().1);
            }
        }
        let mean = alphas.iter().sum::<f64>() / alphas.len() as f64;
        let w = full as f64;
        let by_law = ((4.0 + 2.0 * w).sqrt() - 2.0) / w;
        assert!(
            (mean / by_law - 1.0).abs() < 0.05,
            "{full}: {mean}, by the law {by_law}"
        );
    }
}

#[test]
fn pragues_window_is_about_two_over_the_part_marked() {
    // A segment a round trip comes, p/2 of the window goes: 2/p, if a mark came at once whenever a
    // reduction is allowed again. Marks are half a round trip apart here, so it waits a little.
    for n in [20u64, 100] {
        let mut path = Path::new("prague", Duration::from_millis(50));
        let mean = path.mean_window(20_000, every(n, Fate::Marked));
        let in_units = mean / n as f64;
        assert!((1.7..3.2).contains(&in_units), "{n}: {mean}");
    }
}

#[test]
fn more_losses_never_mean_a_larger_window() {
    for name in [
        "tahoe", "reno", "newreno", "bic", "cubic", "compound", "vegas",
    ] {
        let means: Vec<f64> = [50, 500, 5_000]
            .iter()
            .map(|n| {
                Path::new(name, Duration::from_millis(50)).mean_window(5_000, every(*n, Fate::Lost))
            })
            .collect();
        assert!(means.is_sorted(), "{name}: {means:?}");
    }
}
