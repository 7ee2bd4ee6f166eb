//! Packets of captures, one file after the other, and the faults of the files.

use super::answer;
use super::packets::Notes;
use crate::usage;
use measure::capture::frame::Frame;
use measure::capture::{Comment, Damage, Reader, Record, frame};
use std::path::Path;

/// Receiver of notes on a file for the readers of the figures.
pub trait Takes {
    fn note(&mut self, note: String);
    fn comment(&mut self, _comment: &Comment) {}
}

impl Takes for Vec<String> {
    fn note(&mut self, note: String) {
        self.push(note);
    }
}

impl Takes for Notes {
    fn note(&mut self, note: String) {
        self.said.push(note);
    }

    fn comment(&mut self, comment: &Comment) {
        self.comments.push(answer::Comment {
            frame: comment.packet,
            text: comment.text.clone(),
        });
    }
}

/// Hands each packet of a capture to `packet`; notes on the file go to `notes`.
pub fn read(
    path: &Path,
    notes: &mut impl Takes,
    mut packet: impl FnMut(&Record<'_>, Option<&Frame<'_>>),
) -> anyhow::Result<()> {
    records(path, notes, |record| {
        packet(record, frame::parse(record).as_ref())
    })
}

/// Hands each packet to `packet` with its headers unread.
pub fn records(
    path: &Path,
    notes: &mut impl Takes,
    take: impl FnMut(&Record<'_>),
) -> anyhow::Result<()> {
    let name = path.display();
    let input = live::capture::open(path).map_err(|e| usage(format!("{name}: {e}")))?;
    let mut reader = Reader::new(input).map_err(|e| usage(format!("{name}: {e}")))?;
    if let Err(e) = reader.each(take) {
        notes.note(format!("{name}: {e}; what came before it is counted"));
    }
    let damage = reader.damage().iter();
    damage.for_each(|d| notes.note(format!("{name}: {}", told(d))));
    for c in reader.comments() {
        notes.comment(c);
    }
    if reader.dropped() > 0 {
        notes.note(format!(
            "{name}: the capturing system itself dropped {} packets: what is missing here may not be missing on the link",
            reader.dropped()
        ));
    }
    Ok(())
}

fn told(d: &Damage) -> String {
    match d.skipped {
        0 => format!("{} at byte {}", d.why, d.offset),
        n => format!("{} at byte {}: {n} bytes passed over", d.why, d.offset),
    }
}
