//! IP fragments of datagrams, as Linux makes them and puts them together.

use base::program::Fragments;
use base::{Duration, Time};
use std::collections::BTreeMap;

/// Fragments of incomplete datagrams that a host keeps: 4 MB, if a packet of 1500 bytes takes 2304.
const ROOM: usize = 1800;
/// Time for which IPv4 keeps them.
const STAY: Duration = Duration::from_secs(30);

/// Incomplete datagrams at a host. Without room, no fragmented datagram is received.
#[derive(Default)]
pub(crate) struct Assembly {
    /// Fragments that have not arrived, by datagram.
    missing: BTreeMap<u64, u16>,
    /// Arrival of the first fragment and number of fragments of each incomplete datagram.
    kept: BTreeMap<u64, (Time, usize)>,
    /// Fragments kept of earlier datagrams, with the time of their arrival.
    older: Vec<(Time, usize)>,
}

impl Assembly {
    /// A datagram of so many fragments is sent.
    pub fn expect(&mut self, datagram: u64, parts: u16) {
        self.missing.insert(datagram, parts);
    }

    /// Datagrams have the numbers of earlier ones from now on.
    pub fn forget_numbers(&mut self) {
        self.missing.clear();
        let kept = std::mem::take(&mut self.kept);
        self.older.extend(kept.into_values());
    }

    /// Takes a fragment in; returns true if it completes its datagram.
    pub fn take(&mut self, now: Time, datagram: u64) -> bool {
        let stays = |came: Time| now.saturating_since(came) < STAY;
        self.kept.retain(|_, (came, _)| stays(*came));
        self.older.retain(|(came, _)| stays(*came));
        let held = self.kept.values().chain(&self.older).map(|k| k.1);
        if held.sum::<usize>() >= ROOM {
            return false;
        }
        let Some(missing) = self.missing.get_mut(&datagram) else {
            return false;
        };
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.missing.remove(&datagram);
            self.kept.remove(&datagram);
            return true;
        }
        self.kept.entry(datagram).or_insert((now, 0)).1 += 1;
        false
    }
}

/// Counts a datagram of `parts` fragments, or one fragment of it.
pub(crate) fn count(fragments: &mut Option<Fragments>, parts: usize, part: Option<usize>) {
    let Some(f) = fragments else { return };
    let mut one = |part: usize| match part {
        0 => f.first += 1,
        1 => f.second += 1,
        _ => f.further += 1,
    };
    match part {
        Some(part) => one(part),
        None if parts == 1 => f.whole += 1,
        None => (0..parts).for_each(one),
    }
}

/// Length in bytes of each IP packet of a datagram. `None` if it exceeds the MTU and must not be fragmented.
pub(crate) fn cut(payload: u32, v6: bool, mtu: u64, whole: bool) -> Option<Vec<u64>> {
    let (header, fragment) = if v6 { (40, 48) } else { (20, 20) };
    let mut left = u64::from(payload) + 8;
    if header + left <= mtu {
        return Some(vec![header + left]);
    }
    if whole {
        return None;
    }
    // RFC 8200 section 4.5, RFC 791 section 3.2: all fragments but the last hold a multiple of 8 bytes. In IPv6, Linux
    // applies that to the last one too.
    let room = mtu - fragment;
    let most = room / 8 * 8;
    let mut parts = Vec::new();
    while left > 0 {
        let this = if !v6 && left <= room {
            left
        } else {
            left.min(most)
        };
        parts.push(fragment + this);
        left -= this;
    }
    Some(parts)
}
