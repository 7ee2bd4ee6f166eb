//! Letter grade of the added delay.
//!
//! **Method.** The 95 % point of the delay that load adds in the worst direction, on the scale of
//! DSLReports' speed test: under 5 ms A+, 30 A, 60 B, 200 C, 400 D, else F.
//!
//! **Source.** The thresholds of DSLReports, which LibreQoS uses too.
//!
//! Not told where the 95 % interval of the delay reaches over more than one step of the scale.
//!
//! **Limits.** Other scales exist and differ; DSLReports graded averages, this grades the 95 % point,
//! which is stricter, because a call fails at its worst moments.

use crate::answer::Grade;
use crate::thresholds::GRADES;
use base::print::significant;
use stats::Figure;

const SCALE: &str = "DSLReports thresholds (5 A+, 30 A, 60 B, 200 C, 400 D, above F; ms), applied to the 95 % point of the delay added in the worst direction";

/// Place on the scale, from 0.
fn place(added_ms: f64) -> usize {
    GRADES.partition_point(|(limit, _)| added_ms >= *limit)
}

/// Letter for an added delay.
pub fn letter(added_ms: f64) -> &'static str {
    GRADES
        .get(place(added_ms))
        .map_or("F", |(_, letter)| letter)
}

/// Grade for an added delay.
pub fn grade(added_ms: &Figure) -> Grade {
    let added_ms = match added_ms {
        Figure::Is { low, high, .. } if place(*high) > place(*low) + 1 => {
            Figure::cannot_tell(format!(
                "the delay that load adds is known from {} to {} ms, from {} to {} on the scale",
                significant(*low, 3),
                significant(*high, 3),
                letter(*low),
                letter(*high)
            ))
        }
        told => told.clone(),
    };
    let letter = added_ms
        .value()
        .filter(|v| v.is_finite())
        .map_or("?", letter);
    Grade {
        letter: letter.into(),
        scale: SCALE.into(),
        added_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_change_at_the_thresholds() {
        let at = [
            (4.9, "A+"),
            (5.0, "A"),
            (30.0, "B"),
            (60.0, "C"),
            (199.9, "C"),
            (200.0, "D"),
            (400.0, "F"),
            (430.0, "F"),
        ];
        for (ms, expected) in at {
            assert_eq!(letter(ms), expected, "{ms}");
        }
        assert_eq!(grade(&Figure::cannot_tell("no probes")).letter, "?");
    }

    #[test]
    fn an_interval_over_more_than_one_step_has_no_letter() {
        let of = |low, high| {
            let value = 50.0;
            grade(&Figure::Is { value, low, high })
        };
        assert_eq!(of(20.0, 55.0).letter, "B");
        let wide = of(4.0, 199.0);
        assert_eq!(wide.letter, "?");
        let why = "the delay that load adds is known from 4 to 199 ms, from A+ to C on the scale";
        assert_eq!(wide.added_ms, Figure::cannot_tell(why));
    }
}
