//! Uplink of the server: one client at a time may load it, for two loads at once would measure each other. Other
//! clients wait in a queue, in the order of their arrival, and are told their place.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time for which a client keeps the uplink after the end of its load: a test has pauses between its phases.
pub const LINGER_NS: i64 = 10_000_000_000;
/// Longest time that one client has the uplink to itself while others ask for it.
pub const TURN_NS: i64 = 600_000_000_000;
/// Time within which a refused client is expected to come back.
const WANTED_NS: i64 = 60_000_000_000;
/// Greatest number of clients that wait: of all, and of one neighbourhood.
const MOST_WAITING: usize = 16;
const MOST_OF_NEIGHBOURHOOD: usize = 2;

/// Place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Clients before this one, the one that loads now included; zero if the uplink is reserved for this client.
    pub place: usize,
    /// Expected time until then, ns.
    pub after_ns: i64,
}

/// Client that loads the uplink.
struct Lease<K> {
    client: K,
    since: i64,
    /// Number of its load flows, and the time at which the last of them is over.
    flows: u32,
    until: i64,
    /// Number of connections that hold the client's turn between its flows.
    held: u32,
    /// Time at which another client last asked.
    wanted: Option<i64>,
    /// Flag that is set when its turn is over and another client waits: its flows end.
    cut: Arc<AtomicBool>,
}

struct Waiter<K> {
    client: K,
    neighbourhood: K,
    connections: u32,
    /// Length of the requested load, ns.
    lasts_ns: i64,
}

pub struct Uplink<K> {
    lease: Option<Lease<K>>,
    queue: VecDeque<Waiter<K>>,
}

impl<K> Default for Uplink<K> {
    fn default() -> Uplink<K> {
        Uplink {
            lease: None,
            queue: VecDeque::new(),
        }
    }
}

impl<K: Copy + Eq> Uplink<K> {
    /// Clients that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// True if a client has the uplink now.
    pub fn is_taken(&self, now: i64) -> bool {
        self.lease.as_ref().is_some_and(|l| !is_over(l, now))
    }

    /// Gives the uplink to a client for one flow. The flag that it returns is set when the flow has to end.
    ///
    /// # Errors
    /// The place that the client would have in the queue.
    pub fn take(&mut self, now: i64, client: K, until: i64) -> Result<Arc<AtomicBool>, Standing> {
        let waits = |queue: &VecDeque<Waiter<K>>| queue.iter().any(|w| w.client != client);
        if let Some(held) = self.lease.as_mut().filter(|l| !is_over(l, now)) {
            if held.client == client {
                let wanted = held.wanted.is_some_and(|at| now - at < WANTED_NS);
                if !(wanted || waits(&self.queue)) || now - held.since <= TURN_NS {
                    held.flows += 1;
                    held.until = held.until.max(until);
                    return Ok(held.cut.clone());
                }
                // It has had its turn, and somebody waits.
                held.cut.store(true, Ordering::Relaxed);
                if held.flows == 0 && held.held == 0 {
                    held.until = now - LINGER_NS - 1;
                }
            } else {
                held.wanted = Some(now);
                if now - held.since > TURN_NS {
                    held.cut.store(true, Ordering::Relaxed);
                }
            }
            return Err(self.standing_of(now, client));
        }
        if self.queue.front().is_some_and(|w| w.client != client) {
            return Err(self.standing_of(now, client));
        }
        Ok(self.give(now, client, 1, until))
    }

    fn give(&mut self, now: i64, client: K, flows: u32, until: i64) -> Arc<AtomicBool> {
        let cut = Arc::new(AtomicBool::new(false));
        self.lease = Some(Lease {
            client,
            since: now,
            flows,
            until,
            held: 0,
            wanted: None,
            cut: cut.clone(),
        });
        cut
    }

    /// Ends a flow of this client.
    pub fn end(&mut self, now: i64, client: K) {
        if let Some(held) = self.lease.as_mut().filter(|l| l.client == client) {
            held.flows = held.flows.saturating_sub(1);
            if held.flows == 0 {
                held.until = now;
            }
        }
    }

    /// Lets a connection of a client wait. False if too many wait.
    pub fn join(&mut self, client: K, neighbourhood: K, lasts_ns: i64) -> bool {
        if let Some(its) = self.queue.iter_mut().find(|w| w.client == client) {
            its.connections += 1;
            return true;
        }
        let near = self
            .queue
            .iter()
            .filter(|w| w.neighbourhood == neighbourhood);
        if self.queue.len() >= MOST_WAITING || near.count() >= MOST_OF_NEIGHBOURHOOD {
            return false;
        }
        self.queue.push_back(Waiter {
            client,
            neighbourhood,
            connections: 1,
            lasts_ns: lasts_ns.clamp(0, TURN_NS),
        });
        true
    }

    /// Lets a connection hold the turn that [`Uplink::ask`] has reserved, for a load of this length. The flag that it
    /// returns is set when it has to let go.
    pub fn hold(&mut self, now: i64, client: K, lasts_ns: i64) -> Arc<AtomicBool> {
        let Some(held) = self.lease.as_mut().filter(|l| l.client == client) else {
            return Arc::new(AtomicBool::new(true));
        };
        held.held += 1;
        held.until = held.until.max(now + lasts_ns.clamp(0, TURN_NS));
        held.cut.clone()
    }

    /// Releases the turn that a connection held.
    pub fn release(&mut self, now: i64, client: K) {
        if let Some(held) = self.lease.as_mut().filter(|l| l.client == client) {
            held.held = held.held.saturating_sub(1);
            if held.held == 0 && held.flows == 0 {
                held.until = now - LINGER_NS - 1;
            }
        }
    }

    /// True if the client holds its turn without loading, while others wait.
    pub fn is_idle(&self, client: K) -> bool {
        let its = self.lease.as_ref().filter(|l| l.client == client);
        its.is_some_and(|l| l.flows == 0) && self.queue.iter().any(|w| w.client != client)
    }

    /// Removes a connection that [joined](Uplink::join) from the queue.
    pub fn leave(&mut self, client: K) {
        if let Some(at) = self.queue.iter().position(|w| w.client == client) {
            self.queue[at].connections -= 1;
            if self.queue[at].connections == 0 {
                self.queue.remove(at);
            }
        }
    }

    /// Place of a waiting client. If its turn has come, the uplink is reserved for it.
    pub fn ask(&mut self, now: i64, client: K) -> Standing {
        if let Some(held) = self.lease.as_mut().filter(|l| !is_over(l, now)) {
            if held.client == client {
                return Standing {
                    place: 0,
                    after_ns: 0,
                };
            }
            held.wanted = Some(now);
            if now - held.since > TURN_NS {
                held.cut.store(true, Ordering::Relaxed);
            }
        } else if self.queue.front().is_none_or(|w| w.client == client) {
            self.give(now, client, 0, now);
            return Standing {
                place: 0,
                after_ns: 0,
            };
        }
        self.standing_of(now, client)
    }

    fn standing_of(&self, now: i64, client: K) -> Standing {
        let mut standing = Standing {
            place: 0,
            after_ns: 0,
        };
        if let Some(held) = self.lease.as_ref().filter(|l| !is_over(l, now)) {
            let turn_over = held.since + TURN_NS;
            let ends = if held.flows > 0 || held.held > 0 {
                held.until.min(turn_over.max(now))
            } else {
                held.until
            };
            standing.place = 1;
            standing.after_ns = (ends + LINGER_NS - now).max(0);
        }
        for before in self.queue.iter().take_while(|w| w.client != client) {
            standing.place += 1;
            standing.after_ns += before.lasts_ns + LINGER_NS;
        }
        standing.place = standing.place.max(1);
        standing
    }

    /// Moves the times of the lease into the past, for tests.
    #[cfg(test)]
    pub fn age(&mut self, since: i64, until: i64) {
        if let Some(held) = &mut self.lease {
            held.since -= since;
            held.until -= until;
        }
    }
}

fn is_over<K>(lease: &Lease<K>, now: i64) -> bool {
    lease.flows == 0 && lease.held == 0 && now - lease.until > LINGER_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;
    use rand::RngExt as _;

    const S: i64 = 1_000_000_000;

    #[test]
    fn clients_are_served_in_the_order_in_which_they_came() {
        let mut uplink = Uplink::<u32>::default();
        assert!(uplink.take(0, 1, 20 * S).is_ok());
        assert!(uplink.join(2, 2, 30 * S) && uplink.join(3, 3, 30 * S));
        let second = uplink.ask(5 * S, 2);
        assert_eq!((second.place, second.after_ns), (1, 25 * S));
        let third = uplink.ask(5 * S, 3);
        assert_eq!((third.place, third.after_ns), (2, 65 * S));
        uplink.end(20 * S, 1);
        assert!(uplink.take(25 * S, 1, 40 * S).is_ok(), "the next phase");
        uplink.end(40 * S, 1);
        let free = 50 * S + 1;
        assert!(uplink.take(free, 3, 80 * S).is_err(), "client 2 is first");
        assert!(uplink.take(free, 4, 80 * S).is_err(), "a newcomer is last");
        assert_eq!(uplink.ask(free, 2).place, 0);
        uplink.leave(2);
        assert!(uplink.take(free + S, 2, 80 * S).is_ok());
        assert_eq!(uplink.ask(free + S, 3).place, 1);
    }

    #[test]
    fn a_turn_ends_after_ten_minutes_if_somebody_waits() {
        let mut uplink = Uplink::<u32>::default();
        let cut = uplink.take(0, 1, 3600 * S).expect("free");
        assert!(uplink.join(2, 2, 30 * S));
        assert_eq!(uplink.ask(0, 2).after_ns, TURN_NS + LINGER_NS);
        assert!(!cut.load(Ordering::Relaxed));
        uplink.ask(TURN_NS + 1, 2);
        assert!(cut.load(Ordering::Relaxed), "its flow ends");
        uplink.end(TURN_NS + 2, 1);
        assert!(uplink.take(TURN_NS + 3, 1, 3600 * S).is_err());
        assert_eq!(uplink.ask(TURN_NS + 4, 2).place, 0);
    }

    #[test]
    fn one_network_does_not_fill_the_queue() {
        let mut uplink = Uplink::<u32>::default();
        assert!(uplink.take(0, 0, S).is_ok());
        let joined = (1..100).filter(|c| uplink.join(*c, 7, S)).count();
        assert_eq!(joined, MOST_OF_NEIGHBOURHOOD);
        assert!(uplink.join(200, 8, S));
        let more = (300..400).filter(|c| uplink.join(*c, *c, S)).count();
        assert_eq!(uplink.waiting(), MOST_WAITING);
        assert!(more < 20);
    }

    /// Random clients: at most one client loads at a time, and everybody who waits is served in the end.
    #[test]
    fn at_most_one_client_loads_and_nobody_waits_for_ever() {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
        eprintln!("seed {seed}");
        let mut rng = Streams::new(seed).stream("uplink");
        for _ in 0..200 {
            let mut uplink = Uplink::<u32>::default();
            let mut running: Vec<(u32, i64, Arc<AtomicBool>)> = Vec::new();
            let mut waiting: Vec<(u32, i64)> = Vec::new();
            let (mut now, mut served) = (0, 0);
            while now < 4 * 3600 * S {
                now += S;
                running.retain(|(client, until, cut)| {
                    let over = now >= *until || cut.load(Ordering::Relaxed);
                    if over {
                        uplink.end(now, *client);
                    }
                    !over
                });
                let client = rng.random_range(0..6);
                let until = now + rng.random_range(1..2000) * S;
                let waits = waiting.iter().any(|w| w.0 == client);
                if rng.random_range(0..60) == 0 && !waits {
                    match uplink.take(now, client, until) {
                        Ok(cut) => running.push((client, until, cut)),
                        Err(standing) => {
                            assert!(standing.place > 0);
                            assert!(uplink.join(client, client, until - now));
                            waiting.push((client, now));
                        }
                    }
                }
                waiting.retain(|(client, since)| {
                    assert!(now - since < 3600 * S + TURN_NS, "waits since {since}");
                    let its_turn = uplink.ask(now, *client).place == 0;
                    if its_turn {
                        uplink.leave(*client);
                        served += 1;
                    }
                    !its_turn
                });
                let first = running.first().map(|r| r.0);
                assert!(running.iter().all(|r| Some(r.0) == first), "at {now}");
            }
            assert!(served > 0 || waiting.is_empty());
        }
    }
}
