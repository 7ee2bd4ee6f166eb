//! Letter grade of the added delay.
//!
//! **Method.** The 95 % point of the delay that load adds in the worst direction, on the scale of
//! DSLReports' speed test: under 5 ms A+, 30 A, 60 B, 200 C, 400 D, else F.
//!
//! **Source.** The thresholds of DSLReports, which LibreQoS uses too.
//!
//! **Limits.** Other scales exist and differ; DSLReports graded averages, this grades the 95 % point,
//! which is stricter, because a call fails at its worst moments.

use crate::answer::Grade;
use crate::thresholds::GRADES;
use stats::Figure;

const SCALE: &str = "DSLReports thresholds (5 A+, 30 A, 60 B, 200 C, 400 D, above F; ms), applied to the 95 % point of the delay added in the worst direction";

/// Letter for an added delay.
pub fn letter(added_ms: f64) -> &'static str {
    GRADES
        .iter()
        .find(|(limit, _)| added_ms < *limit)
        .map_or("F", |(_, letter)| letter)
}

/// Grade for an added delay.
pub fn grade(added_ms: &Figure) -> Grade {
    let letter = added_ms
        .value()
        .filter(|v| v.is_finite())
        .map_or("?", letter);
    Grade {
        letter: letter.into(),
        scale: SCALE.into(),
        added_ms: added_ms.clone(),
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
}
