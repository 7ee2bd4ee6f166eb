//! Bottlenecks in series: a router between the near host and the link.

use super::world::World;
use base::record::Direction;
use base::{Packet, PacketId};
use link::Delivery;

impl World {
    /// Moves packets through the bottlenecks, up to the present time.
    pub fn poll_links(&mut self) {
        let (up, down) = (Direction::Up as usize, Direction::Down as usize);
        while let Some(d) = self.poll_router(up) {
            self.forward(d, |world, packet| {
                world.links[up].enqueue(world.now, packet, &mut world.fates);
            });
        }
        while let Some(d) = self.links[up].poll(self.now, &mut self.fates) {
            self.arrive(Direction::Up, d);
        }
        while let Some(d) = self.links[down].poll(self.now, &mut self.fates) {
            match self.routers[down].is_some() {
                true => self.forward(d, |world, packet| {
                    if let Some(router) = &mut world.routers[down] {
                        router.enqueue(world.now, packet, &mut world.fates);
                    }
                }),
                false => self.arrive(Direction::Down, d),
            }
        }
        while let Some(d) = self.poll_router(down) {
            self.arrive(Direction::Down, d);
        }
    }

    fn poll_router(&mut self, direction: usize) -> Option<Delivery> {
        let router = self.routers[direction].as_mut()?;
        router.poll(self.now, &mut self.fates)
    }

    /// Hands a packet that has left one bottleneck to the next.
    fn forward(&mut self, d: Delivery, next: impl FnOnce(&mut World, Packet)) {
        let id = match d.again {
            // The packet's duplicate comes after it and needs contents of its own.
            true => self.fly(self.flying[d.packet.id.0 as usize]),
            false => d.packet.id.0 as u32,
        };
        let packet = Packet {
            id: PacketId(u64::from(id)),
            enqueued: self.now,
            ..d.packet
        };
        next(self, packet);
    }
}
