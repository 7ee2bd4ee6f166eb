//! A recording that `tailback trace` made: the same figures again.

use super::expert::{self, Event, Expert, Experts};
use super::report::{
    Break, BreakTimes, Comment, ConnectionReport, Conversation, Each, Held, Recorded, Report,
};
use super::text::{self, Row as Line, Shown, Sums};
use super::{print, print_json, queues, rows};
use crate::Outcome;
use crate::gather;
use base::record::{Row, TableId};
use std::collections::BTreeMap;
use std::path::Path;

/// Directions that are shown, those with the most data first.
const TOP: usize = 20;

/// Whether a recording is of a capture at one place.
pub fn made(path: &Path) -> anyhow::Result<bool> {
    let meta = gather::meta(path)?;
    Ok(meta.verb == "trace" && meta.plan.get("captures").is_some())
}

/// All of it but the single packets.
pub(super) struct Loaded {
    pub(super) held: Held,
    pub(super) notes: Vec<String>,
    /// Both directions of each connection, in the order in which they began.
    pub(super) directions: Vec<Recorded>,
    pub(super) conversations: Vec<Conversation>,
    pub(super) comments: Vec<Comment>,
}

pub(super) fn load(path: &Path) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded {
        held: Held::default(),
        notes: Vec::new(),
        directions: Vec::new(),
        conversations: Vec::new(),
        comments: Vec::new(),
    };
    let mut whole = false;
    let mut breaks: BTreeMap<i64, Vec<Break>> = BTreeMap::new();
    let mut events: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
    gather::each_row(path, TableId::Event, &mut |row| {
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
                    let list = events.entry(flow).or_default();
                    list.extend(Event::of_mark(e.t_ns, m.frame, &m.kind));
                }
            }
            rows::FLOW_BREAK => {
                let times = serde_json::from_str::<BreakTimes>(&e.detail);
                if let (Ok(flow), Ok(times)) = (e.subject.parse::<i64>(), times) {
                    events.entry(flow).or_default().push(Event::broken(&times));
                    breaks.entry(flow).or_default().push(Break::from(&times));
                }
            }
            _ => {}
        }
    })?;
    if !whole {
        let said = "the capture was cut short: connections that were open then are missing";
        loaded.notes.push(said.into());
    }
    gather::each_row(path, TableId::Retransmission, &mut |row| {
        if let Row::Retransmission(r) = row {
            events.entry(r.flow).or_default().push(Event::of_row(&r));
        }
    })?;
    events.values_mut().for_each(|e| expert::in_order(e));
    let mut courses: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    gather::each_row(path, TableId::Course, &mut |row| {
        if let Row::Course(c) = row {
            courses.entry(c.flow).or_default().push(c);
        }
    })?;
    gather::each_row(path, TableId::Connection, &mut |row| {
        if let Row::Connection(row) = row {
            let mut course = courses.remove(&row.flow).unwrap_or_default();
            course.sort_by_key(|c| c.t_ns);
            loaded.directions.push(Recorded {
                breaks: breaks.remove(&row.flow).unwrap_or_default(),
                events: events.remove(&row.flow).unwrap_or_default(),
                course,
                row,
            });
        }
    })?;
    loaded
        .directions
        .sort_by_key(|d| (d.row.first_ns, d.row.flow));
    // Of a recording that was cut off in their midst one may be missing.
    let flows: Vec<i64> = loaded.directions.iter().map(|d| d.row.flow).collect();
    let mut at = 0..;
    loaded.directions.retain(|d| {
        let i = at.next().unwrap_or(0);
        let partner = if d.row.flow % 2 == 0 {
            flows.get(i + 1)
        } else {
            i.checked_sub(1).and_then(|i| flows.get(i))
        };
        partner == Some(&(d.row.flow ^ 1))
    });
    gather::each_row(path, TableId::Conversation, &mut |row| {
        if let Row::Conversation(c) = row {
            loaded.conversations.push(c.into());
        }
    })?;
    Ok(loaded)
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

    pub(super) fn text(&self) -> String {
        let line = |i: usize| Line(self.connection(i), i % 2);
        let broken = (0..self.directions.len()).filter(|i| !self.directions[*i].breaks.is_empty());
        let shown = Shown {
            notes: self.notes.clone(),
            rows: self.order().into_iter().take(TOP).map(line).collect(),
            broken: broken.map(line).collect(),
            findings: queues::of_recorded(&self.directions),
            expert: self.expert(),
            comments: self.comments.clone(),
        };
        text::text(&self.held, &self.sums(), &shown)
    }

    fn expert(&self) -> Vec<Expert> {
        let mut experts = Experts::default();
        for d in &self.directions {
            experts.direction(&d.row, &d.events);
        }
        experts.list()
    }

    /// All figures as JSON, written connection by connection.
    pub(super) fn json(&self, out: impl std::io::Write, pretty: bool) -> serde_json::Result<()> {
        let all = || {
            let firsts = (0..self.directions.len()).step_by(2);
            firsts.map(|i| self.connection(i))
        };
        let report = Report {
            duration_s: self.held.duration_s(),
            losses: self.sums().losses,
            findings: queues::of_recorded(&self.directions),
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

/// What `tailback analyse` says of it: what `tailback trace` said.
pub fn analyse(path: &Path, json: bool) -> anyhow::Result<Outcome> {
    let loaded = load(path)?;
    if json {
        print_json(|out| loaded.json(out, true))?;
    } else {
        print(&loaded.text())?;
    }
    Ok(Outcome::Done)
}
