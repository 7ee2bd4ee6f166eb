//! Traffic of TCP and UDP together as Thombre 2020 models it: what arrives and what is served in a unit of time, as sums
//! and products of Weibull variables; and the bound of the mean delay that follows.
//!
//! **Source.** Thombre 2020, sections 3.2 and 4.1, (3.1)–(3.5), (4.1)–(4.10), table 3.1.
//!
//! **Deviations.** (4.12) writes the density of a sum as the sum of the densities, whose integral is 2; it is their
//! convolution, as (4.6) says. (4.10) multiplies a rate by squared rates of bytes, so its units do not cancel; Kingman's
//! bound for the recursion W′ = max(W + A − S, 0), in units of time that A and S are counted in, is
//! (σ_A² + σ_S²) / (2·S̄²·(1 − ρ)).
//!
//! **Units.** Rates in datagrams in a unit of time, sizes in bytes.

use crate::model::{
    Example, Measure, Model, OutOfModel, RATES, SHARES, SURE, TIMES, output, seconds,
};
use base::spec::{Params as _, choices, params};
use base::{BitsPerSec, Duration};
use statrs::function::gamma::ln_gamma;

/// A Weibull variable, S(x) = exp(−(x/scale)^shape), or a fixed value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Variable {
    Weibull { shape: f64, scale: f64 },
    Fixed(f64),
}

impl Variable {
    /// Mean of its `n`-th power.
    fn moment(self, n: f64) -> f64 {
        match self {
            Variable::Weibull { shape, scale } => {
                (n * scale.ln() + ln_gamma(1.0 + n / shape)).exp()
            }
            Variable::Fixed(value) => value.powf(n),
        }
    }

    /// Mean of the variable.
    pub fn mean(self) -> f64 {
        self.moment(1.0)
    }

    fn variance(self) -> f64 {
        match self {
            Variable::Weibull { .. } => self.moment(2.0) - self.moment(1.0).powi(2),
            Variable::Fixed(_) => 0.0,
        }
    }
}

/// The scale of a Weibull variable of that shape and mean: mean/Γ(1 + 1/shape).
pub fn weibull_scale(mean: f64, shape: f64) -> f64 {
    mean / ln_gamma(1.0 + 1.0 / shape).exp()
}

/// Datagrams of one protocol: how many in a unit of time, and how large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    /// Datagrams in a unit of time.
    pub rate: Variable,
    /// Bytes of a datagram.
    pub size: Variable,
}

impl Stream {
    fn mean(&self) -> f64 {
        self.rate.mean() * self.size.mean()
    }

    /// Variance of the product of two independent variables.
    fn variance(&self) -> f64 {
        self.rate.moment(2.0) * self.size.moment(2.0) - self.mean().powi(2)
    }

    /// Share of the units of time in which it brings more than `x` bytes.
    ///
    /// The size is exp(v/shape) times its scale with v of a Gumbel law, over which a sum in equal steps is exact to many
    /// digits; of the two that are multiplied the one with the larger shape is summed over, so that the other's part is smooth.
    pub fn above(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 1.0;
        }
        let (a, b) = match (self.rate, self.size) {
            (Variable::Fixed(n), Variable::Weibull { shape, scale })
            | (Variable::Weibull { shape, scale }, Variable::Fixed(n)) => {
                return (-(x / (n * scale)).powf(shape)).exp();
            }
            (Variable::Fixed(a), Variable::Fixed(b)) => return f64::from(u8::from(x < a * b)),
            (
                Variable::Weibull { shape: p, scale: a },
                Variable::Weibull { shape: q, scale: b },
            ) => ((p.min(q), p.max(q)), a * b),
        };
        let (low, high) = a;
        let reach = (x / b).powf(low);
        let ratio = low / high;
        let steps = ((GUMBEL.1 - GUMBEL.0) / STEP) as usize;
        let sum: f64 = (0..=steps)
            .map(|i| {
                let v = GUMBEL.0 + STEP * i as f64;
                (v - v.exp() - reach * (-v * ratio).exp()).exp()
            })
            .sum();
        (sum * STEP).min(1.0)
    }
}

/// Range of the Gumbel law, density exp(v − eᵛ), that holds all but 10⁻¹⁵ of its mass.
const GUMBEL: (f64, f64) = (-36.0, 4.0);
const STEP: f64 = 0.1;

/// (3.4) and (3.5): both protocols, and the part of TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mixture {
    /// Share of TCP, α.
    pub share: f64,
    /// Datagrams of TCP.
    pub tcp: Stream,
    /// Datagrams of UDP.
    pub udp: Stream,
    /// Datagrams that the link serves in a unit of time, θ.
    pub served: f64,
}

impl Mixture {
    /// Mixture from the parameters of a model.
    pub fn of(given: &MixtureParams) -> Mixture {
        let weibull = |shape, scale| Variable::Weibull { shape, scale };
        let size = |shape, scale, fixed| match given.sizes {
            Sizes::Fixed => Variable::Fixed(fixed),
            Sizes::Random => weibull(shape, scale),
        };
        let g = given;
        let mut mixture = Mixture {
            share: g.share,
            tcp: Stream {
                rate: weibull(g.tcp_rate_shape, g.tcp_rate_scale),
                size: size(g.tcp_size_shape, g.tcp_size_scale, FIXED_BYTES.0),
            },
            udp: Stream {
                rate: weibull(g.udp_rate_shape, g.udp_rate_scale),
                size: size(g.udp_size_shape, g.udp_size_scale, FIXED_BYTES.1),
            },
            served: g.served,
        };
        if let Some(rate) = g.rate {
            let bytes = rate.get() as f64 / 8.0 * seconds(g.unit);
            mixture.served = bytes / mixture.mean_size();
        }
        mixture
    }

    /// Both streams with the weights that they have in what arrives.
    pub fn parts(&self) -> [(f64, Stream); 2] {
        [(self.share, self.tcp), (1.0 - self.share, self.udp)]
    }

    /// Mean size of a served datagram.
    pub fn mean_size(&self) -> f64 {
        self.parts().iter().map(|(w, s)| w * s.size.mean()).sum()
    }

    /// Mean and variance of the bytes that arrive in a unit of time.
    fn arrivals(&self) -> (f64, f64) {
        let parts = self.parts();
        (
            parts.iter().map(|(w, s)| w * s.mean()).sum(),
            parts.iter().map(|(w, s)| w * w * s.variance()).sum(),
        )
    }

    /// Mean and variance of the bytes that can be served in a unit of time.
    fn service(&self) -> (f64, f64) {
        let squares = self.parts().map(|(w, s)| w * w * s.size.variance());
        (
            self.served * self.mean_size(),
            self.served.powi(2) * squares.iter().sum::<f64>(),
        )
    }

    /// Mean load of the link.
    pub fn load(&self) -> f64 {
        self.arrivals().0 / self.service().0
    }
}

/// Thombre 2020, section 4.1: of TCP and of UDP.
const FIXED_BYTES: (f64, f64) = (1500.0, 210.0);

choices! {
    /// Sizes of datagrams.
    pub(super) enum Sizes { Random = "random", Fixed = "fixed" }
}

params! {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct MixtureParams for "mixture": "TCP and UDP at one link: load, spread, and a bound of the mean delay", ["Thombre 2020, section 3.2, (3.4), (3.5), (4.10)",
            "Kingman 1962, for W′ = max(W + A − S, 0)",] {
        /// share α of TCP in the traffic
        share: f64 as Probability = "0.92" [SHARES], "Thombre 2020, section 3.1";
        /// datagrams that the link serves in a unit of time, θ
        served: f64 = "10" ["0.000001".."1000000000"], "none: Thombre 2020 prints none";
        /// if given, rate of the link, from which θ follows; `served` is then ignored
        rate: Option<BitsPerSec> [RATES];
        /// random: Weibull; fixed: 1500 bytes of TCP and 210 of UDP
        sizes: Sizes = "random", "Thombre 2020, section 4.1";
        /// unit of time in which datagrams are counted
        unit: Duration = "1ms" [TIMES], "none: Thombre 2020 prints none";
        /// shape β of TCP's arrival rate
        tcp_rate_shape: f64 = "1.34266" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale η of TCP's arrival rate, in datagrams in a unit of time
        tcp_rate_scale: f64 = "10.8176" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
        /// shape of the size of a TCP segment
        tcp_size_shape: f64 = "0.811221" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of the size of a TCP segment, in bytes
        tcp_size_scale: f64 = "712.344" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
        /// shape of UDP's arrival rate
        udp_rate_shape: f64 = "1.29519" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of UDP's arrival rate, in datagrams in a unit of time
        udp_rate_scale: f64 = "2.72557" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
        /// shape of the size of a UDP datagram
        udp_size_shape: f64 = "1.10141" ["0.2".."20"], "Thombre 2020, table 3.1";
        /// scale of the size of a UDP datagram, in bytes
        udp_size_scale: f64 = "826.505" ["0.000001".."1000000000"], "Thombre 2020, table 3.1";
    }
}

/// Model of traffic of TCP and UDP at one link.
pub static MIXTURE: Model = Model {
    entry: MixtureParams::ENTRY,
    formula: "A = α·C·P + (1−α)·B·D;  S = θ·(α·C + (1−α)·B);  E[CP] = E[C]·E[P], Var[CP] = E[C²]·E[P²] − E[CP]², E[Xⁿ] = ηⁿ·Γ(1 + n/β);  delay ≤ unit·(Var A + Var S)/(2·E[S]²·(1−ρ)), ρ = E[A]/E[S]",
    limits: "ρ < 1, units of time that are independent of each other. (4.10) as printed multiplies a rate by squared bytes, so its units do not cancel; here the spread is taken relative to what is served. Real traffic depends on what was before (see the Hurst parameter of `tailback trace --traffic`) and waits longer.",
    outputs: &[
        output(
            "load",
            Measure::Share,
            "what arrives over what can be served, ρ",
        ),
        output("arrivals", Measure::Size, "mean of A, in a unit of time"),
        output("arrivals_sd", Measure::Size, "standard deviation of A"),
        output("service", Measure::Size, "mean of S, in a unit of time"),
        output("service_sd", Measure::Size, "standard deviation of S"),
        output(
            "delay",
            Measure::Time,
            "upper bound of the mean time in the queue",
        ),
    ],
    example: Example {
        given: "share=1,served=10,sizes=fixed,tcp_rate_shape=1,tcp_rate_scale=8,unit=1ms",
        by_hand: "Shape 1 is the exponential: E[P] = 8 and its deviation too; A = 1500·8 = 12 000 bytes ± 12 000, S = 15 000 fixed, ρ = 0.8; 1 ms·12 000²/(2·15 000²·0.2) = 1.6 ms.",
        gives: &[
            ("load", 0.8),
            ("arrivals", 12_000.0),
            ("arrivals_sd", 12_000.0),
            ("service", 15_000.0),
            ("service_sd", 0.0),
            ("delay", 1.6e-3),
        ],
    },
    doubt: SURE,
    compute: |w| {
        let given: MixtureParams = w.read();
        let mixture = Mixture::of(&given);
        let ((arrivals, spread), (service, unsteady)) = (mixture.arrivals(), mixture.service());
        let load = arrivals / service;
        if load >= 1.0 {
            return Err(overloaded(load));
        }
        let delay = (spread + unsteady) / (2.0 * service.powi(2) * (1.0 - load));
        Ok(vec![
            Some(load),
            Some(arrivals),
            Some(spread.sqrt()),
            Some(service),
            Some(unsteady.sqrt()),
            Some(seconds(given.unit) * delay),
        ])
    },
};

fn overloaded(load: f64) -> OutOfModel {
    OutOfModel(format!(
        "what arrives is {load:.3} times what can be served, so the queue has no mean. Serve more, or see \"tagged\", \
         whose buffer is finite"
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tests::figure;
    use base::rng::{Rng, Streams, uniform};

    /// Draw of a variable.
    pub fn draw(of: Variable, rng: &mut Rng) -> f64 {
        match of {
            Variable::Weibull { shape, scale } => {
                scale * (-(1.0 - uniform(rng)).ln()).powf(1.0 / shape)
            }
            Variable::Fixed(value) => value,
        }
    }

    fn stream(p: f64, q: f64) -> Stream {
        let weibull = |shape| Variable::Weibull { shape, scale: 1.0 };
        Stream {
            rate: weibull(p),
            size: weibull(q),
        }
    }

    #[test]
    fn the_product_of_two_exponentials_is_a_bessel_function() {
        // P(XY > x) = 2√x·K₁(2√x); K₁(2) = 0.139 865 881 8, K₁(4) = 0.012 483 498 9.
        assert!((stream(1.0, 1.0).above(1.0) - 0.279_731_763_6).abs() < 1e-9);
        assert!((stream(1.0, 1.0).above(4.0) - 0.049_933_995_6).abs() < 1e-9);
        // XY of two Weibull variables of one shape is the product of two exponentials to the power 1/shape.
        let x: f64 = 1.7;
        for shape in [0.2, 0.8, 5.0] {
            let same = stream(shape, shape).above(x.powf(1.0 / shape));
            assert!((same - stream(1.0, 1.0).above(x)).abs() < 1e-9, "{shape}");
        }
    }

    #[test]
    fn weibull_moments_are_the_closed_forms_from_shape_0_2_to_5() {
        // Γ(1 + 1/β) and Γ(1 + 2/β): factorials, √π/2, and Γ(1.2), Γ(1.4) of a table.
        for (shape, first, second) in [
            (0.2, 120.0, 3_628_800.0),
            (0.25, 24.0, 40_320.0),
            (0.5, 2.0, 24.0),
            (1.0, 1.0, 2.0),
            (2.0, std::f64::consts::PI.sqrt() / 2.0, 1.0),
            (5.0, 0.918_168_742_399_761, 0.887_263_817_503_075),
        ] {
            for scale in [1e-6, 1.0, 1e9] {
                let x = Variable::Weibull { shape, scale };
                let (m, v) = (first * scale, (second - first * first) * scale * scale);
                assert!((x.mean() / m - 1.0).abs() < 1e-12, "{shape} {scale}");
                assert!((x.variance() / v - 1.0).abs() < 1e-10, "{shape} {scale}");
                assert!((weibull_scale(m, shape) / scale - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_law_of_a_product_has_the_moments_that_gamma_functions_give() {
        // ∫ S(x) dx is the mean and ∫ 2x·S(x) dx the second moment; x = eᵘ makes both smooth for any shape.
        for (p, q) in [
            (0.2, 5.0),
            (0.2, 0.2),
            (1.34266, 0.811221),
            (5.0, 5.0),
            (3.0, 0.5),
        ] {
            let s = stream(p, q);
            let integral = |n: f64| {
                let steps = (0..12_000).map(|i| -60.0 + 0.01 * f64::from(i));
                let parts = steps.map(|u| n * (n * u).exp() * s.above(u.exp()) * 0.01);
                parts.sum::<f64>()
            };
            let second = s.rate.moment(2.0) * s.size.moment(2.0);
            for (n, expected) in [(1.0, s.mean()), (2.0, second)] {
                let got = integral(n);
                assert!(
                    (got / expected - 1.0).abs() < 1e-4,
                    "{p} {q} {n}: {got} {expected}"
                );
            }
        }
    }

    #[test]
    fn moments_of_arrivals_and_service_agree_with_draws_to_1_percent() {
        let mut rng = Streams::new(5).stream("mixture");
        for (share, shapes) in [
            (0.92, ""),
            (0.3, ",udp_size_shape=0.6"),
            (0.5, ",sizes=fixed"),
        ] {
            let text = format!("mixture:share={share},served=16{shapes}");
            let (_, words) = super::super::parse(&text).unwrap();
            let m = Mixture::of(&words.read());
            let n = 1_000_000;
            let (mut a, mut aa, mut s, mut ss) = (0.0, 0.0, 0.0, 0.0);
            for _ in 0..n {
                let mut one = |of| draw(of, &mut rng);
                let (c, b) = (one(m.tcp.size), one(m.udp.size));
                let arrived = share * c * one(m.tcp.rate) + (1.0 - share) * b * one(m.udp.rate);
                let served = m.served * (share * c + (1.0 - share) * b);
                a += arrived;
                aa += arrived * arrived;
                s += served;
                ss += served * served;
            }
            let n = f64::from(n);
            let sd = |sum: f64, squares: f64| (squares / n - (sum / n).powi(2)).max(0.0).sqrt();
            for (name, drawn) in [
                ("arrivals", a / n),
                ("arrivals_sd", sd(a, aa)),
                ("service", s / n),
                ("service_sd", sd(s, ss)),
            ] {
                let reckoned = figure(&text, name);
                assert!(
                    (drawn - reckoned).abs() <= 0.01 * reckoned.max(1e-3),
                    "{text}: {name} {reckoned}, drawn {drawn}"
                );
            }
        }
    }

    #[test]
    fn no_simulated_queue_waits_longer_than_the_bound() {
        for text in [
            "mixture:share=0.9,served=10",
            "mixture:share=0.5,served=8",
            "mixture:share=0.92,served=10,sizes=fixed",
            "mixture:share=0.7,served=40,tcp_size_shape=0.5,tcp_size_scale=1500",
        ] {
            let (_, words) = super::super::parse(text).unwrap();
            let m = Mixture::of(&words.read());
            let mut rng = Streams::new(2).stream("bound");
            let (mut queue, mut sum, n) = (0.0f64, 0.0, 300_000);
            for _ in 0..n {
                sum += queue;
                let mut part = |(w, s): (f64, Stream), served: f64| {
                    w * draw(s.size, &mut rng) * (served + (1.0 - served) * draw(s.rate, &mut rng))
                };
                let [tcp, udp] = m.parts();
                let arrived = part(tcp, 0.0) + part(udp, 0.0);
                let served = m.served * (part(tcp, 1.0) + part(udp, 1.0));
                queue = (queue + arrived - served).max(0.0);
            }
            let units = sum / f64::from(n) / m.service().0;
            let bound = figure(text, "delay") / 1e-3;
            assert!(
                units <= bound && units > bound / 20.0,
                "{text}: {units} of {bound}"
            );
        }
    }

    #[test]
    fn a_rate_of_the_link_serves_as_many_datagrams_of_mean_size() {
        // 12 Mbit/s are 1500 bytes a millisecond.
        let fixed = "mixture:share=1,sizes=fixed,tcp_rate_shape=1,tcp_rate_scale=0.8,unit=10ms";
        assert!((figure(&format!("{fixed},rate=12Mbit/s"), "load") - 0.08).abs() < 1e-12);
        assert!((figure(&format!("{fixed},served=10"), "load") - 0.08).abs() < 1e-12);
    }

    #[test]
    fn more_than_can_be_served_is_refused() {
        let (model, words) = super::super::parse("mixture:served=5").unwrap();
        let why = model.evaluate(&words).unwrap_err().to_string();
        assert!(why.contains("1.8") && why.contains("tagged"), "{why}");
    }
}
