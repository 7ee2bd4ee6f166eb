//! Places of connections from anybody, and who gives way. A connection keeps its place once it is known who is there; until then
//! it gives way to newcomers, when all places are taken.

use crate::clock::mono_ns;
use crate::waiting::WaitingRoom;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
struct Inside {
    open: usize,
    waiting: WaitingRoom<Arc<Notify>>,
}

/// Places of all connections.
#[derive(Default)]
pub struct Door(Mutex<Inside>);

/// Place of a connection, until this is dropped.
pub struct Place {
    door: Arc<Door>,
    id: u64,
    gives_way: Arc<Notify>,
}

impl Door {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Place for a connection from this address, if `most` are not taken, or another one gives way.
    pub fn enter(self: &Arc<Self>, from: IpAddr, most: usize) -> Option<Arc<Place>> {
        let now = mono_ns();
        let mut inside = self.inside();
        if inside.open >= most {
            let id = inside.waiting.gives_way(now, from)?;
            if let Some((_, gives_way)) = inside.waiting.leave(id) {
                // Its place is free when its task has ended, a moment later.
                gives_way.notify_one();
            }
        }
        inside.open += 1;
        let gives_way = Arc::<Notify>::default();
        let id = inside.waiting.enter(now, from, gives_way.clone());
        let door = self.clone();
        Some(Arc::new(Place {
            door,
            id,
            gives_way,
        }))
    }
}

impl Place {
    /// Waits until the connection has to give way to another.
    pub async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    /// Keeps the place: whoever is there is known.
    pub fn keep(&self) {
        self.door.inside().waiting.leave(self.id);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.door.inside();
        inside.waiting.leave(self.id);
        inside.open = inside.open.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_give_way_and_whoever_is_known_stays() {
        let door = Arc::<Door>::default();
        let ip = |a: u8, b: u8| IpAddr::from([198, 51, a, b]);
        let known = door.enter(ip(1, 1), 4).expect("room");
        known.keep();
        let strangers: Vec<_> = (0..3).filter_map(|n| door.enter(ip(2, n), 4)).collect();
        assert_eq!(strangers.len(), 3);
        assert!(door.enter(ip(2, 9), 4).is_none(), "its own are as young");
        let newcomer = door
            .enter(ip(3, 1), 4)
            .expect("the oldest stranger gives way");
        // Its place is free when it has ended.
        assert_eq!(door.inside().open, 5);
        drop((strangers, newcomer));
        assert_eq!(door.inside().open, 1);
        drop(known);
        assert_eq!(door.inside().open, 0);
    }
}
