//! Order statistics of several ascending runs together, without merging them.
//!
//! **Method.** An even sample of the values gives two pivots around the wanted ranks. Binary searches count each run's
//! values below, between and above the pivots, and one of the three parts remains. A few rounds leave so few values that
//! they are gathered and selected from. Exact, whatever the sample.

/// Number of values that are gathered rather than divided further.
const FEW: usize = SAMPLE;
/// Values in the sample of a round.
const SAMPLE: usize = 4096;
/// Ranks of the sample by which a pivot keeps away from the wanted ranks.
const MARGIN: usize = 8;

/// Smallest values of these ranks, counted from 0, in the order of the ranks. Many at once cost little more than one.
///
/// # Panics
/// If there are no more values than a rank.
pub fn kths<T: Copy + Into<i64>>(runs: &[&[T]], ranks: &[usize]) -> Vec<i64> {
    let mut ascending = ranks.to_vec();
    ascending.sort_unstable();
    ascending.dedup();
    let total = count(runs);
    if let Some(last) = ascending.last() {
        assert!(*last < total, "value {last} of {total}");
    }
    let mut found = Vec::with_capacity(ascending.len());
    select(runs, &ascending, &mut found);
    let place = |k: &usize| ascending.partition_point(|other| other < k);
    ranks.iter().map(|k| found[place(k)]).collect()
}

fn count<T>(runs: &[&[T]]) -> usize {
    runs.iter().map(|r| r.len()).sum()
}

/// Appends the values of ascending ranks.
fn select<T: Copy + Into<i64>>(runs: &[&[T]], ranks: &[usize], found: &mut Vec<i64>) {
    let (Some(&first), Some(&last)) = (ranks.first(), ranks.last()) else {
        return;
    };
    let total = count(runs);
    if total <= FEW {
        let mut all: Vec<i64> = runs
            .iter()
            .flat_map(|r| r.iter().map(|v| (*v).into()))
            .collect();
        // The stable sort merges runs.
        all.sort();
        found.extend(ranks.iter().map(|k| all[*k]));
        return;
    }
    // Ranks far apart would keep nearly all values between their pivots.
    if ranks.len() > 1 && last - first > total / 16 {
        let (low, high) = ranks.split_at(ranks.len() / 2);
        select(runs, low, found);
        select(runs, high, found);
        return;
    }
    let (low, high) = pivots(runs, (first, last), total);
    let parts = divide(runs, low, high);
    let [below, between, _] = parts.each_ref().map(|p| count(p));
    let middle = ranks.partition_point(|k| *k < below);
    let end = ranks.partition_point(|k| *k < below + between);
    select(&parts[0], &ranks[..middle], found);
    let lowered = |ranks: &[usize], by: usize| ranks.iter().map(|k| k - by).collect::<Vec<_>>();
    let inside = lowered(&ranks[middle..end], below);
    if low == high {
        found.extend(inside.iter().map(|_| low));
    } else if between == total {
        // Few different values: one of the pivots alone is a part that shrinks.
        let parts = divide(runs, low, low);
        let same = count(&parts[1]);
        let equal = inside.partition_point(|k| *k < same);
        found.extend(inside[..equal].iter().map(|_| low));
        select(&parts[2], &lowered(&inside[equal..], same), found);
    } else {
        select(&parts[1], &inside, found);
    }
    select(&parts[2], &lowered(&ranks[end..], below + between), found);
}

/// Values that most likely have the wanted ranks between them.
fn pivots<T: Copy + Into<i64>>(
    runs: &[&[T]],
    (first, last): (usize, usize),
    total: usize,
) -> (i64, i64) {
    let stride = total / SAMPLE;
    let mut sample: Vec<i64> = Vec::with_capacity(SAMPLE + 1);
    // The sample goes through the runs as if they were one list.
    let mut next = stride / 2;
    for run in runs {
        while let Some(value) = run.get(next) {
            sample.push((*value).into());
            next += stride;
        }
        next -= run.len();
    }
    sample.sort();
    let low = (first / stride).saturating_sub(MARGIN);
    let high = (last / stride + MARGIN).min(sample.len() - 1);
    (sample[low.min(high)], sample[high])
}

/// The runs' parts below `low`, from `low` to `high`, and above `high`, without empty ones.
fn divide<'r, T: Copy + Into<i64>>(runs: &[&'r [T]], low: i64, high: i64) -> [Vec<&'r [T]>; 3] {
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for run in runs {
        let (below, rest) = run.split_at(run.partition_point(|v| (*v).into() < low));
        let (between, above) = rest.split_at(rest.partition_point(|v| (*v).into() <= high));
        for (part, run) in parts.iter_mut().zip([below, between, above]) {
            if !run.is_empty() {
                part.push(run);
            }
        }
    }
    parts
}

/// Quantiles by the rule of `base::sketch`, one for each share. `None` without values.
pub fn quantiles<T: Copy + Into<i64>>(runs: &[&[T]], shares: &[f64]) -> Option<Vec<f64>> {
    let total = count(runs) as u64;
    let mut ranks = Vec::new();
    for p in shares {
        base::sketch::quantile(total, *p, |k| {
            ranks.push(k as usize);
            0.0
        })?;
    }
    // The rule asks for the same ranks again.
    let mut values = kths(runs, &ranks).into_iter().map(|v| v as f64);
    let mut next = |_| values.next().unwrap_or(f64::NAN);
    shares
        .iter()
        .map(|p| base::sketch::quantile(total, *p, &mut next))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile_of_sorted;
    use base::rng::{Streams, uniform};
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
            let ranks: Vec<usize> = (0..all.len()).rev().collect();
            all.reverse();
            prop_assert_eq!(kths(&slices, &ranks), all.clone());
            all.reverse();
            let reals: Vec<f64> = all.iter().map(|v| *v as f64).collect();
            let both = quantile_of_sorted(&reals, p).zip(quantile_of_sorted(&reals, 0.5));
            prop_assert_eq!(quantiles(&slices, &[p, 0.5]), both.map(|(a, b)| vec![a, b]));
            let short: Vec<Vec<i32>> = runs.iter().map(|r| r.iter().map(|v| *v as i32).collect()).collect();
            let short: Vec<&[i32]> = short.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(quantiles(&short, &[p]), quantiles(&slices, &[p]));
        }
    }

    #[test]
    fn values_at_the_ends_of_their_range_are_found() {
        let run = [i64::MIN, 0, i64::MAX];
        assert_eq!(kths(&[&run], &[2, 0, 0]), [i64::MAX, i64::MIN, i64::MIN]);
    }

    /// Runs of many values, of which few may differ, against the same values in one list.
    #[test]
    fn ranks_of_many_values_are_those_of_one_sorted_list() {
        for seed in 0..300 {
            let mut rng = Streams::new(seed).stream("runs");
            let mut draw = |most: f64| (uniform(&mut rng) * most) as i64;
            let different = 10f64.powi(draw(7.0) as i32);
            let runs: Vec<Vec<i64>> = (0..1 + draw(60.0))
                .map(|_| {
                    let from = draw(2.0) * draw(different);
                    let len = draw(2.0) * draw(2.0) * draw(3_000.0) + draw(40.0);
                    let mut run: Vec<i64> = (0..len).map(|_| from + draw(different)).collect();
                    run.sort_unstable();
                    run
                })
                .collect();
            let slices: Vec<&[i64]> = runs.iter().map(Vec::as_slice).collect();
            let mut all = runs.concat();
            all.sort_unstable();
            let mut ranks: Vec<usize> = (0..draw(9.0))
                .map(|_| draw(all.len() as f64) as usize)
                .collect();
            ranks.extend(ranks.first().map(|k| k + 1));
            ranks.retain(|k| *k < all.len());
            let expected: Vec<i64> = ranks.iter().map(|k| all[*k]).collect();
            assert_eq!(
                kths(&slices, &ranks),
                expected,
                "seed {seed}, ranks {ranks:?}"
            );
        }
    }
}
