//! Arithmetic that gives the same bits on every machine: only operations that IEEE 754 defines exactly, never the
//! system's mathematical library.

/// Returns the cube root, exact to the last bit or two. Zero for zero, negative values and NaN.
pub(crate) fn cube_root(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return 0.0;
    }
    // A third of the exponent is within a factor of two; each step of Newton's method doubles the correct digits.
    let mut r = f64::from_bits(x.to_bits() / 3 + 0x2aa0_0000_0000_0000);
    for _ in 0..6 {
        r = (2.0 * r + x / (r * r)) / 3.0;
    }
    r
}

/// Returns x to the power 3/4.
pub(crate) fn power_three_quarters(x: f64) -> f64 {
    let root = x.max(0.0).sqrt();
    root * root.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_and_powers_are_right_to_fourteen_digits() {
        for i in 0..200 {
            let x = 1e-6 * 1.3f64.powi(i);
            assert!((cube_root(x) / x.cbrt() - 1.0).abs() < 1e-14, "{x}");
            assert!(
                (power_three_quarters(x) / x.powf(0.75) - 1.0).abs() < 1e-14,
                "{x}"
            );
        }
        assert_eq!(cube_root(27.0), 3.0);
        assert_eq!(
            (cube_root(0.0), cube_root(-8.0), cube_root(f64::NAN)),
            (0.0, 0.0, 0.0)
        );
    }
}
