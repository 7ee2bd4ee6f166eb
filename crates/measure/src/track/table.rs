//! Things found by two ends, whichever of them comes first.

use crate::capture::frame::Address;
use hashbrown::HashTable;
use std::ops::{Index, IndexMut};

#[derive(Debug)]
pub struct Table<T> {
    /// Half of each entry's hash beside its place: growing and most misses touch no entry.
    places: HashTable<(u32, u32)>,
    slots: Vec<Option<(Key, T)>>,
    free: Vec<u32>,
    /// Found last: packets come in trains.
    recent: u32,
}

/// Both ends in an order of their own: as numbers, which compare faster than bytes.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    low: [u64; 2],
    high: [u64; 2],
    ports: u32,
}

impl PartialEq for Key {
    /// In registers: a key just made is not yet in memory to be loaded as a whole.
    #[inline(always)]
    fn eq(&self, o: &Key) -> bool {
        let far = (self.low[0] ^ o.low[0]) | (self.high[0] ^ o.high[0]);
        let near = (self.low[1] ^ o.low[1]) | (self.high[1] ^ o.high[1]);
        far | near | u64::from(self.ports ^ o.ports) == 0
    }
}

impl Key {
    /// And whether `a` is the higher one.
    #[inline(always)]
    pub fn new(a: &Address, a_port: u16, b: &Address, b_port: u16) -> (Key, bool) {
        // Eight bytes at once: what was just written in halves cannot be loaded as a whole without a wait.
        let words = |a: &Address| {
            let half = |i: usize| {
                let bytes = [
                    a[i],
                    a[i + 1],
                    a[i + 2],
                    a[i + 3],
                    a[i + 4],
                    a[i + 5],
                    a[i + 6],
                    a[i + 7],
                ];
                u64::from_be_bytes(bytes)
            };
            [half(0), half(8)]
        };
        let (x, y) = (words(a), words(b));
        let swapped = (x, a_port) > (y, b_port);
        let (low, high, p, q) = if swapped {
            (y, x, b_port, a_port)
        } else {
            (x, y, a_port, b_port)
        };
        let ports = u32::from(p) << 16 | u32::from(q);
        (Key { low, high, ports }, swapped)
    }

    /// Not proof against someone who chooses addresses to collide; a capture of so many can be slow, but not wrong.
    #[inline]
    fn hash(&self) -> u32 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product >> 64) as u64 ^ product as u64
        };
        let far = fold(
            self.low[0] ^ 0x243f_6a88_85a3_08d3,
            self.high[0] ^ 0x1319_8a2e_0370_7344,
        );
        let near = fold(
            self.low[1] ^ 0xa409_3822_299f_31d0,
            self.high[1] ^ 0x082e_fa98_ec4e_6c89,
        );
        let all = fold(
            far ^ near.rotate_left(17) ^ u64::from(self.ports),
            0x9e37_79b9_7f4a_7c15,
        );
        (all ^ all >> 32) as u32
    }
}

/// Half a hash as a whole one, for a table that looks at both of its ends.
#[inline]
fn spread(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            places: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            recent: 0,
        }
    }
}

impl<T> Table<T> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub fn find(&mut self, key: &Key) -> Option<usize> {
        if self.key(self.recent) == Some(key) {
            return Some(self.recent as usize);
        }
        let hash = key.hash();
        let found = self
            .places
            .find(spread(hash), |(h, i)| {
                *h == hash && self.key(*i) == Some(key)
            })
            .map(|(_, i)| *i)?;
        self.recent = found;
        Some(found as usize)
    }

    #[inline]
    fn key(&self, place: u32) -> Option<&Key> {
        self.slots.get(place as usize)?.as_ref().map(|(k, _)| k)
    }

    pub fn get(&self, place: usize) -> Option<&T> {
        self.slots.get(place)?.as_ref().map(|(_, v)| v)
    }

    /// The place of a new entry; there is none yet between these ends.
    pub fn insert(&mut self, key: Key, value: T) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 connections at once")
        });
        self.slots[place as usize] = Some((key, value));
        let hash = key.hash();
        self.places
            .insert_unique(spread(hash), (hash, place), |(h, _)| spread(*h));
        place as usize
    }

    pub fn remove(&mut self, place: usize) -> T {
        let (key, value) = self.slots[place].take().expect("it is in use");
        let entry = self
            .places
            .find_entry(spread(key.hash()), |(_, i)| *i as usize == place)
            .expect("it is in the table");
        entry.remove();
        self.free.push(place as u32);
        value
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.as_ref().map(|(_, v)| (i, v)))
    }

    /// Takes the last one out, for good: memory is given back on the way.
    pub fn pop(&mut self) -> Option<T> {
        if !self.places.is_empty() {
            self.places = HashTable::new();
            self.free = Vec::new();
        }
        loop {
            let slot = self.slots.pop()?;
            if self.slots.len().is_multiple_of(1 << 14) {
                self.slots.shrink_to_fit();
            }
            if let Some((_, value)) = slot {
                return Some(value);
            }
        }
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;
    #[inline]
    fn index(&self, place: usize) -> &T {
        &self.slots[place].as_ref().expect("it is in use").1
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.slots[place].as_mut().expect("it is in use").1
    }
}
