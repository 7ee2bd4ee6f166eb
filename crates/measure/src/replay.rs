//! Numbers received recently, so that a replayed datagram is not accepted as a new one.
//!
//! **Source.** The window of RFC 4303 (IP Encapsulating Security Payload), section 3.4.3. **Deviations.** A second copy
//! of a number passes once: paths duplicate datagrams, and duplicates are measured. **Units.** Numbers are 32-bit
//! serial numbers (RFC 1982, Serial Number Arithmetic).

/// Size of the window in numbers: four seconds of probes at one per millisecond.
pub const WINDOW: u32 = 4096;
const WORDS: usize = WINDOW as usize / 64;
/// Maximum numbers of a session; then it must be reopened, because serial numbers could no longer be ordered.
pub const MOST_NUMBERS: u64 = 1 << 30;

/// Status of a number that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Never,
    /// The second copy, which a path may have made.
    Once,
    /// A further copy, or one that is too old to tell.
    Replayed,
    /// The session has used all its numbers.
    UsedUp,
}

/// Window of the latest numbers, against replays.
#[derive(Clone, Debug)]
pub struct Window {
    highest: Option<u32>,
    /// Distance that the highest number has moved.
    moved: u64,
    /// Bit `n % WINDOW` of each: the first copy has arrived, and the second.
    first: [u64; WORDS],
    second: [u64; WORDS],
}

impl Default for Window {
    fn default() -> Window {
        Window {
            highest: None,
            moved: 0,
            first: [0; WORDS],
            second: [0; WORDS],
        }
    }
}

fn place(seq: u32) -> (usize, u64) {
    let at = seq % WINDOW;
    (at as usize / 64, 1 << (at % 64))
}

impl Window {
    /// Records a number that has arrived.
    pub fn note(&mut self, seq: u32) -> Seen {
        let highest = *self.highest.get_or_insert(seq);
        let ahead = seq.wrapping_sub(highest).cast_signed();
        if ahead > 0 {
            let ahead = ahead.unsigned_abs();
            if self.moved + u64::from(ahead) > MOST_NUMBERS {
                return Seen::UsedUp;
            }
            self.moved += u64::from(ahead);
            for step in 1..=ahead.min(WINDOW) {
                let (word, bit) = place(highest.wrapping_add(ahead).wrapping_sub(step - 1));
                self.first[word] &= !bit;
                self.second[word] &= !bit;
            }
            self.highest = Some(seq);
        } else if ahead.unsigned_abs() >= WINDOW {
            return Seen::Replayed;
        }
        let (word, bit) = place(seq);
        if self.first[word] & bit == 0 {
            self.first[word] |= bit;
            Seen::Never
        } else if self.second[word] & bit == 0 {
            self.second[word] |= bit;
            Seen::Once
        } else {
            Seen::Replayed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares with a map of all numbers ever received, from a start before the wrap.
        #[test]
        fn the_window_equals_a_count_of_copies(
            start in any::<u32>(), steps in prop::collection::vec(-6000i64..6000, 1..400),
        ) {
            let mut window = Window::default();
            let (mut at, mut highest) = (i64::from(start), i64::from(start));
            let mut copies: BTreeMap<i64, u32> = BTreeMap::new();
            for step in std::iter::once(0).chain(steps) {
                // Mostly near the highest, where the window is.
                at = if step % 3 == 0 { highest + step % 7 } else { at + step };
                highest = highest.max(at);
                let expected = if highest - at >= i64::from(WINDOW) {
                    Seen::Replayed
                } else {
                    let count = copies.entry(at).or_default();
                    *count += 1;
                    match *count { 1 => Seen::Never, 2 => Seen::Once, _ => Seen::Replayed }
                };
                prop_assert_eq!(window.note(at as u32), expected, "{} below {}", highest - at, highest);
            }
        }
    }

    #[test]
    fn a_session_ends_before_its_numbers_could_be_mistaken_for_old_ones() {
        let mut window = Window::default();
        let mut seq = 0u32;
        assert_eq!(window.note(seq), Seen::Never);
        for _ in 0..2 {
            seq += 1 << 29;
            assert_eq!(window.note(seq), Seen::Never);
        }
        assert_eq!(window.note(seq + 1), Seen::UsedUp);
        assert_eq!(window.note(0), Seen::Replayed);
    }
}
