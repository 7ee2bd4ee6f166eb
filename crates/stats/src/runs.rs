//! Order statistics of several ascending runs together, without merging them.
//!
//! **Method.** Bisection of the values: a binary search counts the values of each run at or below a value, and each
//! step leaves every run a shorter stretch to search. Exact.

/// Number of values of all runs that are at most `limit`.
pub fn within<T: Copy + Into<i64>>(runs: &[&[T]], limit: i64) -> usize {
    runs.iter()
        .map(|r| r.partition_point(|v| (*v).into() <= limit))
        .sum()
}

/// `k`-th smallest value, counted from 0.
///
/// # Panics
/// If there are no more than `k` values.
pub fn kth<T: Copy + Into<i64>>(runs: &[&[T]], k: usize) -> i64 {
    let total: usize = runs.iter().map(|r| r.len()).sum();
    assert!(k < total, "value {k} of {total}");
    let ends = || runs.iter().filter(|r| !r.is_empty());
    let mut low = ends().map(|r| r[0].into()).min().unwrap_or(0);
    let mut high = ends().map(|r| r[r.len() - 1].into()).max().unwrap_or(0);
    // Of each run, the stretch whose values lie between `low` and `high`.
    let mut open: Vec<(usize, usize)> = runs.iter().map(|r| (0, r.len())).collect();
    let mut cut: Vec<usize> = vec![0; runs.len()];
    while low < high {
        let middle = ((i128::from(low) + i128::from(high)).div_euclid(2)) as i64;
        let mut below = 0;
        for ((run, (a, b)), cut) in runs.iter().zip(&open).zip(&mut cut) {
            *cut = a + run[*a..*b].partition_point(|v| (*v).into() <= middle);
            below += *cut;
        }
        if below > k {
            high = middle;
            open.iter_mut().zip(&cut).for_each(|(o, c)| o.1 = *c);
        } else {
            low = middle + 1;
            open.iter_mut().zip(&cut).for_each(|(o, c)| o.0 = *c);
        }
    }
    low
}

/// `p`-quantile by the rule of `base::sketch`. `None` without values.
pub fn quantile<T: Copy + Into<i64>>(runs: &[&[T]], p: f64) -> Option<f64> {
    let total: usize = runs.iter().map(|r| r.len()).sum();
    let mut before: Option<i64> = None;
    base::sketch::quantile(total as u64, p, |k| {
        // The next one is often the same.
        let same = before.filter(|value| within(runs, *value) > k as usize);
        let value = same.unwrap_or_else(|| kth(runs, k as usize));
        before = Some(value);
        value as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile_of_sorted;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_give_what_sorting_them_together_gives(
            mut runs in prop::collection::vec(prop::collection::vec(-50i64..50, 0..30), 1..6),
            p in 0.0f64..=1.0,
        ) {
            runs.iter_mut().for_each(|r| r.sort_unstable());
            let slices: Vec<&[i64]> = runs.iter().map(Vec::as_slice).collect();
            let mut all: Vec<i64> = runs.concat();
            all.sort_unstable();
            for (k, v) in all.iter().enumerate() {
                prop_assert_eq!(kth(&slices, k), *v);
            }
            let reals: Vec<f64> = all.iter().map(|v| *v as f64).collect();
            prop_assert_eq!(quantile(&slices, p), quantile_of_sorted(&reals, p));
            prop_assert_eq!(within(&slices, 7), all.iter().filter(|v| **v <= 7).count());
            let short: Vec<Vec<i32>> = runs.iter().map(|r| r.iter().map(|v| *v as i32).collect()).collect();
            let short: Vec<&[i32]> = short.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(quantile(&short, p), quantile(&slices, p));
        }
    }

    #[test]
    fn values_at_the_ends_of_their_range_are_found() {
        let run = [i64::MIN, 0, i64::MAX];
        assert_eq!([kth(&[&run], 0), kth(&[&run], 2)], [i64::MIN, i64::MAX]);
    }
}
