//! Loss of probes: how much, in which direction, in which pattern.
//!
//! **Method.** A probe that never came back, or only after the limit for loss, is lost; probes that this
//! host failed to send and further answers to one probe are counted apart. Losses are rarely independent,
//! so the interval is Wilson's with the effective sample size of the sequence. Runs are counted in the
//! order of sending.
//!
//! **Source.** RFC 7680 (one-way loss), RFC 3357 (loss patterns).
//!
//! **Limits.** Loss of probes is not loss of the load: a large packet finds less room in a queue counted in bytes.
//! Below about ten losses the pattern is a hint.

use crate::answer::Loss;
use base::record::{Delay, Direction, Status};

/// Number of probes that crossed the link in `direction`. Probes lost at an unknown place count half.
pub fn crossed(probes: &[&Delay], direction: Direction) -> f64 {
    let share = |d: &Delay| match (d.status, direction) {
        (s, _) if s.is_answered() => 1.0,
        (Status::LostDown, Direction::Up) => 1.0,
        (Status::Lost, _) => 0.5,
        _ => 0.0,
    };
    probes.iter().map(|d| share(d)).sum()
}

/// Computes the loss. `probes` are in the order of their numbers; `waits_ms` beside them holds the wait of each
/// answered one in the direction under load.
pub fn loss(probes: &[&Delay], waits_ms: &[Option<f64>]) -> Loss {
    let count = |s: Status| probes.iter().filter(|d| d.status == s).count() as u64;
    let sent: Vec<bool> = probes
        .iter()
        .filter(|d| d.status.was_sent())
        .map(|d| d.status.is_lost())
        .collect();
    let lost = sent.iter().filter(|l| **l).count();
    let runs = runs(&sent);
    let percent = match sent.is_empty() {
        true => stats::Figure::cannot_tell("no probe was sent"),
        false => stats::share(&sent).map(|p| p * 100.0),
    };
    let mut bursts: Vec<(u64, u64)> = Vec::new();
    for run in &runs {
        match bursts.iter_mut().find(|(length, _)| length == run) {
            Some((_, often)) => *often += 1,
            None => bursts.push((*run, 1)),
        }
    }
    bursts.sort_unstable();
    Loss {
        sent: sent.len() as u64,
        lost: lost as u64,
        lost_up: count(Status::LostUp),
        lost_down: count(Status::LostDown),
        late: count(Status::Late),
        duplicates: count(Status::Duplicate),
        invalid: count(Status::Invalid),
        not_sent: count(Status::NotSent),
        percent,
        pattern: pattern(probes, waits_ms, sent.len(), lost, runs.len()),
        bursts,
    }
}

/// Lengths of the runs of `true`, in order.
fn runs(lost: &[bool]) -> Vec<u64> {
    lost.chunk_by(|a, b| a == b)
        .filter(|run| run[0])
        .map(|run| run.len() as u64)
        .collect()
}

fn pattern(
    probes: &[&Delay],
    waits_ms: &[Option<f64>],
    sent: usize,
    lost: usize,
    runs: usize,
) -> String {
    if lost == 0 {
        return "none".into();
    }
    // The nearest answered probe before each loss tells how full the queue was.
    let known: Vec<f64> = waits_ms.iter().flatten().copied().collect();
    let top = stats::quantile_of_sorted(&stats::sorted(&known), 0.98).unwrap_or(0.0);
    let mut last = None;
    let mut before: Vec<f64> = Vec::new();
    for (d, wait) in probes.iter().zip(waits_ms) {
        match (d.status.is_lost(), wait) {
            (true, _) => before.extend(last),
            (false, Some(w)) => last = Some(*w),
            _ => {}
        }
    }
    let at_top = before.iter().filter(|w| **w >= 0.8 * top).count();
    if top > 5.0 && before.len() >= 3 && at_top * 10 >= before.len() * 7 {
        return format!(
            "at the top of the queue: {at_top} of {} losses came when the wait was above {:.0} ms",
            before.len(),
            0.8 * top
        );
    }
    // Independent losses have runs of mean length 1 / (1 − p).
    let mean_run = lost as f64 / runs.max(1) as f64;
    let expected = 1.0 / (1.0 - lost as f64 / sent.max(1) as f64).max(0.01);
    if mean_run > 1.5 * expected {
        format!("in bursts of {mean_run:.1} on average")
    } else {
        "single".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(seq: i64, status: Status) -> Delay {
        let answered = matches!(status, Status::Ok);
        Delay {
            rtt_ns: answered.then_some(20_000_000),
            status,
            ..Delay::unanswered(seq * 10_000_000, seq, "udp".into())
        }
    }

    #[test]
    fn counts_runs_and_directions_and_leaves_unsent_slots_out() {
        use Status::{Duplicate, LostDown, LostUp, NotSent, Ok};
        let list = [
            Ok, LostUp, LostUp, NotSent, LostDown, Ok, Ok, Duplicate, LostUp, Ok,
        ];
        let rows: Vec<Delay> = list
            .iter()
            .enumerate()
            .map(|(i, s)| probe(i as i64, *s))
            .collect();
        let refs: Vec<&Delay> = rows.iter().collect();
        let l = loss(&refs, &vec![None; refs.len()]);
        assert_eq!(
            (
                l.sent,
                l.lost,
                l.lost_up,
                l.lost_down,
                l.not_sent,
                l.duplicates
            ),
            (8, 4, 3, 1, 1, 1)
        );
        assert_eq!(l.bursts, [(1, 1), (3, 1)]);
        assert_eq!(l.percent.value(), Some(50.0));
    }

    #[test]
    fn says_when_losses_sit_at_the_top_of_the_queue() {
        let mut rows = Vec::new();
        let mut waits = Vec::new();
        for i in 0..400i64 {
            let wait = (i % 100) as f64 * 4.0;
            let lost = i % 100 >= 97;
            rows.push(probe(i, if lost { Status::LostUp } else { Status::Ok }));
            waits.push((!lost).then_some(wait));
        }
        let refs: Vec<&Delay> = rows.iter().collect();
        let said = loss(&refs, &waits).pattern;
        assert!(
            said.starts_with("at the top of the queue: 12 of 12"),
            "{said}"
        );
    }

    #[test]
    fn nothing_sent_is_no_loss_figure() {
        assert_eq!(loss(&[], &[]).percent.value(), None);
    }
}
