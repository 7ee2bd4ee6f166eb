//! Multiple linear regression by least squares, with intervals for a single new value.
//!
//! **Source.** Thombre 2020, appendix A; Draper and Smith, *Applied Regression Analysis*, 3rd ed., 3.1 and 8.1 (hat matrix, deleted
//! residuals).
//!
//! **Units.** Those of the values.

use crate::student_t95;

/// Fitted line: one coefficient for each column, the first for the constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// Coefficients, that of the constant first.
    pub coefficients: Vec<f64>,
    /// Standard deviation of the residuals.
    pub deviation: f64,
    /// Share of the variance that the line explains.
    pub r2: f64,
    /// Share of the variance explained of values that were left out of the fit, one at a time.
    pub r2_left_out: f64,
    /// Share of the left-out values that lie outside their own 95 % interval.
    pub outside_left_out: f64,
    degrees: f64,
    /// (XᵀX)⁻¹.
    inverse: Vec<Vec<f64>>,
}

/// Prediction for one new value, in the columns of appendix A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Expected value.
    pub value: f64,
    /// Standard error of an individual value, not of the mean.
    pub standard_error: f64,
    /// Lower end of the interval that holds 95 % of individual values.
    pub low: f64,
    /// Upper end of the interval that holds 95 % of individual values.
    pub high: f64,
}

/// Reason why no line could be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegressionError {
    #[error("{rows} rows are too few for {columns} columns: at least {least}")]
    TooFew {
        rows: usize,
        columns: usize,
        least: usize,
    },
    #[error("column {column} follows from the others, so its part cannot be told")]
    Dependent { column: usize },
}

impl Regression {
    /// Fits a line. `rows` hold the columns, without the constant, and `values` the quantity to predict.
    ///
    /// # Errors
    /// Fewer than three rows more than columns; a column that is constant or follows from the others.
    pub fn fit(rows: &[Vec<f64>], values: &[f64]) -> Result<Regression, RegressionError> {
        let columns = rows.first().map_or(0, Vec::len);
        let least = columns + 3;
        if rows.len() < least {
            return Err(RegressionError::TooFew {
                rows: rows.len(),
                columns,
                least,
            });
        }
        let n = columns + 1;
        let row = |x: &[f64]| [&[1.0], x].concat();
        let mut normal = vec![vec![0.0; n]; n];
        let mut right = vec![0.0; n];
        for (x, y) in rows.iter().zip(values) {
            let x = row(x);
            for i in 0..n {
                right[i] += x[i] * y;
                for j in 0..n {
                    normal[i][j] += x[i] * x[j];
                }
            }
        }
        let inverse = inverse(normal)?;
        let times =
            |m: &[Vec<f64>], v: &[f64]| -> Vec<f64> { m.iter().map(|r| dot(r, v)).collect() };
        let coefficients = times(&inverse, &right);
        let degrees = (rows.len() - n) as f64;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let spread: f64 = values.iter().map(|y| (y - mean).powi(2)).sum();
        let residuals: Vec<(f64, f64)> = rows
            .iter()
            .zip(values)
            .map(|(x, y)| {
                let x = row(x);
                (y - dot(&coefficients, &x), dot(&x, &times(&inverse, &x)))
            })
            .collect();
        let squares: f64 = residuals.iter().map(|(e, _)| e * e).sum();
        let deleted = residuals.iter().map(|(e, h)| e / (1.0 - h));
        let left_out: f64 = deleted.map(|e| e * e).sum();
        // The deviation without a row, from the whole: Draper and Smith, 8.1.
        let reach = student_t95(degrees - 1.0);
        let outside = residuals.iter().filter(|(e, h)| {
            let without = ((squares - e * e / (1.0 - h)) / (degrees - 1.0)).max(0.0);
            (e / (1.0 - h)).abs() > reach * (without / (1.0 - h)).sqrt()
        });
        Ok(Regression {
            deviation: (squares / degrees).sqrt(),
            r2: 1.0 - squares / spread,
            r2_left_out: 1.0 - left_out / spread,
            outside_left_out: outside.count() as f64 / rows.len() as f64,
            coefficients,
            degrees,
            inverse,
        })
    }

    /// Prediction for a new row, with its interval.
    pub fn predict(&self, row: &[f64]) -> Prediction {
        let x = [&[1.0], row].concat();
        let through: Vec<f64> = self.inverse.iter().map(|r| dot(r, &x)).collect();
        let standard_error = self.deviation * (1.0 + dot(&x, &through)).sqrt();
        let value = dot(&self.coefficients, &x);
        let reach = student_t95(self.degrees) * standard_error;
        Prediction {
            value,
            standard_error,
            low: value - reach,
            high: value + reach,
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Inverse by Gauss and Jordan with the largest pivot, of a matrix whose diagonal is scaled to 1.
fn inverse(mut m: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, RegressionError> {
    let n = m.len();
    let scale: Vec<f64> = (0..n).map(|i| m[i][i].sqrt()).collect();
    for (i, row) in m.iter_mut().enumerate() {
        for (j, v) in row.iter_mut().enumerate() {
            *v /= scale[i] * scale[j];
        }
        row.extend((0..n).map(|j| f64::from(u8::from(i == j))));
    }
    for at in 0..n {
        let pivot = (at..n)
            .max_by(|a, b| m[*a][at].abs().total_cmp(&m[*b][at].abs()))
            .expect("a row is left");
        m.swap(at, pivot);
        let by = m[at][at];
        if by.abs().is_nan() || by.abs() <= 1e-10 {
            return Err(RegressionError::Dependent { column: at });
        }
        m[at].iter_mut().for_each(|v| *v /= by);
        let row = m[at].clone();
        for (_, other) in m.iter_mut().enumerate().filter(|(i, _)| *i != at) {
            let by = other[at];
            other.iter_mut().zip(&row).for_each(|(v, r)| *v -= by * r);
        }
    }
    let rows = m.into_iter().enumerate();
    Ok(rows
        .map(|(i, row)| (0..n).map(|j| row[n + j] / (scale[i] * scale[j])).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    #[test]
    fn a_line_by_hand() {
        // x 1 2 3 4, y 1 3 2 5: slope 5.5/5 = 1.1, constant 2.75 − 2.75 = 0; squares 0.01+0.64+1.69+0.36 = 2.7, s² = 1.35.
        let rows: Vec<Vec<f64>> = (1..=4).map(|x| vec![f64::from(x)]).collect();
        let r = Regression::fit(&rows, &[1.0, 3.0, 2.0, 5.0]).unwrap();
        assert!(r.coefficients[0].abs() < 1e-9 && (r.coefficients[1] - 1.1).abs() < 1e-9);
        assert!((r.deviation - 1.35f64.sqrt()).abs() < 1e-9);
        assert!((r.r2 - (1.0 - 2.7 / 8.75)).abs() < 1e-9);
        // At the mean, 2.5: se = s·√(1 + 1/4); t of 2 degrees is 4.3027.
        let p = r.predict(&[2.5]);
        assert!((p.standard_error - (1.35f64 * 1.25).sqrt()).abs() < 1e-9);
        assert!((p.high - (2.75 + 4.302_653 * p.standard_error)).abs() < 1e-4);
    }

    #[test]
    fn leaving_rows_out_by_the_hat_matrix_is_fitting_without_them() {
        let mut rng = Streams::new(1).stream("rows");
        let (rows, values) = drawn(12, &mut rng);
        let whole = Regression::fit(&rows, &values).unwrap();
        let mean = values.iter().sum::<f64>() / 12.0;
        let spread: f64 = values.iter().map(|y| (y - mean).powi(2)).sum();
        let (mut squares, mut outside) = (0.0, 0.0);
        for out in 0..12 {
            let keep = |i: &usize| *i != out;
            let some: Vec<_> = (0..12).filter(keep).map(|i| rows[i].clone()).collect();
            let left: Vec<_> = (0..12).filter(keep).map(|i| values[i]).collect();
            let p = Regression::fit(&some, &left).unwrap().predict(&rows[out]);
            squares += (values[out] - p.value).powi(2);
            outside += f64::from(u8::from(!(p.low..=p.high).contains(&values[out]))) / 12.0;
        }
        assert!((whole.r2_left_out - (1.0 - squares / spread)).abs() < 1e-9);
        assert!((whole.outside_left_out - outside).abs() < 1e-9);
    }

    fn drawn(n: usize, rng: &mut Rng) -> (Vec<Vec<f64>>, Vec<f64>) {
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|_| vec![uniform(rng), 100.0 * uniform(rng)])
            .collect();
        let noise = |rng: &mut Rng| (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0;
        let values = rows
            .iter()
            .map(|r| 3.0 + 2.0 * r[0] - 0.1 * r[1] + noise(rng))
            .collect();
        (rows, values)
    }

    #[test]
    fn intervals_hold_95_percent_of_new_values() {
        let mut rng = Streams::new(4).stream("cover");
        let mut inside = 0;
        for _ in 0..2000 {
            let (rows, values) = drawn(20, &mut rng);
            let p = Regression::fit(&rows[1..], &values[1..])
                .unwrap()
                .predict(&rows[0]);
            inside += u32::from((p.low..=p.high).contains(&values[0]));
        }
        // Three standard errors of a share: 3·√(0.95·0.05/2000) = 0.0146.
        assert!(
            (f64::from(inside) / 2000.0 - 0.95).abs() < 0.015,
            "{inside}"
        );
    }

    #[test]
    fn a_column_that_follows_from_others_is_named() {
        let rows: Vec<Vec<f64>> = (0..9)
            .map(|i| vec![f64::from(i), 2.0 * f64::from(i)])
            .collect();
        let e = Regression::fit(&rows, &[1.0; 9]).unwrap_err();
        assert!(matches!(e, RegressionError::Dependent { .. }), "{e}");
        assert!(Regression::fit(&rows[..4], &[1.0; 4]).is_err());
    }
}
