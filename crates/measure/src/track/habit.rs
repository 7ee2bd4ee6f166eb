//! Number of segments that a receiver waits for before it acknowledges them.
//!
//! **Source.** RFC 9293 section 3.8.6.3: at least every second full segment is acknowledged, and none is held back for
//! 500 ms. Many receivers wait for more: those whose adapter joins segments, and those that stretch ACKs (RFC 2525
//! section 2.13). An ACK for fewer than they wait for was held back until their timer ran out.

/// Greatest number that is told apart.
const MOST: usize = 64;
/// ACKs of which one must be for a number, for it to be a habit; and for more than two, of those for two or more, for the
/// receiver to wait for more.
const SHARE: u32 = 4;
/// ACKs from which a habit shows.
const LEAST: u32 = 4;

/// Habit of a receiver.
#[derive(Clone, Debug)]
pub struct Habit {
    /// ACKs for two full segments, and for more.
    two: u32,
    more: u32,
    /// ACKs by the number of segments in them, of those whose next segment was close behind: no timer ran out.
    times: [u32; MOST + 1],
    all: u32,
    /// The number of two or more that most of these are for.
    usual: usize,
}

impl Default for Habit {
    fn default() -> Habit {
        Habit {
            two: 0,
            more: 0,
            times: [0; MOST + 1],
            all: 0,
            usual: 2,
        }
    }
}

impl Habit {
    /// Counts an ACK for so many full segments.
    #[inline]
    pub fn count(&mut self, segments: u64) {
        match segments {
            0 | 1 => {}
            2 => self.two = self.two.saturating_add(1),
            _ => self.more = self.more.saturating_add(1),
        }
    }

    /// Counts it as one whose next segment was close behind.
    #[inline]
    pub fn followed(&mut self, segments: u64) {
        let at = segments.min(MOST as u64) as usize;
        self.times[at] = self.times[at].saturating_add(1);
        self.all = self.all.saturating_add(1);
        if at > 1 && self.times[at] > self.times[self.usual] {
            self.usual = at;
        }
    }

    /// Number of full segments for which the receiver did not wait until a timer ran out: two, or more by its habit. `None` if
    /// nothing has told yet, or if it waits for more and nothing tells for how many.
    #[inline]
    pub fn segments(&self) -> Option<u64> {
        if self.two > 0 && self.more <= self.two.saturating_add(self.more) / SHARE {
            return Some(2);
        }
        let times = self.times[self.usual];
        (times >= LEAST && times >= self.all / SHARE).then_some(self.usual as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(acks: &[(u64, bool, u32)]) -> Option<u64> {
        let mut habit = Habit::default();
        for (segments, followed, times) in acks {
            for _ in 0..*times {
                habit.count(*segments);
                if *followed {
                    habit.followed(*segments);
                }
            }
        }
        habit.segments()
    }

    #[test]
    fn a_habit_is_what_most_acks_are_for() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[(1, true, 20)]), None);
        assert_eq!(
            after(&[(2, true, 50), (1, true, 20), (4, true, 10)]),
            Some(2)
        );
        assert_eq!(after(&[(2, false, 50)]), Some(2));
        assert_eq!(
            after(&[(8, true, 50), (3, false, 20), (1, true, 10)]),
            Some(8)
        );
        assert_eq!(after(&[(1000, true, 20)]), Some(64));
    }

    #[test]
    fn acks_for_all_there_was_may_have_waited_for_more() {
        assert_eq!(after(&[(10, false, 50)]), None);
        assert_eq!(after(&[(10, false, 50), (8, true, 3)]), None, "too few");
        assert_eq!(after(&[(10, false, 50), (8, true, 5)]), Some(8));
        assert_eq!(
            after(&[(2, false, 30), (3, false, 20), (5, false, 20)]),
            None
        );
    }
}
