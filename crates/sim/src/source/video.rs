//! Video streaming: a player fetches segment after segment, each at the bitrate that its buffer suggests.
//!
//! **Source**: T.-Y. Huang, R. Johari, N. McKeown, M. Trunnell, M. Watson, "A Buffer-Based Approach to Rate
//! Adaptation", SIGCOMM 2014, section 4, algorithm BBA-0: the lowest bitrate while the buffer holds less than the
//! reservoir, the highest above reservoir and cushion, and a straight line in between. The bitrate stays until the line
//! passes the next one.
//!
//! **Deviations**: all segments of one bitrate have the same size; the player's screen size does not limit the bitrate.

use super::{ANSWER, Application, Ask, Done, Opening, REQUEST, Span, Told, Watched};
use base::{BitsPerSec, Duration, Time};

/// Parameters of the video and its player.
#[derive(Clone, Debug, PartialEq)]
pub struct Player {
    /// Length of a segment.
    pub segment: Duration,
    /// Bitrates from low to high.
    pub ladder: Vec<BitsPerSec>,
    /// Most playing time fetched ahead.
    pub buffer: Duration,
    /// Buffer below which the lowest bitrate is chosen.
    pub reservoir: Duration,
    /// Buffer above which the highest bitrate is chosen.
    pub cushion: Duration,
    /// Playing time required before playback starts, initially and after a stall.
    pub startup: Duration,
    /// Bytes of a request.
    pub request_bytes: u64,
}

/// Source of a video player.
pub struct Video {
    player: Player,
    stop: Time,
    /// Time of the next segment request.
    due: Option<Time>,
    began: Time,
    /// Rung of the ladder of the segment in flight.
    rung: usize,
    asked: Option<Time>,
    /// Playing time in the buffer at `seen`.
    ahead: Duration,
    seen: Time,
    playing: bool,
    stood_since: Option<Time>,
    watched: Watched,
}

impl Video {
    /// Creates a player.
    pub fn new(player: Player, span: Span) -> Video {
        Video {
            player,
            stop: span.stop,
            due: Some(span.start).filter(|t| *t < span.stop),
            began: span.start,
            rung: 0,
            asked: None,
            ahead: Duration::ZERO,
            seen: span.start,
            playing: false,
            stood_since: None,
            watched: Watched::default(),
        }
    }

    /// Plays until `now`.
    fn play(&mut self, now: Time) {
        let span = now.saturating_since(self.seen);
        if self.playing {
            let played = span.min(self.ahead);
            self.ahead -= played;
            self.watched.played += played;
            // After its last segment the video is over, so an empty buffer is no stall.
            if self.ahead.is_zero() && !self.is_over() {
                self.playing = false;
                self.watched.stalls += 1;
                self.stood_since = Some(self.seen + played);
                self.watched.stalled += span - played;
            }
        } else if self.stood_since.is_some() {
            self.watched.stalled += span;
        }
        self.seen = now;
    }

    /// BBA-0, figure 6 and algorithm 1 of the paper.
    fn choose(&self) -> usize {
        let p = &self.player;
        let top = p.ladder.len() - 1;
        if self.ahead <= p.reservoir {
            return 0;
        }
        if self.ahead >= p.reservoir + p.cushion {
            return top;
        }
        let (low, high) = (p.ladder[0].get() as f64, p.ladder[top].get() as f64);
        let share = (self.ahead - p.reservoir).as_secs_f64() / p.cushion.as_secs_f64();
        let line = low + (high - low) * share;
        let up = p.ladder.get(self.rung + 1).map(|r| r.get() as f64);
        if up.is_some_and(|up| line >= up) {
            return p
                .ladder
                .iter()
                .rposition(|r| r.get() as f64 <= line)
                .unwrap_or(0);
        }
        if self.rung > 0 && line <= p.ladder[self.rung - 1].get() as f64 {
            let above = p.ladder.iter().position(|r| r.get() as f64 >= line);
            return above.unwrap_or(top);
        }
        self.rung
    }

    fn size(&self) -> u64 {
        let bits = self.player.ladder[self.rung].get() as f64 * self.player.segment.as_secs_f64();
        (bits / 8.0).round().max(1.0) as u64
    }

    fn arrived(&mut self, now: Time) -> Option<Done> {
        let asked = self.asked?;
        self.play(now);
        self.asked = None;
        let bytes = self.size();
        self.ahead += self.player.segment;
        self.watched.segments += 1;
        self.watched.bits += bytes * 8;
        self.watched.fetched += self.player.segment;
        let stood = self.stood_since;
        if !self.playing && self.ahead >= self.player.startup {
            self.playing = true;
            self.stood_since = None;
            self.watched.start.get_or_insert(now - self.began);
        }
        // Request as soon as there is room for one more segment.
        let room = self.player.buffer.saturating_sub(self.player.segment);
        let wait = self.ahead.saturating_sub(room);
        self.due = Some(now + wait).filter(|t| *t < self.stop);
        Some(match (stood, self.stood_since) {
            (Some(began), None) => Done {
                what: "stall",
                began,
                bytes,
            },
            _ => Done {
                what: "segment",
                began: asked,
                bytes,
            },
        })
    }
}

impl Application for Video {
    fn openings(&self) -> Vec<Opening> {
        vec![REQUEST, ANSWER]
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match what {
            Told::Due => {
                self.play(now);
                let next = self.choose();
                if self.watched.segments > 0 && next != self.rung {
                    self.watched.switches += 1;
                }
                (self.rung, self.due, self.asked) = (next, None, Some(now));
                asks.push(Ask::Write(0, self.player.request_bytes));
            }
            Told::Arrived(0) => asks.push(Ask::Write(1, self.size())),
            Told::Arrived(_) => return self.arrived(now),
            Told::Acknowledged(_) => {}
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }

    fn is_over(&self) -> bool {
        self.due.is_none() && self.asked.is_none()
    }

    fn video(&self, now: Time) -> Option<Watched> {
        let mut copy = Video {
            player: self.player.clone(),
            ..*self
        };
        copy.play(now);
        Some(copy.watched)
    }
}
