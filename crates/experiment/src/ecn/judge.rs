//! Verdicts on markings: kept, changed or lost in each direction, and between which hops.
//!
//! **Method.** A change lies between the last hop that quotes the marking as it was and the first one that quotes it
//! changed. A marking is lost between the last hop that quotes it and the next hop that answers unmarked probes right before
//! and after, but none with the marking. Hops that do not answer make the interval wider, never wrong.
//!
//! **Deviations.** A marking that one hop changes and a later one restores counts as kept.

use super::note::{EcnNote, HopSeen, Part};
use base::noted::Noted;
use base::record::{Direction, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Tries that prove that a marking does not reach a hop, before the hop counts as not reached.
pub(super) const PROVEN: u32 = 2;
/// Datagrams of a marking before none of them counts as lost for good.
const LEAST_SENT: u32 = 6;

/// Fate of a marking from end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Unchanged; an ECN-capable datagram may have become CE, as a queue marks some.
    Kept,
    /// Every datagram arrived with this value of the marking's field in the TOS byte.
    Changed(u8),
    /// No datagram arrived, and unmarked ones did.
    Lost,
    /// The reason why there is no verdict.
    Unknown(String),
}

/// Place on the path where a marking is changed or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between two hops, counted from the sender, which is hop 0.
    Between {
        /// Last hop that quotes the marking as it was.
        after: u8,
        /// First hop at which it is changed or missing; the receiver's number if it is the receiver. Null if the length of
        /// the path is unknown.
        by: Option<u8>,
    },
    /// The reason why the place is unknown.
    Unknown(String),
}

/// Verdict on one marking in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Version of IP: 4 or 6.
    pub version: u8,
    /// Direction of the datagrams.
    pub direction: Direction,
    /// Part of the packets.
    pub part: Part,
    /// TOS or traffic-class byte at departure, or the value of another part.
    pub tos: u8,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams that arrived.
    pub arrived: u32,
    /// Datagrams that arrived as CE although they were sent as ECT.
    pub congested: u32,
    /// Fate of the marking.
    pub fate: Fate,
    /// First place where it is changed or lost; null if it is kept or its fate is unknown.
    pub place: Option<Place>,
    /// Hops before and behind that place, if they are known by their addresses.
    pub routers: [Option<IpAddr>; 2],
    /// True if the second of them is the receiver.
    pub at_end: bool,
}

/// Probes with growing hop limits of one marking.
#[derive(Clone, Debug, Default)]
pub(super) struct Traced {
    /// Part of the packets.
    pub part: Part,
    /// Hop limit that reaches the other end.
    pub end: Option<u8>,
    /// Quotes that are too short to be told apart.
    pub short: u32,
    /// Hops by their numbers.
    pub hops: BTreeMap<u8, HopSeen>,
}

impl Traced {
    /// Routers on the way that have answered.
    pub fn answered(&self) -> impl Iterator<Item = u8> + '_ {
        let end = self.end.unwrap_or(u8::MAX);
        let answered = |(hop, seen): (&u8, &HopSeen)| seen.answers().then_some(*hop);
        self.hops
            .iter()
            .filter_map(answered)
            .filter(move |h| *h < end)
    }

    /// TOS byte that a hop quotes; null if it answers nothing, or quotes several.
    fn quoted(&self, hop: u8) -> Option<u8> {
        let quotes = &self.hops.get(&hop)?.quotes;
        let first = quotes.first()?.1;
        quotes.iter().all(|q| q.1 == first).then_some(first)
    }

    fn router(&self, hop: u8) -> Option<IpAddr> {
        let seen = self.hops.get(&hop)?;
        let quoted = seen.quotes.first().map(|q| q.0);
        quoted.or(seen.vague.first().copied())
    }

    /// Interval in which the marking is changed for good.
    pub fn changed(&self, tos: u8) -> (u8, Option<u8>) {
        let kept = |hop: &u8| {
            self.quoted(*hop)
                .is_some_and(|quoted| keeps(self.part, tos, quoted))
        };
        let after = self.answered().filter(kept).last().unwrap_or(0);
        let mut behind = self.answered().filter(|h| *h > after);
        let first = behind.find(|h| self.quoted(*h).is_some());
        (after, first.or(self.end))
    }

    /// Last hop that the marking reaches, and the next one among those that answer unmarked probes.
    pub fn reached(&self, unmarked: &Traced) -> (u8, Option<u8>) {
        let after = self.answered().last().unwrap_or(0);
        let next = unmarked.answered().find(|hop| *hop > after);
        (after, next)
    }

    /// Interval in which the marking is lost.
    fn lost(&self, unmarked: &Traced) -> (u8, Option<u8>) {
        let (after, next) = self.reached(unmarked);
        let seen = |hop: &u8| self.hops.get(hop).map_or(0, |seen| seen.proven);
        let proven = next.filter(|hop| seen(hop) >= PROVEN);
        (after, proven.or(unmarked.end))
    }
}

/// Bits that a marking is about: of the TOS byte ECN or the DSCP, both for unmarked datagrams.
fn field(part: Part, tos: u8) -> u8 {
    match tos {
        _ if !part.is_udp() => 0xff,
        0 => 0xff,
        _ if is_ecn(tos) => 3,
        _ => 0xfc,
    }
}

/// True if a marking is unchanged in this TOS byte, or value of another part.
pub(super) fn keeps(part: Part, tos: u8, seen: u8) -> bool {
    (tos ^ seen) & field(part, tos) == 0
}

/// True if this is ECT or CE.
pub(super) fn is_ecn(tos: u8) -> bool {
    tos & 3 != 0
}

struct Sent<'a> {
    part: Part,
    tos: u8,
    sent: u32,
    arrived: &'a [(Option<u8>, u32)],
}

impl Sent<'_> {
    fn count(&self) -> u32 {
        self.arrived.iter().map(|a| a.1).sum()
    }

    /// Datagrams that arrived as CE and had been sent as ECT, of a marking that arrives unchanged too.
    fn congested(&self) -> u32 {
        let of = |is_it: &dyn Fn(u8) -> bool| {
            let its = self.arrived.iter().filter(|a| a.0.is_some_and(is_it));
            its.map(|a| a.1).sum::<u32>()
        };
        let may = matches!(self.part, Part::Udp | Part::TcpEcn) && matches!(self.tos & 3, 1 | 2);
        match may && of(&|tos| keeps(self.part, self.tos, tos)) > 0 {
            true => of(&|tos| tos & 3 == 3),
            false => 0,
        }
    }

    fn fate(&self, unmarked: Option<&Sent>) -> Fate {
        if self.count() == 0 {
            return self.lost(unmarked);
        }
        let values: Option<BTreeSet<u8>> = self.arrived.iter().map(|a| a.0).collect();
        let Some(values) = values else {
            let why = "the receiver's kernel does not tell the TOS byte of datagrams";
            return Fate::Unknown(why.into());
        };
        let marked_by_queue = |tos: u8| self.congested() > 0 && tos & 3 == 3;
        let values = values.into_iter().filter(|tos| !marked_by_queue(*tos));
        let values: BTreeSet<u8> = values.map(|tos| tos & field(self.part, self.tos)).collect();
        match values.first() {
            Some(tos) if values.len() == 1 && *tos == self.tos => Fate::Kept,
            Some(tos) if values.len() == 1 => Fate::Changed(*tos),
            _ => Fate::Unknown("some of the datagrams arrive changed and others do not".into()),
        }
    }

    fn lost(&self, unmarked: Option<&Sent>) -> Fate {
        let passed = unmarked.is_some_and(|u| u.count() * 2 >= u.sent && u.count() > 0);
        if !passed {
            return Fate::Unknown("unmarked datagrams do not arrive either, or few do".into());
        }
        match self.sent >= LEAST_SENT && self.tos != 0 {
            true => Fate::Lost,
            false => Fate::Unknown("too few datagrams were sent".into()),
        }
    }
}

/// Notes on one direction of one version of IP.
#[derive(Default)]
struct Way<'a> {
    sent: Vec<Sent<'a>>,
    traced: BTreeMap<u8, Traced>,
    hopless: Option<&'a str>,
}

/// Verdicts on all markings of a recording.
pub fn findings(recording: &Recording) -> Vec<Finding> {
    let notes: Vec<EcnNote> = EcnNote::all_of(recording).map(|(_, n)| n).collect();
    let mut ways: BTreeMap<(u8, bool, Part), Way> = BTreeMap::new();
    for note in &notes {
        if let Some((version, direction, part)) = note.way() {
            let key = (version, direction == Direction::Down, part);
            ways.entry(key).or_default().add(note);
        }
    }
    let of_way = |((version, down, _), way): (&(u8, bool, Part), &Way)| {
        let direction = match down {
            true => Direction::Down,
            false => Direction::Up,
        };
        let all = way.sent.iter();
        all.map(|s| way.finding(*version, direction, s))
            .collect::<Vec<_>>()
    };
    ways.iter().flat_map(of_way).collect()
}

impl<'a> Way<'a> {
    fn add(&mut self, note: &'a EcnNote) {
        match note {
            EcnNote::Untried { .. } => {}
            EcnNote::Sent {
                part,
                tos,
                sent,
                arrived,
                ..
            } => self.sent.push(Sent {
                part: *part,
                tos: *tos,
                sent: *sent,
                arrived,
            }),
            EcnNote::Hopless { why, .. } => self.hopless = Some(why),
            EcnNote::Traced {
                part,
                tos,
                end,
                short,
                hops,
                ..
            } => {
                let traced = Traced {
                    part: *part,
                    end: *end,
                    short: *short,
                    hops: hops.iter().map(|h| (h.hop, h.clone())).collect(),
                };
                self.traced.insert(*tos, traced);
            }
        }
    }
}

impl Way<'_> {
    fn finding(&self, version: u8, direction: Direction, sent: &Sent) -> Finding {
        let unmarked = self.sent.iter().find(|s| s.tos == 0);
        let fate = sent.fate(unmarked);
        let place = match fate {
            Fate::Kept | Fate::Unknown(_) => None,
            Fate::Changed(_) => Some(self.place(sent.tos, false)),
            Fate::Lost => Some(self.place(sent.tos, true)),
        };
        let traced = self.traced.get(&0);
        let (mut routers, mut at_end) = ([None; 2], false);
        if let (Some(Place::Between { after, by }), Some(traced)) = (&place, traced) {
            routers = [traced.router(*after), by.and_then(|by| traced.router(by))];
            at_end = by.is_some() && *by == traced.end;
        }
        Finding {
            version,
            direction,
            part: sent.part,
            tos: sent.tos,
            sent: sent.sent,
            arrived: sent.count(),
            congested: sent.congested(),
            fate,
            place,
            routers,
            at_end,
        }
    }

    fn place(&self, tos: u8, lost: bool) -> Place {
        if let Some(why) = self.hopless {
            return Place::Unknown(why.into());
        }
        let (Some(unmarked), Some(traced)) = (self.traced.get(&0), self.traced.get(&tos)) else {
            return Place::Unknown("hops were not asked".into());
        };
        if unmarked.answered().next().is_none() && unmarked.end != Some(1) {
            return Place::Unknown(match unmarked.short + traced.short {
                0 => "no router answers: ICMP may be filtered".into(),
                _ => "routers quote too little to tell which datagram it is".into(),
            });
        }
        let blind =
            traced.answered().next().is_some() && traced.hops.values().all(|h| h.quotes.is_empty());
        if !lost && blind {
            return Place::Unknown("routers quote too little of TCP to show the marking".into());
        }
        let (after, by) = match lost {
            true => traced.lost(unmarked),
            false => traced.changed(tos),
        };
        Place::Between { after, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(end: Option<u8>, quotes: &[(u8, u8)]) -> Traced {
        let hop = |(hop, tos): &(u8, u8)| {
            let seen = HopSeen {
                hop: *hop,
                sent: 1,
                quotes: vec![([10, 0, 0, *hop].into(), *tos)],
                ..HopSeen::default()
            };
            (*hop, seen)
        };
        Traced {
            part: Part::Udp,
            end,
            short: 0,
            hops: quotes.iter().map(hop).collect(),
        }
    }

    #[test]
    fn a_change_lies_between_the_last_old_and_the_first_new_quote() {
        let seen = traced(Some(5), &[(1, 2), (2, 2), (3, 0), (4, 0)]);
        assert_eq!(seen.changed(2), (2, Some(3)));
        let seen = traced(Some(5), &[(1, 2), (4, 0)]);
        assert_eq!(seen.changed(2), (1, Some(4)));
        let seen = traced(Some(5), &[(1, 2), (2, 2), (3, 2), (4, 2)]);
        assert_eq!(seen.changed(2), (4, Some(5)));
        let seen = traced(None, &[(1, 2)]);
        assert_eq!(seen.changed(2), (1, None));
    }

    #[test]
    fn a_hop_that_changes_only_its_own_quotes_changes_no_packets() {
        let seen = traced(Some(5), &[(1, 2), (2, 0), (3, 2), (4, 0)]);
        assert_eq!(seen.changed(2), (3, Some(4)));
    }

    #[test]
    fn a_loss_is_placed_only_if_unmarked_probes_of_the_same_moments_are_answered() {
        let unmarked = traced(Some(4), &[(1, 0), (2, 0), (3, 0)]);
        let mut marked = traced(Some(4), &[(1, 2)]);
        let second = |proven| HopSeen {
            hop: 2,
            sent: 4,
            tries: 3,
            proven,
            ..HopSeen::default()
        };
        marked.hops.insert(2, second(2));
        assert_eq!(marked.lost(&unmarked), (1, Some(2)));
        marked.hops.insert(2, second(1));
        assert_eq!(marked.lost(&unmarked), (1, Some(4)));
    }
}
