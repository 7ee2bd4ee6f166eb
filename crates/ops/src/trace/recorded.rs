//! Recordings made by `tailback trace`: the same figures again.

use super::answer::{
    Break, BreakTimes, Comment, ConnectionReport, Conversation, Each, Held, Recorded, Report,
};
use super::expert::{self, Event, Expert, Experts};
use super::text::{self, Row as Line, Shown, Sums};
use super::{queues, rows};
use crate::scan::{self, Source};
use base::record::{Row, TableId};
use report::Table;
use std::collections::BTreeMap;

/// Number of directions that are shown, those with the most data first.
const TOP: usize = 20;

/// True if a recording is of a capture at one place.
pub(crate) fn made(from: Source<'_>) -> anyhow::Result<bool> {
    let meta = scan::meta(from)?;
    Ok(meta.verb == "trace" && meta.plan.get("captures").is_some())
}

/// Recording of a capture without its single packets: the figures of `tailback trace`.
pub struct Loaded {
    pub(super) held: Held,
    pub(super) notes: Vec<String>,
    /// Both directions of each connection, in the order in which they began.
    pub(super) directions: Vec<Recorded>,
    pub(super) conversations: Vec<Conversation>,
    pub(super) comments: Vec<Comment>,
}

/// Reads all of a capture's recording but the single packets.
pub(crate) fn load(from: Source<'_>) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded {
        held: Held::default(),
        notes: Vec::new(),
        directions: Vec::new(),
        conversations: Vec::new(),
        comments: Vec::new(),
    };
    let told = told(from, &mut loaded)?;
    loaded.directions = directions(from, told)?;
    scan::each_row(from, TableId::Conversation, &mut |row| {
        if let Row::Conversation(c) = row {
            loaded.conversations.push(c.into());
        }
    })?;
    Ok(loaded)
}

/// Breaks and packets with problems, by the number of their direction.
#[derive(Default)]
struct Told {
    breaks: BTreeMap<i64, Vec<Break>>,
    events: BTreeMap<i64, Vec<Event>>,
}

/// Reads the events; those of the whole capture go to `loaded`.
fn told(from: Source<'_>, loaded: &mut Loaded) -> anyhow::Result<Told> {
    let mut whole = false;
    let mut told = Told::default();
    scan::each_row(from, TableId::Event, &mut |row| {
        let Row::Event(e) = row else { return };
        match &*e.kind {
            rows::CAPTURE => {
                if let Ok(held) = serde_json::from_str(&e.detail) {
                    (loaded.held, whole) = (held, true);
                }
            }
            rows::DAMAGE => loaded.notes.push(e.detail.to_string()),
            rows::COMMENT => loaded.comments.push(Comment {
                frame: e.subject.parse().ok(),
                text: e.detail.to_string(),
            }),
            rows::MARK => {
                let mark = serde_json::from_str::<rows::MarkRow>(&e.detail);
                if let (Ok(flow), Ok(m)) = (e.subject.parse::<i64>(), mark) {
                    let list = told.events.entry(flow).or_default();
                    list.extend(Event::of_mark(e.t_ns, m.frame, &m.kind));
                }
            }
            rows::FLOW_BREAK => {
                let times = serde_json::from_str::<BreakTimes>(&e.detail);
                if let (Ok(flow), Ok(times)) = (e.subject.parse::<i64>(), times) {
                    let events = told.events.entry(flow).or_default();
                    events.push(Event::broken(&times));
                    told.breaks
                        .entry(flow)
                        .or_default()
                        .push(Break::from(&times));
                }
            }
            _ => {}
        }
    })?;
    if !whole {
        let said = "the capture was cut short: connections that were open then are missing";
        loaded.notes.push(said.into());
    }
    scan::each_row(from, TableId::Retransmission, &mut |row| {
        if let Row::Retransmission(r) = row {
            told.events
                .entry(r.flow)
                .or_default()
                .push(Event::of_row(&r));
        }
    })?;
    told.events.values_mut().for_each(|e| expert::in_order(e));
    Ok(told)
}

/// Both directions of each connection, in the order in which they began.
fn directions(from: Source<'_>, mut told: Told) -> anyhow::Result<Vec<Recorded>> {
    let mut courses: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    scan::each_row(from, TableId::Course, &mut |row| {
        if let Row::Course(c) = row {
            courses.entry(c.flow).or_default().push(c);
        }
    })?;
    let mut directions: Vec<Recorded> = Vec::new();
    scan::each_row(from, TableId::Connection, &mut |row| {
        if let Row::Connection(row) = row {
            let mut course = courses.remove(&row.flow).unwrap_or_default();
            course.sort_by_key(|c| c.t_ns);
            directions.push(Recorded {
                breaks: told.breaks.remove(&row.flow).unwrap_or_default(),
                events: told.events.remove(&row.flow).unwrap_or_default(),
                course,
                row,
            });
        }
    })?;
    directions.sort_by_key(|d| (d.row.first_ns, d.row.flow));
    // Of a recording that was cut off in their midst one may be missing.
    let flows: Vec<i64> = directions.iter().map(|d| d.row.flow).collect();
    let mut at = 0..;
    directions.retain(|d| {
        let i = at.next().unwrap_or(0);
        let partner = if d.row.flow % 2 == 0 {
            flows.get(i + 1)
        } else {
            i.checked_sub(1).and_then(|i| flows.get(i))
        };
        partner == Some(&(d.row.flow ^ 1))
    });
    Ok(directions)
}

impl Loaded {
    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::new(self.conversations.len());
        self.directions.iter().for_each(|d| sums.recorded(&d.row));
        sums
    }

    /// Both directions of the connection of the one at `i`.
    fn connection(&self, i: usize) -> ConnectionReport {
        let first = i - i % 2;
        ConnectionReport::new([0, 1].map(|k| self.directions[first + k].clone()))
    }

    /// Directions with data, those with the most first.
    pub(super) fn order(&self) -> Vec<usize> {
        let with_data = |i: &usize| self.directions[*i].row.data_packets > 0;
        let mut order: Vec<usize> = (0..self.directions.len()).filter(with_data).collect();
        order.sort_by_key(|i| {
            let r = &self.directions[*i].row;
            (std::cmp::Reverse(r.unique_bytes), r.first_ns, r.flow)
        });
        order
    }

    /// Returns the tables for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let line = |i: usize| Line(self.connection(i), i % 2);
        let broken = (0..self.directions.len()).filter(|i| !self.directions[*i].breaks.is_empty());
        let waits = queues::of_recorded(&self.directions);
        let shown = Shown {
            notes: self.notes.clone(),
            rows: self.order().into_iter().take(TOP).map(line).collect(),
            broken: broken.map(line).collect(),
            findings: queues::findings(&waits),
            waits,
            expert: self.expert(),
            comments: self.comments.clone(),
        };
        text::text(&self.held, &self.sums(), &shown, width)
    }

    /// Returns the tables of the page: the largest directions, causes of retransmissions, and causes of losses.
    pub(super) fn tables(&self, most: usize) -> Vec<Table> {
        let sums = self.sums();
        let order = self.order().into_iter().take(most);
        let rows: Vec<Line> = order.map(|i| Line(self.connection(i), i % 2)).collect();
        std::iter::once(text::directions(&sums, &rows))
            .chain(text::causes_table(&sums))
            .chain(text::losses_table(&sums.losses))
            .collect()
    }

    fn expert(&self) -> Vec<Expert> {
        let mut experts = Experts::default();
        for d in &self.directions {
            experts.direction(&d.row, &d.events);
        }
        experts.list()
    }

    /// All figures as JSON, written connection by connection.
    ///
    /// # Errors
    /// Errors of the receiver.
    pub fn json(&self, out: impl std::io::Write, pretty: bool) -> serde_json::Result<()> {
        let all = || {
            let firsts = (0..self.directions.len()).step_by(2);
            firsts.map(|i| self.connection(i))
        };
        let waits = queues::of_recorded(&self.directions);
        let report = Report {
            duration_s: self.held.duration_s(),
            losses: self.sums().losses,
            findings: queues::findings(&waits),
            waits,
            expert: self.expert(),
            connections: Each(all),
            notes: self.notes.clone(),
            comments: self.comments.clone(),
            held: self.held.clone(),
            udp_conversations: self.conversations.clone(),
        };
        match pretty {
            true => serde_json::to_writer_pretty(out, &report),
            false => serde_json::to_writer(out, &report),
        }
    }
}
