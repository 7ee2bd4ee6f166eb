//! Missing packet numbers: packets that were sent, but never recorded.

use super::file::{Format, Imported};

/// Tracks the delay monitor's numbers over all of its files.
#[derive(Default)]
pub struct Numbers {
    run: Option<Run>,
    missing: i64,
    dropped: i64,
}

struct Run {
    first: i64,
    last: i64,
    count: i64,
}

impl Run {
    fn missing(&self) -> i64 {
        self.last - self.first + 1 - self.count
    }
}

impl Numbers {
    /// Fall by more than this means a restarted monitor; a smaller one means reordering.
    const RESTART: i64 = 10_000;
    /// Rise by more than this means a restart, too, or a damaged number.
    const JUMP: i64 = 10_000_000;

    pub fn answered(&mut self, number: i64) {
        match &mut self.run {
            Some(run) if (-Self::RESTART..Self::JUMP).contains(&(number - run.last)) => {
                run.count += 1;
                run.first = run.first.min(number);
                run.last = run.last.max(number);
            }
            run => {
                self.missing += run.as_ref().map_or(0, Run::missing);
                *run = Some(Run {
                    first: number,
                    last: number,
                    count: 1,
                });
            }
        }
    }

    pub fn dropped(&mut self) {
        self.dropped += 1;
    }

    /// Adds a note to the last of the delay files.
    pub fn tell(&self, all: &mut [Imported]) {
        let missing = self.missing + self.run.as_ref().map_or(0, Run::missing) - self.dropped;
        let last = all.iter_mut().rfind(|i| i.format == Format::Delay);
        if let (Some(told), true) = (last, missing > 0) {
            told.notes.push(format!(
                "{missing} packet numbers are in none of the files: sent while the monitor's buffer was full, so that what \
                 became of them is not known; they are counted neither as answered nor as lost"
            ));
        }
    }
}
