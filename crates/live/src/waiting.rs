//! Connections that have yet to say what they want, and which of them gives way to a newcomer.

use measure::bucket::neighbourhood;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Time after which a connection without a request gives way to a newcomer; a handshake over a slow link and a request
/// are done by then.
const GIVES_WAY_NS: i64 = 1_000_000_000;

struct Waiting<T> {
    client: IpAddr,
    since: i64,
    handle: T,
}

/// Connections that have made no request yet, oldest first, each with what closes it; and how many each neighbourhood has.
pub struct WaitingRoom<T> {
    by_id: BTreeMap<u64, Waiting<T>>,
    crowds: BTreeMap<IpAddr, usize>,
    next: u64,
}

impl<T> Default for WaitingRoom<T> {
    fn default() -> WaitingRoom<T> {
        WaitingRoom {
            by_id: BTreeMap::new(),
            crowds: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> WaitingRoom<T> {
    /// Lets a connection of this client wait, from the monotonic time `now`; returns its number.
    pub fn enter(&mut self, now: i64, client: IpAddr, handle: T) -> u64 {
        self.next += 1;
        let waiting = Waiting {
            client,
            since: now,
            handle,
        };
        *self.crowds.entry(neighbourhood(client)).or_default() += 1;
        self.by_id.insert(self.next, waiting);
        self.next
    }

    /// Ends the wait of a connection; none if it has ended before.
    pub fn leave(&mut self, id: u64) -> Option<(IpAddr, T)> {
        let waiting = self.by_id.remove(&id)?;
        let home = neighbourhood(waiting.client);
        if let Some(crowd) = self.crowds.get_mut(&home) {
            *crowd -= 1;
            if *crowd == 0 {
                self.crowds.remove(&home);
            }
        }
        Some((waiting.client, waiting.handle))
    }

    /// Oldest waiting connection.
    pub fn first(&self) -> Option<u64> {
        self.by_id.keys().next().copied()
    }

    /// Oldest of those that `its` picks, if it has waited for at least `least`.
    fn oldest(&self, now: i64, least: i64, its: impl Fn(&Waiting<T>) -> bool) -> Option<u64> {
        let (id, oldest) = self.by_id.iter().find(|(_, w)| its(w))?;
        (now - oldest.since >= least).then_some(*id)
    }

    /// Connection of this very client that gives way to another of it.
    pub fn gives_way_to_own(&self, now: i64, client: IpAddr) -> Option<u64> {
        self.oldest(now, GIVES_WAY_NS, |w| w.client == client)
    }

    /// Connection that gives way to one of this client, if all places are taken: of whoever has most of what waits, however
    /// young it is; otherwise the oldest.
    pub fn gives_way(&self, now: i64, client: IpAddr) -> Option<u64> {
        let own = self.crowds.get(&neighbourhood(client)).copied();
        let heaviest = self.crowds.iter().max_by_key(|(_, n)| **n);
        match heaviest {
            Some((home, n)) if *n > own.unwrap_or(0) + 1 => {
                self.oldest(now, 0, |w| neighbourhood(w.client) == *home)
            }
            _ => self.oldest(now, GIVES_WAY_NS, |_| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_most_gives_way_and_otherwise_the_oldest_that_had_its_time() {
        let ip = |a: u8, b: u8| IpAddr::from([198, 51, a, b]);
        let mut room = WaitingRoom::default();
        let first = room.enter(0, ip(1, 1), ());
        let crowd: Vec<u64> = (0..3).map(|n| room.enter(10, ip(2, n), ())).collect();
        assert_eq!(room.gives_way(20, ip(3, 1)), Some(crowd[0]));
        // The crowd's own newcomer displaces nobody before its time, then the oldest of all.
        assert_eq!(room.gives_way(20, ip(2, 9)), None);
        assert_eq!(room.gives_way(GIVES_WAY_NS, ip(2, 9)), Some(first));
        assert_eq!(room.gives_way_to_own(20, ip(1, 1)), None);
        assert_eq!(room.gives_way_to_own(GIVES_WAY_NS, ip(1, 1)), Some(first));
        for id in crowd {
            assert!(room.leave(id).is_some() && room.leave(id).is_none());
        }
        assert_eq!((room.by_id.len(), room.first()), (1, Some(first)));
        assert_eq!(room.crowds.len(), 1);
    }
}
