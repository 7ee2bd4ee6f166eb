//! Things found by two ends, whichever of them comes first.

use super::Endpoint;
use hashbrown::HashTable;
use std::ops::{Index, IndexMut};

#[derive(Debug)]
pub struct Table<T> {
    places: HashTable<u32>,
    slots: Vec<Option<(Key, T)>>,
    free: Vec<u32>,
}

/// Both ends in an order of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    low: Endpoint,
    high: Endpoint,
}

impl Key {
    #[inline]
    fn new(a: Endpoint, b: Endpoint) -> Key {
        if a <= b {
            Key { low: a, high: b }
        } else {
            Key { low: b, high: a }
        }
    }

    /// Multiplies and folds eight bytes at a time. Not proof against someone who chooses addresses to
    /// collide; a capture of so many can be slow, but not wrong.
    #[inline]
    fn hash(&self) -> u64 {
        let part = |a: &[u8; 16], i: usize| {
            u64::from_le_bytes(a[i..i + 8].try_into().expect("eight bytes"))
        };
        let ports = u64::from(self.low.port) << 16 | u64::from(self.high.port);
        let mut h = 0x243f_6a88_85a3_08d3_u64 ^ ports;
        for word in [
            part(&self.low.address, 0),
            part(&self.low.address, 8),
            part(&self.high.address, 0),
            part(&self.high.address, 8),
        ] {
            let product = u128::from(h ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
            h = (product >> 64) as u64 ^ product as u64;
        }
        h
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            places: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub fn find(&self, a: Endpoint, b: Endpoint) -> Option<usize> {
        let key = Key::new(a, b);
        self.places
            .find(key.hash(), |i| self.key(*i) == Some(&key))
            .map(|i| *i as usize)
    }

    fn key(&self, place: u32) -> Option<&Key> {
        self.slots[place as usize].as_ref().map(|(k, _)| k)
    }

    /// The place of a new entry; there is none yet between these ends.
    pub fn insert(&mut self, a: Endpoint, b: Endpoint, value: T) -> usize {
        let key = Key::new(a, b);
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 connections at once")
        });
        self.slots[place as usize] = Some((key, value));
        let slots = &self.slots;
        self.places.insert_unique(key.hash(), place, |i| {
            slots[*i as usize].as_ref().expect("it is in use").0.hash()
        });
        place as usize
    }

    pub fn remove(&mut self, place: usize) -> T {
        let (key, value) = self.slots[place].take().expect("it is in use");
        let entry = self
            .places
            .find_entry(key.hash(), |i| *i as usize == place)
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

    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.places.clear();
        self.free.clear();
        std::mem::take(&mut self.slots)
            .into_iter()
            .flatten()
            .map(|(_, v)| v)
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
