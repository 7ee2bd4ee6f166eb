//! Hash table of values by two ends, in either order.

use super::key::{Key, Seeds};
use super::packet::{BATCH, Flow};
use std::ops::{Index, IndexMut};

/// Places of entries, by hash. Half a hash is stored beside each place, so that growing and most misses touch no entry.
/// Open addressing with steps of one: a search reads one line of memory.
#[derive(Debug)]
struct Places {
    /// Half a hash, then the place plus one; 0 is free. The length is a power of two, of which at most half is in use.
    store: Vec<u64>,
    len: usize,
}

const LEAST: usize = 64;

impl Places {
    fn new() -> Places {
        Places {
            store: vec![0; LEAST],
            len: 0,
        }
    }

    #[inline(always)]
    fn home(&self, entry: u64) -> usize {
        (entry >> 32) as usize & (self.store.len() - 1)
    }

    /// First place of that hash for which `is` returns true.
    #[inline(always)]
    fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.store.len() - 1;
        let mut at = self.home(hash);
        loop {
            let entry = self.store[at & mask];
            if entry == 0 {
                return None;
            }
            if entry >> 32 == hash >> 32 {
                let place = entry as u32 - 1;
                if is(place) {
                    return Some(place);
                }
            }
            at += 1;
        }
    }

    fn insert(&mut self, hash: u64, place: u32) {
        if self.len * 2 >= self.store.len() {
            let larger = vec![0; self.store.len() * 2];
            for entry in std::mem::replace(&mut self.store, larger) {
                if entry != 0 {
                    self.put(entry);
                }
            }
        }
        self.put(hash >> 32 << 32 | u64::from(place + 1));
        self.len += 1;
    }

    fn put(&mut self, entry: u64) {
        let mask = self.store.len() - 1;
        let mut at = self.home(entry);
        while self.store[at] != 0 {
            at = (at + 1) & mask;
        }
        self.store[at] = entry;
    }

    fn remove(&mut self, hash: u64, place: u32) {
        let mask = self.store.len() - 1;
        let gone = hash >> 32 << 32 | u64::from(place + 1);
        let mut hole = self.home(gone);
        while self.store[hole] != gone {
            assert!(self.store[hole] != 0, "what is removed is in the table");
            hole = (hole + 1) & mask;
        }
        self.len -= 1;
        // Later entries move up, unless that would put them before their home.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.store[at];
            if entry == 0 {
                break;
            }
            let from_home = at.wrapping_sub(self.home(entry)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.store[hole] = entry;
                hole = at;
            }
        }
        self.store[hole] = 0;
    }
}

/// A value with a word in each cache line of its memory.
pub trait Touch {
    /// Reads one word of each cache line.
    fn touch(&self) -> u64;
}

/// Table of connections by key.
#[derive(Debug)]
pub struct Table<T> {
    places: Places,
    slots: Vec<Option<(Key, T)>>,
    free: Vec<u32>,
    /// Seeds of the hash.
    pub seeds: Seeds,
    /// Place found last: most packets come in trains.
    recent: u32,
}

impl<T> Table<T> {
    /// Creates an empty table.
    pub fn new(seeds: Seeds) -> Table<T> {
        Table {
            places: Places::new(),
            slots: Vec::new(),
            free: Vec::new(),
            seeds,
            recent: 0,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.places.len
    }

    /// Place of a key.
    #[inline(always)]
    pub fn find(&mut self, key: &Key, hash: u64) -> Option<usize> {
        if self.key(self.recent) != Some(key) {
            self.recent = self.places.find(hash, |i| self.key(i) == Some(key))?;
        }
        Some(self.recent as usize)
    }

    #[inline(always)]
    fn key(&self, place: u32) -> Option<&Key> {
        self.slots.get(place as usize)?.as_ref().map(|(k, _)| k)
    }

    /// Entry at a place.
    pub fn get(&self, place: usize) -> Option<&T> {
        self.slots.get(place)?.as_ref().map(|(_, v)| v)
    }

    /// Inserts a new entry and returns its place; none may exist between these ends.
    pub fn insert(&mut self, key: Key, hash: u64, value: T) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 connections at once")
        });
        self.slots[place as usize] = Some((key, value));
        self.places.insert(hash, place);
        place as usize
    }

    /// Removes the entry at a place.
    pub fn remove(&mut self, place: usize) -> (Key, T) {
        let (key, value) = self.slots[place].take().expect("it is in use");
        self.places.remove(key.hash(&self.seeds), place as u32);
        self.free.push(place as u32);
        (key, value)
    }

    /// Entries with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.as_ref().map(|(_, v)| (i, v)))
    }

    /// Removes the last entry for good: memory is freed on the way.
    pub fn pop(&mut self) -> Option<(Key, T)> {
        if self.places.len > 0 {
            self.places = Places::new();
            self.free = Vec::new();
        }
        loop {
            let slot = self.slots.pop()?;
            if self.slots.len().is_multiple_of(1 << 14) {
                self.slots.shrink_to_fit();
            }
            if slot.is_some() {
                return slot;
            }
        }
    }
}

impl<T: Touch> Table<T> {
    /// Prefetches memory for the packets of these flows: first all places, then all entries, so that the memory
    /// accesses overlap.
    pub fn fetch(&self, flows: &[Flow]) {
        let mut read = 0u64;
        let mut places = [u32::MAX; BATCH];
        for (place, flow) in places.iter_mut().zip(flows) {
            if let Some(found) = self.places.find(flow.hash, |_| true) {
                *place = found;
            }
        }
        for place in places {
            if let Some(Some((_, value))) = self.slots.get(place as usize) {
                read ^= value.touch();
            }
        }
        std::hint::black_box(read);
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, place: usize) -> &T {
        &self.slots[place].as_ref().expect("it is in use").1
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[inline(always)]
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.slots[place].as_mut().expect("it is in use").1
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{Endpoint, fold};
    use super::*;
    use std::collections::BTreeMap;

    fn key(n: u64) -> Key {
        Key::new(&u128::from(n % 977).to_be_bytes(), n as u16, &[7; 16], 443).0
    }

    #[test]
    fn the_table_holds_what_a_map_holds_through_any_mixture_of_coming_and_going() {
        for seed in 0..20u64 {
            // Some seeds keep only 5 bits of the hash, so that nearly all collide.
            let mut table = Table::<u64>::new(Seeds::new(seed));
            let hash = |k: &Key| {
                k.hash(&Seeds::new(seed)) & if seed % 2 == 0 { u64::MAX } else { 31 << 40 }
            };
            let mut map = BTreeMap::new();
            let mut chance = seed;
            for step in 0..4_000u64 {
                chance = fold(chance ^ step ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9);
                let n = chance % 600;
                let k = key(n);
                let found = table.find(&k, hash(&k));
                assert_eq!(found.map(|i| table[i]), map.get(&n).copied());
                match found {
                    None => {
                        table.insert(k, hash(&k), step);
                        map.insert(n, step);
                    }
                    Some(i) if chance >> 60 < 9 => {
                        let (_, value) = table.slots[i].take().unwrap();
                        table.places.remove(hash(&k), i as u32);
                        table.free.push(i as u32);
                        assert_eq!(Some(value), map.remove(&n));
                    }
                    Some(_) => {}
                }
                assert_eq!(table.len(), map.len());
            }
        }
    }

    #[test]
    fn a_key_gives_its_ends_back_in_order() {
        let (a, b) = ([9; 16], [3; 16]);
        let (key, swapped) = Key::new(&a, 1, &b, 2);
        assert!(swapped);
        assert_eq!(
            Key::of_ipv4([0x0a00_0001_0008, 0x0a00_0002_0009])
                .ends()
                .map(|e| e.to_string()),
            ["10.0.0.1:8", "10.0.0.2:9"]
        );
        assert_eq!(
            key.ends(),
            [
                Endpoint {
                    address: b,
                    port: 2
                },
                Endpoint {
                    address: a,
                    port: 1
                }
            ]
        );
    }

    #[test]
    fn another_seed_scatters_keys_that_lie_together_under_this_one() {
        let low = |k: &Key, s: &Seeds| k.hash(s) >> 32 & 1023;
        let (one, other) = (Seeds::new(1), Seeds::new(2));
        let chosen: Vec<Key> = (0..65_536).map(key).filter(|k| low(k, &one) == 5).collect();
        let mut counts = vec![0; 1024];
        chosen
            .iter()
            .for_each(|k| counts[low(k, &other) as usize] += 1);
        assert!(
            chosen.len() > 40 && counts.iter().max() < Some(&8),
            "{} {:?}",
            chosen.len(),
            counts.iter().max()
        );
    }
}
